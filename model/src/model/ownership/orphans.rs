//! Objects that may be orphans: nobody will delete them, because they have no owner or their
//! logical owner is gone.
//!
//! The sources pass on an object without an owner only if it had one among the watched kinds, or if
//! its writer and labels match those of owned objects of its kind. Most of these are fine: some
//! belong to the operator itself, and some outlive their owners on purpose. `orphan_verdicts.rs`
//! decides which of them are orphans.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::cut::cut;
use crate::finding::FindingCode;
use crate::model::findings::open_findings::OpenFindings;
use crate::model::ownership::Ownership;
use crate::model::ownership::logical_owners::LogicalOwner;
use crate::model::world::crowd::{self, Crowd};
use crate::model::world::limits::Limit;
use crate::model::world::owner_graph::Owner;
use crate::model::world::store::Slot;
use crate::model::world::{World, field_managers};
use crate::observation::{ObjectAddress, ObjectView, Role, with_group};
use crate::time::{Span, Timestamp};

pub(crate) use crate::model::world::limits::MAX_CANDIDATES;

/// The objects that may be orphans.
#[derive(Debug, Default)]
pub(crate) struct Orphans {
    /// Objects without an owner. At most [`MAX_CANDIDATES`].
    pub(super) candidates: BTreeMap<Slot, OrphanCandidate>,
    /// The same objects by the owner that a label of each names.
    by_name: BTreeMap<String, BTreeSet<Slot>>,
    /// Those that never had an owner reference although the owner that a label names exists, by kind.
    kept: BTreeMap<u16, BTreeSet<Slot>>,
    /// Objects whose annotations or labels name an owner. At most [`MAX_CANDIDATES`].
    pub(super) logical: BTreeMap<Slot, Logical>,
    /// The objects that name each logical owner.
    by_owner: BTreeMap<ObjectAddress, BTreeSet<Slot>>,
    /// What the candidates take, in bytes, by namespace.
    candidate_sizes: Crowd<Arc<str>, Slot>,
    /// What the logical owners take, in bytes, by namespace.
    logical_sizes: Crowd<Arc<str>, Slot>,
}

/// An object without an owner.
#[derive(Debug)]
pub(super) struct OrphanCandidate {
    /// The number of its kind.
    pub(super) kind: u16,
    pub(super) namespace: Arc<str>,
    pub(super) since: Timestamp,
    /// The owner that it had.
    pub(super) former: Option<Former>,
    /// Its owner was being deleted, or the operator removed the reference on purpose.
    pub(super) released: bool,
    /// An earlier process found it to be an orphan.
    pub(super) restored: bool,
    /// The labels that may name an owner; see [`kept_labels`].
    pub(super) labels: BTreeMap<String, String>,
    /// The owner that a label names, as far as it is known which label does.
    named: Option<String>,
    /// The field manager that wrote it last.
    pub(super) writer: String,
    /// loopwatch has seen the owner that the labels name.
    pub(super) owner_seen: bool,
    /// Since when this owner has been missing.
    pub(super) missing_since: Option<Timestamp>,
    /// Since when a live read has had no answer at all.
    pub(super) asked_since: Option<Timestamp>,
}

/// The owner that an object had.
#[derive(Debug)]
pub(super) struct Former {
    pub(super) uid: u128,
    pub(super) name: String,
}

/// An object whose annotations or labels name an owner.
#[derive(Debug)]
pub(super) struct Logical {
    namespace: Arc<str>,
    pub(super) owner: LogicalOwner,
    /// Since when the owner has been missing from the model.
    pub(super) missing_since: Option<Timestamp>,
}

/// The time between two attempts to confirm an orphan that cannot be read.
pub(super) const TRY_AGAIN: Span = Span::mins(10);

/// The part of the memory for objects that candidates may take, and the part that logical owners may
/// take.
const PART: usize = 16;

/// The maximum length of the labels of a candidate, in bytes. Those of real objects take a few
/// hundred.
const MAX_LABELS: usize = 1024;

/// What a candidate takes in addition to its texts.
const ENTRY: usize = 256;

impl Orphans {
    /// Forgets an object.
    pub(crate) fn remove(&mut self, slot: Slot) {
        self.remove_candidate(slot);
        self.remove_logical(slot);
    }

    /// Adds an object without an owner.
    fn add_candidate(&mut self, slot: Slot, candidate: OrphanCandidate) {
        self.candidate_sizes.insert(&candidate.namespace, slot, candidate.size());
        self.candidates.insert(slot, candidate);
    }

    fn remove_candidate(&mut self, slot: Slot) {
        let Some(candidate) = self.candidates.remove(&slot) else { return };
        self.candidate_sizes.remove(&candidate.namespace, &slot);
        remove_from(&mut self.kept, &candidate.kind, slot);
        if let Some(named) = &candidate.named {
            remove_from(&mut self.by_name, named, slot);
        }
    }

    /// Makes room for an item in the table with these `sizes`, which `remove` removes from: those of
    /// the namespace whose items take most memory leave. Returns whether there is room.
    fn make_room(
        &mut self,
        world: &mut World,
        (namespace, size): (&Arc<str>, usize),
        sizes: fn(&Self) -> &Crowd<Arc<str>, Slot>,
        remove: fn(&mut Self, Slot),
    ) -> bool {
        let limit = world.settings.limits.object_memory() / PART;
        let has_room = |known: &Self| {
            sizes(known).len() < MAX_CANDIDATES && sizes(known).size() + size <= limit
        };
        let leaves = |known: &Self| sizes(known).leaves_for(namespace, size).copied();
        let forget = |known: &mut Self, world: &mut World, other| {
            remove(known, other);
            world.agenda.objects.insert(other);
        };

        crowd::make_room(self, world, Limit::OrphanCandidates, has_room, leaves, forget)
    }

    /// Sets the owner that a label of an object names. Another one than before has not been seen.
    pub(super) fn set_named(&mut self, slot: Slot, named: &str) {
        let Some(candidate) = self.candidates.get_mut(&slot) else { return };
        if candidate.named.as_deref() == Some(named) {
            return;
        }

        if let Some(old) = candidate.named.replace(named.to_owned()) {
            (candidate.owner_seen, candidate.missing_since) = (false, None);
            remove_from(&mut self.by_name, &old, slot);
            remove_from(&mut self.kept, &candidate.kind, slot);
        }

        self.by_name.entry(named.to_owned()).or_default().insert(slot);
    }

    /// Notes whether the owner that a label of an object names exists.
    pub(super) fn set_owner_there(&mut self, slot: Slot, is_there: bool) {
        let Some(candidate) = self.candidates.get(&slot) else { return };
        if is_there && candidate.former.is_none() {
            self.kept.entry(candidate.kind).or_default().insert(slot);
        } else {
            remove_from(&mut self.kept, &candidate.kind, slot);
        }
    }

    /// Returns how many objects of the same kind as this one never had an owner reference although the
    /// owners that their labels name exist.
    pub(super) fn kept_like(&self, slot: Slot) -> usize {
        let kept = self.candidates.get(&slot).and_then(|candidate| self.kept.get(&candidate.kind));
        kept.map_or(0, BTreeSet::len)
    }

    /// Sets the owner that annotations or labels of an object name, if there is room for it.
    pub(super) fn set_logical(
        &mut self,
        world: &mut World,
        slot: Slot,
        owner: Option<LogicalOwner>,
    ) {
        if self.logical.get(&slot).map(|logical| &logical.owner) == owner.as_ref() {
            return;
        }

        self.remove_logical(slot);
        let Some(owner) = owner else { return };
        let Some(namespace) = world.store.get(slot).map(|record| record.namespace.clone()) else {
            return;
        };

        let size = owner.size();
        let of = (&namespace, size);
        if self.make_room(world, of, |known| &known.logical_sizes, Self::remove_logical) {
            self.logical_sizes.insert(&namespace, slot, size);
            self.by_owner.entry(owner.address.clone()).or_default().insert(slot);
            self.logical.insert(slot, Logical { namespace, owner, missing_since: None });
        }
    }

    fn remove_logical(&mut self, slot: Slot) {
        if let Some(old) = self.logical.remove(&slot) {
            self.logical_sizes.remove(&old.namespace, &slot);
            remove_from(&mut self.by_owner, &old.owner.address, slot);
        }
    }

    /// Moves all instants to the new setting of the clock.
    pub(crate) fn clock_stepped(&mut self, by_ms: i64) {
        for candidate in self.candidates.values_mut() {
            let optional = [&mut candidate.missing_since, &mut candidate.asked_since];
            optional
                .into_iter()
                .flatten()
                .chain([&mut candidate.since])
                .for_each(|at| *at = at.shifted(by_ms));
        }

        let missing =
            self.logical.values_mut().filter_map(|logical| logical.missing_since.as_mut());
        missing.for_each(|at| *at = at.shifted(by_ms));
    }
}

impl Ownership {
    /// Updates what may make an object an orphan. `old` are the owners that the previous version
    /// named.
    pub(crate) fn update_orphan(
        &mut self,
        world: &mut World,
        findings: &OpenFindings,
        slot: Slot,
        view: &ObjectView,
        new: bool,
        old: &[(u128, String)],
    ) {
        let Some(record) = world.store.get(slot) else { return };
        let kind = world.watches[record.watch as usize].kind;
        let namespace = record.namespace.clone();
        self.update_logical_owner(world, slot, view);

        if let Some(owner) = view.owners.first() {
            let siblings = &mut world.kinds[kind as usize].siblings;
            if new && siblings.learn(&view.labels, &owner.name) {
                self.review_candidates(world, kind);
            }

            self.orphans.remove_candidate(slot);
            return;
        }

        let former = old.first().map(|(uid, name)| Former { uid: *uid, name: name.clone() });
        if let Some(candidate) = self.orphans.candidates.get_mut(&slot) {
            candidate.labels = kept_labels(world, view);
            let size = candidate.size();
            self.orphans.candidate_sizes.insert(&namespace, slot, size);
            return;
        }

        let restored =
            new && findings.restored_start(FindingCode::Orphan, &world.subject(slot)).is_some();

        // Primary objects usually have no owner. In a dump, all kinds are primary.
        let is_primary = world.kinds[kind as usize].role == Role::Primary && !view.resembles_owned;
        if former.is_none() && !restored && (is_primary || view.labels.is_empty()) {
            return;
        }

        let writer = field_managers::last_writer(view).to_owned();
        let candidate = OrphanCandidate {
            kind,
            namespace,
            since: world.now,
            former,
            released: false,
            restored,
            labels: kept_labels(world, view),
            named: None,
            writer,
            owner_seen: false,
            missing_since: None,
            asked_since: None,
        };
        let (namespace, size) = (candidate.namespace.clone(), candidate.size());
        let remove = Orphans::remove_candidate;
        let of = (&namespace, size);
        if self.orphans.make_room(world, of, |known| &known.candidate_sizes, remove) {
            self.orphans.add_candidate(slot, candidate);
        }
    }

    /// Reviews the objects of a kind without an owner, because the owners that their labels name
    /// have become known.
    fn review_candidates(&self, world: &mut World, kind: u16) {
        for slot in self.orphans.candidates.keys() {
            let watch = world.store.get(*slot).map(|record| record.watch);
            if watch.is_some_and(|watch| world.watches[watch as usize].kind == kind) {
                world.agenda.objects.insert(*slot);
            }
        }
    }

    /// Reviews the objects that name this one as their owner, in annotations or labels, after it
    /// has appeared or disappeared.
    pub(crate) fn review_logically_owned(&self, world: &mut World, slot: Slot) {
        if !self.orphans.by_owner.is_empty() {
            let address = world.object_address(slot);
            world.agenda.objects.extend(self.orphans.by_owner.get(&address).into_iter().flatten());
        }

        if self.orphans.by_name.is_empty() {
            return;
        }
        let Some(record) = world.store.get(slot) else { return };
        let is_owner = world.kind_of(record.watch).role != Role::Child;
        if let Some(slots) = self.orphans.by_name.get(&*record.name).filter(|_| is_owner) {
            world.agenda.objects.extend(slots);
        }
    }
}

impl OrphanCandidate {
    /// Returns what the candidate takes, in bytes.
    fn size(&self) -> usize {
        // The name of the owner is the value of a label, and it is also in the index.
        let labels = self.labels.iter().map(|(key, value)| key.len() + 3 * value.len() + 64);
        let former = self.former.as_ref().map_or(0, |former| former.name.len());
        ENTRY + labels.sum::<usize>() + former + self.writer.len()
    }
}

/// Returns the labels of an object that may name an owner, as far as they fit into [`MAX_LABELS`].
fn kept_labels(world: &mut World, view: &ObjectView) -> BTreeMap<String, String> {
    let mut labels: Vec<(&String, &String)> = view.labels.iter().collect();
    if cut(&mut labels, MAX_LABELS, |(key, value)| key.len() + value.len()) {
        world.count_dropped(Limit::ObjectNames);
    }

    labels.into_iter().map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// Removes an object from an index.
fn remove_from<K: Ord>(index: &mut BTreeMap<K, BTreeSet<Slot>>, key: &K, slot: Slot) {
    if let Some(slots) = index.get_mut(key) {
        slots.remove(&slot);
        if slots.is_empty() {
            index.remove(key);
        }
    }
}

/// Returns the time from which an answer counts as recent: just after the previous attempt.
pub(super) fn recently(world: &World) -> Timestamp {
    world.now.shifted(1000 - TRY_AGAIN.0)
}

/// Returns the UID of each owner of an object, with its name as kubectl reads it: several groups may
/// have the kind.
pub(crate) fn owner_names(world: &World, slot: Slot) -> Vec<(u128, String)> {
    let name = |owner: &Owner| {
        let (group, kind) = world.owner_kind(owner);
        (owner.uid(), format!("{}/{}", with_group(kind, group), world.owner_name(owner)))
    };
    world.owners_of(slot).iter().map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(number: u32) -> OrphanCandidate {
        let labels = (0..20).map(|label| (format!("l{label}"), format!("v{label}-{number}")));
        OrphanCandidate {
            kind: u16::from(number.is_multiple_of(2)),
            namespace: "team-a".into(),
            since: Timestamp(0),
            former: None,
            released: false,
            restored: false,
            labels: labels.collect(),
            named: None,
            writer: String::new(),
            owner_seen: false,
            missing_since: None,
            asked_since: None,
        }
    }

    /// The work for one object depends neither on the number of the others nor on its labels.
    #[test]
    fn the_indexes_have_at_most_one_entry_per_object() {
        let mut orphans = Orphans::default();
        for number in 0..1_000 {
            orphans.add_candidate(number, candidate(number));
            for owner in ["first", "second"] {
                orphans.set_named(number, &format!("{owner}-{number}"));
            }

            orphans.set_owner_there(number, true);
        }

        assert_eq!(orphans.by_name.len(), 1_000);
        assert_eq!(orphans.kept.values().map(BTreeSet::len).sum::<usize>(), 1_000);
        assert_eq!(orphans.kept_like(7), 500, "one look, without the other kind");

        orphans.set_owner_there(7, false);
        assert_eq!(orphans.kept_like(7), 499);

        (0..1_000).for_each(|number| orphans.remove(number));
        assert!(orphans.by_name.is_empty() && orphans.kept.is_empty());
    }
}
