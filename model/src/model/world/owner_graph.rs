//! The ownership graph: objects by UID, and the children of each owner.
//!
//! An edge leads from a child to the UID of an owner, as for the garbage collector: an object that
//! is deleted and created again has another UID. Owners that loopwatch does not watch have edges,
//! too.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::hash::BuildHasher as _;

use hashbrown::{DefaultHashBuilder, HashTable};

use crate::model::world::World;
use crate::model::world::intern::Symbol;
use crate::model::world::store::{self, Flag, Record, Slot, Store};
use crate::observation::{ObjectAddress, ObjectView, OwnerReference};
use crate::time::{Span, Timestamp};

/// One owner of an object.
#[derive(Debug)]
pub(crate) struct Owner {
    /// The two halves of the UID: a `u128` would align the edge to 16 bytes.
    uid: [u64; 2],
    /// `group/Kind`, or `Kind` for the core group.
    pub(crate) kind: Symbol,
    /// `blockOwnerDeletion`.
    pub(crate) blocks_deletion: bool,
    /// The name in the reference. It is left out while the model knows an object with this UID,
    /// kind and name, so a thin pointer saves memory.
    name: Option<Box<Box<str>>>,
}

// The memory budget of an edge is 64 bytes, with its entry in the index of children.
const _: () = assert!(size_of::<Owner>() <= 32, "an edge has grown past its budget");

/// The indexes of the graph.
#[derive(Debug, Default)]
pub(crate) struct OwnerGraph {
    by_uid: HashTable<Slot>,
    hasher: DefaultHashBuilder,
    /// Fingerprints of owners' UIDs, with the slots of their children.
    children: BTreeSet<(u64, Slot)>,
    departed: Departed,
}

/// The UIDs of objects that were deleted a short time ago.
#[derive(Debug, Default)]
struct Departed {
    at: HashMap<u128, Timestamp>,
    order: VecDeque<(Timestamp, u128)>,
}

/// The lint of an object with more owners than its view keeps.
const CUT: &str = "many_owners";

/// How long the graph remembers the UID of a deleted object.
const REMEMBERED_FOR: Span = Span::hours(1);

/// The maximum number of remembered UIDs of deleted objects. Beyond it, the oldest are forgotten.
const MAX_DEPARTED: usize = 50_000;

// === impl Owner ===

impl Owner {
    pub(crate) fn uid(&self) -> u128 {
        u128::from(self.uid[0]) << 64 | u128::from(self.uid[1])
    }
}

/// Returns the two halves of a UID.
#[expect(clippy::cast_possible_truncation, reason = "the halves are cut on purpose")]
const fn halves(uid: u128) -> [u64; 2] {
    [(uid >> 64) as u64, uid as u64]
}

/// Returns the fingerprint of a UID. Different UIDs with the same fingerprint are told apart by
/// their edges.
const fn fingerprint(uid: u128) -> u64 {
    let [high, low] = halves(uid);
    high ^ low
}

// === impl OwnerGraph ===

impl OwnerGraph {
    fn insert(&mut self, store: &Store, slot: Slot, uid: u128) {
        let Self { by_uid, hasher, .. } = self;
        let uid_of = |slot: &Slot| store.get(*slot).map_or(0, |record| record.uid);
        by_uid.insert_unique(hasher.hash_one(uid), slot, |slot| hasher.hash_one(uid_of(slot)));
    }

    fn remove(&mut self, slot: Slot, uid: u128) {
        if let Ok(entry) = self.by_uid.find_entry(self.hasher.hash_one(uid), |other| *other == slot)
        {
            entry.remove();
        }
    }

    fn find(&self, store: &Store, uid: u128) -> Option<Slot> {
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

// === impl Departed ===

impl Departed {
    fn add(&mut self, now: Timestamp, uid: u128) {
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

impl World {
    /// Returns the object with this UID.
    pub(crate) fn find_uid(&self, uid: u128) -> Option<Slot> {
        self.graph.find(&self.store, uid)
    }

    /// Returns the objects that name this one as an owner, in the order of their slots.
    pub(crate) fn children_of(&self, uid: u128) -> impl Iterator<Item = Slot> {
        let key = fingerprint(uid);
        let slots = self.graph.children.range((key, 0)..=(key, Slot::MAX)).map(|(_, slot)| *slot);
        slots.filter(move |slot| self.owners_of(*slot).iter().any(|owner| owner.uid() == uid))
    }

    /// Returns the owners of an object.
    pub(crate) fn owners_of(&self, slot: Slot) -> &[Owner] {
        self.store.get(slot).and_then(|record| record.owners.as_deref()).unwrap_or_default()
    }

    /// Returns the name of an owner.
    pub(crate) fn owner_name<'a>(&'a self, owner: &'a Owner) -> &'a str {
        let known = || self.find_uid(owner.uid()).and_then(|slot| self.store.get(slot));
        owner
            .name
            .as_deref()
            .map(|name| &**name)
            .or_else(|| known().map(|record| &*record.name))
            .unwrap_or_default()
    }

    /// Returns the group and the kind of an owner.
    pub(crate) fn owner_kind(&self, owner: &Owner) -> (&str, &str) {
        let text: &str = self.shared.texts.get(owner.kind);
        text.split_once('/').unwrap_or(("", text))
    }

    /// Returns the address of an object.
    pub(crate) fn object_address(&self, slot: Slot) -> ObjectAddress {
        self.store.get(slot).map(|record| self.record_address(record)).unwrap_or_default()
    }

    /// Returns the address of the object of a record.
    pub(crate) fn record_address(&self, record: &Record) -> ObjectAddress {
        let kind = self.kind_of(record.watch);
        ObjectAddress {
            group: kind.group.to_string(),
            kind: kind.kind.to_string(),
            namespace: record.namespace.to_string(),
            name: record.name.to_string(),
        }
    }

    /// Adds a new object to the graph. Its children are reviewed, because they have an owner now.
    pub(crate) fn add_to_graph(&mut self, slot: Slot) {
        let Some(uid) =
            self.store.get(slot).map(|record| record.uid).filter(|uid| *uid != store::NO_UID)
        else {
            return;
        };

        self.graph.insert(&self.store, slot, uid);
        let children: Vec<Slot> = self.children_of(uid).collect();
        self.agenda.objects.extend(children);
    }

    /// Removes an object from the graph. Its children are reviewed. `gone` tells that the object
    /// was deleted, and not only lost from sight.
    pub(crate) fn remove_from_graph(&mut self, slot: Slot, gone: bool) {
        let Some(record) = self.store.get(slot) else { return };
        let (uid, name) = (record.uid, record.name.clone());
        let children: Vec<Slot> =
            if uid == store::NO_UID { Vec::new() } else { self.children_of(uid).collect() };

        for child in &children {
            let owners = self.store.get_mut(*child).and_then(|record| record.owners.as_mut());
            for owner in owners.into_iter().flatten().filter(|owner| owner.uid() == uid) {
                owner.name.get_or_insert_with(|| Box::new(name.clone()));
            }
        }

        self.set_owners(slot, None);
        if uid != store::NO_UID {
            self.graph.remove(slot, uid);
        }

        if gone && uid != store::NO_UID {
            self.graph.departed.add(self.now, uid);
        }

        self.agenda.objects.extend(children);
    }

    /// Replaces the owners of an object. Returns whether they have changed.
    pub(crate) fn update_owners(&mut self, slot: Slot, view: &ObjectView) -> bool {
        if let Some(record) = self.store.get_mut(slot) {
            record.flags.set(Flag::OwnersCut, view.lints.iter().any(|lint| lint == CUT));
        }

        let references = &view.owners;
        let old = self.owners_of(slot);
        let same = |(old, new): (&Owner, &OwnerReference)| {
            let kind = kind_text(new);
            old.uid() == store::uid_number(&new.uid)
                && self.owner_name(old) == new.name
                && **self.shared.texts.get(old.kind) == *kind
                && old.blocks_deletion == new.blocks_deletion
        };

        if old.len() == references.len() && old.iter().zip(references).all(same) {
            return false;
        }

        let new: Vec<Owner> = references
            .iter()
            .map(|reference| {
                let uid = store::uid_number(&reference.uid);
                let kind = self.acquire_text(&kind_text(reference));
                let name = (!self.is_known(uid, kind, &reference.name))
                    .then(|| Box::new(reference.name.as_str().into()));

                Owner { uid: halves(uid), kind, blocks_deletion: reference.blocks_deletion, name }
            })
            .collect();

        self.set_owners(slot, (!new.is_empty()).then(|| new.into()));
        true
    }

    /// Returns whether the model knows an object with this UID, kind and name.
    fn is_known(&self, uid: u128, kind: Symbol, name: &str) -> bool {
        let known = self.find_uid(uid).and_then(|slot| self.store.get(slot));
        known.is_some_and(|record| {
            *record.name == *name
                && self.kind_of(record.watch).name() == **self.shared.texts.get(kind)
        })
    }

    fn set_owners(&mut self, slot: Slot, owners: Option<Box<[Owner]>>) {
        let Some(record) = self.store.get_mut(slot) else { return };
        let number = self.watches[record.watch as usize].kind as usize;
        self.kinds[number].siblings.count(record.owners.as_deref(), owners.as_deref());

        let old = std::mem::replace(&mut record.owners, owners);
        for owner in old.iter().flatten() {
            self.shared.texts.release(owner.kind);
            self.graph.children.remove(&(fingerprint(owner.uid()), slot));
        }

        let Some(record) = self.store.get(slot) else { return };
        self.graph
            .children
            .extend(record.owners.iter().flatten().map(|owner| (fingerprint(owner.uid()), slot)));
    }
}

/// Returns the kind of a reference as `group/Kind`, or `Kind` for the core group.
fn kind_text(reference: &OwnerReference) -> String {
    match reference.api_version.split_once('/') {
        Some((group, _)) => format!("{group}/{}", reference.kind),
        None => reference.kind.clone(),
    }
}

#[cfg(test)]
mod tests;
