//! The progress of an unconverged object: status writes, acknowledgement, convergence and failure.

use crate::model::convergence::object_context::{ObjectContext, Update};
use crate::model::status::reading::{Acknowledged, Verdict};
use crate::model::world::field_managers::status_writer;
use crate::model::world::kinds::completed::Work;
use crate::model::world::kinds::pace::{Answer, Wait};
use crate::model::world::store::Unconverged;
use crate::model::world::visibility::Visibility;
use crate::time::{Span, Timestamp};

impl ObjectContext<'_> {
    /// Records status writes, acknowledgement, convergence and failure of an unconverged object.
    pub(super) fn update_progress(&mut self, update: &Update<'_>) {
        let now = self.now;
        let runs = self.is_under_way(update);
        let Some(unconverged) = self.record.unconverged_mut() else { return };
        unconverged.note_status(update, now);

        let written = unconverged.status_written.is_some();
        let Some(obligation) = unconverged.obligation.as_mut() else { return };
        let current = match update.acknowledged {
            Acknowledged::Yes => true,
            Acknowledged::No => false,
            Acknowledged::Unreported => written,
        };

        unconverged.runs = runs && current;
        let (runs, waited) = (unconverged.runs, (obligation.opened, unconverged.dated));
        if current {
            unconverged.unacknowledged_since = None;
        } else if update.acknowledged_more && unconverged.unacknowledged_since.is_some() {
            unconverged.unacknowledged_since = Some(obligation.opened);
        }

        obligation.stale &=
            says_converged(update) || update.verdict == Verdict::Unknown || !current;
        if current && obligation.acknowledged.is_none() {
            self.note_acknowledgement(update);
        }

        if current || update.acknowledged_more {
            self.superseded_acknowledged(current);
        }

        self.note_run(update, runs.then_some(waited));
        self.note_verdict(update, current);
    }

    /// Records the acknowledgement of a spec change. If its time is measured, it is counted and
    /// learned. After a late one, the operator gets the whole deadline for its work.
    fn note_acknowledgement(&mut self, update: &Update<'_>) {
        let (now, in_time) = (self.now, self.sees_in_time(update));
        let allowed = self.acknowledgement_deadline();
        let Some(unconverged) = self.record.unconverged_mut() else { return };
        let dated = unconverged.dated;
        let Some(obligation) = unconverged.obligation.as_mut() else { return };
        let opened = obligation.opened;

        obligation.acknowledged = Some(began(update, opened, now, || status_time(update)));
        obligation.unmeasured |= !in_time;
        let (measured, in_slo) = (obligation.is_measured(), obligation.outcome.is_none());
        let live = update.live && !update.new;
        if live && now >= opened.after(allowed) {
            let creation = obligation.creation;
            self.restart_deadline(creation);
        }

        if live {
            let standstill = Span(allowed.0 / 2).min(self.settings.starved_after);
            self.kind.acknowledged.note(now, (opened, dated), self.slot, standstill);
            self.kind.pace.answered(now);
            self.kind.completed.note(Work::Acknowledgement, opened, self.now);
        }

        let took = measured.then(|| now.since(opened));
        self.traces.acknowledged(self.slot, now, took);
        if let Some(took) = took {
            self.kind.totals.acknowledge.observe(took);
            self.learn(Answer::Acknowledgement, Wait { from: opened, to: now }, in_slo);
        }
    }

    /// Makes the deadline for the convergence count from now, because the operator begins to work
    /// only now.
    fn restart_deadline(&mut self, creation: bool) {
        let (now, deadline) = (self.now, self.deadline(creation).0);
        let Some(unconverged) = self.record.unconverged_mut() else { return };
        unconverged.working_since = now;
        if let Some(obligation) = unconverged.obligation.as_mut() {
            obligation.deadline = now.after(deadline);
        }
    }

    /// Records since when the status has said converged or failed. `current` means that the status
    /// is about the current spec.
    fn note_verdict(&mut self, update: &Update<'_>, current: bool) {
        let (now, reject_after, in_time) =
            (self.now, self.settings.reject_after, self.sees_in_time(update));
        let deadline =
            self.record.obligation().map(|obligation| self.deadline(obligation.creation).0);
        let Some(unconverged) = self.record.unconverged_mut() else { return };
        let Some(obligation) = unconverged.obligation.as_mut() else { return };
        let says_converged = says_converged(update);

        obligation.unconfirmed =
            says_converged && !current && update.acknowledged == Acknowledged::Unreported;
        if says_converged && current && obligation.converged_since.is_none() {
            obligation.unmeasured |= !in_time;
            self.kind.pace.answered(now);
        }

        obligation.converged_since =
            (says_converged && current).then(|| obligation.converged_since.unwrap_or(now));
        let says_failed = update.verdict == Verdict::Failed && current;
        if let (true, Some(failed)) = (!says_failed && !says_converged, obligation.failed_since)
            && now >= failed.after(reject_after)
        {
            // The operator rejected the spec and now retries, so the deadline starts over.
            unconverged.working_since = now;
            obligation.deadline = now.after(deadline.unwrap_or_default());
        }

        let known = || update.lost_at.or_else(|| status_time(update));
        let began = || began(update, obligation.opened, now, known);
        obligation.failed_since =
            says_failed.then(|| obligation.failed_since.unwrap_or_else(began));
        if says_failed && obligation.unasked && unconverged.regressed_since.is_none() {
            unconverged.regressed_since = Some(now);
        }
    }

    /// Returns whether loopwatch sees the version as it appears, so that its time can be measured.
    fn sees_in_time(&self, update: &Update<'_>) -> bool {
        (update.live || update.new) && self.visibility == Visibility::Clear
    }
}

/// Returns when something began that the status of a version says: now or, if a list shows it, perhaps earlier, as
/// far as that is `known` and not before the spec was written.
fn began(
    update: &Update<'_>,
    opened: Timestamp,
    now: Timestamp,
    known: impl FnOnce() -> Option<Timestamp>,
) -> Timestamp {
    if update.live {
        return now;
    }

    known().filter(|at| *at >= opened).map_or(now, |at| at.min(now))
}

/// Returns when the status was written last.
fn status_time(update: &Update<'_>) -> Option<Timestamp> {
    status_writer(update.view).and_then(|manager| manager.time)
}

impl Unconverged {
    /// Records what the status says, whichever spec it is about, and who wrote it.
    fn note_status(&mut self, update: &Update<'_>, now: Timestamp) {
        self.last_status_write = status_time(update);
        self.unready = matches!(update.about_earlier, Some(Verdict::Progressing | Verdict::Failed));
        if update.status_changed && !update.spec_changed && !update.new {
            self.status_written = Some(now);
            self.status_writer =
                status_writer(update.view).map_or_else(String::new, |m| m.name.clone());
        }
    }
}

fn says_converged(update: &Update<'_>) -> bool {
    matches!(update.verdict, Verdict::Converged | Verdict::Finished)
}
