//! Conditions that say whether something goes on or rests: work in progress, pauses, and types of which
//! only the reason shows the meaning.

use super::{ConditionsByRole, is_type, keep_worse};
use crate::model::status::reading::polarity::{FINISHED_WORDS, Polarity};
use crate::model::status::reading::reasons::{self, false_signal, sense, show};
use crate::model::status::reading::senses::{self, Sense};
use crate::model::status::reading::signals::Signal;
use crate::model::status::reading::words::Words;
use crate::model::status::reading::{Reason, Verdict, prose};
use crate::observation::Condition;
use crate::observation::ConditionStatus::{Absent, False, True, Unknown};
use crate::time::Timestamp;

/// Returns whether the reason of a type that means work in progress says that the work is done.
pub(in crate::model::status::reading) fn is_work_done(condition: &Condition) -> bool {
    let reason = Words::of(&condition.reason);
    // A schedule that is in force: `Scheduling=True (ScheduleActive)`.
    let is_in_force = || is_type(condition, "scheduling") && reason.last() == "active";
    // `AsExpected` alone says nothing about what the message calls work.
    let is_contradicted =
        || reason.has("expected") && sense(&condition.message) == Some(Sense::InProgress);

    is_in_force()
        || (reason.iter().any(|word| FINISHED_WORDS.contains(&word)) && !is_contradicted())
}

/// Returns whether a condition that means work in progress may say instead what a healthy object does all the
/// time. A good summary shows that it does.
pub(in crate::model::status::reading) fn may_be_steady(condition: &Condition) -> bool {
    [&condition.r#type, &condition.reason]
        .iter()
        .all(|text| !Words::of(text).iter().any(senses::is_work))
}

/// Returns whether a condition says only that the object waits: `Waiting=True`. Rancher's conditions are true
/// once their step is over.
fn is_bare_wait(condition: &Condition) -> bool {
    ["waiting", "pending"].iter().any(|word| is_type(condition, word))
        && condition.reason.is_empty()
        && condition.message.is_empty()
}

impl ConditionsByRole<'_> {
    pub(super) fn add_in_progress(&mut self, condition: &Condition) {
        self.moves |= condition.status == True && !is_work_done(condition);
        let new = |verdict, reason| Signal::new(verdict, reason, show(condition));
        match condition.status {
            True if is_work_done(condition) => {
                keep_worse(&mut self.work_done, new(Verdict::Converged, Reason::InMotion));
            }
            // A person may have to start the change, so nothing need be in progress.
            True if reasons::wants_change(&condition.r#type) => {}
            True if may_be_steady(condition) || is_bare_wait(condition) => {
                keep_worse(&mut self.running, new(Verdict::Progressing, Reason::InMotion));
            }
            // A Deployment stays `Progressing` after its rollout. Only the reason or the message
            // shows whether the rollout is complete.
            True if condition.r#type == "Progressing"
                && condition.reason.is_empty()
                && condition.message.is_empty() =>
            {
                keep_worse(&mut self.bare_progressing, new(Verdict::Progressing, Reason::InMotion));
            }
            True if reasons::waits_for_approval(condition)
                || reasons::waits_for_person(&Words::of(&condition.reason)) =>
            {
                self.add_pause(condition);
            }
            // `Progressing=Unknown (RolloutPaused)`
            Unknown if self.says_paused(condition) => {
                self.add_pause(condition);
            }
            // The object does not use what this condition is about.
            Unknown if sense(&condition.reason) == Some(Sense::Paused) => {}
            True | Unknown => self.add_work(condition, Reason::InMotion),
            False if sense(&condition.reason) == Some(Sense::Bad) => {
                keep_worse(&mut self.fault, new(Verdict::Failed, Reason::FaultTrue));
            }
            // `Dispatching=False (SuspendDispatching)`. Most others that are false are only not going on.
            False
                if Words::of(&condition.reason).get(0) == "suspend"
                    && self.says_paused(condition) =>
            {
                self.add_pause(condition);
            }
            // `Running=False (WaitingForDeployment)`
            False
                if is_type(condition, "running")
                    && sense(&condition.reason) == Some(Sense::InProgress) =>
            {
                self.add_work(condition, Reason::ReadyPending);
            }
            False | Absent => {}
        }
    }

    /// Adds work in progress, which began when the condition changed.
    pub(super) fn add_work(&mut self, condition: &Condition, reason: Reason) {
        self.began = self.began.max(condition.changed.or(Some(Timestamp(i64::MAX))));
        let signal = Signal::new(Verdict::Progressing, reason, show(condition));
        keep_worse(&mut self.in_progress, signal);
    }

    pub(super) fn has_left(&self, condition: &Condition) -> bool {
        condition.status == True && self.entered.is_some_and(|entered| condition.changed <= entered)
    }

    pub(super) fn add_pause(&mut self, condition: &Condition) {
        let signal = Signal::new(Verdict::Suspended, Reason::SuspendedTrue, show(condition));
        keep_worse(&mut self.paused, signal);
    }

    pub(super) fn says_paused(&self, condition: &Condition) -> bool {
        let reason = Words::of(&condition.reason);
        let sense = reason.sense();
        let pauses = sense == Some(Sense::Paused)
            || (reason.get(0) == "suspend" && sense != Some(Sense::Bad)) // `SuspendDispatching`
            || (reason.len() == 1 && reason.get(0) == "archived");
        pauses && reasons::is_about_object(&reason, condition, self.kind)
    }

    pub(super) fn add_paused_or_neutral(&mut self, condition: &Condition) {
        let paused = Polarity::of(&condition.r#type) == Polarity::Paused;
        let new = |verdict, reason| Signal::new(verdict, reason, show(condition));
        match condition.status {
            // The reason says why the operator leaves the object alone: `InfrastructureMismatch`.
            True if is_type(condition, "ignored") => {
                self.add_pause(condition);
            }
            // If something else is paused, such as in `AccountSuspended`, only the reason and the
            // message show whether that matters.
            True if paused
                && !matches!(sense(&condition.reason), Some(Sense::Bad | Sense::Lacking))
                && reasons::is_about_object(
                    &Words::of(&condition.r#type),
                    condition,
                    self.kind,
                ) =>
            {
                self.add_pause(condition);
            }
            True if paused
                && (matches!(sense(&condition.reason), Some(Sense::Bad | Sense::Lacking))
                    || prose::reports_error(&condition.message)) =>
            {
                keep_worse(&mut self.failed_step, new(Verdict::Failed, Reason::FaultTrue));
            }
            // `Restore=True (RestoreInProgress)`
            True if Polarity::is_unknown(&condition.r#type)
                && reasons::is_in_progress(&condition.reason) =>
            {
                self.add_work(condition, Reason::InMotion);
            }
            False if !paused && condition.severity == "Error" => {
                keep_worse(&mut self.fault, new(Verdict::Failed, Reason::SeverityError));
            }
            True if is_type(condition, "active") => {
                keep_worse(&mut self.active, new(Verdict::Converged, Reason::ConditionsTrue));
            }
            False if is_type(condition, "active") => {
                keep_worse(&mut self.active, false_signal(condition, self.kind))
            }
            False
                if Polarity::is_last_operation(&condition.r#type)
                    && sense(&condition.reason) == Some(Sense::Bad)
                    && let Some(changed) = condition.changed =>
            {
                let signal = new(Verdict::Failed, Reason::FaultTrue);
                self.failed_operation = Some((changed, signal.clone()));
                keep_worse(&mut self.failed_step, signal);
            }
            False
                if Polarity::is_unknown(&condition.r#type)
                    && sense(&condition.reason) == Some(Sense::Bad) =>
            {
                keep_worse(&mut self.failed_step, new(Verdict::Failed, Reason::FaultTrue));
            }
            True | False | Unknown | Absent => {}
        }
    }
}
