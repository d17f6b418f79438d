//! Reviews one object: its state, its findings, and the timer for the next review.

use std::sync::Arc;

use crate::finding::{Area, FindingCode};
use crate::model::Model;
use crate::model::convergence::object_context::{self, ObjectContext};
use crate::model::convergence::workloads;
use crate::model::deletion::stuck;
use crate::model::findings::detection::Detection;
use crate::model::findings::open_findings::OpenFindings;
use crate::model::findings::tuning;
use crate::model::kube_events::KubeEvents;
use crate::model::status::reading::Verdict;
use crate::model::steps::attempts::with_attempts;
use crate::model::steps::warnings::with_last_warning;
use crate::model::world::World;
use crate::model::world::kinds::failures::Failure;
use crate::model::world::limits::Limit;
use crate::model::world::store::{Flag, Slot};
use crate::model::world::timers::Timer;
use crate::model::world::visibility::Visibility;
use crate::observation::Role;
use crate::snapshot::ObjectState;
use crate::time::Timestamp;

impl Model {
    /// Reviews an object whose timer has fired.
    pub(crate) fn object_due(&mut self, slot: Slot) {
        if let Some(hot) = self.world.store.get_mut(slot).and_then(|record| record.hot.as_mut()) {
            hot.due = None;
        }
        self.review_object(slot);
    }

    /// Reviews an object at this instant, and measures it with the findings about it.
    pub(crate) fn review_object(&mut self, slot: Slot) {
        self.judge_object(slot);
        self.world.store.measure(slot);
    }

    /// Judges an object, opens and closes findings about it, sets its timer, and reviews its kind.
    /// While its watch is blind, its obligation can only end as unknown, and the rest waits until
    /// visibility returns.
    fn judge_object(&mut self, slot: Slot) {
        self.parts.ownership.review_owner_references(&mut self.world, &mut self.findings, slot);
        let relations = self.relation_detections(slot);
        let Some(mut context) = object_context::context(&mut self.world, &mut self.traces, slot)
        else {
            return;
        };
        context.advance_obligation();

        if context.visibility == Visibility::Lost && context.record.hot.is_some() {
            let due = context.obligation_due().filter(|_| context.record.flags.has(Flag::Judged));
            set_object_timer(&mut self.world, slot, due);
            return self.world.postpone_review(slot);
        }

        let was_hot = context.record.hot.is_some();
        let is_first =
            !context.record.flags.has(Flag::Judged) && context.record.verdict != Verdict::Unknown;
        let detections = context.judge(relations);
        let due = context.due(&detections);
        let kept = context.is_unready_child();
        let expected: Vec<FindingCode> =
            detections.iter().map(|detection| detection.code).collect();

        let old = context.record.hot.as_ref().map_or_else(Vec::new, |hot| hot.findings.clone());
        let mut found: Vec<Detection> =
            detections.into_iter().filter(|detection| context.is_finding(detection)).collect();
        let failure = context.failure();
        let failure = drop_silenced(&self.world, slot, &mut found, failure);
        let findings: Vec<FindingCode> = found.iter().map(|detection| detection.code).collect();

        if !findings.is_empty() || !old.is_empty() {
            let world = &mut self.world;
            update_findings(world, &self.kube_events, &mut self.findings, slot, found, &old);
        }

        if (was_hot || is_first) && self.findings.has_restored() {
            self.findings.keep_restored_of(&self.world.subject(slot), &expected);
        }

        let (has_findings, noted) = (!findings.is_empty(), findings.clone());
        update_kind(&mut self.world, slot, failure);
        set_object_timer(&mut self.world, slot, due);
        keep_judgement(&mut self.world, slot, findings, due, kept);
        update_unhealthy(&mut self.world, slot, has_findings);
        workloads::note_workload(&mut self.world, slot);
        stuck::note_finalizer_findings(&mut self.world, &mut self.traces, slot, &old, &noted);
    }
}

/// Removes the findings that settings or annotations silence. Returns how the object fails, unless
/// that is silenced, too.
fn drop_silenced(
    world: &World,
    slot: Slot,
    found: &mut Vec<Detection>,
    failure: Option<Failure>,
) -> Option<Failure> {
    if found.is_empty() && failure.is_none() {
        return None;
    }

    let subject = world.subject(slot);
    found.retain(|detection| !tuning::is_silenced(world, slot, detection.code, &subject));
    failure.filter(|_| !tuning::is_silenced(world, slot, FindingCode::Failing, &subject))
}

/// Stores the findings and the due time in the object's record, and notes whether it has a history.
fn keep_judgement(
    world: &mut World,
    slot: Slot,
    findings: Vec<FindingCode>,
    due: Option<Timestamp>,
    kept: bool,
) {
    let Some(record) = world.store.get_mut(slot) else { return };
    record.set_findings_and_due(findings, due, kept);

    let has = record.hot.as_ref().is_some_and(|hot| hot.history.is_some());
    let had = record.flags.has(Flag::HasHistory);
    record.flags.set(Flag::HasHistory, has);
    if has == had {
        return;
    }

    let namespace = record.namespace.clone();
    if has {
        make_room_for_history(world, &namespace);
        world.histories.insert(&namespace, slot, 1);
    } else {
        world.histories.remove(&namespace, &slot);
    }
}

/// Makes room for another object with a history: one of the namespace with most of them loses its
/// own.
fn make_room_for_history(world: &mut World, namespace: &Arc<str>) {
    if world.histories.len() < world.settings.limits.histories {
        return;
    }

    let Some(other) = world.histories.leaves_for(namespace, 1).copied() else { return };
    world.count_dropped(Limit::Histories);
    world.agenda.objects.insert(other);
    let Some(record) = world.store.get_mut(other) else { return };
    record.flags.set(Flag::HasHistory, false);
    if let Some(hot) = record.hot.as_mut() {
        hot.history = None;
    }

    let of = record.namespace.clone();
    world.histories.remove(&of, &other);
}

/// Opens the findings in `found` and closes those in `old` that are not among them.
fn update_findings(
    world: &mut World,
    events: &KubeEvents,
    findings: &mut OpenFindings,
    slot: Slot,
    found: Vec<Detection>,
    old: &[FindingCode],
) {
    let subject = world.subject(slot);
    let codes: Vec<FindingCode> = found.iter().map(|detection| detection.code).collect();
    for mut detection in found {
        let evidence = std::mem::take(&mut detection.evidence);
        let evidence = workloads::with_workloads(world, slot, detection.code, evidence);
        let evidence = with_attempts(world, slot, detection.code, evidence);
        let problem = (detection.code, detection.since);
        detection.evidence = with_last_warning(world, events, slot, problem, evidence);
        findings.report(world, subject.clone(), detection);
    }

    for code in old.iter().filter(|code| !codes.contains(code)) {
        findings.clear(world.now, *code, &subject);
    }
}

fn set_object_timer(world: &mut World, slot: Slot, due: Option<Timestamp>) {
    let Some(hot) = world.store.get_mut(slot).and_then(|record| record.hot.as_mut()) else {
        return;
    };
    let old = std::mem::replace(&mut hot.due, due);

    world.agenda.timers.set(Timer::Object(slot), old, due);
}

fn update_unhealthy(world: &mut World, slot: Slot, has_findings: bool) {
    let record =
        world.store.get(slot).filter(|record| world.kind_of(record.watch).role == Role::Primary);
    let state = record.map(|record| record.state);
    if has_findings || matches!(state, Some(ObjectState::Overdue | ObjectState::Failed)) {
        world.unhealthy.insert(slot);
    } else {
        world.unhealthy.remove(&slot);
    }
}

/// Updates the kind's sets of failing and malformed objects. The kind is reviewed if a set
/// changed, and while any object is failing.
pub(super) fn update_kind(world: &mut World, slot: Slot, failure: Option<Failure>) {
    let Some(record) = world.store.get_mut(slot) else { return };
    let number = world.watches[record.watch as usize].kind;
    let kind = &mut world.kinds[number as usize];
    let malformed = record.flags.has(Flag::MalformedConditions);
    let old = record.hot.as_mut().and_then(|hot| hot.failure.take());
    let failure_changed = old.as_deref() != failure.as_ref();
    if failure_changed {
        kind.failures.replace(slot, &record.namespace, old.as_deref(), failure.as_ref());
    }

    if let Some(hot) = record.hot.as_mut() {
        hot.failure = failure.map(Box::new);
    }

    let malformed_changed = kind.malformed_conditions.set(slot, malformed, world.now);
    if failure_changed
        || malformed_changed
        || kind.failures.take_relief()
        || !kind.failures.regressed.is_empty()
        || kind.failures.failing_since.is_some()
    {
        world.agenda.kinds.insert(number);
    }
}

impl ObjectContext<'_> {
    /// Moves the object to its current state, and returns its problems, including the given
    /// `relations` to other objects. Some do not count while its namespace is being deleted or the
    /// operator is stopped.
    fn judge(&mut self, relations: Vec<Detection>) -> Vec<Detection> {
        let state = self.state();
        let since = self.state_since(state);
        self.enter_state(state, since);
        self.record.flags.set(Flag::Judged, true);

        let mut detections = self.detections();
        if !relations.is_empty() {
            detections.extend(relations);
            self.record.hot_mut(); // holds the timer and the findings
        }

        if self.namespace_deleted {
            detections.retain(|detection| detection.code.info().area == Area::Deletion);
        } else if self.operator_stopped {
            let area = |detection: &Detection| detection.code.info().area;
            detections
                .retain(|detection| !matches!(area(detection), Area::Convergence | Area::Writes));
        }

        detections
    }

    /// Returns when the object entered its current state.
    fn state_since(&self, state: ObjectState) -> Timestamp {
        let hot = self.record.hot.as_ref();
        match state {
            ObjectState::Terminating => {
                hot.and_then(|h| h.deletion.as_ref()).map_or(self.now, |d| d.since.min(self.now))
            }
            // A single look comes long after the deadline.
            ObjectState::Overdue if self.looks_once => {
                self.overdue_since().map_or(self.now, |due| due.min(self.now))
            }
            // A new object from a list may have been in this state for a long time; `update_object`
            // has set it.
            _ if !self.record.flags.has(Flag::Judged) => self.record.since,
            _ => self.now,
        }
    }
}

impl Model {
    /// Returns the problems in the relations of an object to other objects. While its watch is
    /// blind, returns none: the object is reviewed again when visibility returns.
    pub(crate) fn relation_detections(&mut self, slot: Slot) -> Vec<Detection> {
        let Some(record) = self.world.store.get(slot) else { return Vec::new() };
        let watch = &self.world.watches[record.watch as usize];
        let suspected = self.world.kinds[watch.kind as usize].suspected;

        if watch.visibility(self.world.now) == Visibility::Lost {
            self.world.postpone_review(slot);
            return Vec::new();
        }

        let mut detections = stuck::deletion_detections(&mut self.world, &self.operator, slot);
        let (parts, mut step) = self.parts();
        detections.extend(parts.detections(&mut step, slot));
        detections.extend(self.operator.poison_object(&self.world, slot));
        detections.into_iter().map(|detection| detection.suspected_if(suspected)).collect()
    }
}
