//! Bad owners: owner references on which the garbage collector acts or which it cannot follow. They
//! are kept for long enough that people see them.
//!
//! The garbage collector deletes a child within seconds if none of its owners exists, so such a
//! reference is more of an event than a state. Its finding stays open for `hazard_kept_for`, even
//! after the child is gone, and shows when that happened.

use std::collections::BTreeMap;

use crate::finding::{Evidence, FindingCode, FindingId, Subject, Value};
use crate::model::findings::detection::Detection;
use crate::model::findings::open_findings::OpenFindings;
use crate::model::findings::tuning;
use crate::model::ownership::Ownership;
use crate::model::world::World;
use crate::model::world::crowd::{self, Crowd};
use crate::model::world::limits::{Limit, MAX_BAD_OWNERS};
use crate::model::world::store::Slot;
use crate::reference::{ObjectName, ReferenceChange, ReferenceForm};
use crate::snapshot::OwnerHazard;
use crate::time::{Span, Timestamp};

/// The bad owners that have a finding, by its ID.
#[derive(Debug, Default)]
pub(crate) struct BadOwners {
    /// At most [`MAX_BAD_OWNERS`].
    open: BTreeMap<FindingId, BadOwner>,
    by_namespace: Crowd<Box<str>, FindingId>,
    /// When the first finding may close.
    pub(super) due: Option<Timestamp>,
}

/// One bad owner reference of one child.
#[derive(Clone, Debug)]
pub(crate) struct BadOwner {
    pub(crate) reason: OwnerHazard,
    /// The child, until it is gone.
    slot: Slot,
    pub(crate) subject: Subject,
    pub(crate) since: Timestamp,
    /// The evidence, except for the parts that change.
    pub(crate) evidence: Evidence,
    pub(crate) suspected: bool,
    /// The owner, if it exists in another namespace.
    pub(crate) owner: ObjectName,
    /// How many times the child has had such a reference.
    times: i64,
    /// When the child was deleted, or the reference corrected.
    ended: Option<Timestamp>,
    collected: bool,
}

/// The codes of findings about bad owners.
const CODES: [FindingCode; 5] = [
    FindingCode::OwnerMissing,
    FindingCode::OwnerReplaced,
    FindingCode::OwnerUnresolvable,
    FindingCode::CrossNamespaceOwner,
    FindingCode::OwnerCycle,
];

impl BadOwner {
    /// Returns when its finding closes, if it has ended. A child that the garbage collector deletes
    /// may come again at once, so the time counts from its end.
    fn closes_at(&self, kept_for: Span) -> Option<Timestamp> {
        let ended = self.ended?;
        let begin = if self.collected { ended } else { self.since };
        Some(begin.after(kept_for).max(ended))
    }

    pub(crate) fn new(
        reason: OwnerHazard,
        subject: Subject,
        since: Timestamp,
        evidence: Evidence,
    ) -> Self {
        Self {
            reason,
            slot: Slot::MAX,
            subject,
            since,
            evidence,
            suspected: false,
            owner: ObjectName::default(),
            times: 1,
            ended: None,
            collected: false,
        }
    }

    /// Returns the namespace of the child.
    fn namespace(&self) -> Box<str> {
        self.subject.namespace().into()
    }

    fn id(&self) -> FindingId {
        FindingId::of(code(self.reason), &self.subject)
    }

    fn detection(&self, now: Timestamp) -> Detection {
        let evidence = || {
            let evidence = self.evidence.clone();
            let collected = self.ended.filter(|_| self.collected).map(|at| at.since(self.since));
            let evidence = evidence.with_some("collected_after", collected.map(Value::Elapsed));
            if self.times > 1 { evidence.with("times", Value::Count(self.times)) } else { evidence }
        };
        Detection::new(now, code(self.reason), self.since, now, evidence)
            .suspected_if(self.suspected)
    }
}

/// Returns the finding that reports a bad owner.
pub(crate) const fn code(reason: OwnerHazard) -> FindingCode {
    match reason {
        OwnerHazard::Missing | OwnerHazard::Mismatch => FindingCode::OwnerMissing,
        OwnerHazard::Replaced => FindingCode::OwnerReplaced,
        OwnerHazard::CrossNamespace => FindingCode::CrossNamespaceOwner,
        OwnerHazard::Cycle => FindingCode::OwnerCycle,
        OwnerHazard::KindUnknown | OwnerHazard::VersionUnserved | OwnerHazard::NamespacedOwner => {
            FindingCode::OwnerUnresolvable
        }
    }
}

impl BadOwners {
    /// Moves the instants of all bad owners to the new setting of the clock.
    pub(crate) fn clock_stepped(&mut self, by_ms: i64) {
        self.due = self.due.map(|at| at.shifted(by_ms));
        for bad_owner in self.open.values_mut() {
            bad_owner.since = bad_owner.since.shifted(by_ms);
            bad_owner.ended = bad_owner.ended.map(|at| at.shifted(by_ms));
        }
    }

    fn insert(&mut self, id: FindingId, bad_owner: BadOwner) {
        self.by_namespace.insert(&bad_owner.namespace(), id, 1);
        self.open.insert(id, bad_owner);
    }

    fn remove(&mut self, id: FindingId) -> Option<BadOwner> {
        let bad_owner = self.open.remove(&id)?;
        self.by_namespace.remove(&bad_owner.namespace(), &id);
        Some(bad_owner)
    }

    fn next(&self, kept_for: Span) -> Option<Timestamp> {
        self.open.values().filter_map(|bad_owner| bad_owner.closes_at(kept_for)).min()
    }
}

impl Ownership {
    /// Opens the finding about a bad owner, or reports it again.
    pub(crate) fn open_bad_owner(
        &mut self,
        world: &mut World,
        findings: &mut OpenFindings,
        slot: Slot,
        mut bad_owner: BadOwner,
    ) {
        let id = bad_owner.id();
        bad_owner.slot = slot;

        let is_news = self.bad.open.get(&id).is_none_or(|known| known.ended.is_some());
        if let Some(known) = self.bad.open.get_mut(&id) {
            let repeated = known.ended.take().is_some();
            if repeated {
                known.times = known.times.saturating_add(1);
                known.collected = false;
            }

            known.slot = slot;
            known.evidence = bad_owner.evidence;
            known.reason = bad_owner.reason;

            if repeated {
                count_bad_owner(world, slot, bad_owner.reason);
            }
        } else {
            count_bad_owner(world, slot, bad_owner.reason);
            if !self.make_room_for(world, findings, &bad_owner) {
                return;
            }

            self.bad.insert(id, bad_owner);
        }

        if is_news {
            self.announce_owner(world, slot, id, ReferenceChange::Appeared);
        }

        self.report_bad_owner(world, findings, id, Some(slot));
        self.set_bad_owners_due(world);
    }

    /// Ends those bad owners of a child whose codes `ends` selects, because its references were
    /// corrected or, if `collected`, the child is gone.
    pub(crate) fn end_bad_owners(
        &mut self,
        world: &mut World,
        findings: &mut OpenFindings,
        subject: &Subject,
        collected: bool,
        ends: impl Fn(FindingCode) -> bool,
    ) {
        if self.bad.open.is_empty() {
            return;
        }

        for code in CODES.iter().filter(|code| ends(**code)) {
            let id = FindingId::of(*code, subject);
            let Some(bad_owner) =
                self.bad.open.get_mut(&id).filter(|bad_owner| bad_owner.ended.is_none())
            else {
                continue;
            };

            bad_owner.ended = Some(world.now);
            bad_owner.collected = collected;

            let slot = bad_owner.slot;
            self.announce_owner(world, slot, id, ReferenceChange::Disappeared);
            self.report_bad_owner(world, findings, id, None);
        }

        self.set_bad_owners_due(world);
    }

    /// Closes the findings about bad owners that ended some time ago.
    pub(crate) fn bad_owners_due(&mut self, world: &World, findings: &mut OpenFindings) {
        let (now, kept_for) = (world.now, world.settings.hazard_kept_for);
        let is_over =
            |bad_owner: &BadOwner| bad_owner.closes_at(kept_for).is_some_and(|at| at <= now);
        let over: Vec<FindingId> =
            self.bad.open.iter().filter(|(_, h)| is_over(h)).map(|(id, _)| *id).collect();

        for id in over {
            self.forget_bad_owner(now, findings, id);
        }

        self.set_bad_owners_due(world);
    }

    /// Makes room for a bad owner: those of the namespace with most of them are forgotten. Returns
    /// whether there is room.
    fn make_room_for(
        &mut self,
        world: &mut World,
        findings: &mut OpenFindings,
        bad_owner: &BadOwner,
    ) -> bool {
        let namespace = bad_owner.namespace();
        let has_room = |known: &Self| known.bad.open.len() < MAX_BAD_OWNERS;
        let leaves = |known: &Self| known.bad.by_namespace.leaves_for(&namespace, 1).copied();
        let forget = |known: &mut Self, world: &mut World, other| {
            known.forget_bad_owner(world.now, findings, other);
        };

        crowd::make_room(self, world, Limit::BadOwners, has_room, leaves, forget)
    }

    fn forget_bad_owner(&mut self, now: Timestamp, findings: &mut OpenFindings, id: FindingId) {
        if let Some(bad_owner) = self.bad.remove(id) {
            findings.clear(now, code(bad_owner.reason), &bad_owner.subject);
        }
    }

    /// Opens the finding about a bad owner of a child that was deleted at `deleted`.
    pub(crate) fn open_past_bad_owner(
        &mut self,
        world: &mut World,
        findings: &mut OpenFindings,
        kind: u16,
        bad_owner: BadOwner,
        deleted: Timestamp,
    ) {
        world.kinds[kind as usize].totals.hazards[bad_owner.reason as usize] += 1;
        let id = bad_owner.id();
        if !self.bad.open.contains_key(&id) && !self.make_room_for(world, findings, &bad_owner) {
            return;
        }

        let times = self.bad.open.get(&id).map_or(1, |known| known.times.saturating_add(1));
        let since = self.bad.open.get(&id).map_or(bad_owner.since, |known| known.since);
        let bad_owner =
            BadOwner { ended: Some(deleted), collected: true, times, since, ..bad_owner };
        let (subject, detection) = (bad_owner.subject.clone(), bad_owner.detection(world.now));

        self.bad.insert(id, bad_owner);
        findings.report(world, subject, detection);
        self.set_bad_owners_due(world);
    }

    /// Forgets the bad owners of a child that is no longer visible.
    pub(crate) fn forget_bad_owners(
        &mut self,
        world: &World,
        findings: &mut OpenFindings,
        subject: &Subject,
    ) {
        if self.bad.open.is_empty() {
            return;
        }

        for code in CODES {
            self.forget_bad_owner(world.now, findings, FindingId::of(code, subject));
        }

        self.set_bad_owners_due(world);
    }

    /// Returns whether a bad owner of the child is open and has not ended.
    pub(crate) fn has_bad_owner(&self, subject: &Subject) -> bool {
        let current = |code: &FindingCode| self.bad.open.get(&FindingId::of(*code, subject));
        CODES.iter().filter_map(current).any(|bad_owner| bad_owner.ended.is_none())
    }

    /// Returns whether the child has an owner that cannot be resolved now.
    pub(crate) fn is_unresolvable(&self, subject: &Subject) -> bool {
        let bad_owner = self.bad.open.get(&FindingId::of(FindingCode::OwnerUnresolvable, subject));
        bad_owner.is_some_and(|bad_owner| bad_owner.ended.is_none())
    }

    /// Returns the children with bad references now.
    pub(crate) fn current_bad_owners(&self) -> impl Iterator<Item = (Slot, OwnerHazard)> {
        self.bad
            .open
            .values()
            .filter(|bad_owner| bad_owner.ended.is_none())
            .map(|bad_owner| (bad_owner.slot, bad_owner.reason))
    }

    /// Returns whether any bad owner is open.
    pub(crate) fn has_bad_owners(&self) -> bool {
        !self.bad.open.is_empty()
    }

    /// Returns the objects with cycles that have not ended.
    pub(crate) fn open_cycles(&self) -> Vec<(Slot, Subject)> {
        let is_cycle = |bad_owner: &&BadOwner| {
            bad_owner.reason == OwnerHazard::Cycle && bad_owner.ended.is_none()
        };
        self.bad
            .open
            .values()
            .filter(is_cycle)
            .map(|bad_owner| (bad_owner.slot, bad_owner.subject.clone()))
            .collect()
    }

    fn report_bad_owner(
        &self,
        world: &mut World,
        findings: &mut OpenFindings,
        id: FindingId,
        slot: Option<Slot>,
    ) {
        let Some(bad_owner) = self.bad.open.get(&id) else { return };
        let (subject, detection) = (bad_owner.subject.clone(), bad_owner.detection(world.now));
        if slot.is_some_and(|slot| tuning::is_silenced(world, slot, detection.code, &subject)) {
            return findings.clear(world.now, detection.code, &subject);
        }

        if slot.is_some() || findings.is_open(detection.code, &subject) {
            findings.report(world, subject, detection);
        }
    }

    /// Announces that an owner reference to another namespace appeared or disappeared.
    fn announce_owner(
        &self,
        world: &mut World,
        slot: Slot,
        id: FindingId,
        change: ReferenceChange,
    ) {
        let Some(bad_owner) =
            self.bad.open.get(&id).filter(|h| h.reason == OwnerHazard::CrossNamespace)
        else {
            return;
        };
        let Some(record) = world.store.get(slot) else { return };
        let (target, version) = (bad_owner.owner.clone(), record.version);
        let path = "metadata.ownerReferences[]".to_owned();

        world.push_reference_event(
            slot,
            version,
            (ReferenceForm::CrossNamespaceOwner, change),
            path,
            target,
        );
    }
}

fn count_bad_owner(world: &mut World, slot: Slot, reason: OwnerHazard) {
    let Some(record) = world.store.get(slot) else { return };
    let kind = world.watches[record.watch as usize].kind;
    world.kinds[kind as usize].totals.hazards[reason as usize] += 1;
}

impl Ownership {
    fn set_bad_owners_due(&mut self, world: &World) {
        let next = self.bad.next(world.settings.hazard_kept_for);
        self.bad.due = next.map(|due| due.max(world.now.after(Span(1))));
    }
}
