//! Begins and ends the traces of obligations and deletions.

use crate::model::traces::{OpenStep, OpenTrace, Traces, name_of};
use crate::model::world::kinds::Kind;
use crate::model::world::store::{Deletion, Obligation, Record, Slot};
use crate::snapshot::Outcome;
use crate::time::{Span, Timestamp};
use crate::trace::{Measured, StepKind, TraceCause, TraceKey, TraceLink, TracePart};

/// The object that a trace is about.
pub(crate) struct Traced<'a> {
    pub(crate) now: Timestamp,
    pub(crate) slot: Slot,
    pub(crate) record: &'a Record,
    pub(crate) kind: &'a Kind,
}

/// How an obligation begins.
pub(crate) struct TraceStart {
    pub(crate) cause: TraceCause,
    pub(crate) generation: i64,
    /// The start is a time in the object.
    pub(crate) dated: bool,
}

impl Traces {
    /// Begins the trace of an obligation that opens now.
    pub(crate) fn begin_obligation(&mut self, of: &Traced<'_>, beginning: &TraceStart) {
        let Some(obligation) = of.record.obligation().filter(|_| self.on) else { return };
        let mut trace = obligation_trace(of, obligation, beginning);

        if self.has_ended(&trace, of) {
            trace.part = TracePart::Version(of.record.version);
            if self.has_ended(&trace, of) {
                return;
            }
        }

        let start = trace.start;
        self.begin(of.slot, trace);
        self.begun = Some(of.slot);
        self.add(of.slot, OpenStep::new(StepKind::Acknowledge, start));
    }

    /// Ends the trace of the obligation, if there is one. If it is late, a second trace begins.
    pub(crate) fn end_obligation(
        &mut self,
        of: &Traced<'_>,
        outcome: Outcome,
        at: Timestamp,
        converged: Option<Span>,
    ) {
        if self.of_obligation(of.slot).is_some() {
            // The SLO deadline of a superseded change may decide its outcome later.
            let is_decided = |o: &Obligation| !o.uncounted && o.outcome.is_some();
            let counted = of.record.obligation().is_some_and(is_decided);
            let measured = Measured { converged, counted, acknowledged: None };
            self.end_trace(of, outcome, at, measured);
        }
    }

    /// Forgets the trace of an obligation that ends without an outcome.
    pub(crate) fn forget_obligation(&mut self, slot: Slot) {
        if self.of_obligation(slot).is_some() {
            self.forget(slot);
        }
    }

    /// Begins the trace of a deletion that began at `since`. `late_after` is the time after which a
    /// deletion is stuck; `is_late` means that this one already was when loopwatch first saw it.
    pub(crate) fn begin_deletion(
        &mut self,
        of: &Traced<'_>,
        since: Timestamp,
        late_after: Span,
        is_late: bool,
    ) {
        let Some(deletion) = of.record.deletion().filter(|_| self.on) else { return };
        let start = if is_late { since.after(late_after) } else { since }.min(of.now);
        let (part, cause) = (TracePart::Deletion, TraceCause::DeletionRequested);
        let mut trace = OpenTrace::new(part, cause, start, late_after);

        if is_late {
            trace.links.push(TraceLink::Continues(trace.key(of.record.uid)));
        }

        (trace.late, trace.generation, trace.dated) =
            (is_late, of.record.generation.number(), true);
        if self.has_ended(&trace, of) {
            return;
        }

        self.begin(of.slot, trace);
        self.begun = Some(of.slot);
        for step in waits(deletion, start) {
            self.add(of.slot, step);
        }
    }

    /// Ends the step of a finalizer that is gone.
    pub(crate) fn finalizer_removed(&mut self, slot: Slot, now: Timestamp, finalizer: &str) {
        let Some(trace) = self.open.get_mut(&slot) else { return };
        let waits = |step: &&mut OpenStep| matches!(&step.kind, StepKind::Finalizer(name) if name == finalizer);
        if let Some(step) = trace.steps.iter_mut().filter(|step| step.end.is_none()).find(waits) {
            step.end = Some(now);
        }
    }

    /// Ends the trace of the deletion, if there is one. If it is stuck, a second trace begins.
    pub(crate) fn end_deletion(&mut self, of: &Traced<'_>, outcome: Outcome) {
        if self.open.get(&of.slot).is_some_and(|trace| trace.part == TracePart::Deletion) {
            self.end_trace(of, outcome, of.now, Measured::default());
        }
    }

    fn has_ended(&self, trace: &OpenTrace, of: &Traced<'_>) -> bool {
        self.keys.0.contains(&trace.fingerprint(of.record.uid))
    }

    fn end_trace(&mut self, of: &Traced<'_>, outcome: Outcome, at: Timestamp, measured: Measured) {
        let Some(mut trace) = self.take(of.slot) else { return };
        let uid = of.record.uid;
        let rest = (outcome == Outcome::Late && !trace.late).then(|| trace.rest(uid, at));
        trace.measured = Measured { acknowledged: trace.measured.acknowledged, ..measured };

        let (size, key) = (trace.bytes, trace.fingerprint(uid));
        let object = name_of(&of.kind.group, &of.kind.kind, of.record);
        let signal = match outcome {
            Outcome::Late | Outcome::Rejected => {
                of.record.hot.as_ref().map(|hot| hot.signal.clone())
            }
            _ => None,
        };

        let ended = trace.ended(uid, object, at, outcome, signal.unwrap_or_default());
        self.end(ended, size, key);
        if let Some(rest) = rest {
            self.begin(of.slot, rest);
        }
    }
}

fn obligation_trace(of: &Traced<'_>, obligation: &Obligation, beginning: &TraceStart) -> OpenTrace {
    let (record, resumed) = (of.record, beginning.cause == TraceCause::Resumed);
    let by_generation = record.generation.number() > 0 && !of.kind.generation_is_unreliable();
    let part = match resumed {
        false if by_generation => TracePart::Generation(record.generation.number()),
        // The generation already has a trace.
        _ => TracePart::Version(record.version),
    };

    let deadline = obligation.slo_deadline.since(obligation.opened);
    let late = obligation.outcome == Some(Outcome::Late);
    let start = if late { obligation.slo_deadline } else { obligation.opened };
    let mut trace = OpenTrace::new(part, beginning.cause, start, deadline);

    if late {
        // An earlier process has sent the trace up to the deadline.
        trace.links.push(TraceLink::Continues(trace.key(record.uid)));
    }

    if resumed && by_generation && !late {
        let part = TracePart::Generation(record.generation.number());
        trace.links.push(TraceLink::Previous(TraceKey { part, ..trace.key(record.uid) }));
    }

    (trace.late, trace.generation, trace.dated) = (late, beginning.generation, beginning.dated);
    trace
}

/// Returns a step for each finalizer that a deletion waits for.
fn waits(deletion: &Deletion, start: Timestamp) -> Vec<OpenStep> {
    let waits = deletion.actors.iter().map(|(name, _)| StepKind::Finalizer(name.to_string()));
    waits.map(|kind| OpenStep::new(kind, start)).collect()
}
