//! The rule for an object that says Ready although a workload that it owns has no Pod that works.
//!
//! The operator does not look at the workload, or does not look again. Anybody who trusts the status,
//! a person or a pipeline, takes the object for healthy.
//!
//! A workload that some of its users may tolerate makes the finding only suspected: one that never had
//! a working Pod while another one of the object has, such as an optional exporter or the preview of a
//! new version, and an older version beside a newer one.

use crate::finding::{Evidence, FindingCode, Value};
use crate::model::convergence::broken_workloads::{Broken, BrokenWorkloads};
use crate::model::findings::detection::Detection;
use crate::model::part::{Part, StepContext, Version};
use crate::model::status::reading::{self, Reason, Verdict};
use crate::model::world::World;
use crate::model::world::store::{Record, Slot};
use crate::model::world::visibility::Visibility;
use crate::observation::Role;
use crate::time::{Span, Timestamp};

/// One broken workload, as a problem of its owner.
struct Problem<'a> {
    broken: &'a Broken,
    /// When it becomes a finding.
    due: Timestamp,
    is_certain: bool,
    /// The workload and what its status says.
    text: String,
}

/// The maximum number of workloads that a finding names.
const MAX_NAMED: usize = 3;

/// The maximum number of children that are compared with a broken one.
const MAX_SEARCHED: usize = 1_000;

/// The multiple of the deadline for which the rollouts of a workload that is broken may go on.
const MAX_ROLLOUTS: i64 = 3;

/// Workloads of one kind whose ages differ by more than this are versions, and not parts, of an object.
const VERSIONS_APART: Span = Span::mins(10);

/// How long the rule waits for the watch of a workload before it looks again.
const LOOK_AGAIN_AFTER: Span = Span::mins(1);

const CODE: FindingCode = FindingCode::ReadyButBroken;

impl Part for BrokenWorkloads {
    fn seen(&mut self, step: &mut StepContext<'_>, version: &Version<'_>) {
        self.note(step.world, version);
    }

    fn removed(&mut self, step: &mut StepContext<'_>, slot: Slot, _deleted: bool) {
        self.forget(step.world, slot);
    }

    fn detections(&mut self, step: &mut StepContext<'_>, slot: Slot) -> Vec<Detection> {
        // A workload is reviewed when it changes, and when its watch regains sight.
        if let Some(owner) = self.owner_of(slot) {
            step.world.agenda.objects.extend(step.world.find_uid(owner));
        }

        detect(step, slot, self).into_iter().collect()
    }

    fn next_due(&self) -> Option<Timestamp> {
        self.next_end()
    }

    fn due(&mut self, step: &mut StepContext<'_>) {
        self.forget_ended(step.world);
    }

    fn clock_stepped(&mut self, by_ms: i64) {
        self.shift(by_ms);
    }
}

/// Detects that an object says Ready although a workload of it is broken.
fn detect(step: &StepContext<'_>, slot: Slot, workloads: &BrokenWorkloads) -> Option<Detection> {
    let world = &*step.world;
    let record = world.store.get(slot)?;
    workloads.of(record.uid).next()?;

    let claim = claim(world, record)?;
    let is_open = world.has_open(CODE, slot);
    let mut problems: Vec<Problem<'_>> = workloads
        .of(record.uid)
        .filter_map(|(child, broken)| Problem::new(world, workloads, (child, broken), is_open))
        .collect();

    let due = problems.iter().map(|problem| problem.due).min()?;
    let due = if is_open { due } else { due.max(settles(world, record)) };
    problems.retain(|problem| problem.due <= world.now.max(due));
    problems.sort_by(|a, b| (!a.is_certain, &a.text).cmp(&(!b.is_certain, &b.text)));

    let since = problems.iter().map(|problem| problem.broken.since).min()?;
    let evidence = || {
        let named = problems.iter().take(MAX_NAMED).map(|problem| problem.text.clone());
        Evidence::new()
            .with("workloads", Value::Names(named.collect()))
            .text("says", claim)
            .with("broken_for", Value::Age(since))
            .with("threshold", Value::Span(world.settings.broken_after))
    };

    let is_certain = problems.iter().any(|problem| problem.is_certain);
    let detection = Detection::new(world.now, CODE, since, due, evidence);
    Some(detection.not_before(record.created()).suspected_if(!is_certain))
}

/// Returns the claim of a primary object that something runs, if it makes one.
fn claim(world: &World, record: &Record) -> Option<String> {
    let kind = world.kind_of(record.watch);
    // A controller of Kubernetes says Ready about its own objects, such as nodes, and not for an operator.
    let is_custom = kind.role == Role::Primary && kind.group.contains('.');
    let has_converged = record.verdict == Verdict::Converged
        && record.deletion().is_none()
        && record.obligation().is_none_or(|obligation| obligation.converged_since.is_some());
    if !is_custom || !has_converged {
        return None;
    }

    let conditions = world.shared.condition_sets.get(record.conditions);
    reading::claim(record.reason, conditions, world.shared.texts.get(record.phase))
}

/// Returns until when the operator may be at work on a spec change, or may catch up after an outage.
fn settles(world: &World, record: &Record) -> Timestamp {
    if world.operator_failed > world.now {
        return world.now.after(LOOK_AGAIN_AFTER); // it fails now
    }

    let last = record.spec_change().unwrap_or_default().max(world.operator_failed);
    last.after(world.settings.broken_after)
}

impl<'a> Problem<'a> {
    fn new(
        world: &World,
        workloads: &BrokenWorkloads,
        (slot, broken): (Slot, &'a Broken),
        is_open: bool,
    ) -> Option<Self> {
        let record = world.store.get(slot)?;
        if broken.ends.is_some() && !is_open {
            return None; // it serves again, and is broken again soon or forgotten
        }

        let siblings = Siblings::of(world, workloads, slot, record, broken);
        let is_pod = &*world.kind_of(record.watch).kind == "Pod";
        if is_pod && siblings.count > 0 {
            return None; // Pods of an object replace one another
        }

        let is_old_version = siblings.has_newer;
        let is_optional = siblings.serving && !broken.had_served;
        let is_certain = broken.is_managed && !broken.is_known && !is_old_version && !is_optional;
        let text = format!("{}: {}", world.record_address(record), broken.signal);
        Some(Self { broken, due: due(world, record, broken, is_open), is_certain, text })
    }
}

/// Returns when a broken workload becomes a problem of its owner.
fn due(world: &World, record: &Record, broken: &Broken, is_open: bool) -> Timestamp {
    let settings = &world.settings;
    let most = broken.since.after(Span(settings.deadline.0.saturating_mul(MAX_ROLLOUTS)));
    let due = broken.since.after(settings.broken_after);
    let due = due.max(broken.rolls_until.unwrap_or(due).min(most));
    if is_open {
        return due;
    }

    match world.watches[record.watch as usize].visibility(world.now) {
        Visibility::Clear => due,
        Visibility::Grace(until) => due.max(until),
        Visibility::Lost => due.max(world.now.after(LOOK_AGAIN_AFTER)),
    }
}

/// The other workloads of the owner of a broken one.
#[derive(Default)]
struct Siblings {
    count: usize,
    /// One of them serves.
    serving: bool,
    /// One of the same kind serves and is much younger.
    has_newer: bool,
}

impl Siblings {
    fn of(
        world: &World,
        workloads: &BrokenWorkloads,
        slot: Slot,
        record: &Record,
        broken: &Broken,
    ) -> Self {
        let mut siblings = Self::default();
        let others = world.children_of(broken.owner).filter(|other| *other != slot);
        for (other, sibling) in others
            .take(MAX_SEARCHED)
            .filter_map(|other| world.store.get(other).map(|sibling| (other, sibling)))
        {
            let kind = world.kind_of(sibling.watch);
            if !reading::serves(&kind.group, &kind.kind) {
                continue;
            }

            let serves = sibling.verdict == Verdict::Converged
                && sibling.reason != Reason::ScaledToZero
                && !workloads.contains(other);
            let is_younger =
                sibling.created() > record.created().map(|created| created.after(VERSIONS_APART));
            siblings.count += 1;
            siblings.serving |= serves;
            siblings.has_newer |= serves && sibling.watch == record.watch && is_younger;
        }

        siblings
    }
}
