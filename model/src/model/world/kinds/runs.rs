//! The runs of a kind: how the first work on its objects ended, and which of them are under way.
//!
//! A controller may run only some objects at the same time. The others wait for their turn while
//! these are under way, and begin in the order in which they were created.

use std::collections::BTreeMap;

use crate::model::world::kinds::served::Served;
use crate::model::world::store::Slot;
use crate::time::{Span, Timestamp};

/// The number of objects that must have ended before the kind counts as a kind of runs.
const RUNS_FROM: u32 = 3;

/// The share of the objects of a kind of runs that may stay: one in this number.
const FEW_STAY: u32 = 10;

/// After this time without a beginning, the order of the runs counts anew.
const STANDSTILL: Span = Span::hours(24);

/// The runs of one kind.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    /// Objects that have ended.
    ended: u32,
    /// Objects that have converged, and stay.
    stayed: u32,
    /// When the time of each run that is under way passes. At most one for each object.
    under_way: BTreeMap<Slot, Timestamp>,
    /// The latest runs that have begun.
    begun: Served,
    /// When the last run that was under way ended.
    idle_since: Option<Timestamp>,
}

impl Runs {
    /// Returns whether the objects of the kind do their work once and end.
    pub(crate) fn is_kind_of_runs(&self) -> bool {
        self.ended >= RUNS_FROM && self.stayed.saturating_mul(FEW_STAY) <= self.ended
    }

    /// Counts how the first work on an object has ended.
    pub(crate) fn count(&mut self, ended: bool) {
        let count = if ended { &mut self.ended } else { &mut self.stayed };
        *count = count.saturating_add(1);
    }

    /// Records that a run is under way, and when its time passes. Returns whether that is news.
    pub(crate) fn note_under_way(&mut self, slot: Slot, passes: Timestamp) -> bool {
        self.under_way.insert(slot, passes).is_none()
    }

    /// Records that a run has just begun, and since when it had waited; `dated` if the API server
    /// wrote that instant.
    pub(crate) fn begins(&mut self, now: Timestamp, waited: (Timestamp, bool), slot: Slot) {
        self.begun.note(now, waited, slot, STANDSTILL);
    }

    /// Records that a run is no longer under way.
    pub(crate) fn ends(&mut self, now: Timestamp, slot: Slot) {
        if self.under_way.remove(&slot).is_some() && self.under_way.is_empty() {
            self.idle_since = Some(now);
        }
    }

    /// Returns until when a run that was created at `since` may wait for its turn: as long as
    /// another run is under way within its time, and then for `deadline`. Once later runs have
    /// passed it, it does not wait for its turn.
    pub(crate) fn turn(
        &self,
        since: Timestamp,
        now: Timestamp,
        deadline: Span,
    ) -> Option<Timestamp> {
        if self.begun.is_passed_over(since) {
            return None;
        }

        if self.under_way.values().any(|passes| *passes > now) {
            return Some(now.after(Span(deadline.0 / 2)));
        }

        self.idle_since.map(|idle| idle.after(deadline))
    }

    /// Moves all own instants by `by_ms` milliseconds.
    pub(crate) fn rebase(&mut self, by_ms: i64) {
        self.begun.rebase(by_ms);
        let own = self.under_way.values_mut().filter(|passes| passes.0 < i64::MAX);
        own.chain(&mut self.idle_since).for_each(|at| *at = at.shifted(by_ms));
    }
}
