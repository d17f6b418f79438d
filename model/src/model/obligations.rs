//! Obligations: each spec change opens one, and each ends with exactly one [`Outcome`].
//!
//! An obligation counts as late when its SLO deadline passes, not when the object finally converges. Otherwise, changes
//! that never converge would never count. Only a spec change opens an obligation; an object that stops being converged
//! without one has regressed.
//!
//! Some obligations have deadlines but count towards no total, because no person asked for anything: the operator
//! changed the spec itself, or the object was resumed or runs again.

use super::context::{ObjectContext, Update};
use super::reading::{Acknowledged, Verdict};
use super::sight::Sight;
use super::store::{Flag, Obligation, Unconverged};
use crate::observation::{Manager, ObjectView, StatusShape};
use crate::snapshot::Outcome;
use crate::time::{Span, Timestamp};

/// Why an obligation opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Opening {
    /// loopwatch has just seen the spec change.
    Live,
    /// The object's timestamps say when the spec changed.
    Backfilled,
    /// No person asked for it.
    Uncounted,
}

// === impl ObjectContext ===

impl ObjectContext<'_> {
    /// Updates the obligation or the regression of an object from a new version.
    pub(crate) fn update_obligation(&mut self, update: &Update<'_>) {
        if update.view.deleted.is_some() {
            self.close_obligation(Outcome::Deleted);
            return self.clear_unconverged();
        }
        if update.verdict == Verdict::Suspended {
            self.close_obligation(Outcome::Suspended);
            return self.clear_unconverged();
        }
        let resumed = !update.new && !update.spec_changed && update.old_verdict == Verdict::Suspended;
        let done = matches!(update.verdict, Verdict::Converged | Verdict::Finished);
        if resumed && (!done || !self.record.flags.has(Flag::SpecConverged)) {
            // Nothing was expected while the object was paused, so the time begins now.
            self.open_obligation(update, self.now, Opening::Uncounted);
        } else if update.spec_changed && update.verdict == Verdict::Finished {
            // The run is over, and nothing shows that the operator should run it again.
        } else if update.live && update.new {
            self.open_obligation(update, self.now, Opening::Live);
        } else if update.live && update.spec_changed {
            self.spec_changed(update);
        } else if update.spec_changed {
            // The spec changed while the watch was interrupted; the object's timestamps say when.
            let written = spec_written(update.view).unwrap_or(self.now).min(self.now);
            self.open_obligation(update, written, Opening::Backfilled);
        } else if !self.record.flags.has(Flag::SpecConverged) && self.record.obligation().is_none() {
            // The object is new from a list, or its first status appeared after that.
            self.open_from_timestamps(update);
        } else if self.record.obligation().is_none() {
            self.update_regression(update);
        }
        self.update_progress(update);
    }

    /// Handles a spec change that has just happened.
    fn spec_changed(&mut self, update: &Update<'_>) {
        if !update.spec_written_by_operator {
            self.record.spec_changed = u32::try_from(self.now.0 / 1000).unwrap_or(0);
            return self.open_obligation(update, self.now, Opening::Live);
        }
        // An operator that fills in defaults or counts revisions cannot extend its own obligation.
        if self.record.obligation().is_none() {
            self.open_obligation(update, self.now, Opening::Uncounted);
        }
    }

    /// Ends the obligation if the waiting time for its outcome is over. While the watch is blind, an SLO deadline that
    /// passes ends it as unknown, and everything else waits.
    pub(crate) fn advance_obligation(&mut self) {
        let Some(obligation) = self.record.obligation().cloned() else { return };
        let (now, settings, lost) = (self.now, self.settings, self.sight == Sight::Lost);
        if let Some(converged) = obligation.converged_since {
            if now >= converged.after(settings.settle) && !lost {
                self.end_converged(&obligation, converged);
            }
        } else if let Some(failed) = obligation.failed_since {
            if now >= failed.after(settings.reject_after) && !lost {
                self.count_outcome(Outcome::Rejected);
            }
        } else if obligation.unconfirmed {
            if now >= obligation.opened.after(settings.unsaid_after) && !lost {
                self.end_unconfirmed(&obligation);
            }
        } else if now >= obligation.slo_deadline && obligation.outcome.is_none() {
            self.slo_deadline_passed(&obligation);
        }
    }

    /// Returns when the next waiting time of the obligation is over.
    pub(crate) fn obligation_due(&self) -> Option<Timestamp> {
        let obligation = self.record.obligation()?;
        let settings = self.settings;
        let steps = [
            obligation.converged_since.map(|since| since.after(settings.settle)),
            obligation.failed_since.map(|since| since.after(settings.reject_after)),
            obligation.unconfirmed.then(|| obligation.opened.after(settings.unsaid_after)),
            Some(obligation.slo_deadline),
        ];
        steps.into_iter().flatten().filter(|due| *due > self.now).min()
    }

    /// Handles an SLO deadline that passed. An object that never had a status is late only if most objects of its kind
    /// have one; otherwise nothing is expected of it.
    fn slo_deadline_passed(&mut self, obligation: &Obligation) {
        if self.record.verdict == Verdict::Unknown
            && !self.record.flags.has(Flag::HasStatus)
            && self.kind.expects_status()
        {
            self.record.verdict = Verdict::Progressing;
        }
        match (self.sight, self.record.verdict) {
            (Sight::Lost, _) => self.count_outcome(Outcome::Unknown),
            (_, Verdict::Unknown) => self.clear_unconverged(),
            _ => {
                self.learn_censored(obligation, obligation.slo_deadline);
                self.count_outcome(Outcome::Late);
            }
        }
    }

    /// Ends the obligation, if one is open, with an outcome that the operator did not cause: superseded, deleted,
    /// suspended or unknown. An obligation of an object of which nothing is expected ends without an outcome.
    pub(crate) fn close_obligation(&mut self, outcome: Outcome) {
        let Some(obligation) = self.record.obligation().filter(|o| o.outcome.is_none()).cloned() else { return };
        if let Some(converged) = obligation.converged_since.filter(|at| self.now >= at.after(self.settings.settle)) {
            return self.end_converged(&obligation, converged); // the watch was blind when the waiting time ended
        }
        let expected = self.record.verdict != Verdict::Unknown
            || self.record.flags.has(Flag::HasStatus)
            || self.kind.expects_status();
        if expected {
            self.learn_censored(&obligation, self.now);
            self.count_outcome(outcome);
        }
    }

    /// Removes the unconverged state of an object that has converged or is no longer expected to.
    pub(crate) fn clear_unconverged(&mut self) {
        if let Some(unconverged) = self.record.hot.as_mut().and_then(|hot| hot.unconverged.take()) {
            self.kind.unconverged.remove(&(unconverged.since, self.slot));
        }
    }

    fn open_obligation(&mut self, update: &Update<'_>, opened: Timestamp, opening: Opening) {
        self.close_obligation(Outcome::Superseded);
        let last_converged = match self.record.flags.has(Flag::SpecConverged) {
            true => self
                .record
                .flags
                .has(Flag::ConvergenceTimed)
                .then(|| (update.old_spec_hash, Span::secs(i64::from(self.record.last_convergence_secs)))),
            false => self.record.unconverged().and_then(|unconverged| unconverged.last_converged),
        };
        let earlier = self.record.unconverged();
        let since = earlier.map_or(opened, |unconverged| unconverged.since.min(opened));
        let unacknowledged_since = match opening {
            Opening::Uncounted if !update.new && update.old_verdict != Verdict::Suspended => None, // the operator acts
            _ => Some(earlier.and_then(|unconverged| unconverged.unacknowledged_since).unwrap_or(opened)),
        };
        let (status_written, status_writer) = status_write(update, opened);
        self.clear_unconverged();
        let obligation = self.new_obligation(update.new && update.view.generation <= 1, opened, opening);
        self.record.flags.set(Flag::SpecConverged, false);
        self.record.hot_mut().unconverged = Some(Unconverged {
            since,
            obligation: Some(obligation),
            unacknowledged_since,
            regressed_since: None,
            rollout_until: None,
            last_converged,
            status_written,
            status_writer,
        });
        self.kind.unconverged.insert((since, self.slot));
    }

    /// Opens the obligation of a listed object whose silence has a meaning only now. The creation time is that of the
    /// spec only if the spec never changed.
    pub(crate) fn open_silent_obligation(&mut self) {
        let first_spec = self.record.generation <= 1;
        let opened = self.record.created().filter(|_| first_spec).unwrap_or(self.now).min(self.now);
        self.record.hot_mut().unconverged = Some(Unconverged {
            since: opened,
            obligation: Some(self.new_obligation(first_spec, opened, Opening::Backfilled)),
            unacknowledged_since: Some(opened),
            regressed_since: None,
            rollout_until: None,
            last_converged: None,
            status_written: None,
            status_writer: String::new(),
        });
        self.kind.unconverged.insert((opened, self.slot));
    }

    /// Gives the open obligation the deadlines that apply now.
    pub(crate) fn update_deadlines(&mut self) {
        let Some(creation) = self.record.obligation().map(|obligation| obligation.creation) else { return };
        let ((deadline, source), slo_deadline) = (self.deadline(creation), self.slo_deadline());
        let hot = self.record.hot.as_mut();
        if let Some(obligation) = hot.and_then(|hot| hot.unconverged.as_mut()).and_then(|u| u.obligation.as_mut()) {
            obligation.deadline = obligation.opened.after(deadline);
            obligation.deadline_source = source;
            obligation.slo_deadline = obligation.opened.after(slo_deadline);
        }
    }

    fn new_obligation(&self, creation: bool, opened: Timestamp, opening: Opening) -> Obligation {
        let (deadline, deadline_source) = self.deadline(creation);
        let slo_deadline = opened.after(self.slo_deadline());
        let backfilled = opening == Opening::Backfilled;
        // If the deadline passed before this process read the object, an earlier process may have counted the
        // obligation as late already.
        let outcome = (backfilled && slo_deadline <= self.now).then_some(Outcome::Late);
        Obligation {
            opened,
            deadline: opened.after(deadline),
            deadline_source,
            slo_deadline,
            backfilled,
            creation,
            uncounted: opening == Opening::Uncounted,
            acknowledged: None,
            converged_since: None,
            failed_since: None,
            unconfirmed: false,
            outcome,
        }
    }

    /// Judges an object that has no obligation and has not been seen converged. Its timestamps tell whether it has
    /// converged, has regressed, or gets a backfilled obligation.
    fn open_from_timestamps(&mut self, update: &Update<'_>) {
        match update.verdict {
            Verdict::Converged | Verdict::Finished => self.record.flags.set(Flag::SpecConverged, true),
            Verdict::Progressing | Verdict::Failed => {
                let written = spec_written(update.view).map(|written| written.min(self.now));
                let deadline = self.deadline(false).0;
                match (written, update.lost_at) {
                    (Some(written), Some(lost)) if lost > written.after(deadline) => {
                        // Lost after the deadline, so it had converged before.
                        self.record.flags.set(Flag::SpecConverged, true);
                        self.open_regression(update, lost);
                    }
                    (Some(written), _) => self.open_obligation(update, written, Opening::Backfilled),
                    // Nothing shows when the spec was written, but the object has been like this since then.
                    (None, Some(lost)) => self.open_obligation(update, lost.min(self.now), Opening::Backfilled),
                    (None, None) => self.open_obligation(update, self.now, Opening::Backfilled),
                }
            }
            Verdict::Suspended | Verdict::Unknown => {}
        }
    }

    /// Opens or closes a regression of an object without an obligation.
    fn update_regression(&mut self, update: &Update<'_>) {
        match update.verdict {
            Verdict::Progressing if update.old_verdict == Verdict::Finished => {
                self.open_obligation(update, self.now, Opening::Uncounted); // it runs again
            }
            Verdict::Progressing | Verdict::Failed if self.record.unconverged().is_none() => {
                // In a list, the conditions say when it happened.
                let lost = update.lost_at.filter(|lost| !update.live && *lost > self.record.since);
                self.open_regression(update, lost.unwrap_or(self.now).min(self.now));
            }
            Verdict::Converged | Verdict::Finished => self.clear_unconverged(),
            _ => {}
        }
    }

    fn open_regression(&mut self, update: &Update<'_>, since: Timestamp) {
        let (status_written, status_writer) = status_write(update, since);
        let rollout_until = self.rollout_until().filter(|until| *until > since);
        self.record.hot_mut().unconverged = Some(Unconverged {
            since,
            obligation: None,
            unacknowledged_since: None,
            regressed_since: Some(since),
            rollout_until,
            last_converged: None,
            status_written,
            status_writer,
        });
        self.kind.unconverged.insert((since, self.slot));
    }

    /// Returns the end of the deadline of the last spec change that loopwatch saw. Until then, the object may still roll
    /// out, even if its status has said converged meanwhile.
    pub(crate) fn rollout_until(&self) -> Option<Timestamp> {
        let changed = Timestamp(i64::from(self.record.spec_changed) * 1000);
        (self.record.spec_changed > 0).then(|| changed.after(self.deadline(false).0))
    }

    /// Records status writes, acknowledgement, convergence and failure of an unconverged object.
    fn update_progress(&mut self, update: &Update<'_>) {
        let now = self.now;
        let Some(unconverged) = self.record.hot.as_mut().and_then(|hot| hot.unconverged.as_mut()) else { return };
        if update.status_changed && !update.spec_changed && !update.new {
            unconverged.status_written = Some(now);
            unconverged.status_writer = status_writer(update.view).map_or_else(String::new, |m| m.name.clone());
        }
        let written = unconverged.status_written.is_some();
        let Some(obligation) = unconverged.obligation.as_mut() else { return };
        let current = match update.acknowledged {
            Acknowledged::Yes => true,
            Acknowledged::No => false,
            Acknowledged::Unreported => written,
        };
        if current {
            unconverged.unacknowledged_since = None;
        } else if update.acknowledged_more && unconverged.unacknowledged_since.is_some() {
            unconverged.unacknowledged_since = Some(obligation.opened);
        }
        if current && obligation.acknowledged.is_none() {
            obligation.acknowledged = Some(now);
            if !obligation.backfilled && !obligation.uncounted {
                let took = now.since(obligation.opened);
                self.kind.totals.acknowledge.observe(took);
                if obligation.outcome.is_none() {
                    self.kind.learned.acknowledgement.add(took);
                }
            }
        }
        let says_converged = matches!(update.verdict, Verdict::Converged | Verdict::Finished);
        obligation.unconfirmed = says_converged && !current && update.acknowledged == Acknowledged::Unreported;
        obligation.converged_since = (says_converged && current).then(|| obligation.converged_since.unwrap_or(now));
        let says_failed = update.verdict == Verdict::Failed && current;
        let unchanged_since = obligation.failed_since.filter(|_| !update.status_changed);
        obligation.failed_since = says_failed.then(|| unchanged_since.unwrap_or(now));
    }

    fn end_converged(&mut self, obligation: &Obligation, converged: Timestamp) {
        let took = converged.since(obligation.opened);
        self.count_outcome(Outcome::Converged);
        let timed = !obligation.backfilled && !obligation.uncounted;
        if timed {
            self.kind.totals.convergence.observe(took);
        }
        if timed && obligation.outcome.is_none() {
            self.kind.learned.convergence(obligation.creation).add(took);
        }
        self.spec_has_converged(took, timed);
    }

    /// Ends the obligation of an object whose status has said converged all along: nobody knows whether it is about the
    /// new spec.
    fn end_unconfirmed(&mut self, obligation: &Obligation) {
        self.count_outcome(Outcome::Unknown);
        self.spec_has_converged(self.now.since(obligation.opened), false);
    }

    fn spec_has_converged(&mut self, took: Span, timed: bool) {
        self.record.last_convergence_secs = u32::try_from(took.0 / 1000).unwrap_or(u32::MAX);
        self.record.flags.set(Flag::ConvergenceTimed, timed);
        self.record.flags.set(Flag::SpecConverged, true);
        self.clear_unconverged();
    }

    /// Teaches that the obligation had not ended at `at`, and perhaps was not even acknowledged.
    fn learn_censored(&mut self, obligation: &Obligation, at: Timestamp) {
        if obligation.backfilled || obligation.uncounted || obligation.outcome.is_some() {
            return;
        }
        let lasted = at.since(obligation.opened);
        self.kind.learned.convergence(obligation.creation).add_censored(lasted);
        if obligation.acknowledged.is_none() {
            self.kind.learned.acknowledgement.add_censored(lasted);
        }
    }

    /// Sets and counts the outcome of the obligation, unless it already has one.
    fn count_outcome(&mut self, outcome: Outcome) {
        let Some(unconverged) = self.record.hot.as_mut().and_then(|hot| hot.unconverged.as_mut()) else { return };
        let Some(obligation) = unconverged.obligation.as_mut().filter(|o| o.outcome.is_none()) else { return };
        obligation.outcome = Some(outcome);
        if !obligation.uncounted {
            self.namespace.totals.obligations[outcome as usize] += 1;
        }
    }
}

/// Returns when the spec was last written: the time of the newest managed fields entry that owns spec fields, through
/// any subresource, such as `scale`. Returns `None` if nothing shows it. The spec of the first generation is as old as
/// the object.
pub(crate) fn spec_written(view: &ObjectView) -> Option<Timestamp> {
    let by_managers = view.managers.iter().filter(|m| m.owns.spec).filter_map(|m| m.time).max();
    if view.generation == 1 { view.created.or(by_managers) } else { by_managers }
}

/// Returns whether the field manager that writes the status wrote the spec after all others.
pub(crate) fn spec_written_by_operator(view: &ObjectView) -> bool {
    let Some(operator) = status_writer(view) else { return false };
    let newest = |by_operator: bool| {
        let writes = view.managers.iter().filter(|m| m.owns.spec && (m.name == operator.name) == by_operator);
        writes.map(|m| m.time).max()
    };
    newest(true).is_some_and(|own| newest(false).is_none_or(|other| own > other))
}

fn status_writer(view: &ObjectView) -> Option<&Manager> {
    view.managers.iter().filter(|m| m.owns.status).max_by_key(|m| m.time)
}

/// Returns the time of the last status write since `opened`, if the object shows one, and the name of the field manager
/// that writes the status.
fn status_write(update: &Update<'_>, opened: Timestamp) -> (Option<Timestamp>, String) {
    let writer = status_writer(update.view);
    let name = writer.map_or_else(String::new, |m| m.name.clone());
    let time = writer.and_then(|m| m.time);
    if update.new && update.acknowledged != Acknowledged::No {
        // The status of a new object is about the current spec unless its times say otherwise. Dumps have no managed
        // fields.
        let outdated = time.zip(spec_written(update.view)).is_some_and(|(status, spec)| status < spec);
        let current = update.view.status == StatusShape::Filled && !outdated;
        return (current.then(|| time.unwrap_or(opened).max(opened)), name);
    }
    // Times in managed fields are whole seconds, so a write within the same second may have been before `opened`.
    let second_after = opened.after(Span::secs(1));
    (time.filter(|time| !update.spec_changed && *time >= second_after), name)
}
