//! Combines the conditions at one place of the status by the meaning of their types.

use crate::model::status::reading::polarity::SUMMARY_TYPES;
use crate::model::status::reading::signals::{Signal, worst};
use crate::model::status::reading::{Reason, Verdict};
use crate::observation::Condition;
use crate::time::Timestamp;

mod activity;
mod sorting;
mod states;

pub(super) use self::activity::{is_work_done, may_be_steady};

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

impl<'k> ConditionsByRole<'k> {
    pub(super) fn new(kind: &'k str, entered: Option<Option<Timestamp>>, moves: bool) -> Self {
        Self { kind, entered, moves, ..Self::default() }
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

fn is_type(condition: &Condition, word: &str) -> bool {
    condition.r#type.eq_ignore_ascii_case(word)
}

fn keep_worse(kept: &mut Option<Signal>, signal: Signal) {
    *kept = Some(match kept.take() {
        Some(kept) => kept.worse(signal),
        None => signal,
    });
}
