//! Sorts each condition by the meaning of its type.

use super::{ConditionsByRole, is_type, keep_worse};
use crate::model::status::reading::polarity::Polarity;
use crate::model::status::reading::reasons::{self, false_signal, sense, show};
use crate::model::status::reading::senses::Sense;
use crate::model::status::reading::signals::Signal;
use crate::model::status::reading::{Reason, Verdict, completion};
use crate::observation::Condition;
use crate::observation::ConditionStatus::{Absent, False, True};

/// Returns whether a condition has the name of a phase: `error`. Other faults, such as `DiskPressure`, may
/// last in any phase.
fn names_phase_of_failure(condition: &Condition) -> bool {
    ["error", "failed", "failure"].iter().any(|word| is_type(condition, word))
}

impl ConditionsByRole<'_> {
    /// Adds a condition. An `outdated` condition is about an earlier generation. A summary that is
    /// `undecided` means work in progress, whatever its status.
    pub(in crate::model::status::reading) fn add(
        &mut self,
        condition: &Condition,
        outdated: bool,
        undecided: bool,
    ) {
        match Polarity::of(&condition.r#type) {
            Polarity::Summary(position) if undecided => {
                let signal =
                    Signal::new(Verdict::Progressing, Reason::ReadyPending, show(condition));
                self.keep_summary(position, signal);
            }
            Polarity::Summary(_) if self.is_before_the_end(condition) => {
                let signal = Signal::new(Verdict::Progressing, Reason::StepTrue, show(condition));
                keep_worse(&mut self.step, signal);
            }
            Polarity::Summary(position) => self.add_summary(position, condition),
            Polarity::Completion => self.add_completion(condition),
            _ if outdated => {}
            // The operator itself grades it as an error, whatever its type means.
            _ if condition.status == True && condition.severity == "Error" => {
                let signal = Signal::new(Verdict::Failed, Reason::SeverityError, show(condition));
                keep_worse(&mut self.fault, signal);
            }
            Polarity::Part => self.add_part(condition),
            Polarity::Weak | Polarity::Step => self.add_weak_or_step(condition),
            Polarity::Fault if self.has_left(condition) && names_phase_of_failure(condition) => {}
            polarity @ (Polarity::Fault | Polarity::Terminal | Polarity::Lacking) => {
                self.add_fault(polarity, condition);
            }
            Polarity::InProgress if self.has_left(condition) => {}
            Polarity::InProgress => self.add_in_progress(condition),
            // At the top level, `Admitted` comes from a queue and is neutral. In a list of routers,
            // it says whether a router accepts the object.
            Polarity::Neutral if !condition.at.is_empty() && condition.r#type == "Admitted" => {
                self.add_part(condition)
            }
            Polarity::Paused | Polarity::Neutral => self.add_paused_or_neutral(condition),
        }
    }

    /// Returns whether a true condition of an object that runs to completion is only a step:
    /// `Created=True`.
    fn is_before_the_end(&self, condition: &Condition) -> bool {
        condition.status == True
            && completion::is_run_kind(self.kind)
            && completion::BEFORE_THE_END.iter().any(|step| is_type(condition, step))
    }

    fn add_fault(&mut self, polarity: Polarity, condition: &Condition) {
        let new = |verdict, reason| Signal::new(verdict, reason, show(condition));
        let mild = matches!(condition.severity.as_str(), "Info" | "Warning");
        match (polarity, condition.status) {
            (Polarity::Terminal, True) => {
                keep_worse(&mut self.terminal, new(Verdict::Failed, Reason::StalledTrue))
            }
            (Polarity::Lacking, True) if mild => {}
            (Polarity::Lacking, True) => {
                keep_worse(
                    &mut self.fault,
                    new(false_signal(condition, self.kind).verdict, Reason::FaultTrue),
                );
            }
            (Polarity::Fault, True | Absent) => {
                // A good reason contradicts the type, so the condition is ignored.
                match sense(&condition.reason) {
                    Some(Sense::Good | Sense::Done | Sense::Paused) => {}
                    // It may have been replaced since.
                    _ if is_type(condition, "interrupted") => {
                        keep_worse(&mut self.failed_step, new(Verdict::Failed, Reason::FaultTrue))
                    }
                    // The end of a run may be graded like its steps: `Failed=True` of the category `Advisory`.
                    _ if mild && !names_phase_of_failure(condition) => {}
                    // It waits in a queue until there is room.
                    _ if self.moves && is_type(condition, "unschedulable") => {
                        self.add_work(condition, Reason::InMotion);
                    }
                    // Planned work degrades the object for a while: `Degraded=True (UpdateInProgress)`.
                    Some(Sense::InProgress) if reasons::names_update(&condition.reason) => {
                        let signal = new(Verdict::Progressing, Reason::InMotion);
                        keep_worse(&mut self.in_progress, signal);
                    }
                    _ => keep_worse(&mut self.fault, new(Verdict::Failed, Reason::FaultTrue)),
                }
            }
            (_, False) => keep_worse(&mut self.no_fault, new(Verdict::Converged, Reason::NoFault)),
            _ => {}
        }
    }
}
