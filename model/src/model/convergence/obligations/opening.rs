//! Opens obligations, and sets their deadlines.

use crate::model::convergence::object_context::{ObjectContext, Update};
use crate::model::convergence::obligations::Opening;
use crate::model::convergence::obligations::spec_changes::status_write;
use crate::model::status::reading::Verdict;
use crate::model::world::store::{Flag, Obligation, Unconverged};
use crate::snapshot::Outcome;
use crate::time::{Span, Timestamp};

impl ObjectContext<'_> {
    /// Opens an obligation, and ends the earlier one. That does not restart the time that the object
    /// has been unconverged.
    pub(super) fn open_obligation(
        &mut self,
        update: &Update<'_>,
        opened: Timestamp,
        opening: Opening,
    ) {
        self.close_obligation(Outcome::Superseded);
        let earlier = self.take_unconverged();
        let again = self.record.created().is_some_and(|created| opened <= created);
        let creation = (update.new || again) && update.view.generation <= 1;
        let mut obligation = self.new_obligation(creation, opened, opening, update.new);

        obligation.stale =
            !update.new && matches!(update.old_verdict, Verdict::Converged | Verdict::Suspended);
        let dated = opening == Opening::Backfilled && opened < self.now;
        let (status_written, status_writer) = status_write(update, opened);
        let mut unconverged = Unconverged {
            since: opened,
            unacknowledged_since: (opening != Opening::Own).then_some(opened),
            working_since: opened,
            last_converged: self.last_converged(update, opening, earlier.as_ref()),
            status_written,
            status_writer,
            dated,
            ..Unconverged::default()
        };

        if let Some(mut earlier) = earlier {
            unconverged.superseded = std::mem::take(&mut earlier.superseded);
            unconverged.continue_from(&earlier, obligation.deadline);
            if earlier
                .regressed_since
                .is_some_and(|since| self.regression_due(&earlier, since) <= self.now)
            {
                // The finding is already due, and a new spec must not close it.
                unconverged.mended_by = earlier.mended_by;
            }
        }

        let (unseen, due) =
            (opening == Opening::Backfilled && !update.new, obligation.slo_deadline <= self.now);
        let passed = unseen && due && obligation.outcome.is_none();
        unconverged.obligation = Some(obligation);

        let rolls_out = !self.is_first_spec() && self.rollout_until() >= Some(self.now);
        if opening != Opening::Again && !(opening == Opening::Own && rolls_out) {
            let created = self.record.created().filter(|_| creation);
            self.record.set_spec_change(created.or(Some(opened)), dated);
        }

        self.record.flags.set(Flag::SpecConverged, false);
        self.insert_unconverged(unconverged);
        self.trace_obligation(Some(update), opening, creation);

        if passed {
            // Neither the change nor its deadline was visible.
            self.count_outcome(Outcome::Unknown);
            self.traces.forget_obligation(self.slot);
        }
    }

    /// Returns the fingerprint of the last spec that converged and how long that took, if both are
    /// known.
    fn last_converged(
        &self,
        update: &Update<'_>,
        opening: Opening,
        earlier: Option<&Unconverged>,
    ) -> Option<(u64, Span)> {
        let flags = self.record.flags;
        match (opening, flags.has(Flag::SpecConverged)) {
            (Opening::Again, _) => None, // nobody has changed the spec, so nobody can revert it
            (_, true) => {
                let took = Span::secs(i64::from(self.record.last_convergence_secs));
                flags.has(Flag::ConvergenceTimed).then_some((update.old_spec_hash, took))
            }
            (_, false) => earlier.and_then(|earlier| earlier.last_converged),
        }
    }

    /// Opens the obligation of a listed object whose silent status has only now come to matter. The
    /// spec is as old as the object only if it never changed.
    pub(crate) fn open_silent_obligation(&mut self) {
        let first_spec = self.record.generation.number() <= 1;
        let opened = self.record.created().filter(|_| first_spec).unwrap_or(self.now).min(self.now);
        let obligation = self.new_obligation(first_spec, opened, Opening::Backfilled, true);
        self.insert_unconverged(Unconverged {
            since: opened,
            obligation: Some(obligation),
            unacknowledged_since: Some(opened),
            working_since: opened,
            dated: opened < self.now,
            ..Unconverged::default()
        });
        self.trace_obligation(None, Opening::Backfilled, first_spec);
    }

    fn new_obligation(
        &self,
        creation: bool,
        opened: Timestamp,
        opening: Opening,
        new: bool,
    ) -> Obligation {
        let (deadline, deadline_source) = self.deadline(creation);
        let slo_deadline = opened.after(self.slo_deadline());
        let backfilled = opening == Opening::Backfilled;

        // If the deadline passed before this process read the object, an earlier process may have
        // counted the obligation as late already.
        let outcome = (backfilled && new && slo_deadline <= self.now).then_some(Outcome::Late);
        Obligation {
            opened,
            generation: self.record.generation.number(),
            deadline: opened.after(deadline),
            deadline_source,
            slo_deadline,
            backfilled,
            creation,
            uncounted: matches!(opening, Opening::Own | Opening::Again),
            unasked: opening == Opening::Own,
            unmeasured: false,
            stale: false,
            acknowledged: None,
            converged_since: None,
            failed_since: None,
            unconfirmed: false,
            outcome,
        }
    }

    pub(super) fn insert_unconverged(&mut self, unconverged: Unconverged) {
        self.kind.unconverged.insert((unconverged.since, self.slot));
        self.record.hot_mut().unconverged = Some(unconverged);
    }

    /// Removes and returns the unconverged state.
    pub(super) fn take_unconverged(&mut self) -> Option<Unconverged> {
        let unconverged = self.record.hot.as_mut().and_then(|hot| hot.unconverged.take())?;
        self.kind.unconverged.remove(&(unconverged.since, self.slot));
        self.end_run(None);
        Some(unconverged)
    }

    /// Recomputes the deadlines of the open obligation.
    pub(crate) fn update_deadlines(&mut self) {
        let Some(creation) = self.record.obligation().map(|obligation| obligation.creation) else {
            return;
        };
        let ((deadline, source), slo_deadline) = (self.deadline(creation), self.slo_deadline());
        let Some(unconverged) = self.record.unconverged_mut() else { return };

        if let Some(obligation) = unconverged.obligation.as_mut() {
            // After a rejection, the deadline counts from the retry.
            obligation.deadline = obligation.opened.max(unconverged.working_since).after(deadline);
            obligation.deadline_source = source;
            obligation.slo_deadline = obligation.opened.after(slo_deadline);
        }
    }
}

impl Unconverged {
    /// Takes over what a newer spec does not reset. `deadline` is the deadline of that spec.
    fn continue_from(&mut self, earlier: &Self, deadline: Timestamp) {
        self.since = self.since.min(earlier.since);
        self.unacknowledged_since = match (self.unacknowledged_since, earlier.unacknowledged_since)
        {
            (Some(since), Some(earlier)) => Some(since.min(earlier)),
            (since, _) => since,
        };

        let answered =
            earlier.obligation.as_ref().is_some_and(|o| o.outcome == Some(Outcome::Rejected));
        if !answered && earlier.obligation.is_some() {
            self.working_since = self.working_since.min(earlier.working_since);
        }

        self.regressed_since = earlier.regressed_since;
        self.rollout_until = earlier.rollout_until;
        self.mended_by = earlier.mended_by.or(earlier.regressed_since.map(|_| deadline));
        self.dated &= earlier.dated;
    }
}
