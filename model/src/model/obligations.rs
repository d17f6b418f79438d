//! Obligations: each spec change opens one, and each ends with exactly one [`Outcome`].
//!
//! An obligation counts as late when its SLO deadline passes, not when the object finally converges. Otherwise, changes
//! that never converge would never count. Only a spec change opens an obligation; an object that stops being converged
//! without one has regressed.

use super::context::{ObjectContext, Update};
use super::reading::{Acknowledged, Verdict};
use super::store::{Obligation, Unconverged};
use crate::observation::{Manager, ObjectView, StatusShape};
use crate::snapshot::Outcome;
use crate::time::{Span, Timestamp};

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
        if update.live && (update.spec_changed || update.new) {
            self.open_obligation(update, self.now, false);
        } else if update.spec_changed {
            // The spec changed while the watch was interrupted; the object's timestamps say when.
            let written = spec_written(update.view).unwrap_or(self.now).min(self.now);
            self.open_obligation(update, written, true);
        } else if !self.record.flags.spec_converged && self.record.obligation().is_none() {
            // The object is new from a list, or its first status appeared after that.
            self.open_from_timestamps(update);
        } else if self.record.obligation().is_none() {
            self.update_regression(update);
        }
        self.update_progress(update);
    }

    /// Ends the obligation if the waiting time for its outcome is over.
    pub(crate) fn advance_obligation(&mut self) {
        let Some(obligation) = self.record.obligation().cloned() else { return };
        let (now, settings) = (self.now, self.settings);
        if let Some(converged) = obligation.converged_since {
            if now >= converged.after(settings.settle) {
                self.end_converged(&obligation, converged);
            }
        } else if let Some(failed) = obligation.failed_since {
            if now >= failed.after(settings.reject_after) {
                self.count_outcome(Outcome::Rejected);
            }
        } else if obligation.unconfirmed {
            if now >= obligation.opened.after(settings.unsaid_after) {
                self.count_outcome(Outcome::Unknown);
                self.record.flags.spec_converged = true;
                self.clear_unconverged();
            }
        } else if now >= obligation.slo_deadline {
            self.slo_deadline_passed();
        }
    }

    /// Handles an SLO deadline that passed. An object that never had a status is late only if most objects of its kind
    /// have one; otherwise nothing is expected of it.
    fn slo_deadline_passed(&mut self) {
        if self.record.verdict == Verdict::Unknown && !self.record.flags.has_status && self.kind.expects_status() {
            self.record.verdict = Verdict::Progressing;
        }
        match (self.blind, self.record.verdict) {
            (true, _) => self.count_outcome(Outcome::Unknown),
            (false, Verdict::Unknown) => self.clear_unconverged(),
            (false, _) => self.count_outcome(Outcome::Late),
        }
    }

    /// Ends the obligation, if one is open, with an outcome that the operator did not cause: superseded, deleted,
    /// suspended or unknown.
    pub(crate) fn close_obligation(&mut self, outcome: Outcome) {
        let Some(opened) = self.record.obligation().filter(|o| o.outcome.is_none()).map(|o| o.opened) else { return };
        self.kind.learned.add_censored(self.now.since(opened));
        self.count_outcome(outcome);
    }

    /// Removes the unconverged state of an object that has converged or is no longer expected to.
    pub(crate) fn clear_unconverged(&mut self) {
        if let Some(unconverged) = self.record.hot.as_mut().and_then(|hot| hot.unconverged.take()) {
            self.kind.unconverged.remove(&(unconverged.since, self.slot));
        }
        self.kind.failing.remove(&self.slot);
    }

    /// Opens an obligation; `backfilled` means that `opened` comes from the object's timestamps.
    fn open_obligation(&mut self, update: &Update<'_>, opened: Timestamp, backfilled: bool) {
        if update.spec_written_by_operator && self.record.obligation().is_some_and(|o| o.outcome.is_none()) {
            return; // the operator filled in defaults of the spec that it is working on, so the obligation stays
        }
        let last_converged = if self.record.flags.spec_converged {
            Some((update.old_spec_hash, Span::secs(i64::from(self.record.last_convergence_secs))))
        } else {
            self.record.unconverged().and_then(|unconverged| unconverged.last_converged)
        };
        self.close_obligation(Outcome::Superseded);
        let since = self.record.unconverged().map_or(opened, |unconverged| unconverged.since.min(opened));
        let (status_written, status_writer) = status_write(update, opened);
        self.clear_unconverged();
        let obligation = self.new_obligation(opened, backfilled);
        self.record.flags.spec_converged = false;
        self.record.hot_mut().unconverged = Some(Unconverged {
            since,
            obligation: Some(obligation),
            regressed_since: None,
            last_converged,
            status_written,
            status_writer,
        });
        self.kind.unconverged.insert((since, self.slot));
    }

    pub(crate) fn new_obligation(&self, opened: Timestamp, backfilled: bool) -> Obligation {
        let (deadline, deadline_source) = self.kind.deadline(self.settings);
        let slo_deadline = opened.after(self.kind.slo_deadline(self.settings));
        // If the deadline passed before this process read the object, an earlier process may have counted the
        // obligation as late already.
        let outcome = (backfilled && slo_deadline <= self.now).then_some(Outcome::Late);
        Obligation {
            opened,
            deadline: opened.after(deadline),
            deadline_source,
            slo_deadline,
            backfilled,
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
            Verdict::Converged | Verdict::Finished => self.record.flags.spec_converged = true,
            Verdict::Progressing | Verdict::Failed => {
                let written = spec_written(update.view).unwrap_or(self.now).min(self.now);
                match update.lost_at.filter(|lost| *lost > written.after(self.kind.deadline(self.settings).0)) {
                    Some(lost) => {
                        self.record.flags.spec_converged = true; // lost after the deadline, so it had converged before
                        self.open_regression(update, lost);
                    }
                    None => self.open_obligation(update, written, true),
                }
            }
            Verdict::Suspended | Verdict::Unknown => {}
        }
    }

    /// Opens or closes a regression of an object without an obligation.
    fn update_regression(&mut self, update: &Update<'_>) {
        match update.verdict {
            Verdict::Progressing | Verdict::Failed if self.record.unconverged().is_none() => {
                self.open_regression(update, self.now)
            }
            Verdict::Converged | Verdict::Finished => self.clear_unconverged(),
            _ => {}
        }
    }

    fn open_regression(&mut self, update: &Update<'_>, since: Timestamp) {
        let (status_written, status_writer) = status_write(update, since);
        self.record.hot_mut().unconverged = Some(Unconverged {
            since,
            obligation: None,
            regressed_since: Some(since),
            last_converged: None,
            status_written,
            status_writer,
        });
        self.kind.unconverged.insert((since, self.slot));
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
        if current && obligation.acknowledged.is_none() {
            obligation.acknowledged = Some(now);
            if !obligation.backfilled {
                self.kind.totals.acknowledge.observe(now.since(obligation.opened));
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
        if !obligation.backfilled {
            self.kind.totals.convergence.observe(took);
            self.kind.learned.add_converged(took);
        }
        self.record.last_convergence_secs = u32::try_from(took.0 / 1000).unwrap_or(u32::MAX);
        self.record.flags.spec_converged = true;
        self.clear_unconverged();
    }

    /// Sets and counts the outcome of the obligation, unless it already has one.
    fn count_outcome(&mut self, outcome: Outcome) {
        let Some(unconverged) = self.record.hot.as_mut().and_then(|hot| hot.unconverged.as_mut()) else { return };
        let Some(obligation) = unconverged.obligation.as_mut().filter(|o| o.outcome.is_none()) else { return };
        obligation.outcome = Some(outcome);
        self.namespace.totals.obligations[outcome as usize] += 1;
    }
}

/// Returns when the spec was last written: the time of the newest managed fields entry that owns spec fields, or the
/// creation time. For the first generation, the creation time takes precedence: its spec never changed.
pub(crate) fn spec_written(view: &ObjectView) -> Option<Timestamp> {
    let by_managers =
        view.managers.iter().filter(|m| m.owns.spec && m.subresource.is_empty()).filter_map(|m| m.time).max();
    match view.generation {
        0 | 1 => view.created.or(by_managers),
        _ => by_managers.or(view.created),
    }
}

/// Returns whether the field manager that writes the status also wrote the spec last.
pub(crate) fn spec_written_by_operator(view: &ObjectView) -> bool {
    let newest = view.managers.iter().filter(|m| m.owns.spec && m.subresource.is_empty()).max_by_key(|m| m.time);
    let (Some(spec), Some(status)) = (newest, status_writer(view)) else { return false };
    spec.name == status.name
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
