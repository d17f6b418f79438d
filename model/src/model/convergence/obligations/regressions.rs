//! Regressions: objects that stop being converged without a spec change. While the last spec change
//! may still roll out, an unready object may be the late answer to that change instead.

use crate::finding::FindingCode;
use crate::model::convergence::object_context::{ObjectContext, Update};
use crate::model::convergence::obligations::Opening;
use crate::model::convergence::obligations::spec_changes::status_write;
use crate::model::status::reading::{self, Verdict};
use crate::model::world::store::{Flag, Unconverged};
use crate::model::world::visibility::Visibility;
use crate::time::{Span, Timestamp};

/// The time after a spec change within which a failure is the answer to it even if the status said
/// converged in between. Operators validate a spec within seconds, or at their next poll.
const LATE_REJECTION: Span = Span::mins(2);

/// How long a new object must stay converged before its first rollout is over, as a multiple of the
/// time that it took to converge.
const FIRST_STAND: i64 = 2;

impl ObjectContext<'_> {
    /// Opens or closes a regression of an object without an obligation. `before` is the start of a
    /// regression that began before the object left the model.
    pub(super) fn update_regression(&mut self, update: &Update<'_>, before: Option<Timestamp>) {
        let may_begin = self.record.flags.has(Flag::ConvergedUnseen) || self.is_first_spec();
        let rolls_out = may_begin && self.rolls_out();
        match update.verdict {
            Verdict::Progressing if update.old_verdict == Verdict::Finished => {
                self.open_obligation(update, self.now, Opening::Again); // it runs again
            }
            // The earlier status was about the earlier spec, or about the first part of a new
            // object; this one is the answer.
            verdict
                if self.record.unconverged().is_none()
                    && rolls_out
                    && self.answers_late(verdict) =>
            {
                self.open_obligation(
                    update,
                    self.record.spec_change().unwrap_or(self.now),
                    Opening::Again,
                );
                if let Some(unconverged) = self.record.unconverged_mut() {
                    unconverged.unacknowledged_since = None;
                }
            }
            Verdict::Progressing | Verdict::Failed if self.record.unconverged().is_none() => {
                // In a list and after blindness, the conditions say when it happened.
                let lost =
                    update.lost_at.filter(|lost| !update.live || self.is_before_return(*lost));

                // Events from an outage arrive all at once right after it.
                let replayed = update.live
                    && matches!(self.visibility, Visibility::Grace(_))
                    && self.record.since >= self.regained;
                let known = if replayed { self.lost } else { self.record.since };
                let lost = lost.filter(|lost| *lost > known);

                self.open_regression(update, lost.or(before).unwrap_or(self.now).min(self.now));
            }
            Verdict::Progressing | Verdict::Failed => self.continue_regression(update),
            Verdict::Converged | Verdict::Finished => self.clear_unconverged(),
            // The work is over, and nothing else was wrong.
            Verdict::Unknown if reading::says_idle(update.view) => self.clear_unconverged(),
            _ => {}
        }
    }

    pub(super) fn open_regression(&mut self, update: &Update<'_>, since: Timestamp) {
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

    /// Handles a further version of an object that had regressed. If a list shows that all its
    /// conditions changed while the watch was blind, it had recovered in between, unless its
    /// conditions also change without a recovery, for example with each retry. An open finding
    /// keeps its start: reopening it would help nobody.
    fn continue_regression(&mut self, update: &Update<'_>) {
        let is_open = self.has_finding(FindingCode::Regressed);
        let Some(unconverged) = self.record.unconverged_mut() else { return };
        let Some(since) = unconverged.regressed_since else { return };
        // Times are whole seconds.
        let turned = update.all_lost_at.filter(|turned| *turned > since.after(Span::secs(1)));

        match turned {
            Some(lost) if !update.live && lost > self.lost && !unconverged.restless && !is_open => {
                self.clear_unconverged();
                self.open_regression(update, lost.min(self.now));
            }
            _ => unconverged.restless |= turned.is_some(),
        }
    }

    /// Ends a regression because a status about an earlier spec shows that the object had recovered
    /// before the spec changed.
    pub(super) fn end_regression(&mut self, update: &Update<'_>) {
        let unconverged = self.record.unconverged_mut();
        match unconverged {
            Some(unconverged) if unconverged.obligation.is_some() => {
                (unconverged.regressed_since, unconverged.mended_by) = (None, None);
            }
            Some(_) if update.spec_changed => self.clear_unconverged(),
            _ => {}
        }
    }

    /// Returns whether a verdict may be the late answer to the last spec change: work that begins,
    /// or a failure soon after it.
    fn answers_late(&self, verdict: Verdict) -> bool {
        match verdict {
            Verdict::Progressing => true,
            Verdict::Failed => self
                .record
                .spec_change()
                .is_some_and(|changed| self.now <= changed.after(LATE_REJECTION)),
            _ => false,
        }
    }

    /// Returns the end of the deadline of the creation or, if it was later, of the last spec change
    /// that loopwatch saw. Until then, the object may still roll out, even if its status has said
    /// converged in between. The rollout of a new object ends earlier if the object stays converged
    /// for long enough: its parts may become ready one by one, each as slowly as the first. Returns
    /// `None` for a new object that has not converged yet, because it has an ordinary obligation.
    pub(crate) fn rollout_until(&self) -> Option<Timestamp> {
        let changed = self.record.spec_change()?;
        if !self.is_first_spec() {
            return Some(changed.after(self.deadline(false).0));
        }

        let deadline = self.deadline(true).0;
        let stands = Span::secs(
            i64::from(self.record.last_convergence_secs).saturating_mul(1 + FIRST_STAND),
        );
        let over = match self.record.obligation() {
            Some(obligation) => !obligation.uncounted,
            None => {
                !self.record.flags.has(Flag::ConvergedUnseen) && self.now >= changed.after(stands)
            }
        };

        (!over).then(|| changed.after(deadline))
    }

    /// Returns whether the last spec change may still roll out.
    pub(crate) fn rolls_out(&self) -> bool {
        self.rollout_until().is_some_and(|until| until > self.now)
    }

    /// Returns whether the spec is still that of the creation, as far as loopwatch knows.
    pub(super) fn is_first_spec(&self) -> bool {
        self.record
            .spec_change()
            .is_some_and(|changed| self.record.created().is_some_and(|created| changed <= created))
    }
}
