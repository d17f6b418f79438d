//! Judges owner references as the garbage collector would.
//!
//! References to owners that the model knows are judged at once, by `owner_references.rs` and
//! `cycles.rs`. A reference to an unknown owner is unverified: watches are independent, so the
//! owner may arrive later, and children of a deleted owner wait for the garbage collector. After a
//! while, a live read of the owner decides; a failed read decides nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::finding::{FindingCode, Subject};
use crate::model::findings::open_findings::OpenFindings;
use crate::model::ownership::Ownership;
use crate::model::ownership::bad_owners::{BadOwner, code};
use crate::model::ownership::orphans::TRY_AGAIN;
use crate::model::ownership::owner_references::{self, LOOK_AGAIN, OwnerFacts, OwnerReferences};
use crate::model::world::crowd::{self, Crowd};
use crate::model::world::limits::{Limit, MAX_UNVERIFIED_OWNERS};
use crate::model::world::lookups::{ASK_AGAIN, Existence, Urgency};
use crate::model::world::store::{Slot, uid_text};
use crate::model::world::{World, field_managers};
use crate::observation::{ObjectAddress, ObjectView};
use crate::snapshot::OwnerHazard;
use crate::time::{Span, Timestamp};

/// The unverified references.
#[derive(Debug, Default)]
pub(crate) struct UnverifiedOwners {
    /// By child. At most [`MAX_UNVERIFIED_OWNERS`], which is more than the limit on objects in a
    /// container of usual size.
    children: BTreeMap<Slot, UnverifiedOwner>,
    /// The children, ordered by the time at which a read should decide.
    queue: BTreeSet<(Timestamp, Slot)>,
    /// Children that were deleted while their references were unverified. At most [`MAX_DELETED`].
    deleted: BTreeMap<u64, DeletedChild>,
    /// The number of the last of them.
    last_deleted: u64,
    deleted_by_namespace: Crowd<Box<str>, u64>,
    /// By foreign kind, the owner that loopwatch reads to find out whether the kind exists. At most
    /// [`MAX_KINDS`].
    foreign: BTreeMap<String, Foreign>,
    /// The same kinds by the namespace of the child that first named each.
    foreign_by_namespace: Crowd<Arc<str>, String>,
    /// The children with owners of kinds that the API server does not serve, with their namespaces.
    /// At most [`MAX_UNSERVED`].
    unserved: BTreeMap<Slot, Arc<str>>,
    unserved_by_namespace: Crowd<Arc<str>, Slot>,
    /// When to check whether it serves these kinds now.
    unserved_due: Option<Timestamp>,
    pub(super) due: Option<Timestamp>,
}

/// The owners of one child, none of which the model knows.
#[derive(Clone, Debug)]
struct UnverifiedOwner {
    since: Timestamp,
    /// When a read should decide; `None` once a read has shown that the owner exists, or that
    /// nothing can be shown.
    due: Option<Timestamp>,
    /// The child appeared with this reference a moment ago, well after any deletion of its owner.
    fresh: bool,
    /// The detector has asked for the read.
    asked: bool,
    /// Answers from before then do not count.
    read_from: Timestamp,
    /// The field manager that wrote the child last.
    writer: Box<str>,
}

/// A child that was deleted while its references were unverified.
#[derive(Debug)]
struct DeletedChild {
    kind: u16,
    subject: Subject,
    since: Timestamp,
    deleted: Timestamp,
    writer: Box<str>,
    owner: OwnerFacts,
}

/// The owner that loopwatch reads to find out whether its kind exists.
#[derive(Debug)]
struct Foreign {
    owner: ObjectAddress,
    /// The namespace of the child that named it.
    namespace: Arc<str>,
}

/// How much later than the event about the child the event about its owner may arrive.
const LATE_EVENT: Span = Span::secs(2);

/// After a deletion of an owner, the operator may still create children from a stale cache for this
/// fraction of `owner_missing_after`: half a minute by default.
const STALE_CACHE_PART: i64 = 10;

/// How long to wait for the answer about the owner of a deleted child.
const GIVE_UP: Span = Span::mins(3);

const MAX_DELETED: usize = 1_000;

const MAX_KINDS: usize = 1_000;

const MAX_UNSERVED: usize = 5_000;

/// How long an answer about the existence of a foreign kind counts.
const KIND_KNOWN_FOR: Span = Span::mins(10);

impl UnverifiedOwners {
    fn remove(&mut self, slot: Slot) -> Option<UnverifiedOwner> {
        let unverified = self.children.remove(&slot)?;
        if let Some(due) = unverified.due {
            self.queue.remove(&(due, slot));
        }

        Some(unverified)
    }

    fn set_due(&mut self, slot: Slot, due: Option<Timestamp>) {
        let Some(unverified) = self.children.get_mut(&slot) else { return };
        if let Some(old) = std::mem::replace(&mut unverified.due, due) {
            self.queue.remove(&(old, slot));
        }

        self.queue.extend(due.map(|due| (due, slot)));
    }

    fn next(&self) -> Option<Timestamp> {
        let deleted = self.deleted.values().map(|child| child.deleted.after(LATE_EVENT)).min();
        self.queue
            .first()
            .map(|(due, _)| *due)
            .into_iter()
            .chain(deleted)
            .chain(self.unserved_due)
            .min()
    }

    /// Returns the children whose owners are unverified.
    pub(crate) fn children(&self) -> impl Iterator<Item = Slot> {
        self.children.keys().copied()
    }

    /// Adds a deleted child. If there are too many, one of the namespace with most of them leaves.
    fn add_deleted(&mut self, world: &mut World, child: DeletedChild) {
        let namespace = child.subject.namespace().into();
        let has_room = |known: &Self| known.deleted.len() < MAX_DELETED;
        let leaves = |known: &Self| known.deleted_by_namespace.leaves_for(&namespace, 1).copied();
        let forget = |known: &mut Self, _: &mut World, number| {
            if let Some(other) = known.deleted.remove(&number) {
                known.deleted_by_namespace.remove(&other.subject.namespace().into(), &number);
            }
        };

        if crowd::make_room(self, world, Limit::UnverifiedOwners, has_room, leaves, forget) {
            self.last_deleted += 1;
            self.deleted_by_namespace.insert(&namespace, self.last_deleted, 1);
            self.deleted.insert(self.last_deleted, child);
        }
    }

    /// Adds a child with an owner of an unknown kind, in the same way.
    fn add_unserved(&mut self, world: &mut World, slot: Slot) {
        let Some(record) = world.store.get(slot) else { return };
        let namespace = record.namespace.clone();
        let has_room = |known: &Self| known.unserved.len() < MAX_UNSERVED;
        let leaves = |known: &Self| known.unserved_by_namespace.leaves_for(&namespace, 1).copied();
        let forget = |known: &mut Self, _: &mut World, other| known.forget_unserved(other);

        self.forget_unserved(slot);
        if crowd::make_room(self, world, Limit::UnverifiedOwners, has_room, leaves, forget) {
            self.unserved_by_namespace.insert(&namespace, slot, 1);
            self.unserved.insert(slot, namespace);
        }
    }

    fn forget_unserved(&mut self, slot: Slot) {
        if let Some(namespace) = self.unserved.remove(&slot) {
            self.unserved_by_namespace.remove(&namespace, &slot);
        }
    }

    /// Returns the owner to read for a foreign kind: that of the first child that named the kind. If
    /// there are too many kinds, one of the namespace that named most of them leaves.
    fn owner_to_read(
        &mut self,
        world: &mut World,
        slot: Slot,
        kind: String,
        owner: &ObjectAddress,
    ) -> Option<ObjectAddress> {
        if let Some(known) = self.foreign.get(&kind) {
            return Some(known.owner.clone());
        }

        let namespace = world.store.get(slot)?.namespace.clone();
        let has_room = |known: &Self| known.foreign.len() < MAX_KINDS;
        let leaves = |known: &Self| known.foreign_by_namespace.leaves_for(&namespace, 1).cloned();
        let forget = |known: &mut Self, _: &mut World, kind: String| {
            if let Some(other) = known.foreign.remove(&kind) {
                known.foreign_by_namespace.remove(&other.namespace, &kind);
            }
        };
        if !crowd::make_room(self, world, Limit::UnverifiedOwners, has_room, leaves, forget) {
            return None;
        }

        self.foreign_by_namespace.insert(&namespace, kind.clone(), 1);
        self.foreign.insert(kind, Foreign { owner: owner.clone(), namespace });
        Some(owner.clone())
    }

    /// Moves all instants to the new setting of the clock.
    pub(crate) fn clock_stepped(&mut self, by_ms: i64) {
        let shift = |at: &mut Timestamp| *at = at.shifted(by_ms);
        for unverified in self.children.values_mut() {
            shift(&mut unverified.since);
            shift(&mut unverified.read_from);
            unverified.due.iter_mut().for_each(shift);
        }

        self.queue = self.queue.iter().map(|(at, slot)| (at.shifted(by_ms), *slot)).collect();
        self.unserved_due.iter_mut().for_each(shift);
        for child in self.deleted.values_mut() {
            shift(&mut child.since);
            shift(&mut child.deleted);
        }

        self.due.iter_mut().for_each(shift);
    }
}

impl Ownership {
    /// Judges the references of an object with new owners. `live` means that a watch event shows
    /// the change. Returns whether it corrected a bad reference.
    pub(crate) fn owners_changed(
        &mut self,
        world: &mut World,
        findings: &mut OpenFindings,
        slot: Slot,
        view: &ObjectView,
        live: bool,
    ) -> bool {
        self.unverified.remove(slot);
        let corrected = self.recheck_cycles(world, findings)
            || (self.has_bad_owners() && self.has_bad_owner(&world.subject(slot)));
        if view.owners.is_empty() {
            return corrected;
        }

        let writer = field_managers::last_writer(view);
        if !owner_references::references(world, slot).is_kept {
            let recent = live && owner_references::owners_seen_clearly(world, slot);
            self.add_unverified(world, findings, slot, recent, writer);
        }

        self.find_cycle(world, findings, slot, writer);
        corrected
    }

    /// Judges the references of an object again, because it, one of its owners or a read has
    /// changed.
    pub(crate) fn review_owner_references(
        &mut self,
        world: &mut World,
        findings: &mut OpenFindings,
        slot: Slot,
    ) {
        let Some(record) = world.store.get(slot) else { return };
        if record.owners.is_none() || record.deletion().is_some() {
            let terminating = record.owners.is_some();
            self.unverified.remove(slot);
            return self.end_bad_owners_of(world, findings, slot, &[], terminating);
        }

        let OwnerReferences { is_kept, mut bad, unknown, foreign } =
            owner_references::references(world, slot);
        bad.extend(self.unknown_kinds(world, slot, foreign));

        let still = codes(&bad);
        let writer = self
            .unverified
            .children
            .get(&slot)
            .map_or_else(Box::default, |unverified| unverified.writer.clone());
        for (reason, owner) in bad {
            if reason == OwnerHazard::KindUnknown {
                self.note_unserved(world, slot);
            }

            let evidence = owner_references::bad_owner_evidence(world, reason, &owner, &writer);
            let mut bad_owner = BadOwner::new(reason, world.subject(slot), world.now, evidence);
            bad_owner.owner = owner_references::owner_object(world, &owner);
            self.open_bad_owner(world, findings, slot, bad_owner);
        }

        if is_kept {
            self.unverified.remove(slot);
            return self.end_bad_owners_of(world, findings, slot, &still, false);
        }

        match self
            .unverified
            .children
            .get(&slot)
            .map(|unverified| (unverified.asked, unverified.due))
        {
            Some((true, Some(_))) => self.decide_unverified(world, findings, slot), // an answer may have arrived
            Some(_) => {}
            None if !unknown.is_empty() => self.add_unverified(world, findings, slot, false, ""),
            None => self.end_bad_owners_of(world, findings, slot, &still, false),
        }
    }

    /// Handles the removal of a child.
    pub(crate) fn owner_references_removed(
        &mut self,
        world: &mut World,
        findings: &mut OpenFindings,
        slot: Slot,
        gone: bool,
    ) {
        let subject = world.subject(slot);
        let unverified = self.unverified.remove(slot);
        if let Some(unverified) =
            unverified.filter(|unverified| gone && unverified.fresh && unverified.due.is_some())
            && let Some((kind, owner)) = owner_references::first_unknown(world, slot)
        {
            let UnverifiedOwner { since, writer, .. } = unverified;
            let (subject, deleted) = (subject.clone(), world.now);
            let child = DeletedChild { kind, subject, since, deleted, writer, owner };
            self.unverified.add_deleted(world, child);
        }

        self.set_unverified_due(world);
        match gone {
            true => self.end_bad_owners(world, findings, &subject, true, |_| true),
            false => self.forget_bad_owners(world, findings, &subject),
        }
    }

    /// Handles the timer of the unverified references.
    pub(crate) fn unverified_due(&mut self, world: &mut World, findings: &mut OpenFindings) {
        self.review_unserved(world);
        while let Some((_, slot)) =
            self.unverified.queue.first().copied().filter(|(due, _)| *due <= world.now)
        {
            self.unverified.set_due(slot, Some(world.now.after(LOOK_AGAIN)));
            self.decide_unverified(world, findings, slot);
        }

        self.unverified.deleted_by_namespace = Crowd::default();
        for child in std::mem::take(&mut self.unverified.deleted).into_values() {
            self.decide_deleted(world, findings, child);
        }

        self.set_unverified_due(world);
    }

    /// Reviews the children with owners of unknown kinds, which may have been installed since.
    fn review_unserved(&mut self, world: &mut World) {
        if self.unverified.unserved_due.is_none_or(|due| due > world.now) {
            return;
        }

        self.unverified.unserved_due = None;
        self.unverified.unserved_by_namespace = Crowd::default();
        for slot in std::mem::take(&mut self.unverified.unserved).into_keys() {
            match self.unverified.children.get_mut(&slot) {
                Some(unverified) => {
                    unverified.read_from = world.now;
                    self.unverified.set_due(slot, Some(world.now));
                }
                None => _ = world.agenda.objects.insert(slot),
            }
        }
    }

    fn note_unserved(&mut self, world: &mut World, slot: Slot) {
        self.unverified.add_unserved(world, slot);
        self.unverified.unserved_due.get_or_insert(world.now.after(KIND_KNOWN_FOR));
        self.set_unverified_due(world);
    }

    fn set_unverified_due(&mut self, world: &World) {
        let next = self.unverified.next();
        self.unverified.due = next.map(|due| due.max(world.now.after(Span(1))));
    }

    fn add_unverified(
        &mut self,
        world: &mut World,
        findings: &OpenFindings,
        slot: Slot,
        recent: bool,
        writer: &str,
    ) {
        let Some(record) = world.store.get(slot) else { return };
        if self.unverified.children.len() >= MAX_UNVERIFIED_OWNERS {
            return world.count_dropped(Limit::UnverifiedOwners);
        }

        let created = record.created();
        let owners = record.owners().iter();
        let departed = owners.filter_map(|owner| world.graph.departed(owner.uid())).max();
        let stale = departed
            .is_some_and(|at| created.is_none_or(|created| created < at.after(stale_cache(world))));
        let fresh = recent && !stale;
        let due = match fresh {
            true => world.now.after(LATE_EVENT),
            false => departed
                .unwrap_or(world.now)
                .after(world.settings.owner_missing_after)
                .max(world.now),
        };

        // If an earlier process already decided, its finding need not wait.
        let restored = restored_bad_owner(world, findings, slot);
        let due = if restored.is_some() { world.now.after(LATE_EVENT) } else { due };
        let (since, read_from) = (restored.unwrap_or(world.now), world.now);
        let unverified = UnverifiedOwner {
            since,
            due: None,
            fresh,
            asked: false,
            read_from,
            writer: writer.into(),
        };

        self.unverified.children.insert(slot, unverified);
        self.unverified.set_due(slot, Some(due));
        self.set_unverified_due(world);
    }

    /// Decides whether the unknown owners of a child exist if their reads have been answered, or
    /// else asks for the reads.
    fn decide_unverified(&mut self, world: &mut World, findings: &mut OpenFindings, slot: Slot) {
        let Some(unverified) = self.unverified.children.get(&slot).cloned() else { return };
        let OwnerReferences { is_kept, bad, unknown, .. } =
            owner_references::references(world, slot);
        if is_kept {
            self.unverified.remove(slot);
            return;
        }

        if let Some(at) = owner_references::owners_hidden_until(world, slot) {
            return self.unverified.set_due(slot, Some(at));
        }

        let (mut missing, mut waits) = (None, false);
        for owner in &unknown {
            match world.existence(slot, &owner.address, unverified.read_from, Urgency::Suspicion) {
                None => waits = true,
                Some(Existence::Failed) => return self.read_owners_again(world, slot),
                Some(Existence::Unreadable) => return self.unverified.set_due(slot, None),
                Some(Existence::Exists(read)) if read.uid == owner.uid => {
                    self.unverified.set_due(slot, None);
                    return self.end_bad_owners_of(world, findings, slot, &codes(&bad), false);
                }
                Some(existence) => {
                    missing =
                        missing.or_else(|| Some((reason(&existence), owner.clone(), existence)))
                }
            }
        }

        if waits {
            if let Some(unverified) = self.unverified.children.get_mut(&slot) {
                unverified.asked = true;
            }
            return self.unverified.set_due(slot, Some(world.now.after(ASK_AGAIN)));
        }

        self.unverified.set_due(slot, None);
        let Some((reason, owner, existence)) = missing else { return };
        if reason == OwnerHazard::KindUnknown {
            self.note_unserved(world, slot);
        }

        let mut evidence =
            owner_references::bad_owner_evidence(world, reason, &owner, &unverified.writer);
        if let Existence::Exists(read) = existence {
            evidence = evidence.text("current_uid", uid_text(read.uid));
        }

        let bad_owner = BadOwner::new(reason, world.subject(slot), unverified.since, evidence);
        self.open_bad_owner(world, findings, slot, bad_owner);
    }
}

/// Returns the start of an earlier process's finding that an owner of a child is missing.
fn restored_bad_owner(world: &World, findings: &OpenFindings, slot: Slot) -> Option<Timestamp> {
    if !findings.has_restored() {
        return None;
    }

    let (subject, created) = (world.subject(slot), world.store.get(slot)?.created());
    let codes =
        [FindingCode::OwnerMissing, FindingCode::OwnerReplaced, FindingCode::OwnerUnresolvable];
    let starts = codes.iter().filter_map(|code| findings.restored_start(*code, &subject));

    starts.filter(|at| Some(*at) >= created).min()
}

impl Ownership {
    /// Schedules another read of the owners of a child after a failed one.
    fn read_owners_again(&mut self, world: &World, slot: Slot) {
        let at = world.now.after(TRY_AGAIN);
        if let Some(unverified) = self.unverified.children.get_mut(&slot) {
            (unverified.read_from, unverified.asked) = (at, false);
        }

        self.unverified.set_due(slot, Some(at));
        self.set_unverified_due(world);
    }

    /// Decides whether the owner of a deleted child had existed.
    fn decide_deleted(
        &mut self,
        world: &mut World,
        findings: &mut OpenFindings,
        child: DeletedChild,
    ) {
        let departed = world
            .graph
            .departed(child.owner.uid)
            .is_some_and(|at| at.after(stale_cache(world)) >= child.since);
        let known = departed || world.find_uid(child.owner.uid).is_some();
        if known || world.now.since(child.deleted) > GIVE_UP {
            return;
        }

        let existence =
            world.existence(Slot::MAX, &child.owner.address, child.since, Urgency::Suspicion);
        let reason = match &existence {
            Some(Existence::Exists(read)) if read.uid == child.owner.uid => return,
            Some(Existence::Unreadable | Existence::Failed) => return,
            Some(existence) if world.now.since(child.deleted) >= LATE_EVENT => reason(existence),
            _ => return self.unverified.add_deleted(world, child),
        };

        let evidence =
            owner_references::bad_owner_evidence(world, reason, &child.owner, &child.writer);
        let bad_owner = BadOwner::new(reason, child.subject.clone(), child.since, evidence);
        self.open_past_bad_owner(world, findings, child.kind, bad_owner, child.deleted);
    }

    /// Returns the references to foreign kinds that the API server does not serve. The garbage
    /// collector cannot resolve these, even if another owner exists. To find out, loopwatch reads
    /// one owner of each foreign kind.
    fn unknown_kinds(
        &mut self,
        world: &mut World,
        slot: Slot,
        foreign: Vec<OwnerFacts>,
    ) -> Vec<(OwnerHazard, OwnerFacts)> {
        let mut unknown = Vec::new();
        for owner in foreign {
            let kind = format!("{}/{}", owner.address.group, owner.address.kind);
            let Some(asked) = self.unverified.owner_to_read(world, slot, kind, &owner.address)
            else {
                continue;
            };
            let recent = world.now.shifted(-KIND_KNOWN_FOR.0);
            let is_unknown = match world.existence(slot, &asked, recent, Urgency::Suspicion) {
                Some(existence) => existence == Existence::KindUnknown,
                // Until the answer arrives, nothing changes.
                None => self.is_unresolvable(&world.subject(slot)),
            };

            if is_unknown {
                unknown.push((OwnerHazard::KindUnknown, owner));
            }
        }

        unknown
    }
}

fn stale_cache(world: &World) -> Span {
    Span(world.settings.owner_missing_after.0 / STALE_CACHE_PART)
}

impl Ownership {
    /// Ends the bad owners of a child, except cycles and those with a code in `still`.
    fn end_bad_owners_of(
        &mut self,
        world: &mut World,
        findings: &mut OpenFindings,
        slot: Slot,
        still: &[FindingCode],
        collected: bool,
    ) {
        if self.has_bad_owners() {
            let ends = |code| code != FindingCode::OwnerCycle && !still.contains(&code);
            self.end_bad_owners(world, findings, &world.subject(slot), collected, ends);
        }
    }
}

/// Returns the findings that report bad references.
fn codes(bad: &[(OwnerHazard, OwnerFacts)]) -> Vec<FindingCode> {
    bad.iter().map(|(reason, _)| code(*reason)).collect()
}

/// Returns why an owner is missing.
const fn reason(existence: &Existence) -> OwnerHazard {
    match existence {
        Existence::Exists(_) => OwnerHazard::Replaced,
        Existence::KindUnknown => OwnerHazard::KindUnknown,
        Existence::Absent
        | Existence::Unreadable
        | Existence::Failed
        | Existence::Dependents(_) => OwnerHazard::Missing,
    }
}
