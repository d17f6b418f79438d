//! Judges one object at one instant: its state, its problems, and when to judge it again.
//!
//! Events and timers call the same functions, so their order at the same instant does not matter.

use std::sync::Arc;

use crate::finding::FindingCode;
use crate::model::convergence::object_context::ObjectContext;
use crate::model::findings::detection::Detection;
use crate::model::status::reading::{self, Reason, Verdict};
use crate::model::world::kinds::failures::{Failure, FailureSort};
use crate::model::world::store::Unconverged;
use crate::model::world::visibility::Visibility;
use crate::snapshot::{DeadlineSource, ObjectState};
use crate::time::{Span, Timestamp};

/// The number of deadlines after which an object that never becomes ready is overdue even if its
/// spec keeps changing.
const MAX_EXTENSIONS: i64 = 3;

/// The number of objects that the operator must have acknowledged in order before the others wait
/// for their turn.
const QUEUE_FROM: usize = 5;

impl ObjectContext<'_> {
    /// Returns the object's state at this instant.
    pub(crate) fn state(&self) -> ObjectState {
        if self.record.deletion().is_some() {
            return ObjectState::Terminating;
        }

        let obligation = self.record.obligation();
        match self.record.verdict {
            Verdict::Suspended if self.record.reason == Reason::Skipped => ObjectState::Skipped,
            Verdict::Suspended => ObjectState::Suspended,
            Verdict::Finished if obligation.is_none_or(|o| o.converged_since.is_some()) => {
                ObjectState::Finished
            }
            Verdict::Converged if obligation.is_none_or(|o| o.converged_since.is_some()) => {
                ObjectState::Converged
            }
            Verdict::Failed if obligation.is_none_or(|o| o.failed_since.is_some()) => {
                ObjectState::Failed
            }
            Verdict::Unknown if !self.may_say_more_soon() => ObjectState::Unknown,
            // Work is in progress, or the status may describe an earlier spec.
            _ if self.overdue_since().is_some() => ObjectState::Overdue,
            _ => ObjectState::Progressing,
        }
    }

    /// Returns whether the operator cannot make the object converge, and is not expected to.
    fn is_excused(&self) -> bool {
        self.namespace_deleted || self.operator_stopped
    }

    /// Returns since when the object has been overdue; `None` if it is not.
    pub(crate) fn overdue_since(&self) -> Option<Timestamp> {
        let unconverged = self.record.unconverged().filter(|_| !self.is_excused())?;
        let missed = unconverged.obligation.as_ref().map(|_| self.deadline_passes(unconverged));
        let regressed =
            unconverged.regressed_since.map(|since| self.regression_due(unconverged, since));
        let due = missed.into_iter().chain(regressed).min();

        // An overdue object stays overdue during a grace period.
        let still = self.record.state == ObjectState::Overdue;
        due.filter(|due| self.opens_at(*due) <= self.now || (still && *due <= self.now))
    }

    /// Returns when the deadline of an obligation passes; the last of all instants if it has none.
    /// Before the operator has acknowledged the spec, the deadline of the acknowledgement applies,
    /// counted from the first unacknowledged spec change. After that, newer specs extend the
    /// deadline to at most [`MAX_EXTENSIONS`] times its length. If the object was not ready with
    /// the earlier specs either, it gets no more than that before the acknowledgement, unless it waits
    /// for its turn. A run that is under way has a time of its own.
    pub(crate) fn deadline_passes(&self, unconverged: &Unconverged) -> Timestamp {
        let Some(obligation) = &unconverged.obligation else {
            return unconverged
                .unacknowledged_since
                .map_or(Timestamp(i64::MAX), |since| self.acknowledged_by(since));
        };
        if unconverged.runs {
            return self.run_passes(obligation);
        }

        let span = self.deadline(obligation.creation).0;
        let most = unconverged.working_since.after(Span(span.0.saturating_mul(MAX_EXTENSIONS)));

        match unconverged.unacknowledged_since.map(|since| self.acknowledged_by(since)) {
            Some(deadline) if unconverged.unready => {
                deadline.min(self.in_turn_until(unconverged).map_or(most, |turn| most.max(turn)))
            }
            Some(deadline) => deadline,
            None => {
                let passes = obligation.deadline.min(most);
                self.turn_to_run(obligation).map_or(passes, |turn| passes.max(turn))
            }
        }
    }

    /// Returns when the deadline for the acknowledgement of a spec change at `since` passes. While
    /// the object waits for its turn, it moves.
    pub(crate) fn acknowledged_by(&self, since: Timestamp) -> Timestamp {
        let deadline = self.acknowledgement_deadline();
        let passes = since.after(deadline);
        self.queue_moved(since, deadline).map_or(passes, |until| passes.max(until))
    }

    fn in_turn_until(&self, unconverged: &Unconverged) -> Option<Timestamp> {
        self.queue_moved(unconverged.unacknowledged_since?, self.acknowledgement_deadline())
    }

    /// Returns until when an object that waits for its acknowledgement since `since` may wait for
    /// its turn, if the operator works off a queue in order: half a deadline after the last move.
    /// An open finding stays open until the object has had its turn.
    pub(super) fn queue_moved(&self, since: Timestamp, deadline: Span) -> Option<Timestamp> {
        if self.has_predecessor(FindingCode::Unacknowledged) {
            return None;
        }

        let half = Span(deadline.0 / 2);
        self.kind.acknowledged.moved(since, half, QUEUE_FROM).map(|moved| moved.after(half))
    }

    /// Returns when a regression becomes a finding: after its threshold, but not while the rollout
    /// of the last spec change may still be under way.
    pub(crate) fn regression_due(&self, unconverged: &Unconverged, since: Timestamp) -> Timestamp {
        let due = since.after(self.regressed_after());
        due.max(unconverged.rollout_until.unwrap_or(due)).max(unconverged.mended_by.unwrap_or(due))
    }

    /// Returns how long a regression may last before it is a finding. Planned work, such as a
    /// rolling restart, looks like a regression, so the kind's deadline applies instead if it is
    /// configured or learned, and longer. If the operator says that it works on the object, the work
    /// has as long as an update, and as long as a phase. A deadline that somebody has set applies as
    /// it is.
    pub(crate) fn regressed_after(&self) -> Span {
        let (deadline, source) = self.deadline(false);
        let threshold = self.settings.regressed_after;
        match source {
            DeadlineSource::Configured => threshold.max(deadline),
            _ if self.is_at_work() => threshold.max(deadline).max(self.settings.phase_stuck_after),
            DeadlineSource::Learned => threshold.max(deadline),
            DeadlineSource::Default => threshold,
        }
    }

    /// Returns whether the status says that the operator works on the object.
    fn is_at_work(&self) -> bool {
        let conditions = self.condition_sets.get(self.record.conditions);
        let phase = self.texts.get(self.record.phase);
        self.record.verdict == Verdict::Progressing
            && reading::is_at_work(self.record.reason, conditions, phase)
    }

    /// Returns when a problem that is due at `due` opens a finding: not before the grace period
    /// after blindness has ended.
    pub(crate) fn opens_at(&self, due: Timestamp) -> Timestamp {
        match self.visibility {
            Visibility::Clear => due,
            Visibility::Grace(until) => due.max(until),
            Visibility::Lost => Timestamp(i64::MAX),
        }
    }

    /// Returns whether a detection is a finding now. An open finding stays open during a grace
    /// period.
    pub(crate) fn is_finding(&self, detection: &Detection) -> bool {
        let is_open = || self.has_finding(detection.code) || self.has_predecessor(detection.code);
        self.opens_at(detection.due) <= self.now || (detection.due <= self.now && is_open())
    }

    /// Returns whether a finding about the same problem is open under another code: the code for a
    /// missed deadline depends on what the operator has done so far, and that for a deletion on
    /// what is known about its cause.
    fn has_predecessor(&self, code: FindingCode) -> bool {
        const SAME_PROBLEM: [[FindingCode; 3]; 2] = [
            [FindingCode::Unacknowledged, FindingCode::StatusLag, FindingCode::Overdue],
            [
                FindingCode::FinalizerOwnerAbsent,
                FindingCode::DeletionBlockedByDependent,
                FindingCode::FinalizerStuck,
            ],
        ];

        let mut same = SAME_PROBLEM.iter().filter(|codes| codes.contains(&code)).flatten();
        same.any(|other| self.has_finding(*other))
    }

    /// Returns whether a finding of this code about the object is open, or waits for room.
    pub(crate) fn has_finding(&self, code: FindingCode) -> bool {
        self.record.hot.as_ref().is_some_and(|hot| hot.findings.contains(&code))
    }

    /// Returns when to judge the object again if no event arrives first.
    pub(crate) fn due(&self, detections: &[Detection]) -> Option<Timestamp> {
        let opening =
            detections.iter().filter(|d| !self.is_finding(d)).map(|d| self.opens_at(d.due));

        // An early finding becomes a page.
        let page = self.record.unconverged().map(|unconverged| self.deadline_passes(unconverged));
        let page = page.filter(|page| *page < Timestamp(i64::MAX)).map(|page| self.opens_at(page));

        // When the rollout is over, the object may count as failing.
        let rollout = self.record.unconverged().and_then(|unconverged| unconverged.rollout_until);
        opening
            .chain(self.obligation_due())
            .chain(self.history_due())
            .chain(rollout)
            .chain(page)
            .filter(|due| *due > self.now)
            .min()
    }

    /// Returns since when the object has been failing with a spec that had converged. If many
    /// objects of a kind fail like this, the kind is failing. An object that fails while the last
    /// spec change may still roll out does not count: it probably has a bad spec. One that retries
    /// counts until it has converged, because retries would otherwise close and reopen the finding.
    fn failing_since(&self) -> Option<Timestamp> {
        let hot = self.record.hot.as_ref()?;
        let retries = self.record.verdict == Verdict::Progressing && self.had_regressed();
        if self.record.verdict != Verdict::Failed && !retries {
            return None;
        }

        let unconverged = hot.unconverged.as_ref()?;
        unconverged
            .regressed_since
            .filter(|_| unconverged.rollout_until.is_none_or(|until| until <= self.now))
    }

    /// Returns how the operator has rejected the present spec, and when that began: when the spec was written,
    /// because the time of a failure would move whenever the operator retries. Of a change that loopwatch has not
    /// seen, only the failure counts: the spec may have converged before. A rejected spec stays rejected while the
    /// operator tries again.
    fn rejected(&self) -> Option<(FailureSort, Timestamp)> {
        let obligation = self.record.obligation()?;
        if obligation.uncounted || obligation.unasked {
            return None;
        }

        let rejected_at = self.rejected_at(obligation).filter(|at| *at <= self.now);
        if let (Some(failed), Some(_)) = (obligation.failed_since, rejected_at) {
            if !obligation.backfilled {
                return Some((FailureSort::Rejected, obligation.opened));
            }

            let is_run = reading::runs_to_completion(&self.kind.group, &self.kind.kind);
            return (!is_run).then_some((FailureSort::Listed, failed));
        }

        let known = self.known_failure()?;
        let is_same = known.sort == FailureSort::Listed || known.since == obligation.opened;
        let fails = self.record.verdict == Verdict::Failed; // again, and not for long yet
        let retries = self.record.verdict == Verdict::Progressing && self.now < obligation.deadline;
        (is_same && (fails || retries)).then_some((known.sort, known.since))
    }

    /// Returns whether the failure is a verdict about other objects.
    pub(crate) fn judges_others(&self) -> bool {
        self.record.hot.as_ref().is_some_and(|hot| reading::judges_others(&hot.signal))
    }

    /// Returns how the object fails, as its kind counts it.
    pub(crate) fn failure(&self) -> Option<Failure> {
        if self.record.hot.is_none() || self.is_excused() || self.judges_others() {
            return None;
        }

        let of_spec = || self.failing_since().map(|since| (FailureSort::Regressed, since));
        let (sort, since) = of_spec().or_else(|| self.rejected())?;
        Some(Failure { sort, since, reason: self.failure_reason() })
    }

    /// Returns the signal that shows the failure. While the operator retries, the last one counts.
    pub(crate) fn failure_reason(&self) -> Arc<str> {
        let known = self.known_failure().filter(|_| self.record.verdict == Verdict::Progressing);
        let signal = || self.record.hot.as_ref().map_or("", |hot| hot.signal.as_str());
        known.map_or_else(|| self.kind.failures.reason(signal()), |known| known.reason.clone())
    }

    /// Returns how the object failed at its last review.
    fn known_failure(&self) -> Option<&Failure> {
        self.record.hot.as_ref()?.failure.as_deref()
    }

    fn had_regressed(&self) -> bool {
        self.known_failure().is_some_and(|known| known.sort == FailureSort::Regressed)
    }
}
