//! The ownership graph: objects by UID, and the children of each owner.
//!
//! An edge leads from a child to the UID of an owner, as for the garbage collector: an object that
//! is deleted and created again has another UID. Owners that loopwatch does not watch have edges,
//! too.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::hash::BuildHasher as _;

use hashbrown::{DefaultHashBuilder, HashTable};

use crate::model::world::intern::Symbol;
use crate::model::world::store::{Slot, Store};
use crate::time::{Span, Timestamp};

/// One owner of an object.
#[derive(Debug)]
pub(crate) struct Owner {
    /// The two halves of the UID: a `u128` would align the edge to 16 bytes.
    pub(super) uid: [u64; 2],
    /// `group/Kind`, or `Kind` for the core group, and after a [`SEPARATOR`] the version.
    pub(crate) kind: Symbol,
    /// `blockOwnerDeletion`.
    pub(crate) blocks_deletion: bool,
    /// The name in the reference. It is left out while the model knows an object with this UID,
    /// kind and name, so a thin pointer saves memory.
    pub(super) name: Option<Box<Box<str>>>,
}

// The memory budget of an edge is 64 bytes, with its entry in the index of children.
const _: () = assert!(size_of::<Owner>() <= 32, "an edge has grown past its budget");

/// The indexes of the graph.
#[derive(Debug, Default)]
pub(crate) struct OwnerGraph {
    pub(super) by_uid: HashTable<Slot>,
    pub(super) hasher: DefaultHashBuilder,
    /// Fingerprints of owners' UIDs, with the slots of their children.
    pub(super) children: BTreeSet<(u64, Slot)>,
    pub(super) departed: Departed,
}

/// The UIDs of objects that were deleted a short time ago.
#[derive(Debug, Default)]
pub(super) struct Departed {
    at: HashMap<u128, Timestamp>,
    order: VecDeque<(Timestamp, u128)>,
}

/// Separates the kind of an owner from its version.
pub(super) const SEPARATOR: char = '\0';

/// The lint of an object with more owners than its view keeps.
pub(super) const CUT: &str = "many_owners";

/// How long the graph remembers the UID of a deleted object.
const REMEMBERED_FOR: Span = Span::hours(1);

/// The maximum number of remembered UIDs of deleted objects. Beyond it, the oldest are forgotten.
const MAX_DEPARTED: usize = 50_000;

impl Owner {
    pub(crate) fn uid(&self) -> u128 {
        u128::from(self.uid[0]) << 64 | u128::from(self.uid[1])
    }

    /// Returns the memory that the owner takes, in bytes.
    pub(crate) fn memory(&self) -> usize {
        size_of::<Self>() + self.name.as_ref().map_or(0, |name| name.len() + size_of::<Box<str>>())
    }
}

/// Returns the two halves of a UID.
#[expect(clippy::cast_possible_truncation, reason = "the halves are cut on purpose")]
pub(super) const fn halves(uid: u128) -> [u64; 2] {
    [(uid >> 64) as u64, uid as u64]
}

/// Returns the fingerprint of a UID. Different UIDs with the same fingerprint are told apart by
/// their edges.
pub(super) const fn fingerprint(uid: u128) -> u64 {
    let [high, low] = halves(uid);
    high ^ low
}

impl OwnerGraph {
    pub(crate) fn insert(&mut self, store: &Store, slot: Slot, uid: u128) {
        let Self { by_uid, hasher, .. } = self;
        let uid_of = |slot: &Slot| store.get(*slot).map_or(0, |record| record.uid);
        by_uid.insert_unique(hasher.hash_one(uid), slot, |slot| hasher.hash_one(uid_of(slot)));
    }

    pub(crate) fn remove(&mut self, slot: Slot, uid: u128) {
        if let Ok(entry) = self.by_uid.find_entry(self.hasher.hash_one(uid), |other| *other == slot)
        {
            entry.remove();
        }
    }

    pub(crate) fn find(&self, store: &Store, uid: u128) -> Option<Slot> {
        let same = |slot: &Slot| store.get(*slot).is_some_and(|record| record.uid == uid);
        self.by_uid.find(self.hasher.hash_one(uid), same).copied()
    }

    /// Returns when the object with this UID was deleted, if that was a short time ago.
    pub(crate) fn departed(&self, uid: u128) -> Option<Timestamp> {
        self.departed.at.get(&uid).copied()
    }

    /// Moves the instants at which objects were deleted to the new setting of the clock.
    pub(crate) fn clock_stepped(&mut self, by_ms: i64) {
        self.departed.at.values_mut().for_each(|at| *at = at.shifted(by_ms));
        self.departed.order.iter_mut().for_each(|(at, _)| *at = at.shifted(by_ms));
    }
}

impl Departed {
    pub(super) fn add(&mut self, now: Timestamp, uid: u128) {
        while self.order.front().is_some_and(|(at, _)| {
            now.since(*at) > REMEMBERED_FOR || self.order.len() >= MAX_DEPARTED
        }) {
            let Some((at, old)) = self.order.pop_front() else { break };
            if self.at.get(&old) == Some(&at) {
                self.at.remove(&old);
            }
        }

        self.at.insert(uid, now);
        self.order.push_back((now, uid));
    }
}

#[cfg(test)]
mod tests;
