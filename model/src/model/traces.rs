//! Gathers the traces of obligations and deletions while they are open.
//!
//! A trace ends with its obligation, and at the latest when its SLO deadline passes: a trace that nobody can read before the
//! object converges would not help. What follows is a trace of its own. If nobody wants traces, nothing is kept.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::{Hash as _, Hasher as _};

use super::Model;
use super::context::{ObjectContext, Update};
use super::objects::MAX_CONDITIONS;
use super::obligations::Opening;
use super::store::{self, Slot};
use crate::observation::{Condition, ObjectView};
use crate::reference::ObjectName;
use crate::snapshot::{ObjectState, Outcome};
use crate::time::{Span, Timestamp};
use crate::trace::{
    Measured, OperatorChange, StepKind, Trace, TraceCause, TraceEvent, TraceKey, TraceLink, TracePart, TraceStep,
};

/// The annotations with the trace of the change, in the order of their precedence.
const CONTEXTS: [&str; 2] = ["tracing.k8s.io/traceparent", "traceparent"];

/// The maximum number of steps of one trace.
pub(super) const MAX_STEPS: usize = 128;

/// The number of generations of owners above an object whose traces show it: from a Pod to the owner of its Deployment,
/// and one more.
const OWNERS: usize = 4;

/// The number of keys of ended traces that are remembered, of which the earliest make room.
const MAX_KEYS: usize = 4_096;

/// The number of changes of the operator that are kept, of which the earliest make room.
const MAX_CHANGES: usize = 32;

/// The traces that have not ended, and those that nobody has taken yet.
#[derive(Debug, Default)]
pub(crate) struct Traces {
    /// Somebody wants traces.
    on: bool,
    /// `limits.trace_bytes`.
    limit: usize,
    open: BTreeMap<Slot, Box<OpenTrace>>,
    ended: Vec<(Trace, usize)>,
    /// The size of all of them, about.
    bytes: usize,
    /// What happened to the operator last.
    changes: VecDeque<TraceEvent>,
    /// Fingerprints of the keys of the last ended traces, in their order: no trace may end twice. An object that was out of
    /// sight may come back with the obligation that it had.
    keys: (BTreeSet<u64>, VecDeque<u64>),
    /// A trace that has just begun.
    begun: Option<Slot>,
    /// Traces and steps that did not fit since the last step of the model.
    dropped: (u32, u32),
}

/// A trace that has not ended.
#[derive(Debug)]
pub(crate) struct OpenTrace {
    part: TracePart,
    late: bool,
    cause: TraceCause,
    generation: i64,
    start: Timestamp,
    deadline: Span,
    /// The beginning comes from a time in the object.
    dated: bool,
    steps: Vec<OpenStep>,
    links: Vec<TraceLink>,
    measured: Measured,
    bytes: usize,
    dropped: u32,
}

/// A step that may not have ended.
#[derive(Debug)]
struct OpenStep {
    kind: StepKind,
    /// The UID of the child object; 0 for other steps.
    child: u128,
    start: Timestamp,
    end: Option<Timestamp>,
}

// === impl Traces ===

impl Traces {
    pub(super) fn set_limit(&mut self, bytes: usize) {
        self.limit = bytes;
    }

    fn begin(&mut self, slot: Slot, trace: OpenTrace) {
        self.forget(slot);
        // The rest of a trace may last for ever, so it leaves room for others.
        let room = if trace.late { self.limit / 2 } else { self.limit };
        if self.bytes + trace.bytes > room {
            self.dropped.0 += 1;
            return;
        }
        self.bytes += trace.bytes;
        self.open.insert(slot, Box::new(trace));
    }

    fn take(&mut self, slot: Slot) -> Option<OpenTrace> {
        let trace = self.open.remove(&slot)?;
        self.bytes = self.bytes.saturating_sub(trace.bytes);
        Some(*trace)
    }

    /// Forgets the open trace of an object.
    pub(super) fn forget(&mut self, slot: Slot) {
        drop(self.take(slot));
    }

    /// Returns the open trace of an object's obligation.
    fn of_obligation(&mut self, slot: Slot) -> Option<&mut OpenTrace> {
        let trace = self.open.get_mut(&slot)?;
        (trace.part != TracePart::Deletion).then_some(&mut **trace)
    }

    fn add(&mut self, slot: Slot, step: OpenStep) {
        let Some(trace) = self.open.get_mut(&slot) else { return };
        let size = step.size();
        if trace.steps.len() >= MAX_STEPS || self.bytes + size > self.limit {
            trace.dropped += 1;
            self.dropped.1 += 1;
            return;
        }
        trace.steps.push(step);
        trace.bytes += size;
        self.bytes += size;
    }

    fn end(&mut self, trace: Trace, size: usize, key: u64) {
        let (known, order) = &mut self.keys;
        if known.insert(key) {
            order.push_back(key);
        }
        if order.len() > MAX_KEYS {
            order.pop_front().map(|oldest| known.remove(&oldest));
        }
        self.bytes += size;
        self.ended.push((trace, size));
    }

    /// Notes that the operator acknowledged the spec; `took` is the time in the histogram.
    pub(super) fn acknowledged(&mut self, slot: Slot, now: Timestamp, took: Option<Span>) {
        let Some(trace) = self.of_obligation(slot) else { return };
        trace.measured.acknowledged = took;
        let step = trace.steps.iter_mut().find(|step| step.kind == StepKind::Acknowledge);
        if let Some(step) = step {
            step.end = Some(now);
        }
    }

    /// Notes something that happened to the operator.
    pub(super) fn operator_changed(&mut self, at: Timestamp, what: OperatorChange) {
        if !self.on {
            return;
        }
        if self.changes.len() >= MAX_CHANGES {
            self.changes.pop_front();
        }
        self.changes.push_back(TraceEvent { at, what });
    }

    /// Moves the own instants by `by_ms` milliseconds.
    pub(super) fn clock_stepped(&mut self, by_ms: i64) {
        let shift = |at: &mut Timestamp| *at = at.shifted(by_ms);
        for trace in self.open.values_mut() {
            if !trace.dated {
                shift(&mut trace.start);
            }
            for step in &mut trace.steps {
                shift(&mut step.start);
                step.end.iter_mut().for_each(shift);
            }
        }
        self.changes.iter_mut().for_each(|change| shift(&mut change.at));
    }
}

// === impl OpenTrace ===

impl OpenTrace {
    fn new(part: TracePart, cause: TraceCause, start: Timestamp, deadline: Span) -> Self {
        Self {
            part,
            late: false,
            cause,
            generation: 0,
            start,
            deadline,
            dated: false,
            steps: Vec::new(),
            links: Vec::new(),
            measured: Measured::default(),
            bytes: size_of::<Self>(),
            dropped: 0,
        }
    }

    fn key(&self, uid: u128) -> TraceKey {
        TraceKey { uid: store::uid_text(uid), part: self.part, late: self.late }
    }

    /// Ends the trace at `end`. What began later, while loopwatch waited whether the object stays converged, does not
    /// belong to it.
    fn ended(self, uid: u128, object: ObjectName, end: Timestamp, outcome: Outcome, signal: String) -> Trace {
        let key = self.key(uid);
        let end = end.max(self.start);
        let kept = self.steps.into_iter().filter(|step| step.start <= end);
        let steps = kept.map(|step| TraceStep {
            kind: step.kind,
            start: step.start.max(self.start),
            end: step.end.unwrap_or(end).min(end).max(self.start),
            unfinished: step.end.is_none_or(|at| at > end),
        });
        Trace {
            key,
            object,
            cause: self.cause,
            generation: self.generation,
            revision: String::new(),
            start: self.start,
            end,
            outcome,
            signal,
            deadline: self.deadline,
            steps: steps.collect(),
            events: Vec::new(),
            links: self.links,
            dropped: self.dropped,
            measured: self.measured,
        }
    }

    /// Returns a fingerprint of the key.
    fn fingerprint(&self, uid: u128) -> u64 {
        let mut hasher = std::hash::DefaultHasher::new(); // the same in every process
        (uid, self.part, self.late).hash(&mut hasher);
        hasher.finish()
    }

    /// The rest of a trace whose deadline has passed.
    fn rest(&self, uid: u128, at: Timestamp) -> Self {
        let Self { part, cause, generation, deadline, .. } = *self;
        let unfinished = self.steps.iter().filter(|step| step.end.is_none_or(|end| end > at));
        let steps: Vec<OpenStep> =
            unfinished.map(|step| OpenStep { start: at.max(step.start), ..step.copy() }).collect();
        let bytes = size_of::<Self>() + steps.iter().map(OpenStep::size).sum::<usize>();
        let links = vec![TraceLink::Continues(self.key(uid))];
        Self { late: true, generation, steps, links, bytes, ..Self::new(part, cause, at, deadline) }
    }
}

// === impl OpenStep ===

impl OpenStep {
    fn new(kind: StepKind, start: Timestamp) -> Self {
        Self { kind, child: 0, start, end: None }
    }

    fn copy(&self) -> Self {
        Self { kind: self.kind.clone(), ..*self }
    }

    /// The size of the step in memory, about.
    fn size(&self) -> usize {
        let texts = match &self.kind {
            StepKind::Acknowledge => 0,
            StepKind::Condition { r#type, reason, .. } => r#type.len() + reason.len(),
            StepKind::Child(name) => name.group.len() + name.kind.len() + name.namespace.len() + name.name.len(),
            StepKind::Finalizer(name) => name.len(),
        };
        size_of::<Self>() + texts
    }
}

// === impl Model ===

impl Model {
    /// Gathers traces from now on. [`Model::traces`] returns those that have ended.
    pub fn gather_traces(&mut self) {
        self.traces.on = true;
        self.traces.set_limit(self.settings.limits.trace_bytes);
    }

    /// Removes and returns the traces that have ended since the last call.
    pub fn traces(&mut self) -> Vec<Trace> {
        let ended = std::mem::take(&mut self.traces.ended);
        let revision = self.revision_label();
        let finish = |(mut trace, size): (Trace, usize)| {
            self.traces.bytes = self.traces.bytes.saturating_sub(size);
            trace.revision.clone_from(&revision);
            let during = self.traces.changes.iter().filter(|change| (trace.start..=trace.end).contains(&change.at));
            trace.events = during.copied().collect();
            trace
        };
        ended.into_iter().map(finish).collect()
    }

    /// Counts what did not fit.
    pub(crate) fn count_dropped_traces(&mut self) {
        let (traces, steps) = std::mem::take(&mut self.traces.dropped);
        (0..traces).for_each(|_| self.count_dropped("traces"));
        (0..steps).for_each(|_| self.count_dropped("trace_steps"));
    }

    /// Adds a version of an object to its trace and to those of its owners.
    pub(crate) fn trace_version(&mut self, slot: Slot, view: &ObjectView) {
        if !self.traces.on {
            return;
        }
        let begun = self.traces.begun.take();
        if begun == Some(slot) {
            self.link_trace(slot, view);
        }
        self.trace_conditions(slot, view, begun == Some(slot));
        self.trace_child(slot, false);
    }

    /// Links a trace that has just begun with others.
    fn link_trace(&mut self, slot: Slot, view: &ObjectView) {
        let owners = self.owners_of(slot).iter().filter_map(|owner| self.find_uid(owner.uid()));
        let owners = owners.filter_map(|owner| Some((self.store.get(owner)?.uid, self.traces.open.get(&owner)?)));
        let owner = owners.map(|(uid, trace)| TraceLink::Owner(trace.key(uid))).next();
        let context = CONTEXTS.iter().find_map(|name| view.annotations.get(*name)).cloned().map(TraceLink::Context);
        let Some(uid) = self.store.get(slot).map(|record| record.uid) else { return };
        let Some(trace) = self.traces.open.get_mut(&slot) else { return };
        let previous = match trace.part {
            TracePart::Generation(generation) if generation > 1 && !trace.late => {
                let part = TracePart::Generation(generation - 1);
                Some(TraceLink::Previous(TraceKey { part, ..trace.key(uid) }))
            }
            _ => None,
        };
        trace.links.extend([previous, owner, context].into_iter().flatten());
    }

    /// Adds the conditions of a version to the object's trace: each status that a condition has is a step. If the trace
    /// has `begun` with this version, transition times say since when; they are exact to a second.
    fn trace_conditions(&mut self, slot: Slot, view: &ObjectView, begun: bool) {
        let now = self.now;
        let Some(trace) = self.traces.open.get_mut(&slot) else { return };
        let top_level = || view.conditions.iter().filter(|c| c.at.is_empty()).take(MAX_CONDITIONS);
        for step in trace.steps.iter_mut().filter(|step| step.end.is_none()) {
            let StepKind::Condition { r#type, status, reason } = &mut step.kind else { continue };
            match top_level().find(|condition| condition.r#type == *r#type && condition.status == *status) {
                Some(condition) => reason.clone_from(&condition.reason),
                None => step.end = Some(now),
            }
        }
        let shows = |condition: &&Condition| {
            let same =
                |kind: &StepKind| matches!(kind, StepKind::Condition { r#type, .. } if *r#type == condition.r#type);
            trace.steps.iter().any(|step| step.end.is_none() && same(&step.kind))
        };
        let new = top_level().filter(|condition| !shows(condition)).map(|condition| {
            let Condition { r#type, status, reason, changed, .. } = condition.clone();
            let since = changed.map_or(trace.start, |at| at.clamp(trace.start, now.max(trace.start)));
            OpenStep::new(StepKind::Condition { r#type, status, reason }, if begun { since } else { now })
        });
        let new: Vec<OpenStep> = new.collect();
        new.into_iter().for_each(|step| self.traces.add(slot, step));
    }

    /// Adds what an object has become to the trace of the nearest owner that has one. `gone` says that it was deleted.
    pub(crate) fn trace_child(&mut self, slot: Slot, gone: bool) {
        if self.traces.open.is_empty() {
            return;
        }
        let (Some(owner), Some(record)) = (self.traced_owner(slot), self.store.get(slot)) else { return };
        let (now, uid, created, state) = (self.now, record.uid, record.created(), record.state);
        let ready = gone || matches!(state, ObjectState::Converged | ObjectState::Finished);
        let says_nothing = state == ObjectState::Unknown && !gone;
        let Some(trace) = self.traces.open.get_mut(&owner) else { return };
        let last = trace.steps.iter_mut().rev().find(|step| step.child == uid);
        match last {
            Some(step) if step.end.is_none() => {
                return if ready {
                    step.end = Some(now)
                };
            }
            Some(_) if ready || says_nothing => return,
            _ => {}
        }
        let is_new = created.is_some_and(|created| created.after(Span::secs(1)) > trace.start);
        if (ready || says_nothing) && (!is_new || gone) {
            return; // it was there before
        }
        let begins = created.filter(|_| is_new).map_or(now, |created| created.clamp(trace.start, now.max(trace.start)));
        let end = (ready || says_nothing).then_some(now);
        let step = OpenStep { kind: StepKind::Child(self.object_name(slot)), child: uid, start: begins, end };
        self.traces.add(owner, step);
    }

    /// Returns the nearest owner of an object that has a trace.
    fn traced_owner(&self, slot: Slot) -> Option<Slot> {
        let mut level = vec![slot];
        for _ in 0..OWNERS {
            let owners = level.iter().flat_map(|slot| self.owners_of(*slot));
            level = owners.filter_map(|owner| self.find_uid(owner.uid())).filter(|owner| *owner != slot).collect();
            if let Some(traced) = level.iter().find(|owner| self.traces.open.contains_key(owner)) {
                return Some(*traced);
            }
        }
        None
    }

    fn object_name(&self, slot: Slot) -> ObjectName {
        self.store.get(slot).map_or_else(ObjectName::default, |record| {
            let kind = self.kind_of(record.watch);
            name_of(&kind.group, &kind.kind, record)
        })
    }
}

// === impl ObjectContext ===

impl ObjectContext<'_> {
    /// Begins the trace of an obligation that opens now. `update` is missing if no version of the object opens it.
    pub(super) fn trace_obligation(&mut self, update: Option<&Update<'_>>, opening: Opening, creation: bool) {
        let Some(obligation) = self.record.obligation().filter(|_| self.traces.on) else { return };
        let by_generation = self.record.generation > 0 && !self.kind.generation_is_unreliable();
        let part = match opening {
            Opening::Again => TracePart::Version(self.record.version), // the generation has had its trace
            _ if by_generation => TracePart::Generation(self.record.generation),
            _ => TracePart::Version(self.record.version),
        };
        let cause = match opening {
            Opening::Own => TraceCause::OperatorChangedSpec,
            Opening::Again => TraceCause::Resumed,
            Opening::Live | Opening::Backfilled if creation => TraceCause::Created,
            Opening::Live | Opening::Backfilled => TraceCause::SpecChanged,
        };
        let deadline = obligation.slo_deadline.since(obligation.opened);
        let late = obligation.outcome == Some(Outcome::Late);
        let start = if late { obligation.slo_deadline } else { obligation.opened };
        let mut trace = OpenTrace::new(part, cause, start, deadline);
        if late {
            // An earlier process has sent the trace up to the deadline.
            trace.links.push(TraceLink::Continues(trace.key(self.record.uid)));
        }
        trace.late = late;
        trace.generation = update.map_or(self.record.generation, |update| update.view.generation);
        trace.dated = opening == Opening::Backfilled;
        if self.traces.keys.0.contains(&trace.fingerprint(self.record.uid)) {
            trace.part = TracePart::Version(self.record.version);
            if self.traces.keys.0.contains(&trace.fingerprint(self.record.uid)) {
                return;
            }
        }
        self.traces.begin(self.slot, trace);
        self.traces.begun = Some(self.slot);
        self.traces.add(self.slot, OpenStep::new(StepKind::Acknowledge, start));
    }

    /// Ends the trace of the obligation, if there is one. If the obligation is late, another trace shows the rest.
    pub(super) fn end_obligation_trace(&mut self, outcome: Outcome, at: Timestamp, converged: Option<Span>) {
        if self.traces.of_obligation(self.slot).is_some() {
            let counted = self.record.obligation().is_some_and(|obligation| !obligation.uncounted);
            self.end_trace(outcome, at, Measured { converged, counted, acknowledged: None });
        }
    }

    /// Ends the trace of an obligation that the operator did not end. An object that is out of sight may come back with it.
    pub(super) fn close_obligation_trace(&mut self, outcome: Outcome) {
        if outcome == Outcome::Unknown {
            self.forget_obligation_trace();
        } else {
            self.end_obligation_trace(outcome, self.now, None);
        }
    }

    /// Forgets the trace of an obligation that ends without an outcome.
    pub(super) fn forget_obligation_trace(&mut self) {
        if self.traces.of_obligation(self.slot).is_some() {
            self.traces.forget(self.slot);
        }
    }

    /// Begins the trace of a deletion that has just begun, or that loopwatch has just seen.
    pub(super) fn trace_deletion(&mut self, since: Timestamp, timed_out: bool) {
        if !self.traces.on || self.is_child() {
            return;
        }
        let Some(deletion) = self.record.deletion() else { return };
        let deadline = self.settings.finalizer_stuck_after;
        let start = if timed_out { since.after(deadline) } else { since }.min(self.now);
        let mut trace = OpenTrace::new(TracePart::Deletion, TraceCause::DeletionRequested, start, deadline);
        if timed_out {
            trace.links.push(TraceLink::Continues(trace.key(self.record.uid)));
        }
        (trace.late, trace.generation, trace.dated) = (timed_out, self.record.generation, true);
        let waits = deletion.actors.iter().map(|(name, _)| StepKind::Finalizer(name.to_string()));
        let waits: Vec<OpenStep> = waits.map(|kind| OpenStep::new(kind, start)).collect();
        self.traces.begin(self.slot, trace);
        self.traces.begun = Some(self.slot);
        waits.into_iter().for_each(|step| self.traces.add(self.slot, step));
    }

    /// Ends the step of a finalizer that is gone.
    pub(super) fn trace_finalizer_removed(&mut self, finalizer: &str) {
        let Some(trace) = self.traces.open.get_mut(&self.slot) else { return };
        let waits = |step: &&mut OpenStep| matches!(&step.kind, StepKind::Finalizer(name) if name == finalizer);
        if let Some(step) = trace.steps.iter_mut().filter(|step| step.end.is_none()).find(waits) {
            step.end = Some(self.now);
        }
    }

    /// Ends the trace of the deletion, if there is one. If the deletion is stuck, another trace shows the rest.
    pub(super) fn end_deletion_trace(&mut self, outcome: Outcome) {
        if self.traces.open.get(&self.slot).is_some_and(|trace| trace.part == TracePart::Deletion) {
            self.end_trace(outcome, self.now, Measured::default());
        }
    }

    fn end_trace(&mut self, outcome: Outcome, at: Timestamp, measured: Measured) {
        let Some(mut trace) = self.traces.take(self.slot) else { return };
        let rest = (outcome == Outcome::Late && !trace.late).then(|| trace.rest(self.record.uid, at));
        trace.measured = Measured { acknowledged: trace.measured.acknowledged, ..measured };
        let (uid, size, key) = (self.record.uid, trace.bytes, trace.fingerprint(self.record.uid));
        let object = name_of(&self.kind.group, &self.kind.kind, self.record);
        let signal = match outcome {
            Outcome::Late | Outcome::Rejected => self.record.hot.as_ref().map(|hot| hot.signal.clone()),
            _ => None,
        };
        let ended = trace.ended(uid, object, at, outcome, signal.unwrap_or_default());
        self.traces.end(ended, size, key);
        if let Some(rest) = rest {
            self.traces.begin(self.slot, rest);
        }
    }
}

fn name_of(group: &str, kind: &str, record: &store::Record) -> ObjectName {
    ObjectName {
        group: group.to_owned(),
        kind: kind.to_owned(),
        namespace: record.namespace.to_string(),
        name: record.name.to_string(),
    }
}
