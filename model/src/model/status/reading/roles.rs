//! Combines the conditions at one place of the status by the meaning of their types.

use crate::model::status::reading::polarity::{FINISHED_WORDS, Polarity, SUMMARY_TYPES};
use crate::model::status::reading::reasons::{self, explains_a_problem, false_signal, sense, show};
use crate::model::status::reading::senses::{self, Sense};
use crate::model::status::reading::signals::{Signal, worst};
use crate::model::status::reading::words::Words;
use crate::model::status::reading::{Reason, Verdict, completion, prose};
use crate::observation::Condition;
use crate::observation::ConditionStatus::{Absent, False, True, Unknown};
use crate::time::Timestamp;

/// Words of reasons that say that the operator could not find out in which state the object is.
const FINDING_OUT: &[&str] = &["determine", "observe", "query", "retrieve"];

/// The combined meaning of the conditions of an object.
#[derive(Clone, Debug)]
pub(super) struct ConditionsReading {
    pub(super) signal: Signal,
    /// Whether the conditions sum up the whole object.
    pub(super) summarized: bool,
    /// Whether the summary is `Available`, which guarantees only a minimum: it can be true with one
    /// ready replica out of three.
    pub(super) minimal: bool,
    /// Whether `Ready` is true and has an `observedGeneration`. A phase has none: it may be about
    /// something that the object only reports on, such as a check of a commit.
    pub(super) dated: bool,
}

/// The signals of the conditions at one place, by the meaning of their types. Each field keeps the
/// worst signal of its types.
#[derive(Default)]
pub(super) struct ConditionsByRole<'k> {
    /// The object's kind.
    kind: &'k str,
    /// When the object entered its phase, if a condition has the name of this phase. Conditions that
    /// turned before are about earlier phases.
    entered: Option<Option<Timestamp>>,
    /// The summary condition that comes first in [`SUMMARY_TYPES`], with its position there.
    summary: Option<(u8, Signal)>,
    /// All other summary conditions.
    other_summaries: Option<Signal>,
    part: Option<Signal>,
    completion: Option<Signal>,
    fault: Option<Signal>,
    terminal: Option<Signal>,
    in_progress: Option<Signal>,
    /// `Running=True` or the like: the work of a run, or beside a good summary a process. Also work that
    /// somebody may want from a person: `RequiresUpdate=True`, and a bare `Waiting=True`.
    running: Option<Signal>,
    /// Types that mean work in progress, with a reason that says that the work is done.
    work_done: Option<Signal>,
    /// `Progressing=True` without a reason or a message, which a healthy Deployment has too.
    bare_progressing: Option<Signal>,
    paused: Option<Signal>,
    step: Option<Signal>,
    /// `Active`: decides only where no other condition does.
    active: Option<Signal>,
    /// False types without a meaning of their own, whose reason is a failure:
    /// `Rollback=False (RollbackFailed)`. A good summary overrules them, and without
    /// one, good parts.
    failed_step: Option<Signal>,
    /// When the work in progress began; the latest, if there are several, and the end of time if one
    /// does not say when.
    began: Option<Timestamp>,
    /// When `Ready` turned true.
    ready_since: Option<Timestamp>,
    /// When a true summary turned true; the latest, if there are several.
    stands_since: Option<Timestamp>,
    /// The last operation, if it failed: `LastAsyncOperation=False (AsyncUpdateFailure)`. A summary that
    /// turned true before only says that the object still exists.
    failed_operation: Option<(Timestamp, Signal)>,
    /// Types that mean a fault and are false.
    no_fault: Option<Signal>,
    /// Whether the summary condition is false, and neither its reason nor its message says why.
    unexplained: bool,
    /// Whether a false condition of a part has a reason or a message that says why it is false.
    part_explained: bool,
    /// Whether the phase, or a true type, means work in progress.
    moves: bool,
    /// Whether `Ready` is true and has an `observedGeneration`.
    dated: bool,
}

/// Returns whether the reason of a type that means work in progress says that the work is done.
pub(super) fn is_work_done(condition: &Condition) -> bool {
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
pub(super) fn may_be_steady(condition: &Condition) -> bool {
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

/// Returns whether a condition has the name of a phase: `error`. Other faults, such as `DiskPressure`, may
/// last in any phase.
fn names_phase_of_failure(condition: &Condition) -> bool {
    ["error", "failed", "failure"].iter().any(|word| is_type(condition, word))
}

fn is_type(condition: &Condition, word: &str) -> bool {
    condition.r#type.eq_ignore_ascii_case(word)
}

fn keep_worse(kept: &mut Option<Signal>, signal: Signal) {
    *kept = Some(match kept.take() {
        Some(kept) => kept.worse(signal),
        None => signal,
    });
}

impl<'k> ConditionsByRole<'k> {
    pub(super) fn new(kind: &'k str, entered: Option<Option<Timestamp>>, moves: bool) -> Self {
        Self { kind, entered, moves, ..Self::default() }
    }

    /// Returns whether a true condition of an object that runs to completion is only a step:
    /// `Created=True`.
    fn is_before_the_end(&self, condition: &Condition) -> bool {
        condition.status == True
            && completion::is_run_kind(self.kind)
            && completion::BEFORE_THE_END.iter().any(|step| is_type(condition, step))
    }

    /// Adds a condition. An `outdated` condition is about an earlier generation. A summary that is
    /// `undecided` means work in progress, whatever its status.
    pub(super) fn add(&mut self, condition: &Condition, outdated: bool, undecided: bool) {
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

    fn add_summary(&mut self, position: u8, condition: &Condition) {
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

    fn add_part(&mut self, condition: &Condition) {
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

    fn add_completion(&mut self, condition: &Condition) {
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

    fn add_weak_or_step(&mut self, condition: &Condition) {
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

    fn add_in_progress(&mut self, condition: &Condition) {
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

    fn add_pause(&mut self, condition: &Condition) {
        let signal = Signal::new(Verdict::Suspended, Reason::SuspendedTrue, show(condition));
        keep_worse(&mut self.paused, signal);
    }

    /// Adds work in progress, which began when the condition changed.
    fn add_work(&mut self, condition: &Condition, reason: Reason) {
        self.began = self.began.max(condition.changed.or(Some(Timestamp(i64::MAX))));
        let signal = Signal::new(Verdict::Progressing, reason, show(condition));
        keep_worse(&mut self.in_progress, signal);
    }

    fn has_left(&self, condition: &Condition) -> bool {
        condition.status == True && self.entered.is_some_and(|entered| condition.changed <= entered)
    }

    fn says_paused(&self, condition: &Condition) -> bool {
        let reason = Words::of(&condition.reason);
        let sense = reason.sense();
        let pauses = sense == Some(Sense::Paused)
            || (reason.get(0) == "suspend" && sense != Some(Sense::Bad)) // `SuspendDispatching`
            || (reason.len() == 1 && reason.get(0) == "archived");
        pauses && reasons::is_about_object(&reason, condition, self.kind)
    }

    fn add_paused_or_neutral(&mut self, condition: &Condition) {
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

    fn keep_summary(&mut self, position: u8, signal: Signal) {
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

    pub(super) fn reading(self) -> Option<ConditionsReading> {
        let failed = |signal: &Signal| signal.verdict == Verdict::Failed;
        let fault = self.fault.as_ref().filter(|signal| failed(signal)).cloned();
        let paused = self.paused.filter(|_| fault.is_none());
        if let Some(signal) = paused.or(self.terminal) {
            return Some(ConditionsReading {
                signal,
                summarized: true,
                minimal: false,
                dated: false,
            });
        }

        // An object with a summary condition keeps running. A completion beside it means that the
        // rollout is complete.
        let completion = match self.completion {
            Some(signal) if signal.verdict == Verdict::Finished && self.summary.is_some() => {
                Some(Signal { verdict: Verdict::Converged, ..signal })
            }
            completion => completion,
        };

        let stands = self.summary.as_ref().is_some_and(|(_, signal)| signal.is_good());
        let running = self.running.filter(|_| !stands);

        // A run that has ended is not in progress, although `Running=True` may remain.
        let ended = completion.as_ref().is_some_and(|signal| signal.verdict == Verdict::Finished);

        // Work that began before `Ready` turned true has led to it, although its condition may remain.
        let is_over = stands && self.ready_since > self.began;
        let in_progress = self.in_progress.filter(|_| !is_over);
        let in_progress = worst([in_progress, running]).filter(|_| !ended);

        let position =
            self.summary.as_ref().map_or(usize::MAX, |(position, _)| usize::from(*position));
        let summarized = position < SUMMARY_TYPES.len() || completion.is_some();
        let minimal = SUMMARY_TYPES.get(position) == Some(&"available");

        // `Succeeded=True` is the end. Conditions for earlier steps may be false again: `Building=False`.
        let has_ended = stands
            && SUMMARY_TYPES.get(position).is_some_and(|summary| summary.starts_with("succe"));
        let other_summaries = self.other_summaries.filter(|_| !has_ended);

        // `Available=False` without an explanation, beside `Progressing=True`, is a rollout.
        let moves = self.moves;
        let rollout = |signal: Signal, explained: bool| match signal {
            signal if moves && !explained && signal.verdict == Verdict::Failed => {
                Signal { verdict: Verdict::Progressing, reason: Reason::ReadyPending, ..signal }
            }
            signal => signal,
        };
        let summary = self.summary.map(|(_, signal)| rollout(signal, !self.unexplained));
        let part = self.part.map(|signal| rollout(signal, self.part_explained));

        let good = |signal: &Option<Signal>| signal.as_ref().is_some_and(Signal::is_good);

        // A good summary takes precedence over the conditions of parts. `Available` alone does not
        // if a part says that it is not well, unless the operator says that nothing is degraded.
        let settled = (summarized && good(&summary)) || good(&completion);
        let bare_minimum = minimal && self.no_fault.is_none();
        let part =
            part.filter(|part| !settled || (bare_minimum && part.reason == Reason::ReadyFalse));
        let parts_stand = summary.is_none() && good(&part);
        let failed_step = self.failed_step.filter(|_| !good(&summary) && !settled && !parts_stand);
        let stands_since = self.stands_since;
        let operation = self.failed_operation.filter(|(failed, _)| Some(*failed) > stands_since);
        let operation = operation.map(|(_, signal)| signal);
        let bare_progressing = self.bare_progressing.filter(|_| !settled);
        let in_order = [
            summary,
            other_summaries,
            completion,
            self.fault,
            failed_step,
            operation,
            in_progress,
            bare_progressing,
            part,
            self.work_done,
        ];

        let signal = worst(in_order).or(self.step).or(self.no_fault).or(self.active)?;
        Some(ConditionsReading { signal, summarized, minimal, dated: self.dated })
    }
}
