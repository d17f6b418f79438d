//! Objects from lists, whose changes loopwatch did not see. Their timestamps and the findings of an
//! earlier process show what happened before.

use crate::model::convergence::object_context::{ObjectContext, Update};
use crate::model::convergence::obligations::Opening;
use crate::model::status::reading::{self, Acknowledged, Verdict};
use crate::model::world::field_managers::{spec_written, status_writer};
use crate::model::world::store::Flag;
use crate::time::Timestamp;

impl ObjectContext<'_> {
    /// Handles an object that has no obligation and that loopwatch has not seen converged. Its
    /// timestamps and the findings of an earlier process show whether it has converged, has
    /// regressed, or gets a backfilled obligation.
    pub(super) fn open_from_timestamps(&mut self, update: &Update<'_>) {
        match update.verdict {
            Verdict::Converged | Verdict::Finished => {
                self.record.flags.set(Flag::SpecConverged, true);
                self.record.flags.set(Flag::ConvergedUnseen, true);
            }
            Verdict::Progressing if self.stood_with_spec(update) => {
                // The operator works on an object whose spec is in effect.
                self.record.flags.set(Flag::SpecConverged, true);
                self.open_regression(update, update.lost_at.unwrap_or(self.now).min(self.now));
            }
            Verdict::Progressing | Verdict::Failed => {
                let written = spec_written(update.view).map(|written| written.min(self.now));

                // An earlier process saw the change to the spec with which the object does not
                // recover, unless there is a newer change.
                let not_recovered =
                    update.restored.not_recovered.filter(|at| written.is_none_or(|w| w <= *at));
                let no_task = update.acknowledged != Acknowledged::No && not_recovered.is_none();
                let regressed = self.regressed_before(update, written);

                if let Some(lost) = regressed.filter(|_| no_task) {
                    self.record.flags.set(Flag::SpecConverged, true);
                    self.open_regression(update, lost);
                    return self.doubt_regression(update);
                }

                // If nothing shows when the spec was written, the object has been like this since
                // its conditions changed.
                let began = not_recovered.or(written).or(update.lost_at).unwrap_or(self.now);
                self.open_obligation(update, began.min(self.now), Opening::Backfilled);

                let regressed = regressed.and(update.restored.regressed);
                self.restore_unconverged(update, regressed, not_recovered.is_some());
            }
            Verdict::Suspended | Verdict::Unknown => {}
        }
    }

    /// Returns whether a new object is being moved, and its summaries, such as `Ready`, have been true since a
    /// time after the spec was written: a virtual machine that migrates to another node stays ready. This does
    /// not hold for runs, whose summaries say that they have begun.
    fn stood_with_spec(&self, update: &Update<'_>) -> bool {
        let may_stand = update.acknowledged != Acknowledged::No
            && update.restored.overdue.is_none()
            && !reading::runs_to_completion(&self.kind.group, &self.kind.kind);
        let stood = || reading::stands_since(update.view);
        may_stand && stood().zip(spec_written(update.view)).is_some_and(|(stood, it)| stood >= it)
    }

    /// Returns when a new unconverged object regressed, if it did: an object that stopped being
    /// converged after its deadline had converged before. This does not hold for runs to
    /// completion: they may take any time, and a failure is their only result.
    fn regressed_before(
        &self,
        update: &Update<'_>,
        written: Option<Timestamp>,
    ) -> Option<Timestamp> {
        let lags =
            update.view.observed_generation.is_some_and(|seen| seen < update.view.generation);
        if lags || reading::is_unobserved(update.view) {
            return None; // the operator has never got this generation into effect
        }

        let in_time = written?.after(self.deadline(false).0);
        let lost =
            update.lost_at.filter(|lost| *lost > in_time && update.restored.overdue.is_none());
        if lost.is_some_and(|lost| reading::ended_with(update.view, lost)) {
            return None;
        }

        let lost = lost.filter(|_| !reading::runs_to_completion(&self.kind.group, &self.kind.kind));

        // `Ready=False` since the deadline, or before: another condition has changed since.
        let unmet = reading::unmet_since(update.view);
        let lost = lost.filter(|_| unmet.is_none_or(|unmet| unmet > in_time));

        // If all its conditions changed after a later spec change, it had recovered and now rolls
        // out that change.
        let rolls_out = update.verdict == Verdict::Progressing && update.all_lost_at >= written;
        let is_over = |since: &Timestamp| rolls_out && written > Some(*since);
        lost.or(update.restored.regressed.filter(|since| !is_over(since)))
    }

    /// Notes that a regression which only follows from times may be none.
    fn doubt_regression(&mut self, update: &Update<'_>) {
        let is_doubtful =
            update.verdict == Verdict::Progressing && reading::is_being_made(update.view);
        if let Some(unconverged) = self.record.unconverged_mut() {
            unconverged.perhaps_never_converged = is_doubtful;
        }
    }

    /// Restores what an earlier process knew about a listed object and its timestamps do not show.
    fn restore_unconverged(
        &mut self,
        update: &Update<'_>,
        regressed: Option<Timestamp>,
        not_recovered: bool,
    ) {
        let Some(unconverged) = self.record.unconverged_mut() else { return };
        let since = unconverged.since;
        unconverged.not_recovered = not_recovered;

        // Managed fields show only the last spec change and the last status write.
        let unanswered = match update.acknowledged {
            Acknowledged::Yes => false,
            Acknowledged::No => true,
            Acknowledged::Unreported => unconverged.status_written.is_none(),
        };
        let answered = status_writer(update.view).and_then(|m| m.time);
        let unacknowledged = update.restored.unacknowledged.filter(|at| {
            unanswered
                && !update.view.managers.is_empty()
                && answered.is_none_or(|answered| answered <= *at)
        });

        if let Some(first) = unacknowledged {
            unconverged.since = since.min(first);
            unconverged.working_since = unconverged.working_since.min(first);
            unconverged.unacknowledged_since =
                unconverged.unacknowledged_since.map(|since| since.min(first));
        }

        // The status may be about the earlier spec, with which the object may have converged again
        // before the change.
        let still_lost =
            !matches!(update.about_earlier, Some(Verdict::Converged | Verdict::Finished));
        if let Some(lost) = regressed.filter(|_| still_lost) {
            unconverged.since = unconverged.since.min(lost);
            unconverged.regressed_since = Some(lost);
        }

        let moved = (unconverged.since, self.slot);
        self.kind.unconverged.remove(&(since, self.slot));
        self.kind.unconverged.insert(moved);
    }
}
