//! The latest objects of a kind that a controller has served, and in which order: a spec change that
//! it acknowledged, or a finalizer that it removed.
//!
//! They show whether an object only waits for its turn. It does while the controller serves objects
//! that began to wait no later. It does not if the controller serves objects that came later.

use std::collections::VecDeque;

use crate::model::world::store::Slot;
use crate::time::{Span, Timestamp};

/// The maximum number of served objects that are remembered.
const MAX_SERVED: usize = 64;

/// Objects that begin to wait within this time of each other have no order: a tool changes them one
/// after the other, and the controller reads them in any order.
const AT_ONCE: Span = Span::mins(1);

/// The number of objects that must have passed an object before it no longer waits for its turn.
/// Several workers, or one event out of order, let a few pass.
const PASSED_OVER: usize = 3;

/// The objects that a controller has served.
#[derive(Debug, Default)]
pub(crate) struct Served {
    /// The latest last, at most [`MAX_SERVED`].
    latest: VecDeque<Service>,
    /// When the controller began to serve after its last standstill. After a restart, it serves all
    /// objects that wait in any order.
    working_since: Timestamp,
    /// When it served the last object before that standstill.
    idle_since: Timestamp,
}

/// One object that was served.
#[derive(Debug)]
struct Service {
    at: Timestamp,
    /// Since when the object had waited.
    waited_since: Timestamp,
    /// The API server wrote that instant.
    dated: bool,
    slot: Slot,
}

impl Served {
    /// Records that an object was served, and since when it had waited; `dated` if the API server
    /// wrote that instant. Nothing served for `standstill` was a standstill.
    pub(crate) fn note(
        &mut self,
        now: Timestamp,
        (waited_since, dated): (Timestamp, bool),
        slot: Slot,
        standstill: Span,
    ) {
        let last = self.latest.back().map(|last| last.at);
        if last.is_none_or(|at| now >= at.after(standstill)) {
            self.working_since = now;
            self.idle_since = last.unwrap_or_default();
        }

        if self.latest.len() >= MAX_SERVED {
            self.latest.pop_front();
        }
        self.latest.push_back(Service { at: now, waited_since, dated, slot });
    }

    /// Returns the objects that were served after `since`.
    pub(crate) fn since(&self, since: Timestamp) -> impl Iterator<Item = Slot> {
        self.after(since).map(|service| service.slot)
    }

    /// Returns the objects that were served after `since` although they began to wait later.
    pub(crate) fn later_than(&self, since: Timestamp) -> impl Iterator<Item = Slot> {
        self.after(since)
            .filter(move |service| service.waited_since > since)
            .map(|service| service.slot)
    }

    /// Returns since when the controller could have served an object that has waited since `since`. If
    /// the wait began during the last standstill, that is when the standstill ended.
    pub(crate) fn served_others_since(&self, since: Timestamp) -> Timestamp {
        if since >= self.idle_since { since.max(self.working_since) } else { since }
    }

    /// Returns when the queue in which an object has waited since `since` last moved, if the object
    /// waits for its turn: `at_least` other objects were served in turn. Objects that had waited
    /// for `long` themselves count as before it, because they are what a standstill left behind.
    /// Once enough later objects have passed this one, the queue no longer counts.
    pub(crate) fn moved(&self, since: Timestamp, long: Span, at_least: usize) -> Option<Timestamp> {
        let at_once = since.after(AT_ONCE);
        let (mut passed, mut in_turn, mut moved) = (0, 0, None);

        for service in self.after(since) {
            let waited = service.at.since(service.waited_since);
            passed += usize::from(self.passes(service, since));
            if passed >= PASSED_OVER {
                break;
            }

            if service.waited_since <= at_once || waited >= long {
                in_turn += 1;
                moved = Some(service.at);
            }
        }

        moved.filter(|_| in_turn >= at_least)
    }

    /// Returns whether the controller has served so many objects that began to wait later than
    /// `since` that an object which has waited since then does not wait for its turn.
    pub(crate) fn is_passed_over(&self, since: Timestamp) -> bool {
        self.after(since).filter(|service| self.passes(service, since)).count() >= PASSED_OVER
    }

    /// Returns whether an object that was served had begun to wait later than at `since`. Those
    /// that waited together, also during a standstill, have no order.
    fn passes(&self, service: &Service, since: Timestamp) -> bool {
        service.waited_since > since.after(AT_ONCE).max(self.working_since)
    }

    /// Moves all own instants by `by_ms` milliseconds.
    pub(crate) fn rebase(&mut self, by_ms: i64) {
        self.working_since = self.working_since.shifted(by_ms);
        self.idle_since = self.idle_since.shifted(by_ms);
        for service in &mut self.latest {
            service.at = service.at.shifted(by_ms);
            if !service.dated {
                service.waited_since = service.waited_since.shifted(by_ms);
            }
        }
    }

    fn after(&self, since: Timestamp) -> impl Iterator<Item = &Service> {
        self.latest.iter().filter(move |service| service.at > since)
    }
}
