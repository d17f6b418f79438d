//! Judges owner references as the garbage collector would: whether the owner exists, in the right namespace and with the
//! right UID, and whether owners form a cycle.
//!
//! References to owners that the model knows are judged at once. Watches are independent, so an unknown owner may only
//! be late; and for some time after its deletion, its children wait for the garbage collector. Such a reference is in
//! doubt. After a while, a live read of the owner decides; one that fails decides nothing.

use std::collections::{BTreeMap, BTreeSet};

use super::Model;
use super::graph::Owner;
use super::hazards::{Hazard, code};
use super::orphans::TRY_AGAIN;
use super::reads::{ASK_AGAIN, Existence, Urgency};
use super::sight::Sight;
use super::store::{Flag, NO_UID, Slot, uid_text};
use super::timers::Timer;
use crate::finding::{Evidence, FindingCode, Subject, Value};
use crate::observation::{ObjectAddress, ObjectView, Role, Scope};
use crate::reference::ObjectName;
use crate::snapshot::OwnerHazard;
use crate::time::{Span, Timestamp};

/// The references in doubt.
#[derive(Debug, Default)]
pub(crate) struct Doubts {
    /// By child. At most [`MAX_DOUBTS`].
    children: BTreeMap<Slot, Doubt>,
    /// The children by the time at which a read should decide.
    queue: BTreeSet<(Timestamp, Slot)>,
    /// Children that were deleted while their references were in doubt. At most [`MAX_DELETED`].
    deleted: Vec<DeletedChild>,
    /// The owners by which loopwatch asks whether foreign kinds exist, by kind. At most [`MAX_KINDS`].
    foreign: BTreeMap<String, ObjectAddress>,
    /// The children whose owners have kinds that the API server does not serve. At most [`MAX_UNSERVED`].
    unserved: BTreeSet<Slot>,
    /// When to look whether it serves these kinds now.
    unserved_due: Option<Timestamp>,
    timer: Option<Timestamp>,
}

/// The doubt about the owners of one child, none of which the model knows.
#[derive(Clone, Debug)]
struct Doubt {
    since: Timestamp,
    /// When a read should decide; `None` once it has shown that the owner exists, or could not show anything.
    due: Option<Timestamp>,
    /// The child appeared with this reference a moment ago, and not before its owner was deleted.
    fresh: bool,
    /// The detector has asked for the read.
    asked: bool,
    /// Answers from before this time do not count.
    read_from: Timestamp,
    /// The field manager that wrote the child last.
    writer: Box<str>,
}

/// A child that was deleted while its references were in doubt.
#[derive(Debug)]
struct DeletedChild {
    kind: u16,
    subject: Subject,
    since: Timestamp,
    deleted: Timestamp,
    writer: Box<str>,
    owner: OwnerFacts,
}

/// One owner reference, for reads and evidence.
#[derive(Clone, Debug)]
struct OwnerFacts {
    uid: u128,
    address: ObjectAddress,
}

/// What the model knows about one owner reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Link {
    /// The owner exists.
    Solid,
    /// The reference is bad, whatever a read shows.
    Bad(OwnerHazard),
    /// The model does not know the owner.
    Unknown,
    /// The owner is none of the operator's objects, or the reference does not name it completely, so loopwatch does not
    /// judge the reference.
    Foreign,
}

/// The time that an event about the owner may take to arrive after the one about the child.
const LATE_EVENT: Span = Span::secs(2);

/// The part of `owner_missing_after` in which the operator may still create children of a deleted owner, from a stale
/// cache: half a minute by default.
const STALE_CACHE_PART: i64 = 10;

/// The part of `owner_missing_after` for which the watch of the owners must have been able to see before an unknown
/// owner can be a new problem.
const SETTLED_PART: i64 = 5;

/// The time between two attempts while the watch of the owner cannot see.
const LOOK_AGAIN: Span = Span::secs(10);

/// How long a deleted child may wait for the answer about its owner.
const GIVE_UP: Span = Span::mins(3);

pub(super) const MAX_DOUBTS: usize = 200_000;

const MAX_DELETED: usize = 1_000;

const MAX_KINDS: usize = 1_000;

const MAX_UNSERVED: usize = 5_000;

/// How long the answer counts whether a foreign kind exists.
const KIND_KNOWN_FOR: Span = Span::mins(10);

/// The maximum number of objects that the search for a cycle visits.
const MAX_STEPS: usize = 10_000;

/// The maximum number of objects of a cycle that a finding names.
const MAX_NAMED: usize = 10;

// === impl Doubts ===

impl Doubts {
    fn remove(&mut self, slot: Slot) -> Option<Doubt> {
        let doubt = self.children.remove(&slot)?;
        if let Some(due) = doubt.due {
            self.queue.remove(&(due, slot));
        }
        Some(doubt)
    }

    fn set_due(&mut self, slot: Slot, due: Option<Timestamp>) {
        let Some(doubt) = self.children.get_mut(&slot) else { return };
        if let Some(old) = std::mem::replace(&mut doubt.due, due) {
            self.queue.remove(&(old, slot));
        }
        self.queue.extend(due.map(|due| (due, slot)));
    }

    fn next(&self) -> Option<Timestamp> {
        let deleted = self.deleted.iter().map(|child| child.deleted.after(LATE_EVENT)).min();
        self.queue.first().map(|(due, _)| *due).into_iter().chain(deleted).chain(self.unserved_due).min()
    }
    /// Returns the children whose owners are in doubt.
    pub(crate) fn children(&self) -> impl Iterator<Item = Slot> {
        self.children.keys().copied()
    }

    /// Moves all instants to the new setting of the clock.
    pub(crate) fn clock_stepped(&mut self, by_ms: i64) {
        let shift = |at: &mut Timestamp| *at = at.shifted(by_ms);
        for doubt in self.children.values_mut() {
            shift(&mut doubt.since);
            shift(&mut doubt.read_from);
            doubt.due.iter_mut().for_each(shift);
        }
        self.queue = self.queue.iter().map(|(at, slot)| (at.shifted(by_ms), *slot)).collect();
        self.unserved_due.iter_mut().for_each(shift);
        for child in &mut self.deleted {
            shift(&mut child.since);
            shift(&mut child.deleted);
        }
        self.timer.iter_mut().for_each(shift);
    }
}

// === impl Model ===

impl Model {
    /// Judges the references of an object whose owners are new, or have changed in a watch event if `live`. Returns
    /// whether the change has corrected a bad reference.
    pub(crate) fn owners_changed(&mut self, slot: Slot, view: &ObjectView, live: bool) -> bool {
        self.doubts.remove(slot);
        let corrected = self.recheck_cycles() || (self.has_hazards() && self.has_hazard(&self.subject(slot)));
        if view.owners.is_empty() {
            return corrected;
        }
        let writer = view.managers.iter().max_by_key(|m| m.time).map_or("", |m| &m.name);
        if !self.is_solid(slot) {
            let recent = live && self.owners_seen_clearly(slot);
            self.add_doubt(slot, recent, writer);
        }
        self.find_cycle(slot, writer);
        corrected
    }

    /// Judges the references of an object again, because it, one of its owners or a read has changed.
    pub(crate) fn review_links(&mut self, slot: Slot) {
        let Some(record) = self.store.get(slot) else { return };
        if record.owners.is_none() || record.hot.as_ref().is_some_and(|hot| hot.deletion.is_some()) {
            let terminating = record.owners.is_some();
            self.doubts.remove(slot);
            return self.end_hazards_of(slot, &[], terminating);
        }
        let mut bad: Vec<(OwnerHazard, OwnerFacts)> = self.bad_links(slot);
        bad.extend(self.unknown_kinds(slot));
        let still: Vec<FindingCode> = bad.iter().map(|(reason, _)| code(*reason)).collect();
        let writer = self.doubts.children.get(&slot).map_or_else(Box::default, |doubt| doubt.writer.clone());
        for (reason, owner) in bad {
            if reason == OwnerHazard::KindUnknown {
                self.note_unserved(slot);
            }
            let evidence = self.hazard_evidence(reason, &owner, &writer);
            let mut hazard = Hazard::new(reason, self.subject(slot), self.now, evidence);
            hazard.owner = self.owner_object(&owner);
            self.open_hazard(slot, hazard);
        }
        if self.is_solid(slot) {
            self.doubts.remove(slot);
            return self.end_hazards_of(slot, &still, false);
        }
        match self.doubts.children.get(&slot).map(|doubt| (doubt.asked, doubt.due)) {
            Some((true, Some(_))) => self.decide_doubt(slot), // an answer may have arrived
            Some(_) => {}
            None if self.has_unknown_owner(slot) => self.add_doubt(slot, false, ""),
            None => self.end_hazards_of(slot, &still, false),
        }
    }

    /// Handles the removal of a child.
    pub(crate) fn links_removed(&mut self, slot: Slot, gone: bool) {
        let subject = self.subject(slot);
        let doubt = self.doubts.remove(slot);
        if let Some(doubt) = doubt.filter(|doubt| gone && doubt.fresh && doubt.due.is_some())
            && let Some((kind, owner)) = self.first_unknown(slot)
        {
            if self.doubts.deleted.len() < MAX_DELETED {
                let Doubt { since, writer, .. } = doubt;
                let deleted = self.now;
                self.doubts.deleted.push(DeletedChild {
                    kind,
                    subject: subject.clone(),
                    since,
                    deleted,
                    writer,
                    owner,
                });
            } else {
                self.count_dropped("owner_doubts");
            }
        }
        self.set_links_timer();
        match gone {
            true => self.end_hazards(&subject, true, |_| true),
            false => self.forget_hazards(&subject),
        }
    }

    /// Handles the timer of the references in doubt.
    pub(crate) fn links_due(&mut self) {
        self.doubts.timer = None;
        self.review_unserved();
        while let Some((_, slot)) = self.doubts.queue.first().copied().filter(|(due, _)| *due <= self.now) {
            self.doubts.set_due(slot, Some(self.now.after(LOOK_AGAIN)));
            self.decide_doubt(slot);
        }
        for child in std::mem::take(&mut self.doubts.deleted) {
            self.decide_deleted(child);
        }
        self.set_links_timer();
    }

    /// Reviews the children whose owners have unknown kinds, because an installation may have added these.
    fn review_unserved(&mut self) {
        if self.doubts.unserved_due.is_none_or(|due| due > self.now) {
            return;
        }
        self.doubts.unserved_due = None;
        for slot in std::mem::take(&mut self.doubts.unserved) {
            match self.doubts.children.get_mut(&slot) {
                Some(doubt) => {
                    doubt.read_from = self.now;
                    self.doubts.set_due(slot, Some(self.now));
                }
                None => _ = self.reviews.objects.insert(slot),
            }
        }
    }

    fn note_unserved(&mut self, slot: Slot) {
        if self.doubts.unserved.len() >= MAX_UNSERVED {
            return self.count_dropped("owner_doubts");
        }
        self.doubts.unserved.insert(slot);
        self.doubts.unserved_due.get_or_insert(self.now.after(KIND_KNOWN_FOR));
        self.set_links_timer();
    }

    fn set_links_timer(&mut self) {
        let due = self.doubts.next().map(|due| due.max(self.now.after(Span(1))));
        let old = std::mem::replace(&mut self.doubts.timer, due);
        self.timers.set(Timer::Links, old, due);
    }

    fn add_doubt(&mut self, slot: Slot, recent: bool, writer: &str) {
        let Some(record) = self.store.get(slot) else { return };
        if !self.has_unknown_owner(slot) && self.bad_links(slot).is_empty() {
            return;
        }
        if self.doubts.children.len() >= MAX_DOUBTS {
            return self.count_dropped("owner_doubts");
        }
        let created = record.created();
        let owners = record.owners.iter().flatten();
        let departed = owners.filter_map(|owner| self.graph.departed(owner.uid())).max();
        let stale = departed.is_some_and(|at| created.is_none_or(|created| created < at.after(self.stale_cache())));
        let fresh = recent && !stale;
        let due = match fresh {
            true => self.now.after(LATE_EVENT),
            false => departed.unwrap_or(self.now).after(self.settings.owner_missing_after).max(self.now),
        };
        // An earlier process may have decided already, so its finding need not wait.
        let restored = self.restored_hazard(slot);
        let due = if restored.is_some() { self.now.after(LATE_EVENT) } else { due };
        let (since, read_from) = (restored.unwrap_or(self.now), self.now);
        let doubt = Doubt { since, due: None, fresh, asked: false, read_from, writer: writer.into() };
        self.doubts.children.insert(slot, doubt);
        self.doubts.set_due(slot, Some(due));
        self.set_links_timer();
    }

    /// Decides whether the unknown owners of a child exist, if their reads have been answered. Otherwise asks for them.
    fn decide_doubt(&mut self, slot: Slot) {
        let Some(doubt) = self.doubts.children.get(&slot).cloned() else { return };
        if self.is_solid(slot) {
            self.doubts.remove(slot);
            return;
        }
        if let Some(at) = self.owners_hidden_until(slot) {
            return self.doubts.set_due(slot, Some(at));
        }
        let owners: Vec<OwnerFacts> = self.unknown_owners(slot);
        let (mut missing, mut waits) = (None, false);
        for owner in &owners {
            match self.existence(slot, &owner.address, doubt.read_from, Urgency::Doubt) {
                None => waits = true,
                Some(Existence::Failed) => return self.read_owners_again(slot),
                Some(Existence::Unreadable) => return self.doubts.set_due(slot, None),
                Some(Existence::Exists(read)) if read.uid == owner.uid => {
                    self.doubts.set_due(slot, None);
                    let still: Vec<FindingCode> =
                        self.bad_links(slot).iter().map(|(reason, _)| code(*reason)).collect();
                    return self.end_hazards_of(slot, &still, false);
                }
                Some(existence) => missing = missing.or_else(|| Some((reason(&existence), owner.clone(), existence))),
            }
        }
        if waits {
            if let Some(doubt) = self.doubts.children.get_mut(&slot) {
                doubt.asked = true;
            }
            return self.doubts.set_due(slot, Some(self.now.after(ASK_AGAIN)));
        }
        self.doubts.set_due(slot, None);
        let Some((reason, owner, existence)) = missing else { return };
        if reason == OwnerHazard::KindUnknown {
            self.note_unserved(slot);
        }
        let mut evidence = self.hazard_evidence(reason, &owner, &doubt.writer);
        if let Existence::Exists(read) = existence {
            evidence = evidence.text("current_uid", uid_text(read.uid));
        }
        let hazard = Hazard::new(reason, self.subject(slot), doubt.since, evidence);
        self.open_hazard(slot, hazard);
    }

    /// Returns since when an earlier process had found that an owner of a child is missing.
    fn restored_hazard(&self, slot: Slot) -> Option<Timestamp> {
        if !self.open_findings.has_restored() {
            return None;
        }
        let (subject, created) = (self.subject(slot), self.store.get(slot)?.created());
        let codes = [FindingCode::OwnerMissing, FindingCode::OwnerReplaced, FindingCode::OwnerUnresolvable];
        let starts = codes.iter().filter_map(|code| self.open_findings.restored_start(*code, &subject));
        starts.filter(|at| Some(*at) >= created).min()
    }

    /// Reads the owners of a child again, some time after a read has failed.
    fn read_owners_again(&mut self, slot: Slot) {
        let at = self.now.after(TRY_AGAIN);
        if let Some(doubt) = self.doubts.children.get_mut(&slot) {
            (doubt.read_from, doubt.asked) = (at, false);
        }
        self.doubts.set_due(slot, Some(at));
        self.set_links_timer();
    }

    /// Decides whether the owner of a deleted child had existed.
    fn decide_deleted(&mut self, child: DeletedChild) {
        let departed =
            self.graph.departed(child.owner.uid).is_some_and(|at| at.after(self.stale_cache()) >= child.since);
        let known = departed || self.find_uid(child.owner.uid).is_some();
        if known || self.now.since(child.deleted) > GIVE_UP {
            return;
        }
        let existence = self.existence(Slot::MAX, &child.owner.address, child.since, Urgency::Doubt);
        let reason = match &existence {
            Some(Existence::Exists(read)) if read.uid == child.owner.uid => return,
            Some(Existence::Unreadable | Existence::Failed) => return,
            Some(existence) if self.now.since(child.deleted) >= LATE_EVENT => reason(existence),
            _ => return self.doubts.deleted.push(child),
        };
        let evidence = self.hazard_evidence(reason, &child.owner, &child.writer);
        let hazard = Hazard::new(reason, child.subject.clone(), child.since, evidence);
        self.open_past_hazard(child.kind, hazard, child.deleted);
    }

    /// Returns whether the garbage collector keeps the child: one of its owners exists, or may exist as far as loopwatch
    /// judges it.
    fn is_solid(&self, slot: Slot) -> bool {
        let is_cut = self.store.get(slot).is_some_and(|record| record.flags.has(Flag::OwnersCut));
        is_cut || self.owners_of(slot).iter().any(|owner| matches!(self.link(slot, owner), Link::Solid | Link::Foreign))
    }

    fn has_unknown_owner(&self, slot: Slot) -> bool {
        self.owners_of(slot).iter().any(|owner| self.link(slot, owner) == Link::Unknown)
    }

    /// Returns the references that are bad whatever a read shows.
    fn bad_links(&self, slot: Slot) -> Vec<(OwnerHazard, OwnerFacts)> {
        let bad = |owner: &Owner| match self.link(slot, owner) {
            Link::Bad(reason) => Some((reason, self.owner_facts(slot, owner))),
            Link::Solid | Link::Unknown | Link::Foreign => None,
        };
        self.owners_of(slot).iter().filter_map(bad).collect()
    }

    /// Returns the references to owners of foreign kinds that the API server does not serve. The garbage collector cannot
    /// resolve these, even beside an owner that exists. loopwatch reads one owner of each foreign kind to find out.
    fn unknown_kinds(&mut self, slot: Slot) -> Vec<(OwnerHazard, OwnerFacts)> {
        let is_foreign = |owner: &&Owner| owner.uid() != NO_UID && self.link(slot, owner) == Link::Foreign;
        let is_named = |owner: &OwnerFacts| {
            let ObjectAddress { group, kind, name, .. } = &owner.address;
            !group.is_empty() && !kind.is_empty() && !name.is_empty() // the core group is always there
        };
        let foreign = self.owners_of(slot).iter().filter(is_foreign).map(|owner| self.owner_facts(slot, owner));
        let foreign = foreign.filter(is_named);
        let mut unknown = Vec::new();
        for owner in foreign.collect::<Vec<_>>() {
            let kind = format!("{}/{}", owner.address.group, owner.address.kind);
            if !self.doubts.foreign.contains_key(&kind) && self.doubts.foreign.len() >= MAX_KINDS {
                self.count_dropped("owner_doubts");
                continue;
            }
            let asked = self.doubts.foreign.entry(kind).or_insert_with(|| owner.address.clone()).clone();
            let recent = self.now.shifted(-KIND_KNOWN_FOR.0);
            let is_unknown = match self.existence(slot, &asked, recent, Urgency::Doubt) {
                Some(existence) => existence == Existence::KindUnknown,
                None => self.is_unresolvable(&self.subject(slot)), // still, until the answer arrives
            };
            if is_unknown {
                unknown.push((OwnerHazard::KindUnknown, owner));
            }
        }
        unknown
    }

    fn unknown_owners(&self, slot: Slot) -> Vec<OwnerFacts> {
        let unknown = self.owners_of(slot).iter().filter(|owner| self.link(slot, owner) == Link::Unknown);
        unknown.map(|owner| self.owner_facts(slot, owner)).collect()
    }

    fn first_unknown(&self, slot: Slot) -> Option<(u16, OwnerFacts)> {
        let kind = self.watches[self.store.get(slot)?.watch as usize].kind;
        Some((kind, self.unknown_owners(slot).into_iter().next()?))
    }

    fn link(&self, slot: Slot, owner: &Owner) -> Link {
        let Some(child) = self.store.get(slot) else { return Link::Foreign };
        let (group, kind) = self.owner_kind(owner);
        if kind.is_empty() || self.owner_name(owner).is_empty() {
            return Link::Foreign;
        }
        let known = self.find_uid(owner.uid()).and_then(|owner| self.store.get(owner));
        let Some(known) = known else {
            return if owner.uid() != NO_UID && self.is_of_operator(group, kind) {
                Link::Unknown
            } else {
                Link::Foreign
            };
        };
        let actual = self.kind_of(known.watch);
        if (*actual.group == *group && *actual.kind != *kind) || self.owner_name(owner) != &*known.name {
            Link::Bad(OwnerHazard::Mismatch)
        } else if known.namespace.is_empty() || known.namespace == child.namespace {
            Link::Solid
        } else if child.namespace.is_empty() {
            Link::Bad(OwnerHazard::NamespacedOwner)
        } else {
            Link::Bad(OwnerHazard::CrossNamespace)
        }
    }

    /// Returns whether the kind of an owner is one of the operator's: a watched kind, or another one of the group of a
    /// primary kind.
    fn is_of_operator(&self, group: &str, kind: &str) -> bool {
        let is_primary = |role: Role| role == Role::Primary;
        self.kinds.iter().any(|k| *k.group == *group && (*k.kind == *kind || (is_primary(k.role) && !group.is_empty())))
    }

    /// Returns the watches that would show the unknown owners of a child.
    fn owner_watches(&self, slot: Slot) -> impl Iterator<Item = &super::kinds::Watch> {
        let namespace = self.store.get(slot).map(|record| record.namespace.clone()).unwrap_or_default();
        let kinds: Vec<(&str, &str)> = self.owners_of(slot).iter().map(|owner| self.owner_kind(owner)).collect();
        self.watches.iter().filter(move |watch| {
            let kind = &self.kinds[watch.kind as usize];
            let covers = match &watch.scope {
                Scope::Namespace(within) => **within == *namespace,
                Scope::Cluster | Scope::AllNamespaces => true,
            };
            watch.active && watch.missing.is_empty() && covers && kinds.contains(&(&*kind.group, &*kind.kind))
        })
    }

    /// Returns whether the watches of the owners have been able to see for long enough to tell a new problem from an old
    /// one.
    fn owners_seen_clearly(&self, slot: Slot) -> bool {
        let settled = Span(self.settings.owner_missing_after.0 / SETTLED_PART);
        self.owner_watches(slot)
            .all(|watch| watch.sight(self.now) == Sight::Clear && self.now.since(watch.regained) >= settled)
    }

    const fn stale_cache(&self) -> Span {
        Span(self.settings.owner_missing_after.0 / STALE_CACHE_PART)
    }

    /// Returns when to look again if a watch of the owners cannot see now.
    fn owners_hidden_until(&self, slot: Slot) -> Option<Timestamp> {
        let hidden = |watch: &super::kinds::Watch| match watch.sight(self.now) {
            Sight::Clear => None,
            Sight::Grace(until) => Some(until),
            Sight::Lost => Some(self.now.after(LOOK_AGAIN)),
        };
        self.owner_watches(slot).filter_map(hidden).max()
    }

    fn owner_facts(&self, slot: Slot, owner: &Owner) -> OwnerFacts {
        let (group, kind) = self.owner_kind(owner);
        let address = ObjectAddress {
            group: group.to_owned(),
            kind: kind.to_owned(),
            namespace: self.store.get(slot).map(|record| record.namespace.to_string()).unwrap_or_default(),
            name: self.owner_name(owner).to_owned(),
        };
        OwnerFacts { uid: owner.uid(), address }
    }

    /// Returns the owner as the model knows it, in whichever namespace.
    fn owner_object(&self, owner: &OwnerFacts) -> ObjectName {
        let ObjectAddress { group, kind, name, .. } = owner.address.clone();
        let known = self.find_uid(owner.uid).and_then(|slot| self.store.get(slot));
        let namespace = known.map_or_else(String::new, |record| record.namespace.to_string());
        ObjectName { group, kind, namespace, name }
    }

    fn hazard_evidence(&self, reason: OwnerHazard, owner: &OwnerFacts, writer: &str) -> Evidence {
        let OwnerFacts { uid, address } = owner;
        let group = if reason == OwnerHazard::KindUnknown { format!(".{}", address.group) } else { String::new() };
        let evidence = Evidence::new()
            .text("owner", format!("{}{}/{}", address.kind, group.trim_end_matches('.'), address.name))
            .text("owner_uid", uid_text(*uid))
            .text("writer", writer.to_owned());
        match (reason, self.find_uid(*uid).and_then(|slot| self.store.get(slot))) {
            (OwnerHazard::CrossNamespace, Some(known)) => evidence.text("owner_namespace", known.namespace.to_string()),
            (OwnerHazard::KindUnknown | OwnerHazard::Mismatch | OwnerHazard::NamespacedOwner, _) => {
                evidence.text("reason", reason.as_str())
            }
            _ => evidence,
        }
    }

    /// Ends the hazards of a child except those of the codes in `still`, and except a cycle.
    fn end_hazards_of(&mut self, slot: Slot, still: &[FindingCode], collected: bool) {
        if self.has_hazards() {
            let ends = |code| code != FindingCode::OwnerCycle && !still.contains(&code);
            self.end_hazards(&self.subject(slot), collected, ends);
        }
    }
}

// === impl Model: cycles ===

impl Model {
    /// Opens a finding if the owners of an object form a cycle that contains it. Its subject is the first object of the
    /// cycle in the order of kinds, namespaces and names, so that each cycle has one finding.
    fn find_cycle(&mut self, slot: Slot, writer: &str) {
        let Some(cycle) = self.cycle_of(slot) else { return };
        let Some(first) = cycle.iter().copied().min_by_key(|slot| self.subject(*slot)) else { return };
        let name = |slot: &Slot| {
            let record = self.store.get(*slot)?;
            Some(format!("{}/{}", self.kind_of(record.watch).kind, record.name))
        };
        let evidence = Evidence::new()
            .with("cycle", Value::Names(cycle.iter().take(MAX_NAMED).filter_map(name).collect()))
            .with("length", Value::Count(i64::try_from(cycle.len()).unwrap_or(i64::MAX)))
            .text("writer", writer.to_owned());
        let hazard = Hazard::new(OwnerHazard::Cycle, self.subject(first), self.now, evidence);
        self.open_hazard(first, hazard);
    }

    /// Ends the findings about cycles that are broken. Returns whether there were any.
    fn recheck_cycles(&mut self) -> bool {
        let mut any = false;
        for (slot, subject) in self.open_cycles() {
            if self.subject(slot) != subject || self.cycle_of(slot).is_none() {
                self.end_hazards(&subject, false, |code| code == FindingCode::OwnerCycle);
                any = true;
            }
        }
        any
    }

    /// Returns the shortest way from an object over its owners back to itself, if there is one.
    fn cycle_of(&self, slot: Slot) -> Option<Vec<Slot>> {
        let mut came_from: BTreeMap<Slot, Slot> = BTreeMap::new();
        let mut front = std::collections::VecDeque::from([slot]);
        while let Some(at) = front.pop_front() {
            for owner in self.owners_of(at).iter().filter(|owner| owner.uid() != NO_UID) {
                let Some(next) = self.find_uid(owner.uid()) else { continue };
                if next == slot {
                    let mut cycle = vec![at];
                    while let Some(before) =
                        cycle.last().filter(|last| **last != slot).and_then(|last| came_from.get(last))
                    {
                        cycle.push(*before);
                    }
                    cycle.reverse();
                    return Some(cycle);
                }
                if came_from.len() < MAX_STEPS && !came_from.contains_key(&next) {
                    came_from.insert(next, at);
                    front.push_back(next);
                }
            }
        }
        None
    }
}

/// Returns why an owner is missing.
const fn reason(existence: &Existence) -> OwnerHazard {
    match existence {
        Existence::Exists(_) => OwnerHazard::Replaced,
        Existence::KindUnknown => OwnerHazard::KindUnknown,
        Existence::Absent | Existence::Unreadable | Existence::Failed | Existence::Dependents(_) => {
            OwnerHazard::Missing
        }
    }
}
