//! Obligations: each spec change opens one, and each ends with exactly one [`Outcome`].
//!
//! An obligation counts as late when its SLO deadline passes, not when the object finally
//! converges. Otherwise, changes that never converge would never count. Only a spec change opens an
//! obligation; an object that stops being converged without one has regressed.
//!
//! Some obligations have deadlines but count towards no total, because no person requested a
//! change: the operator changed the spec itself, or the object was resumed or runs again.
//!
//! This file decides what a new version of an object means for its obligation. The modules are
//! listed in the order in which they act.

mod spec_changes; // whether the spec changed, when, and by whom
mod opening; // a new obligation, and what it takes over from an earlier one
mod backfill; // what the timestamps of listed objects say
mod regressions; // objects that stop being converged without a spec change
mod progress; // acknowledgement, convergence, failure
mod outcomes; // the end
mod superseded; // spec changes that newer ones replaced before an acknowledgement
mod runs; // work that ends by itself, in its own time

use crate::model::convergence::object_context::{ObjectContext, Update};
use crate::model::status::reading::Verdict;
use crate::model::world::store::Flag;
use crate::snapshot::Outcome;

/// Why an obligation opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opening {
    /// loopwatch has just seen the spec change.
    Live,
    /// The object's timestamps say when the spec changed.
    Backfilled,
    /// The operator changed the spec itself.
    Own,
    /// The object was resumed, or runs again.
    Again,
}

impl ObjectContext<'_> {
    /// Updates the obligation or the regression of an object from a new version.
    pub(crate) fn update_obligation(&mut self, update: &Update<'_>) {
        if update.view.deleted.is_some() {
            self.close_obligation(Outcome::Deleted);
            return self.clear_unconverged();
        }

        if update.verdict == Verdict::Suspended {
            return self.pause(update);
        }

        if matches!(update.about_earlier, Some(Verdict::Converged | Verdict::Finished)) {
            self.end_regression(update);
        }

        let was_paused = !update.new && update.old_verdict == Verdict::Suspended;
        let had_converged = self.record.flags.has(Flag::SpecConverged) && !update.spec_changed;
        let departed = if update.new { self.recall_departed(update) } else { None };

        // In a list, a spec change may be older than the resumption.
        let resumed = was_paused && !(update.live && update.spec_changed);
        let done = matches!(update.verdict, Verdict::Converged | Verdict::Finished);
        if resumed {
            // Changes made during the pause begin to roll out now.
            self.record.set_spec_change(Some(self.now), false);
            self.record.flags.set(Flag::ConvergedUnseen, false);
        }

        if resumed && (!done || update.spec_changed || !self.record.flags.has(Flag::SpecConverged))
        {
            // Nothing was expected while the object was paused, so the deadline counts from now.
            self.open_obligation(update, self.now, Opening::Again);
        } else if update.spec_changed && update.verdict == Verdict::Finished {
            // The run is over, and nothing shows that the operator should run it again.
        } else if update.live && update.new && departed.is_none() && !self.is_old(update) {
            self.open_obligation(update, self.now, Opening::Live);
        } else if update.spec_changed {
            self.spec_changed(update);
        } else if !self.record.flags.has(Flag::SpecConverged) && self.record.obligation().is_none()
        {
            // The object is new in a list, or got its first status later.
            self.open_from_timestamps(update);
        } else if self.record.obligation().is_none() {
            self.update_regression(update, departed.and_then(|known| known.regressed));
        }

        if !update.live && (update.new || update.spec_changed) {
            self.note_spec_change(update);
        }

        if was_paused {
            self.expect_recovery(had_converged);
        }

        self.update_progress(update);
    }

    /// Ends the obligation of an object that is paused.
    fn pause(&mut self, update: &Update<'_>) {
        if update.old_verdict == Verdict::Finished {
            // A failure of the next run is not a regression.
            self.record.flags.set(Flag::SpecConverged, false);
        }

        if update.spec_changed && !update.spec_written_by_operator {
            // The operator handles the change after the pause.
            self.record.flags.set(Flag::SpecConverged, false);
        }

        if self
            .record
            .unconverged()
            .is_some_and(|unconverged| unconverged.regressed_since.is_some())
        {
            self.record.flags.set(Flag::RegressedBeforePause, true);
        }

        self.close_obligation(Outcome::Suspended);
        self.clear_unconverged();
    }

    /// Makes a failure of a resumed object a regression rather than a rejection of its spec,
    /// because the object had converged with that spec, or had regressed before it was paused. The
    /// operator has until the deadline to repair it.
    fn expect_recovery(&mut self, had_converged: bool) {
        let had_regressed = self.record.flags.has(Flag::RegressedBeforePause);
        self.record.flags.set(Flag::RegressedBeforePause, false);

        let unconverged = self.record.unconverged_mut();
        let Some(unconverged) = unconverged.filter(|_| had_converged || had_regressed) else {
            return;
        };
        if let Some(obligation) = unconverged.obligation.as_mut() {
            obligation.unasked = true;
            unconverged.rollout_until = Some(obligation.deadline);
        }
    }
}
