//! Conditions whose type describes a good state: summaries, parts, steps and ends.

use super::{ConditionsByRole, keep_worse};
use crate::model::status::reading::polarity::Polarity;
use crate::model::status::reading::reasons::{self, explains_a_problem, false_signal, sense, show};
use crate::model::status::reading::senses::Sense;
use crate::model::status::reading::signals::Signal;
use crate::model::status::reading::words::Words;
use crate::model::status::reading::{Reason, Verdict, completion};
use crate::observation::Condition;
use crate::observation::ConditionStatus::{Absent, False, True, Unknown};

/// Words of reasons that say that the operator could not find out in which state the object is.
const FINDING_OUT: &[&str] = &["determine", "observe", "query", "retrieve"];

impl ConditionsByRole<'_> {
    pub(super) fn add_summary(&mut self, position: u8, condition: &Condition) {
        let signal = match condition.status {
            True => {
                self.stands_since = self.stands_since.max(condition.changed);
                if position == 0 {
                    self.ready_since = condition.changed;
                }
                self.dated |= position == 0 && condition.observed_generation.is_some();
                Signal::new(Verdict::Converged, Reason::ReadyTrue, show(condition))
            }
            False => {
                self.unexplained |= reasons::is_unexplained(condition);
                self.not_ready(condition)
            }
            Unknown if reasons::asks_for_approval(condition) => {
                return self.add_pause(condition);
            }
            // `Available=Unknown (Archived)`
            Unknown if self.says_paused(condition) => {
                return self.add_pause(condition);
            }
            Unknown => {
                Signal::new(self.unknown_verdict(condition), Reason::ReadyUnknown, show(condition))
            }
            // Without a valid status, only the reason and the message show the meaning.
            Absent if explains_a_problem(condition) => false_signal(condition, self.kind),
            Absent if matches!(sense(&condition.reason), Some(Sense::Good | Sense::Done)) => return,
            Absent => Signal::new(Verdict::Progressing, Reason::ReadyUnknown, show(condition)),
        };
        self.keep_summary(position, signal);
    }

    pub(super) fn keep_summary(&mut self, position: u8, signal: Signal) {
        self.summary = Some(match self.summary.take() {
            Some((kept_position, kept)) if kept_position <= position => {
                keep_worse(&mut self.other_summaries, signal);
                (kept_position, kept)
            }
            Some((_, kept)) => {
                keep_worse(&mut self.other_summaries, kept);
                (position, signal)
            }
            None => (position, signal),
        });
    }

    /// Reads a false condition of a good type. While the phase says that the object is still being made,
    /// `DependencyNotReady` means that it waits.
    fn not_ready(&self, condition: &Condition) -> Signal {
        let signal = false_signal(condition, self.kind);
        let reason = Words::of(&condition.reason);
        let waits = self.moves
            && reason.sense() == Some(Sense::Lacking)
            && reason.get(reason.len().saturating_sub(2)) == "not"
            && reason.last() == "ready";
        if waits && signal.verdict == Verdict::Failed {
            return Signal {
                verdict: Verdict::Progressing,
                reason: Reason::ReadyPending,
                ..signal
            };
        }

        signal
    }

    /// Returns the verdict on a condition with the status `Unknown`. It is a failure if the reason
    /// says so, or says that something else, such as an account, is paused. An operator that could not
    /// find out has not failed, and the object has not either.
    fn unknown_verdict(&self, condition: &Condition) -> Verdict {
        let reason = Words::of(&condition.reason);
        match reason.sense() {
            _ if condition.severity == "Info" => Verdict::Progressing,
            Some(Sense::Bad) if FINDING_OUT.iter().any(|word| reason.has(word)) => {
                Verdict::Progressing
            }
            Some(Sense::Bad) => Verdict::Failed,
            Some(Sense::Paused) if !reasons::is_about_object(&reason, condition, self.kind) => {
                Verdict::Failed
            }
            _ => Verdict::Progressing,
        }
    }

    pub(super) fn add_part(&mut self, condition: &Condition) {
        let is_end = || Words::of(&condition.r#type).sense() == Some(Sense::Done);
        let signal = match condition.status {
            // `PacketCaptureComplete=True (Timeout)`
            True if is_end() && sense(&condition.reason) == Some(Sense::Bad) => {
                let signal = Signal::new(Verdict::Failed, Reason::EndedBadly, show(condition));
                return keep_worse(&mut self.fault, signal);
            }
            // One step of a run has ended: `StartupPolicyCompleted=True`.
            True if is_end()
                && completion::is_run_kind(self.kind)
                && !completion::names_run(&condition.r#type, self.kind) =>
            {
                let signal = Signal::new(Verdict::Progressing, Reason::StepTrue, show(condition));
                return keep_worse(&mut self.step, signal);
            }
            True => Signal::new(Verdict::Converged, Reason::ConditionsTrue, show(condition)),
            // The operator itself grades this part as an error, so no summary overrules it.
            False if condition.severity == "Error" => {
                return keep_worse(&mut self.fault, false_signal(condition, self.kind));
            }
            False if reasons::has_not_occurred(&condition.reason) => return,
            // Not every object that is not up to date is being updated.
            False
                if condition.r#type == "UpToDate"
                    && [&condition.reason, &condition.message]
                        .iter()
                        .any(|text| Words::of(text).has("pending")) =>
            {
                return self.add_work(condition, Reason::InMotion);
            }
            // `ReconciliationActive=False (ReconciliationPaused)`
            False
                if Words::of(&condition.r#type).get(0).starts_with("reconcil")
                    && self.says_paused(condition) =>
            {
                return self.add_pause(condition);
            }
            False => {
                self.part_explained |= !reasons::is_unexplained(condition);
                self.not_ready(condition)
            }
            // Not looked at: `InventoryValid=Unknown (Initialized)`.
            Unknown if matches!(sense(&condition.reason), Some(Sense::Good | Sense::Done)) => {
                return;
            }
            Unknown => Signal::new(
                self.unknown_verdict(condition),
                Reason::ConditionUnknown,
                show(condition),
            ),
            Absent => return,
        };
        keep_worse(&mut self.part, signal);
    }

    pub(super) fn add_completion(&mut self, condition: &Condition) {
        let signal = match condition.status {
            True if sense(&condition.reason) == Some(Sense::Bad) => {
                Signal::new(Verdict::Failed, Reason::EndedBadly, show(condition))
            }
            True => Signal::new(Verdict::Finished, Reason::Complete, show(condition)),
            False if reasons::waits_for_schedule(condition) => {
                Signal::new(Verdict::Converged, Reason::Scheduled, show(condition))
            }
            False | Unknown => false_signal(condition, self.kind),
            Absent => return,
        };
        keep_worse(&mut self.completion, signal);
    }

    pub(super) fn add_weak_or_step(&mut self, condition: &Condition) {
        let step = Polarity::of(&condition.r#type) == Polarity::Step;
        let new = |verdict, reason| Signal::new(verdict, reason, show(condition));
        match condition.status {
            True if step => keep_worse(&mut self.step, new(Verdict::Progressing, Reason::StepTrue)),
            True => keep_worse(&mut self.part, new(Verdict::Converged, Reason::ConditionsTrue)),
            False if step || explains_a_problem(condition) => {
                self.part_explained |= !reasons::is_unexplained(condition);
                keep_worse(&mut self.part, false_signal(condition, self.kind));
            }
            Unknown if reasons::waits_for_person(&Words::of(&condition.reason)) => {
                self.add_pause(condition);
            }
            Unknown if sense(&condition.reason) == Some(Sense::InProgress) => {
                keep_worse(
                    &mut self.in_progress,
                    new(Verdict::Progressing, Reason::ConditionUnknown),
                );
            }
            False | Unknown | Absent => {}
        }
    }
}
