//! Collects the traces of obligations and deletions while they are open.
//!
//! A trace ends with its obligation, or when the SLO deadline passes: a trace that nobody could
//! read before the object converges would not help. The rest of the obligation is a second trace.
//! Without a consumer for traces, nothing is kept.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::{Hash as _, Hasher as _};

use crate::model::world::World;
use crate::model::world::limits::Limit;
use crate::model::world::store::{self, Slot};
use crate::observation::{EventView, Role};
use crate::reference::ObjectName;
use crate::snapshot::Outcome;
use crate::time::{Span, Timestamp};
use crate::trace::{
    Measured, OperatorChange, StepKind, Trace, TraceCause, TraceEvent, TraceKey, TraceLink,
    TracePart, TraceStep,
};

pub(crate) use crate::model::world::limits::MAX_STEPS;

pub(crate) mod ends; // begins and ends traces
mod kube_events; // Kubernetes Events of the object
mod versions; // versions of the object and its children

/// The annotations with the trace of the change, in the order of their precedence.
const CONTEXTS: [&str; 2] = ["tracing.k8s.io/traceparent", "traceparent"];

/// How many levels of owners to search for a trace that can show an object: from a Pod to the
/// owner of its Deployment, and one more.
const OWNERS: usize = 4;

/// The maximum number of owners per level. Anybody may write owner references, even many or
/// circular ones.
const MAX_OWNERS: usize = 64;

/// The maximum number of remembered keys of ended traces. Beyond it, the oldest are forgotten.
const MAX_KEYS: usize = 4_096;

/// The maximum number of remembered changes of the operator. Beyond it, the oldest are forgotten.
const MAX_CHANGES: usize = 32;

/// How long after a status write the operator may write an Event about it.
const AFTER_STATUS: Span = Span::secs(1);

/// The traces that have not ended, and those that nobody has taken yet.
#[derive(Debug, Default)]
pub(crate) struct Traces {
    /// There is a consumer for traces.
    on: bool,
    /// `limits.trace_bytes`.
    limit: usize,
    open: BTreeMap<Slot, Box<OpenTrace>>,
    ended: Vec<(Trace, usize)>,
    /// The approximate size of all of them.
    bytes: usize,
    /// The latest changes of the operator.
    changes: VecDeque<TraceEvent>,
    /// Fingerprints of the keys of the last ended traces, in order: no trace may end twice, but an
    /// object that was not visible may return with its old obligation.
    keys: (BTreeSet<u64>, VecDeque<u64>),
    /// The object whose trace has just begun.
    begun: Option<Slot>,
    /// The most recent Kubernetes Events about objects without a trace.
    early: VecDeque<EarlyEvent>,
    /// The numbers of traces and of steps that did not fit, since the model's last step.
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
    /// The start is a time in the object.
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

/// A Kubernetes Event that may belong to a trace that has not begun yet.
#[derive(Debug)]
struct EarlyEvent {
    seen: Timestamp,
    /// The kind of the object that it is about.
    kind: u16,
    event: EventView,
}

impl Traces {
    pub(super) fn set_limit(&mut self, bytes: usize) {
        self.limit = bytes;
    }

    /// Starts to collect traces, up to `limit` bytes.
    pub(crate) fn gather(&mut self, limit: usize) {
        self.on = true;
        self.limit = limit;
    }

    /// Removes and returns the traces that have ended since the last call, labelled with a revision
    /// of the operator.
    pub(crate) fn take_ended(&mut self, revision: &str) -> Vec<Trace> {
        let ended = std::mem::take(&mut self.ended);
        let finish = |(mut trace, size): (Trace, usize)| {
            self.bytes = self.bytes.saturating_sub(size);
            revision.clone_into(&mut trace.revision);

            let during =
                self.changes.iter().filter(|change| (trace.start..=trace.end).contains(&change.at));

            trace.events = during.copied().collect();
            trace
        };

        ended.into_iter().map(finish).collect()
    }

    fn begin(&mut self, slot: Slot, trace: OpenTrace) {
        self.forget(slot);

        // The second trace of a late obligation may never end, so it leaves room for others.
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
            return self.drop_step(slot);
        }

        trace.steps.push(step);
        trace.bytes += size;
        self.bytes += size;
    }

    /// Counts a step for which there is no room.
    fn drop_step(&mut self, slot: Slot) {
        let Some(trace) = self.open.get_mut(&slot) else { return };
        trace.dropped += 1;
        self.dropped.1 += 1;
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

    /// Records that the operator acknowledged the spec; `took` is the duration in the histogram.
    pub(super) fn acknowledged(&mut self, slot: Slot, now: Timestamp, took: Option<Span>) {
        let Some(trace) = self.of_obligation(slot) else { return };
        trace.measured.acknowledged = took;

        let step = trace.steps.iter_mut().find(|step| step.kind == StepKind::Acknowledge);
        if let Some(step) = step {
            step.end = Some(now);
        }
    }

    /// Records a change of the operator.
    pub(super) fn operator_changed(&mut self, at: Timestamp, what: OperatorChange) {
        if !self.on {
            return;
        }

        if self.changes.len() >= MAX_CHANGES {
            self.changes.pop_front();
        }

        self.changes.push_back(TraceEvent { at, what });
    }

    /// Moves the instants of loopwatch's clock by `by_ms` milliseconds.
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
        self.early.iter_mut().for_each(|early| shift(&mut early.seen));
    }
}

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

    /// Ends the trace at `end`. Steps that began later, while loopwatch waited to see whether the
    /// object stays converged, do not belong to it.
    fn ended(
        self,
        uid: u128,
        object: ObjectName,
        end: Timestamp,
        outcome: Outcome,
        signal: String,
    ) -> Trace {
        let key = self.key(uid);
        let end = end.max(self.start);
        let kept = self.steps.into_iter().filter(|step| step.start <= end || step.follows(end));
        let steps = kept.map(|step| TraceStep {
            start: step.start.min(end).max(self.start),
            end: step.end.unwrap_or(end).min(end).max(self.start),
            unfinished: step.end.is_none_or(|at| at > end)
                && !matches!(step.kind, StepKind::Event { .. }),
            kind: step.kind,
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

    /// Returns the second trace, after the deadline at `at` has passed.
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

impl OpenStep {
    fn new(kind: StepKind, start: Timestamp) -> Self {
        Self { kind, child: 0, start, end: None }
    }

    fn copy(&self) -> Self {
        Self { kind: self.kind.clone(), ..*self }
    }

    /// Returns whether it is an Event about the end of a trace: operators write Events after the
    /// status.
    fn follows(&self, end: Timestamp) -> bool {
        matches!(self.kind, StepKind::Event { .. }) && self.start <= end.after(AFTER_STATUS)
    }

    /// Returns the approximate size of the step in memory.
    fn size(&self) -> usize {
        let texts = match &self.kind {
            StepKind::Acknowledge => 0,
            StepKind::Condition { r#type, reason, .. } => r#type.len() + reason.len(),
            StepKind::Child(name) => {
                name.group.len() + name.kind.len() + name.namespace.len() + name.name.len()
            }
            StepKind::Finalizer(name) => name.len(),
            StepKind::Event { reason, reporter, .. } => reason.len() + reporter.len(),
        };
        size_of::<Self>() + texts
    }
}

impl Traces {
    /// Returns the key of an object's open trace, or else of the trace of its current generation.
    pub(crate) fn key_of(&self, world: &World, slot: Slot) -> Option<TraceKey> {
        let record = world.store.get(slot).filter(|_| self.on)?;
        if let Some(open) = self.open.get(&slot) {
            return Some(open.key(record.uid));
        }

        let kind = world.kind_of(record.watch);
        let has_one = kind.role == Role::Primary
            && record.generation.number() > 0
            && !kind.generation_is_unreliable();
        let part = TracePart::Generation(record.generation.number());

        has_one.then(|| TraceKey { uid: store::uid_text(record.uid), part, late: false })
    }

    /// Counts the traces and steps that did not fit.
    pub(crate) fn count_dropped_traces(&mut self, world: &mut World) {
        let (traces, steps) = std::mem::take(&mut self.dropped);
        (0..traces).for_each(|_| world.count_dropped(Limit::Traces));
        (0..steps).for_each(|_| world.count_dropped(Limit::TraceSteps));
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
