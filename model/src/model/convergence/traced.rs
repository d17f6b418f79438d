//! Records obligations and deletions of objects in the traces.

use crate::model::convergence::object_context::{ObjectContext, Update};
use crate::model::convergence::obligations::Opening;
use crate::model::traces::Traces;
use crate::model::traces::ends::{TraceStart, Traced};
use crate::snapshot::Outcome;
use crate::time::{Span, Timestamp};
use crate::trace::TraceCause;

impl ObjectContext<'_> {
    /// Begins the trace of an obligation that opens now. `update` is `None` if no new version of
    /// the object opened it.
    pub(super) fn trace_obligation(
        &mut self,
        update: Option<&Update<'_>>,
        opening: Opening,
        creation: bool,
    ) {
        let cause = match opening {
            Opening::Own => TraceCause::OperatorChangedSpec,
            Opening::Again => TraceCause::Resumed,
            Opening::Live | Opening::Backfilled if creation => TraceCause::Created,
            Opening::Live | Opening::Backfilled => TraceCause::SpecChanged,
        };
        let generation =
            update.map_or(self.record.generation.number(), |update| update.view.generation);
        let dated = opening == Opening::Backfilled;

        let (traces, of) = self.traced();
        traces.begin_obligation(&of, &TraceStart { cause, generation, dated });
    }

    /// Ends the trace of the obligation, if there is one.
    pub(super) fn end_obligation_trace(
        &mut self,
        outcome: Outcome,
        at: Timestamp,
        converged: Option<Span>,
    ) {
        let (traces, of) = self.traced();
        traces.end_obligation(&of, outcome, at, converged);
    }

    /// Ends the trace of an obligation that the operator did not end. An object that is no longer
    /// visible may return with the same obligation.
    pub(super) fn close_obligation_trace(&mut self, outcome: Outcome) {
        if outcome == Outcome::Unknown {
            self.traces.forget_obligation(self.slot);
        } else {
            self.end_obligation_trace(outcome, self.now, None);
        }
    }

    /// Begins the trace of a deletion that has just begun or has just become visible.
    pub(crate) fn trace_deletion(&mut self, since: Timestamp, is_late: bool) {
        if self.is_child() {
            return;
        }

        let late_after = self.settings.finalizer_stuck_after;
        let (traces, of) = self.traced();
        traces.begin_deletion(&of, since, late_after, is_late);
    }

    /// Ends the trace of the deletion, if there is one.
    pub(crate) fn end_deletion_trace(&mut self, outcome: Outcome) {
        let (traces, of) = self.traced();
        traces.end_deletion(&of, outcome);
    }

    /// Returns the traces, and the object as they need it.
    fn traced(&mut self) -> (&mut Traces, Traced<'_>) {
        let of = Traced { now: self.now, slot: self.slot, record: self.record, kind: self.kind };
        (self.traces, of)
    }
}
