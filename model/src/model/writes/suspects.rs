//! The objects that are written again and again, with their last versions.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::model::world::World;
use crate::model::world::crowd::{self, Crowd};
use crate::model::world::limits::{Limit, MAX_SUSPECTS};
use crate::model::world::store::Slot;
use crate::model::writes::fields::Fields;
use crate::model::writes::line::Line;
use crate::model::writes::reverts::Reverts;
use crate::model::writes::seen::{self, Seen};
use crate::settings::bounds::KEPT_VERSIONS;
use crate::time::{Span, Timestamp};

/// A row of versions ends with a pause of this length.
const PAUSE: Span = Span::mins(1);

/// How long an object stays a suspect without a version.
const FOLLOWED_FOR: Span = Span::mins(5);

/// The suspects; at most [`MAX_SUSPECTS`].
#[derive(Debug, Default)]
pub(super) struct Suspects {
    objects: BTreeMap<Slot, Box<Suspect>>,
    by_namespace: Crowd<Arc<str>, Slot>,
}

/// An object that is written again and again.
#[derive(Debug)]
pub(super) struct Suspect {
    namespace: Arc<str>,
    /// The last versions, the earliest first.
    pub(super) versions: VecDeque<Seen>,
    /// When the part began to follow the object, and the number of wasted versions within two minutes
    /// before that.
    pub(super) followed: (Timestamp, u8),
    /// When the present row of versions began that change nothing.
    pub(super) wasted_since: Option<Timestamp>,
    /// When the present row of versions began that change the status, but nothing of what it says.
    pub(super) unsaid_since: Option<Timestamp>,
    /// The writes to the spec, and those to the status.
    pub(super) spec: Line,
    pub(super) status: Line,
    pub(super) reverts: Reverts,
    pub(super) fields: Fields,
    /// The latest time in the managed fields of its versions.
    last_write: Option<Timestamp>,
}

impl Suspects {
    pub(super) fn contains(&self, slot: Slot) -> bool {
        self.objects.contains_key(&slot)
    }

    pub(super) fn of(&self, slot: Slot) -> Option<&Suspect> {
        self.objects.get(&slot).map(|suspect| &**suspect)
    }

    pub(super) fn of_mut(&mut self, slot: Slot) -> Option<&mut Suspect> {
        self.objects.get_mut(&slot).map(|suspect| &mut **suspect)
    }

    pub(super) fn slots(&self) -> impl Iterator<Item = Slot> {
        self.objects.keys().copied()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Begins to follow an object that has been written `earlier` times without a change, if there is
    /// room.
    pub(super) fn follow(&mut self, world: &mut World, slot: Slot, earlier: u8) {
        let Some(record) = world.store.get(slot) else { return };
        let namespace = record.namespace.clone();
        if self.contains(slot) {
            return;
        }

        if earlier > 0 {
            self.forget_busy();
        }
        if !self.make_room(world, &namespace) {
            return;
        }

        self.by_namespace.insert(&namespace, slot, 1);
        self.objects.insert(slot, Box::new(Suspect::new(namespace, world.now, earlier)));
    }

    /// Forgets who wrote which state of a suspect: several versions may have been missed.
    pub(super) fn interrupt(&mut self, slot: Slot) {
        if let Some(suspect) = self.of_mut(slot) {
            suspect.unsaid_since = None;
            suspect.spec.interrupt();
            suspect.status.interrupt();
        }
    }

    pub(super) fn forget(&mut self, slot: Slot) {
        if let Some(suspect) = self.objects.remove(&slot) {
            self.by_namespace.remove(&suspect.namespace, &slot);
        }
    }

    /// Forgets the suspects that have come to rest.
    pub(super) fn forget_old(&mut self, now: Timestamp, needed_for: Span) {
        let rests = |suspect: &Suspect| {
            let last = suspect.versions.back().map_or(suspect.followed.0, |seen| seen.at);
            let needed = suspect.reverts.are_needed(now, needed_for);
            now.since(last) > FOLLOWED_FOR && !needed
        };
        let over: Vec<Slot> =
            self.objects.iter().filter(|(_, it)| rests(it)).map(|(slot, _)| *slot).collect();
        over.into_iter().for_each(|slot| self.forget(slot));
    }

    pub(super) fn clock_stepped(&mut self, by_ms: i64) {
        for suspect in self.objects.values_mut() {
            let seen = suspect.versions.iter_mut().map(|seen| &mut seen.at);
            let own = seen
                .chain(&mut suspect.wasted_since)
                .chain(&mut suspect.unsaid_since)
                .chain([&mut suspect.followed.0]);
            own.for_each(|at| *at = at.shifted(by_ms));

            suspect.spec.clock_stepped(by_ms);
            suspect.status.clock_stepped(by_ms);
            suspect.reverts.clock_stepped(by_ms);
            suspect.fields.clock_stepped(by_ms);
        }
    }

    /// Makes room for an object that is written without a change: one that only changes often gives way.
    fn forget_busy(&mut self) {
        if self.objects.len() < MAX_SUSPECTS {
            return;
        }

        let busy = self.objects.iter().find(|(_, suspect)| suspect.is_only_busy());
        if let Some(slot) = busy.map(|(slot, _)| *slot) {
            self.forget(slot);
        }
    }

    fn make_room(&mut self, world: &mut World, namespace: &Arc<str>) -> bool {
        let has_room = |known: &Self| known.objects.len() < MAX_SUSPECTS;
        let leaves = |known: &Self| known.by_namespace.leaves_for(namespace, 1).copied();
        let forget = |known: &mut Self, _: &mut World, other| known.forget(other);
        crowd::make_room(self, world, Limit::WriteHistories, has_room, leaves, forget)
    }
}

impl Suspect {
    fn new(namespace: Arc<str>, now: Timestamp, earlier: u8) -> Self {
        Self {
            namespace,
            versions: VecDeque::new(),
            followed: (now, earlier),
            wasted_since: None,
            unsaid_since: None,
            spec: Line::default(),
            status: Line::default(),
            reverts: Reverts::default(),
            fields: Fields::default(),
            last_write: None,
        }
    }

    /// Returns when a version was written: at the time in its managed fields if that is a new one, and
    /// otherwise now. Versions may arrive long after they were written, and several at once.
    pub(super) fn written_at(&mut self, now: Timestamp, last: Option<Timestamp>) -> Timestamp {
        let is_new = last > self.last_write;
        self.last_write = last.max(self.last_write);
        let before = self.versions.back().map(|seen| seen.at);
        match last.filter(|at| is_new && *at <= now) {
            Some(at) => before.map_or(at, |before| at.max(before)).min(now),
            None => now,
        }
    }

    /// Adds a version.
    pub(super) fn note(&mut self, seen: Seen) {
        if self.versions.back().is_some_and(|last| seen.at.since(last.at) > PAUSE) {
            self.wasted_since = None;
            self.unsaid_since = None;
        }
        if seen.change.is_waste {
            self.wasted_since.get_or_insert(seen.at);
        }
        if self.versions.back().is_some_and(|last| seen.is_unsaid(last)) {
            self.unsaid_since.get_or_insert(seen.at);
        } else if seen.change.is_real() {
            self.unsaid_since = None;
        }

        seen::push(&mut self.versions, seen, KEPT_VERSIONS);
    }

    /// Whether nothing but its many changes is remarkable.
    fn is_only_busy(&self) -> bool {
        let is_contested = self.spec.is_contested() || self.status.is_contested();
        self.wasted_since.is_none() && !is_contested && self.reverts.is_empty()
    }

    /// Returns whether the suspect keeps as many versions as it can.
    pub(super) fn is_full(&self) -> bool {
        self.versions.len() == KEPT_VERSIONS
    }
}
