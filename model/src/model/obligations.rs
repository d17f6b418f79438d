//! Obligations: each spec change opens one, and each ends with exactly one [`Outcome`].
//!
//! An obligation counts as late when its SLO deadline passes, not when the object finally converges. Otherwise, changes
//! that never converge would never count. Only a spec change opens an obligation; an object that stops being converged
//! without one has regressed.
//!
//! Some obligations have deadlines but count towards no total, because no person asked for anything: the operator
//! changed the spec itself, or the object was resumed or runs again.

use super::context::{ObjectContext, Update};
use super::reading::{self, Acknowledged, Verdict};
use super::sight::Sight;
use super::store::{Flag, Obligation, Unconverged};
use super::writers::{last_spec_write, spec_written, status_write, status_writer};
use crate::finding::FindingCode;
use crate::snapshot::Outcome;
use crate::time::{Span, Timestamp};

/// The time after a spec change within which a failure is the answer to it, although the status has said converged
/// meanwhile. Operators validate a spec within seconds, or at their next poll.
const LATE_REJECTION: Span = Span::mins(2);

/// The multiple of the time until it converged for which a new object must stay converged before its first rollout is
/// over.
const FIRST_STAND: i64 = 2;

/// Why an obligation opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opening {
    /// loopwatch has just seen the spec change.
    Live,
    /// The object's timestamps say when the spec changed.
    Backfilled,
    /// The operator changed the spec itself.
    Own,
    /// The object was resumed, or runs again.
    Again,
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
            // The rollout of what changed in the pause begins now.
            self.record.set_spec_change(Some(self.now), false);
            self.record.flags.set(Flag::ConvergedUnseen, false);
        }
        if resumed && (!done || update.spec_changed || !self.record.flags.has(Flag::SpecConverged)) {
            // Nothing was expected while the object was paused, so the time begins now.
            self.open_obligation(update, self.now, Opening::Again);
        } else if update.spec_changed && update.verdict == Verdict::Finished {
            // The run is over, and nothing shows that the operator should run it again.
        } else if update.live && update.new && !self.is_old(update) {
            self.open_obligation(update, self.now, Opening::Live);
        } else if update.spec_changed {
            self.spec_changed(update);
        } else if !self.record.flags.has(Flag::SpecConverged) && self.record.obligation().is_none() {
            // The object is new from a list, or its first status appeared after that.
            self.open_from_timestamps(update);
        } else if self.record.obligation().is_none() {
            self.update_regression(update, departed);
        }
        if !update.live && (update.new || update.spec_changed) {
            self.note_spec_change(update);
        }
        if was_paused {
            self.expect_recovery(had_converged);
        }
        self.update_progress(update);
    }

    /// Ends what was expected of an object that is paused.
    fn pause(&mut self, update: &Update<'_>) {
        if update.old_verdict == Verdict::Finished {
            self.record.flags.set(Flag::SpecConverged, false); // a failure of the next run is no regression
        }
        if update.spec_changed && !update.spec_written_by_operator {
            self.record.flags.set(Flag::SpecConverged, false); // the operator begins with it after the pause
        }
        if self.record.unconverged().is_some_and(|unconverged| unconverged.regressed_since.is_some()) {
            self.record.flags.set(Flag::RegressedBeforePause, true);
        }
        self.close_obligation(Outcome::Suspended);
        self.clear_unconverged();
    }

    /// Ends a regression although the status is about an earlier spec: it says that the object had recovered before the
    /// spec changed.
    fn end_regression(&mut self, update: &Update<'_>) {
        let unconverged = self.record.hot.as_mut().and_then(|hot| hot.unconverged.as_mut());
        match unconverged {
            Some(unconverged) if unconverged.obligation.is_some() => {
                (unconverged.regressed_since, unconverged.mended_by) = (None, None);
            }
            Some(_) if update.spec_changed => self.clear_unconverged(),
            _ => {}
        }
    }

    /// Makes a failure of a resumed object a regression, rather than an answer to its spec: it has converged with that
    /// spec, or had regressed before somebody paused it. The operator may mend it until the deadline.
    fn expect_recovery(&mut self, had_converged: bool) {
        let had_regressed = self.record.flags.has(Flag::RegressedBeforePause);
        self.record.flags.set(Flag::RegressedBeforePause, false);
        let unconverged = self.record.hot.as_mut().and_then(|hot| hot.unconverged.as_mut());
        let Some(unconverged) = unconverged.filter(|_| had_converged || had_regressed) else { return };
        if let Some(obligation) = unconverged.obligation.as_mut() {
            obligation.unasked = true;
            unconverged.rollout_until = Some(obligation.deadline);
        }
    }

    /// Recalls that an object had converged with this spec before its watch ended, and returns since when it had
    /// regressed.
    fn recall_departed(&mut self, update: &Update<'_>) -> Option<Timestamp> {
        let spec = self.record.spec_identity(self.kind.generation_is_unreliable())?;
        let regressed = self.kind.departed.take(spec)?;
        if update.verdict != Verdict::Unknown {
            self.record.since = self.kind.departed.left;
            self.record.flags.set(Flag::SpecConverged, true);
            self.record.flags.set(Flag::ConvergedUnseen, regressed.is_none());
            self.note_spec_change(update);
        }
        regressed
    }

    /// Remembers when a spec changed that loopwatch has only now seen: its rollout may still be under way.
    fn note_spec_change(&mut self, update: &Update<'_>) {
        let first = update.view.generation == 1; // as old as the object, whoever wrote to it last
        let by_person = first || (update.view.generation > 1 && !update.spec_written_by_operator);
        let written = spec_written(update.view).filter(|_| by_person).map(|at| at.min(self.now));
        if written > self.record.spec_change() {
            self.record.set_spec_change(written, true);
        }
    }

    /// Handles a spec change. If it happened while the watch was interrupted, the object's timestamps say when.
    fn spec_changed(&mut self, update: &Update<'_>) {
        let written = spec_written(update.view).map(|written| written.min(self.now));
        let by_operator = match self.record.obligation().map(|obligation| obligation.opened) {
            // A person may have changed the spec before the operator did.
            Some(opened) if !update.live => {
                update.spec_written_by_operator && written.is_some_and(|written| written <= opened.after(Span::secs(1)))
            }
            _ => update.spec_written_by_operator,
        };
        // An event shows the last write, whoever it was. Managed fields do not show every write through `scale`.
        let in_blindness = |at: &Timestamp| at.after(Span::secs(1)) >= self.lost && self.is_before_sight(*at);
        let last = last_spec_write(update.view).filter(|last| update.live && in_blindness(last));
        if by_operator {
            // An operator that fills in defaults or counts revisions can neither extend its own obligation nor end a
            // regression.
            if self.record.unconverged().is_none() {
                self.open_obligation(update, self.now, Opening::Own);
            }
        } else if update.live && last.is_none() {
            self.open_obligation(update, self.now, Opening::Live);
        } else {
            // Some writes, such as those through `scale`, leave the time of their managed fields as it was.
            let known = self.record.spec_change().max(self.record.created());
            let newer = |at: &Timestamp| known.is_none_or(|known| *at >= known.after(Span::secs(1)));
            self.open_obligation(update, last.or(written.filter(newer)).unwrap_or(self.now), Opening::Backfilled);
        }
    }

    /// Returns whether something happened before sight returned. A watch continues from its version, so events of that
    /// time may arrive later. Times in objects are whole seconds.
    fn is_before_sight(&self, at: Timestamp) -> bool {
        at.after(Span::secs(1)) <= self.regained
    }

    /// Returns whether an object that the model does not know is older than that: it was out of sight, or did not fit.
    fn is_old(&self, update: &Update<'_>) -> bool {
        let created = update.view.created.filter(|_| update.verdict != Verdict::Unknown);
        created.is_some_and(|created| self.is_before_sight(created))
    }

    /// Ends the obligation if the waiting time for its outcome is over. While the watch is blind, an SLO deadline that
    /// passes ends it as unknown, and everything else waits. In a namespace that is being deleted, it waits for the deletion
    /// of the object, and while the operator is scaled to zero, its deadline waits for the operator.
    pub(crate) fn advance_obligation(&mut self) {
        if self.namespace_deleted {
            return;
        }
        let Some(obligation) = self.record.obligation().cloned() else { return };
        let (now, settings, lost) = (self.now, self.settings, self.sight == Sight::Lost);
        if lost && !self.record.flags.has(Flag::Judged) {
            return; // it appeared in blindness
        }
        if let Some(converged) = obligation.converged_since {
            if now >= converged.after(settings.settle) && !lost {
                self.end_converged(&obligation, converged);
            }
        } else if let Some(failed) = obligation.failed_since {
            if now >= failed.after(settings.reject_after) && !lost {
                self.count_outcome(Outcome::Rejected);
                self.end_obligation_trace(Outcome::Rejected, failed, None);
            }
        } else if obligation.unconfirmed {
            if now >= obligation.opened.after(settings.unsaid_after) && !lost {
                self.end_unconfirmed(&obligation);
            }
        } else if now >= obligation.slo_deadline && !self.operator_stopped {
            match obligation.outcome {
                None => self.slo_deadline_passed(&obligation),
                Some(_) if self.record.verdict == Verdict::Unknown && !lost => self.clear_unconverged(),
                Some(_) => {}
            }
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

    /// Handles an SLO deadline that passed. An object without a status is late only if objects of its kind are
    /// expected to have one.
    fn slo_deadline_passed(&mut self, obligation: &Obligation) {
        if self.record.verdict == Verdict::Unknown
            && !self.record.flags.has(Flag::HasStatus)
            && self.kind.expects_status()
        {
            self.record.verdict = Verdict::Progressing;
        }
        let unseen = self.sight == Sight::Lost || (self.lost..=self.regained).contains(&obligation.slo_deadline);
        match self.record.verdict {
            Verdict::Unknown if self.sight != Sight::Lost => self.clear_unconverged(),
            _ if unseen => {
                self.count_outcome(Outcome::Unknown);
                self.end_obligation_trace(Outcome::Unknown, obligation.slo_deadline, None);
            }
            _ => {
                self.learn_censored(obligation, obligation.slo_deadline);
                self.count_outcome(Outcome::Late);
                self.end_obligation_trace(Outcome::Late, obligation.slo_deadline, None);
            }
        }
    }

    /// Ends the obligation, if one is open, with an outcome that the operator did not cause: superseded, deleted,
    /// suspended or unknown. An obligation of an object of which nothing is expected ends without an outcome.
    pub(crate) fn close_obligation(&mut self, outcome: Outcome) {
        let Some(obligation) = self.record.obligation().cloned() else { return };
        if obligation.outcome.is_some() {
            return self.close_obligation_trace(outcome); // the rest after the deadline
        }
        if let Some(converged) = obligation.converged_since.filter(|at| self.now >= at.after(self.settings.settle)) {
            return self.end_converged(&obligation, converged); // the watch was blind when the waiting time ended
        }
        let expected = self.record.verdict != Verdict::Unknown
            || self.record.flags.has(Flag::HasStatus)
            || self.kind.expects_status();
        if expected {
            self.learn_censored(&obligation, self.now);
            self.count_outcome(outcome);
            self.close_obligation_trace(outcome);
        }
    }

    /// Removes the unconverged state of an object that has converged or is no longer expected to.
    pub(crate) fn clear_unconverged(&mut self) {
        if let Some(unconverged) = self.record.hot.as_mut().and_then(|hot| hot.unconverged.take()) {
            self.kind.unconverged.remove(&(unconverged.since, self.slot));
            self.forget_obligation_trace();
        }
    }

    fn open_obligation(&mut self, update: &Update<'_>, opened: Timestamp, opening: Opening) {
        self.close_obligation(Outcome::Superseded);
        let took = Span::secs(i64::from(self.record.last_convergence_secs));
        let flags = self.record.flags;
        let mut earlier = self.record.hot.as_mut().and_then(|hot| hot.unconverged.take());
        let last_converged = match (opening, flags.has(Flag::SpecConverged)) {
            (Opening::Again, _) => None, // nobody has changed the spec, so nobody can revert it
            (_, true) => flags.has(Flag::ConvergenceTimed).then_some((update.old_spec_hash, took)),
            (_, false) => earlier.as_ref().and_then(|earlier| earlier.last_converged),
        };
        if let Some(earlier) = &earlier {
            self.kind.unconverged.remove(&(earlier.since, self.slot));
        }
        let again = self.record.created().is_some_and(|created| opened <= created);
        let creation = (update.new || again) && update.view.generation <= 1;
        let mut obligation = self.new_obligation(creation, opened, opening, update.new);
        obligation.stale = !update.new && matches!(update.old_verdict, Verdict::Converged | Verdict::Suspended);
        let dated = opening == Opening::Backfilled && opened < self.now;
        let (status_written, status_writer) = status_write(update, opened);
        let mut unconverged = Unconverged {
            since: opened,
            unacknowledged_since: (opening != Opening::Own).then_some(opened),
            working_since: opened,
            last_converged,
            status_written,
            status_writer,
            dated,
            ..Unconverged::default()
        };
        if let Some(earlier) = earlier.take() {
            unconverged.continue_from(&earlier, obligation.deadline);
            if earlier.regressed_since.is_some_and(|since| self.regression_due(&earlier, since) <= self.now) {
                unconverged.mended_by = earlier.mended_by; // the finding is due already: a new spec must not close it
            }
        }
        unconverged.obligation = Some(obligation);
        let rolls_out = !self.is_first_spec() && self.rollout_until() >= Some(self.now);
        if opening != Opening::Again && !(opening == Opening::Own && rolls_out) {
            let created = self.record.created().filter(|_| creation);
            self.record.set_spec_change(created.or(Some(opened)), dated);
        }
        self.record.flags.set(Flag::SpecConverged, false);
        let unseen = opening == Opening::Backfilled && !update.new;
        let passed = unconverged.obligation.as_ref().is_some_and(|o| o.outcome.is_none() && o.slo_deadline <= self.now);
        self.insert_unconverged(unconverged);
        self.trace_obligation(Some(update), opening, creation);
        if unseen && passed {
            self.count_outcome(Outcome::Unknown); // the change and its deadline were both out of sight
            self.forget_obligation_trace();
        }
    }

    fn insert_unconverged(&mut self, unconverged: Unconverged) {
        self.kind.unconverged.insert((unconverged.since, self.slot));
        self.record.hot_mut().unconverged = Some(unconverged);
    }

    /// Opens the obligation of a listed object whose silence has a meaning only now. The creation time is that of the
    /// spec only if the spec never changed.
    pub(crate) fn open_silent_obligation(&mut self) {
        let first_spec = self.record.generation <= 1;
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

    /// Gives the open obligation the deadlines that apply now.
    pub(crate) fn update_deadlines(&mut self) {
        let Some(creation) = self.record.obligation().map(|obligation| obligation.creation) else { return };
        let ((deadline, source), slo_deadline) = (self.deadline(creation), self.slo_deadline());
        let Some(unconverged) = self.record.hot.as_mut().and_then(|hot| hot.unconverged.as_mut()) else { return };
        if let Some(obligation) = unconverged.obligation.as_mut() {
            // After a rejection, the deadline counts from the retry.
            obligation.deadline = obligation.opened.max(unconverged.working_since).after(deadline);
            obligation.deadline_source = source;
            obligation.slo_deadline = obligation.opened.after(slo_deadline);
        }
    }

    fn new_obligation(&self, creation: bool, opened: Timestamp, opening: Opening, new: bool) -> Obligation {
        let (deadline, deadline_source) = self.deadline(creation);
        let slo_deadline = opened.after(self.slo_deadline());
        let backfilled = opening == Opening::Backfilled;
        // If the deadline passed before this process read the object, an earlier process may have counted the
        // obligation as late already.
        let outcome = (backfilled && new && slo_deadline <= self.now).then_some(Outcome::Late);
        Obligation {
            opened,
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

    /// Handles an object that has no obligation and that loopwatch has not seen converged. Its timestamps, and the
    /// findings of an earlier process, show whether it has converged, has regressed, or gets a backfilled obligation.
    fn open_from_timestamps(&mut self, update: &Update<'_>) {
        match update.verdict {
            Verdict::Converged | Verdict::Finished => {
                self.record.flags.set(Flag::SpecConverged, true);
                self.record.flags.set(Flag::ConvergedUnseen, true);
            }
            Verdict::Progressing | Verdict::Failed => {
                let written = spec_written(update.view).map(|written| written.min(self.now));
                // An earlier process saw the change to the spec that does not recover, unless there is a newer change.
                let not_recovered = update.restored.not_recovered.filter(|at| written.is_none_or(|w| w <= *at));
                let no_task = update.acknowledged != Acknowledged::No && not_recovered.is_none();
                let regressed = self.regressed_before(update, written);
                if let Some(lost) = regressed.filter(|_| no_task) {
                    self.record.flags.set(Flag::SpecConverged, true);
                    return self.open_regression(update, lost);
                }
                // If nothing shows when the spec was written, the object has been like this since its conditions
                // changed.
                let began = not_recovered.or(written).or(update.lost_at).unwrap_or(self.now);
                self.open_obligation(update, began.min(self.now), Opening::Backfilled);
                let regressed = regressed.and(update.restored.regressed);
                self.restore_unconverged(update, regressed, not_recovered.is_some());
            }
            Verdict::Suspended | Verdict::Unknown => {}
        }
    }

    /// Returns when a new unconverged object regressed, if it did: an object that stopped being converged after its
    /// deadline had converged before. A run takes as long as it takes, and its failure is its only result.
    fn regressed_before(&self, update: &Update<'_>, written: Option<Timestamp>) -> Option<Timestamp> {
        let in_time = written?.after(self.deadline(false).0);
        let lost = update.lost_at.filter(|lost| *lost > in_time && update.restored.overdue.is_none());
        if lost.is_some_and(|lost| reading::ended_with(update.view, lost)) {
            return None;
        }
        let lost = lost.filter(|_| !reading::runs_to_completion(&self.kind.group, &self.kind.kind));
        // If all its conditions turned after a later spec change, it had recovered, and is rolling out.
        let rolls_out = update.verdict == Verdict::Progressing && update.all_lost_at >= written;
        let is_over = |since: &Timestamp| rolls_out && written > Some(*since);
        lost.or(update.restored.regressed.filter(|since| !is_over(since)))
    }

    /// Gives the obligation of a listed object what an earlier process knew and its timestamps do not show.
    fn restore_unconverged(&mut self, update: &Update<'_>, regressed: Option<Timestamp>, not_recovered: bool) {
        let Some(unconverged) = self.record.hot.as_mut().and_then(|hot| hot.unconverged.as_mut()) else { return };
        let since = unconverged.since;
        unconverged.not_recovered = not_recovered;
        // Managed fields show only the last one of the spec changes, and the last status write.
        let unanswered = match update.acknowledged {
            Acknowledged::Yes => false,
            Acknowledged::No => true,
            Acknowledged::Unreported => unconverged.status_written.is_none(),
        };
        let answered = status_writer(update.view).and_then(|m| m.time);
        let unacknowledged = update.restored.unacknowledged.filter(|at| {
            unanswered && !update.view.managers.is_empty() && answered.is_none_or(|answered| answered <= *at)
        });
        if let Some(first) = unacknowledged {
            unconverged.since = since.min(first);
            unconverged.working_since = unconverged.working_since.min(first);
            unconverged.unacknowledged_since = unconverged.unacknowledged_since.map(|since| since.min(first));
        }
        // The status may be about the earlier spec, which may have converged again before the change.
        let still_lost = !matches!(update.about_earlier, Some(Verdict::Converged | Verdict::Finished));
        if let Some(lost) = regressed.filter(|_| still_lost) {
            unconverged.since = unconverged.since.min(lost);
            unconverged.regressed_since = Some(lost);
        }
        let moved = (unconverged.since, self.slot);
        self.kind.unconverged.remove(&(since, self.slot));
        self.kind.unconverged.insert(moved);
    }

    /// Opens or closes a regression of an object without an obligation. `before` is the start of a regression before its
    /// watch ended.
    fn update_regression(&mut self, update: &Update<'_>, before: Option<Timestamp>) {
        let may_begin = self.record.flags.has(Flag::ConvergedUnseen) || self.is_first_spec();
        let rolls_out = may_begin && self.rolls_out();
        match update.verdict {
            Verdict::Progressing if update.old_verdict == Verdict::Finished => {
                self.open_obligation(update, self.now, Opening::Again); // it runs again
            }
            // The status was about the earlier spec, or about the first part of a new object; only now comes the answer.
            verdict if self.record.unconverged().is_none() && rolls_out && self.answers_late(verdict) => {
                self.open_obligation(update, self.record.spec_change().unwrap_or(self.now), Opening::Again);
                if let Some(unconverged) = self.record.hot.as_mut().and_then(|hot| hot.unconverged.as_mut()) {
                    unconverged.unacknowledged_since = None;
                }
            }
            Verdict::Progressing | Verdict::Failed if self.record.unconverged().is_none() => {
                // In a list and after blindness, the conditions say when it happened.
                let lost = update.lost_at.filter(|lost| !update.live || self.is_before_sight(*lost));
                // What happened in an outage arrives right after it, all at once.
                let replayed =
                    update.live && matches!(self.sight, Sight::Grace(_)) && self.record.since >= self.regained;
                let known = if replayed { self.lost } else { self.record.since };
                let lost = lost.filter(|lost| *lost > known);
                self.open_regression(update, lost.or(before).unwrap_or(self.now).min(self.now));
            }
            Verdict::Progressing | Verdict::Failed => self.continue_regression(update),
            Verdict::Converged | Verdict::Finished => self.clear_unconverged(),
            _ => {}
        }
    }

    /// Handles a further version of an object that had regressed. If a list shows that all its conditions turned while the
    /// watch was blind, it had recovered meanwhile, unless they turn without a recovery, as with each retry. A finding that
    /// is open keeps its start: closing and opening it again would help nobody.
    fn continue_regression(&mut self, update: &Update<'_>) {
        let is_open = self.has_finding(FindingCode::Regressed);
        let Some(unconverged) = self.record.hot.as_mut().and_then(|hot| hot.unconverged.as_mut()) else { return };
        let Some(since) = unconverged.regressed_since else { return };
        let turned = update.all_lost_at.filter(|turned| *turned > since.after(Span::secs(1))); // times are whole seconds
        match turned {
            Some(lost) if !update.live && lost > self.lost && !unconverged.restless && !is_open => {
                self.clear_unconverged();
                self.open_regression(update, lost.min(self.now));
            }
            _ => unconverged.restless |= turned.is_some(),
        }
    }

    /// Returns whether a verdict may be the late answer to the last spec change: work that begins, or a failure soon
    /// after it.
    fn answers_late(&self, verdict: Verdict) -> bool {
        match verdict {
            Verdict::Progressing => true,
            Verdict::Failed => {
                self.record.spec_change().is_some_and(|changed| self.now <= changed.after(LATE_REJECTION))
            }
            _ => false,
        }
    }

    fn open_regression(&mut self, update: &Update<'_>, since: Timestamp) {
        let (status_written, status_writer) = status_write(update, since);
        let rollout_until = self.rollout_until().filter(|until| *until > since);
        self.insert_unconverged(Unconverged {
            since,
            working_since: since,
            regressed_since: Some(since),
            rollout_until,
            status_written,
            status_writer,
            dated: since < self.now,
            ..Unconverged::default()
        });
    }

    /// Returns the end of the deadline of the creation or, if it was later, of the last spec change that loopwatch saw.
    /// Until then, the object may still roll out, even if its status has said converged meanwhile. The rollout of a
    /// creation is over earlier if the object stays converged: its parts may join one by one, each as slowly as the first.
    /// Before it has converged at all, it has an ordinary obligation, and `None` is returned.
    pub(crate) fn rollout_until(&self) -> Option<Timestamp> {
        let changed = self.record.spec_change()?;
        if !self.is_first_spec() {
            return Some(changed.after(self.deadline(false).0));
        }
        let deadline = self.deadline(true).0;
        let stands = Span::secs(i64::from(self.record.last_convergence_secs).saturating_mul(1 + FIRST_STAND));
        let over = match self.record.obligation() {
            Some(obligation) => !obligation.uncounted,
            None => !self.record.flags.has(Flag::ConvergedUnseen) && self.now >= changed.after(stands),
        };
        (!over).then(|| changed.after(deadline))
    }

    /// Returns whether the last spec change may still roll out.
    pub(crate) fn rolls_out(&self) -> bool {
        self.rollout_until().is_some_and(|until| until > self.now)
    }

    /// Returns whether nothing has changed the spec since the creation, as far as loopwatch knows.
    fn is_first_spec(&self) -> bool {
        self.record.spec_change().is_some_and(|changed| self.record.created().is_some_and(|created| changed <= created))
    }

    /// Records status writes, acknowledgement, convergence and failure of an unconverged object.
    fn update_progress(&mut self, update: &Update<'_>) {
        let (now, reject_after) = (self.now, self.settings.reject_after);
        let deadline = self.record.obligation().map(|obligation| self.deadline(obligation.creation).0);
        let measured = (update.live || update.new) && self.sight == Sight::Clear;
        let Some(unconverged) = self.record.hot.as_mut().and_then(|hot| hot.unconverged.as_mut()) else { return };
        unconverged.last_status_write = status_writer(update.view).and_then(|m| m.time);
        unconverged.unready = matches!(update.about_earlier, Some(Verdict::Progressing | Verdict::Failed));
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
        let says_converged = matches!(update.verdict, Verdict::Converged | Verdict::Finished);
        obligation.stale &= says_converged || update.verdict == Verdict::Unknown || !current;
        if current && obligation.acknowledged.is_none() {
            obligation.acknowledged = Some(now);
            obligation.unmeasured |= !measured;
            if update.live && !update.new {
                self.kind.acknowledged.note(now, self.slot);
            }
            let measured = obligation.is_measured();
            self.traces.acknowledged(self.slot, now, measured.then(|| now.since(obligation.opened)));
            if measured {
                let took = now.since(obligation.opened);
                self.kind.totals.acknowledge.observe(took);
                if obligation.outcome.is_none() {
                    self.kind.learned.acknowledgement.add(took);
                }
            }
        }
        obligation.unconfirmed = says_converged && !current && update.acknowledged == Acknowledged::Unreported;
        if says_converged && current && obligation.converged_since.is_none() {
            obligation.unmeasured |= !measured;
        }
        obligation.converged_since = (says_converged && current).then(|| obligation.converged_since.unwrap_or(now));
        let says_failed = update.verdict == Verdict::Failed && current;
        if let (true, Some(failed)) = (!says_failed && !says_converged, obligation.failed_since)
            && now >= failed.after(reject_after)
        {
            // The operator has rejected the spec and now tries again, so the deadline begins anew.
            unconverged.working_since = now;
            obligation.deadline = now.after(deadline.unwrap_or_default());
        }
        obligation.failed_since = says_failed.then(|| obligation.failed_since.unwrap_or(now));
        if says_failed && obligation.unasked && unconverged.regressed_since.is_none() {
            unconverged.regressed_since = Some(now);
        }
    }

    fn end_converged(&mut self, obligation: &Obligation, converged: Timestamp) {
        let took = converged.since(obligation.opened);
        self.count_outcome(Outcome::Converged);
        let timed = obligation.is_measured();
        self.end_obligation_trace(Outcome::Converged, converged, timed.then_some(took));
        if timed {
            self.kind.totals.convergence.observe(took);
        }
        if timed && obligation.outcome.is_none() {
            self.kind.learned.convergence(obligation.creation).add(took);
        }
        self.spec_has_converged(obligation, took, timed);
    }

    /// Ends the obligation of an object whose status has said converged all along: nothing shows whether it is about
    /// the new spec.
    fn end_unconfirmed(&mut self, obligation: &Obligation) {
        self.count_outcome(Outcome::Unknown);
        self.end_obligation_trace(Outcome::Unknown, self.now, None);
        self.spec_has_converged(obligation, self.now.since(obligation.opened), false);
    }

    fn spec_has_converged(&mut self, obligation: &Obligation, took: Span, timed: bool) {
        self.record.last_convergence_secs = u32::try_from(took.0 / 1000).unwrap_or(u32::MAX);
        self.record.flags.set(Flag::ConvergenceTimed, timed);
        self.record.flags.set(Flag::SpecConverged, true);
        self.record.flags.set(Flag::ConvergedUnseen, obligation.stale);
        self.clear_unconverged();
    }

    /// Records for learning that the obligation had not ended at `at` and, if so, that it was not acknowledged either.
    fn learn_censored(&mut self, obligation: &Obligation, at: Timestamp) {
        if !obligation.is_measured() || obligation.outcome.is_some() {
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

// === impl Obligation ===

impl Obligation {
    /// Returns whether histograms and learning may use the times of this obligation.
    fn is_measured(&self) -> bool {
        !self.backfilled && !self.uncounted && !self.unmeasured
    }
}

// === impl Unconverged ===

impl Unconverged {
    /// Takes over what a newer spec, whose deadline is `deadline`, does not reset.
    fn continue_from(&mut self, earlier: &Self, deadline: Timestamp) {
        self.since = self.since.min(earlier.since);
        self.unacknowledged_since = match (self.unacknowledged_since, earlier.unacknowledged_since) {
            (Some(since), Some(earlier)) => Some(since.min(earlier)),
            (since, _) => since,
        };
        let answered = earlier.obligation.as_ref().is_some_and(|o| o.outcome == Some(Outcome::Rejected));
        if !answered && earlier.obligation.is_some() {
            self.working_since = self.working_since.min(earlier.working_since);
        }
        self.regressed_since = earlier.regressed_since;
        self.rollout_until = earlier.rollout_until;
        self.mended_by = earlier.mended_by.or(earlier.regressed_since.map(|_| deadline));
        self.dated &= earlier.dated;
    }
}
