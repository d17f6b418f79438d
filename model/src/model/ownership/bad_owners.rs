//! Owner references that the garbage collector acts on or cannot follow, kept for long enough to be
//! seen.
//!
//! The garbage collector deletes a child within seconds if none of its owners exists, so such a
//! reference is mostly an event and not a state. Its finding stays open for `hazard_kept_for`, also
//! after the child is gone, and says when that happened.

use std::collections::BTreeMap;

use crate::finding::{Evidence, FindingCode, FindingId, Subject, Value};
use crate::model::findings::detection::Detection;
use crate::model::findings::open_findings::OpenFindings;
use crate::model::findings::tuning;
use crate::model::ownership::Ownership;
use crate::model::world::World;
use crate::model::world::limits::{Limit, MAX_BAD_OWNERS};
use crate::model::world::store::Slot;
use crate::reference::{ObjectName, ReferenceChange, ReferenceForm};
use crate::snapshot::OwnerHazard;
use crate::time::{Span, Timestamp};

/// The hazards that have a finding, by its ID.
#[derive(Debug, Default)]
pub(crate) struct BadOwners {
    open: BTreeMap<FindingId, Hazard>,
    /// When the timer is due that ends the first hazard.
    pub(super) due: Option<Timestamp>,
}

/// One bad owner reference of one child.
#[derive(Clone, Debug)]
pub(crate) struct Hazard {
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
    /// How often the child has appeared with such a reference.
    times: i64,
    /// When the child was deleted, or the reference corrected.
    ended: Option<Timestamp>,
    collected: bool,
}

/// The codes of hazards.
const CODES: [FindingCode; 5] = [
    FindingCode::OwnerMissing,
    FindingCode::OwnerReplaced,
    FindingCode::OwnerUnresolvable,
    FindingCode::CrossNamespaceOwner,
    FindingCode::OwnerCycle,
];

impl Hazard {
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

    fn id(&self) -> FindingId {
        FindingId::of(code(self.reason), &self.subject)
    }

    fn detection(&self, now: Timestamp) -> Detection {
        let evidence = || {
            let evidence = self.evidence.clone();
            let collected = self.ended.filter(|_| self.collected).map(|at| at.since(self.since));
            let evidence = evidence.with_some("collected_after", collected.map(Value::Span));
            if self.times > 1 { evidence.with("times", Value::Count(self.times)) } else { evidence }
        };
        Detection::new(now, code(self.reason), self.since, now, evidence)
            .suspected_if(self.suspected)
    }
}

/// Returns the finding that reports a hazard.
pub(crate) const fn code(reason: OwnerHazard) -> FindingCode {
    match reason {
        OwnerHazard::Missing | OwnerHazard::Mismatch => FindingCode::OwnerMissing,
        OwnerHazard::Replaced => FindingCode::OwnerReplaced,
        OwnerHazard::CrossNamespace => FindingCode::CrossNamespaceOwner,
        OwnerHazard::Cycle => FindingCode::OwnerCycle,
        OwnerHazard::KindUnknown | OwnerHazard::NamespacedOwner => FindingCode::OwnerUnresolvable,
    }
}

impl BadOwners {
    /// Moves the instants of all hazards to the new setting of the clock.
    pub(crate) fn clock_stepped(&mut self, by_ms: i64) {
        self.due = self.due.map(|at| at.shifted(by_ms));
        for hazard in self.open.values_mut() {
            hazard.since = hazard.since.shifted(by_ms);
            hazard.ended = hazard.ended.map(|at| at.shifted(by_ms));
        }
    }

    fn next(&self, kept_for: Span) -> Option<Timestamp> {
        self.open
            .values()
            .filter_map(|hazard| Some(hazard.since.after(kept_for).max(hazard.ended?)))
            .min()
    }
}

impl Ownership {
    /// Opens the finding about a hazard, or reports it again.
    pub(crate) fn open_hazard(
        &mut self,
        world: &mut World,
        findings: &mut OpenFindings,
        slot: Slot,
        mut hazard: Hazard,
    ) {
        let id = hazard.id();
        hazard.slot = slot;

        let is_news = self.bad.open.get(&id).is_none_or(|known| known.ended.is_some());
        if let Some(known) = self.bad.open.get_mut(&id) {
            let repeated = known.ended.take().is_some();
            if repeated {
                known.times = known.times.saturating_add(1);
                known.collected = false;
            }

            known.slot = slot;
            known.evidence = hazard.evidence;
            known.reason = hazard.reason;

            if repeated {
                count_hazard(world, slot, hazard.reason);
            }
        } else if self.bad.open.len() >= MAX_BAD_OWNERS {
            count_hazard(world, slot, hazard.reason);
            return world.count_dropped(Limit::BadOwners);
        } else {
            count_hazard(world, slot, hazard.reason);
            self.bad.open.insert(id, hazard);
        }

        if is_news {
            self.announce_owner(world, slot, id, ReferenceChange::Appeared);
        }

        self.report_hazard(world, findings, id, Some(slot));
        self.set_hazards_timer(world);
    }

    /// Ends the hazards of a child whose codes `ends` selects: its references have been corrected,
    /// or it is gone if `collected`.
    pub(crate) fn end_hazards(
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
            let Some(hazard) = self.bad.open.get_mut(&id).filter(|hazard| hazard.ended.is_none())
            else {
                continue;
            };

            hazard.ended = Some(world.now);
            hazard.collected = collected;

            let slot = hazard.slot;
            self.announce_owner(world, slot, id, ReferenceChange::Disappeared);
            self.report_hazard(world, findings, id, None);
        }

        self.set_hazards_timer(world);
    }

    /// Closes the findings about hazards that ended some time ago.
    pub(crate) fn hazards_due(&mut self, world: &mut World, findings: &mut OpenFindings) {
        let (now, kept_for) = (world.now, world.settings.hazard_kept_for);
        let is_over =
            |hazard: &Hazard| hazard.ended.is_some() && hazard.since.after(kept_for) <= now;
        let over: Vec<FindingId> =
            self.bad.open.iter().filter(|(_, h)| is_over(h)).map(|(id, _)| *id).collect();

        for id in over {
            if let Some(hazard) = self.bad.open.remove(&id) {
                findings.clear(now, code(hazard.reason), &hazard.subject);
            }
        }

        self.set_hazards_timer(world);
    }

    /// Opens the finding about a hazard of a child that was deleted at `deleted`.
    pub(crate) fn open_past_hazard(
        &mut self,
        world: &mut World,
        findings: &mut OpenFindings,
        kind: u16,
        hazard: Hazard,
        deleted: Timestamp,
    ) {
        world.kinds[kind as usize].totals.hazards[hazard.reason as usize] += 1;
        if self.bad.open.len() >= MAX_BAD_OWNERS {
            return world.count_dropped(Limit::BadOwners);
        }

        let id = hazard.id();
        let times = self.bad.open.get(&id).map_or(1, |known| known.times.saturating_add(1));
        let since = self.bad.open.get(&id).map_or(hazard.since, |known| known.since);
        let hazard = Hazard { ended: Some(deleted), collected: true, times, since, ..hazard };
        let (subject, detection) = (hazard.subject.clone(), hazard.detection(world.now));

        self.bad.open.insert(id, hazard);
        findings.report(world, subject, detection);
        self.set_hazards_timer(world);
    }

    /// Forgets the hazards of a child that loopwatch has lost sight of.
    pub(crate) fn forget_hazards(
        &mut self,
        world: &mut World,
        findings: &mut OpenFindings,
        subject: &Subject,
    ) {
        if self.bad.open.is_empty() {
            return;
        }

        for code in CODES {
            if self.bad.open.remove(&FindingId::of(code, subject)).is_some() {
                findings.clear(world.now, code, subject);
            }
        }

        self.set_hazards_timer(world);
    }

    /// Returns whether a hazard of the child is open and has not ended.
    pub(crate) fn has_hazard(&self, subject: &Subject) -> bool {
        let current = |code: &FindingCode| self.bad.open.get(&FindingId::of(*code, subject));
        CODES.iter().filter_map(current).any(|hazard| hazard.ended.is_none())
    }

    /// Returns whether the child has an owner that cannot be resolved now.
    pub(crate) fn is_unresolvable(&self, subject: &Subject) -> bool {
        let hazard = self.bad.open.get(&FindingId::of(FindingCode::OwnerUnresolvable, subject));
        hazard.is_some_and(|hazard| hazard.ended.is_none())
    }

    /// Returns the children with bad references now.
    pub(crate) fn current_hazards(&self) -> impl Iterator<Item = (Slot, OwnerHazard)> {
        self.bad
            .open
            .values()
            .filter(|hazard| hazard.ended.is_none())
            .map(|hazard| (hazard.slot, hazard.reason))
    }

    /// Returns whether any hazard is open.
    pub(crate) fn has_hazards(&self) -> bool {
        !self.bad.open.is_empty()
    }

    /// Returns the objects with cycles that have not ended.
    pub(crate) fn open_cycles(&self) -> Vec<(Slot, Subject)> {
        let is_cycle =
            |hazard: &&Hazard| hazard.reason == OwnerHazard::Cycle && hazard.ended.is_none();
        self.bad
            .open
            .values()
            .filter(is_cycle)
            .map(|hazard| (hazard.slot, hazard.subject.clone()))
            .collect()
    }

    fn report_hazard(
        &mut self,
        world: &mut World,
        findings: &mut OpenFindings,
        id: FindingId,
        slot: Option<Slot>,
    ) {
        let Some(hazard) = self.bad.open.get(&id) else { return };
        let (subject, detection) = (hazard.subject.clone(), hazard.detection(world.now));
        if slot.is_some_and(|slot| tuning::is_silenced(world, slot, detection.code, &subject)) {
            return findings.clear(world.now, detection.code, &subject);
        }

        if slot.is_some() || findings.is_open(detection.code, &subject) {
            findings.report(world, subject, detection);
        }
    }

    /// Announces that an owner reference to another namespace appeared or disappeared.
    fn announce_owner(
        &mut self,
        world: &mut World,
        slot: Slot,
        id: FindingId,
        change: ReferenceChange,
    ) {
        let Some(hazard) =
            self.bad.open.get(&id).filter(|h| h.reason == OwnerHazard::CrossNamespace)
        else {
            return;
        };
        let Some(record) = world.store.get(slot) else { return };
        let (target, version) = (hazard.owner.clone(), record.version);
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

fn count_hazard(world: &mut World, slot: Slot, reason: OwnerHazard) {
    let Some(record) = world.store.get(slot) else { return };
    let kind = world.watches[record.watch as usize].kind;
    world.kinds[kind as usize].totals.hazards[reason as usize] += 1;
}

impl Ownership {
    fn set_hazards_timer(&mut self, world: &mut World) {
        let next = self.bad.next(world.settings.hazard_kept_for);
        self.bad.due = next.map(|due| due.max(world.now.after(Span(1))));
    }
}
