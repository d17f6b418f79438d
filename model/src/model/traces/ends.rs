//! Begins and ends the traces of obligations and deletions.

use crate::model::convergence::object_context::{ObjectContext, Update};
use crate::model::convergence::obligations::Opening;
use crate::model::traces::{OpenStep, OpenTrace, name_of};
use crate::snapshot::Outcome;
use crate::time::{Span, Timestamp};
use crate::trace::{Measured, StepKind, TraceCause, TraceKey, TraceLink, TracePart};

// === impl ObjectContext ===

impl ObjectContext<'_> {
    /// Begins the trace of an obligation that opens now. `update` is missing if no version of the
    /// object opens it.
    pub(in crate::model) fn trace_obligation(
        &mut self,
        update: Option<&Update<'_>>,
        opening: Opening,
        creation: bool,
    ) {
        let Some(obligation) = self.record.obligation().filter(|_| self.traces.on) else { return };
        let by_generation = self.record.generation > 0 && !self.kind.generation_is_unreliable();
        let part = match opening {
            // The generation has had its trace.
            Opening::Again => TracePart::Version(self.record.version),
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

        if opening == Opening::Again && by_generation && !late {
            let part = TracePart::Generation(self.record.generation);
            trace.links.push(TraceLink::Previous(TraceKey { part, ..trace.key(self.record.uid) }));
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

    /// Ends the trace of the obligation, if there is one. If the obligation is late, another trace
    /// shows the rest.
    pub(in crate::model) fn end_obligation_trace(
        &mut self,
        outcome: Outcome,
        at: Timestamp,
        converged: Option<Span>,
    ) {
        if self.traces.of_obligation(self.slot).is_some() {
            let counted = self.record.obligation().is_some_and(|obligation| !obligation.uncounted);
            self.end_trace(outcome, at, Measured { converged, counted, acknowledged: None });
        }
    }

    /// Ends the trace of an obligation that the operator did not end. An object that is out of
    /// sight may come back with it.
    pub(in crate::model) fn close_obligation_trace(&mut self, outcome: Outcome) {
        if outcome == Outcome::Unknown {
            self.forget_obligation_trace();
        } else {
            self.end_obligation_trace(outcome, self.now, None);
        }
    }

    /// Forgets the trace of an obligation that ends without an outcome.
    pub(in crate::model) fn forget_obligation_trace(&mut self) {
        if self.traces.of_obligation(self.slot).is_some() {
            self.traces.forget(self.slot);
        }
    }

    /// Begins the trace of a deletion that has just begun, or that loopwatch has just seen.
    pub(in crate::model) fn trace_deletion(&mut self, since: Timestamp, timed_out: bool) {
        if !self.traces.on || self.is_child() {
            return;
        }

        let Some(deletion) = self.record.deletion() else { return };
        let deadline = self.settings.finalizer_stuck_after;
        let start = if timed_out { since.after(deadline) } else { since }.min(self.now);
        let mut trace =
            OpenTrace::new(TracePart::Deletion, TraceCause::DeletionRequested, start, deadline);

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
    pub(in crate::model) fn trace_finalizer_removed(&mut self, finalizer: &str) {
        let Some(trace) = self.traces.open.get_mut(&self.slot) else { return };
        let waits = |step: &&mut OpenStep| matches!(&step.kind, StepKind::Finalizer(name) if name == finalizer);
        if let Some(step) = trace.steps.iter_mut().filter(|step| step.end.is_none()).find(waits) {
            step.end = Some(self.now);
        }
    }

    /// Ends the trace of the deletion, if there is one. If the deletion is stuck, another trace
    /// shows the rest.
    pub(in crate::model) fn end_deletion_trace(&mut self, outcome: Outcome) {
        if self.traces.open.get(&self.slot).is_some_and(|trace| trace.part == TracePart::Deletion) {
            self.end_trace(outcome, self.now, Measured::default());
        }
    }

    fn end_trace(&mut self, outcome: Outcome, at: Timestamp, measured: Measured) {
        let Some(mut trace) = self.traces.take(self.slot) else { return };
        let rest =
            (outcome == Outcome::Late && !trace.late).then(|| trace.rest(self.record.uid, at));
        trace.measured = Measured { acknowledged: trace.measured.acknowledged, ..measured };

        let (uid, size, key) = (self.record.uid, trace.bytes, trace.fingerprint(self.record.uid));
        let object = name_of(&self.kind.group, &self.kind.kind, self.record);
        let signal = match outcome {
            Outcome::Late | Outcome::Rejected => {
                self.record.hot.as_ref().map(|hot| hot.signal.clone())
            }
            _ => None,
        };

        let ended = trace.ended(uid, object, at, outcome, signal.unwrap_or_default());
        self.traces.end(ended, size, key);
        if let Some(rest) = rest {
            self.traces.begin(self.slot, rest);
        }
    }
}
