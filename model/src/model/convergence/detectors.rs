//! The detectors that look at a single object.

use std::collections::BTreeSet;

use crate::finding::{Evidence, FindingCode, Value};
use crate::model::convergence::object_context::ObjectContext;
use crate::model::findings::detection::Detection;
use crate::model::status::reading::{self, Verdict};
use crate::model::world::store::{Flag, Obligation, Slot};
use crate::time::{Span, Timestamp};

/// The multiple of the median time to acknowledgement after which an object may count as starved.
const STARVED_FACTOR: i64 = 10;

/// The multiple of the time within which 99.9 % of the acknowledgements arrive after which an early
/// ticket opens. If the times of the next changes are like those before, fewer than one change in a
/// thousand causes one.
const EARLY_FACTOR: i64 = 3;

/// The number of acknowledgements that an early ticket needs.
const EARLY_FROM: u32 = 20;

/// How long after a scrape that showed all workers busy they may still be busy. Prometheus usually
/// scrapes every minute at least.
const BUSY_FOR: Span = Span::mins(2);

/// How long a detector waits for other objects before it looks again.
const LOOK_AGAIN_AFTER: Span = Span::mins(1);

/// A detector that looks at a single object.
type Detector = fn(&ObjectContext<'_>) -> Option<Detection>;

/// Detectors of objects of child kinds. Their state is only evidence about their owners.
const OF_CHILDREN: &[Detector] = &[|object| object.annotations_invalid()];

/// Detectors of all other objects. The detectors of deletions also look at other objects, see
/// `deletion/stuck.rs`.
const OF_LIVE_OBJECTS: &[Detector] = &[
    |object| object.missed_deadline(),
    |object| object.starved(),
    |object| object.regressed(),
    |object| object.never_recovered(),
    |object| object.phase_stuck(),
    |object| object.phase_cycling(),
    |object| object.condition_flapping(),
    |object| object.annotations_invalid(),
    |object| object.finalizer_lost(),
    |object| object.finalizer_flapping(),
];

impl ObjectContext<'_> {
    /// Returns all problems that the object has, or will have if nothing changes.
    pub(crate) fn detections(&self) -> Vec<Detection> {
        let Some(hot) = self.record.hot.as_ref() else { return Vec::new() };
        if hot.deletion.is_some() {
            return Vec::new(); // nothing else is expected of an object that is being deleted
        }

        let detectors = if self.is_child() { OF_CHILDREN } else { OF_LIVE_OBJECTS };
        detectors.iter().filter_map(|detect| detect(self)).collect()
    }

    pub(crate) fn detect(
        &self,
        code: FindingCode,
        since: Timestamp,
        due: Timestamp,
        evidence: impl FnOnce() -> Evidence,
    ) -> Detection {
        // Without managed fields, nothing shows when the spec was written, so the finding must not
        // page.
        Detection::new(self.now, code, since, due, evidence)
            .weak_if(self.record.flags.has(Flag::Undated))
            .critical_if(self.record.is_critical())
            .suspected_if(self.kind.suspected)
            .not_before(self.record.created())
    }

    fn missed_deadline(&self) -> Option<Detection> {
        let unconverged = self.record.unconverged()?;
        let obligation = unconverged.obligation.as_ref()?;

        // A failure counts as an answer once it has lasted; a short one neither opens nor closes a
        // finding.
        let answered_at = self.rejected_at(obligation);
        let answered =
            obligation.converged_since.is_some() || answered_at.is_some_and(|at| at <= self.now);
        if answered || obligation.unconfirmed || self.record.verdict == Verdict::Unknown {
            return None;
        }

        let mut due = self.deadline_passes(unconverged);
        if due == Timestamp(i64::MAX) {
            return None; // a run of which nothing shows how long it may take
        }

        if !self.has_finding(FindingCode::Overdue) {
            due = due.max(answered_at.unwrap_or(due));
        }

        let unacknowledged =
            unconverged.unacknowledged_since.filter(|since| due >= self.acknowledged_by(*since));
        let Some(since) = unacknowledged else {
            // After a rejection, the time counts from the retry. If newer specs keep arriving, it
            // counts from the first of them.
            let extended =
                due < obligation.deadline || unconverged.working_since > obligation.opened;
            let since = if extended { unconverged.working_since } else { obligation.opened };
            let evidence = || self.overdue_evidence(obligation, since, due);

            return Some(
                self.detect(FindingCode::Overdue, since, due, evidence).not_before(Some(since)),
            );
        };

        let written = unconverged.status_written;
        let early = self.is_early_at(since).filter(|early| *early < due && written.is_none());
        let applies = early.filter(|_| due > self.now).unwrap_or(due);
        let evidence = || {
            let mut evidence =
                Evidence::new().with("generation", Value::Count(self.record.generation.number()));

            // An object without a status reports no generation.
            if let Some(observed) = self.record.observed.some() {
                evidence = evidence.with("observed_generation", Value::Count(observed));
            }

            evidence
                .with("waiting_for", Value::Age(since))
                .with("deadline", Value::Span(applies.since(since)))
        };

        let detection = match written {
            Some(written) => self.detect(FindingCode::StatusLag, since, due, || {
                evidence().with("last_status_write", Value::Time(written))
            }),
            None => {
                let opens = early.unwrap_or(due);
                let detection = self.detect(FindingCode::Unacknowledged, since, opens, || {
                    evidence().text("last_status_writer", unconverged.status_writer.clone())
                });
                let is_early = due > self.now;
                Detection { weak: detection.weak || is_early, ..detection }
            }
        };

        // The last status write ended any earlier problem, so a finding that an earlier run opened
        // before it is about another problem.
        Some(detection.not_before(unconverged.last_status_write))
    }

    /// Returns when a spec change at `since` that waits for its acknowledgement deserves a ticket
    /// before its deadline passes: the operator of the kind has always been far quicker. Nothing
    /// may explain the wait: neither a queue that moves, nor workers that are all busy, nor a restart
    /// or an outage of the operator, nor a time in which loopwatch saw nothing.
    fn is_early_at(&self, since: Timestamp) -> Option<Timestamp> {
        let (durations, settings) = (&self.kind.learned.acknowledgement, self.settings);
        let enough = settings.learn_after > 0
            && durations.samples() >= u64::from(settings.learn_after.max(EARLY_FROM));
        let is_explained = self.operator_failed > since || self.regained > since;
        let quickest = durations.p999().filter(|_| enough && !is_explained)?;

        let early = Span(quickest.0.saturating_mul(EARLY_FACTOR));
        let early = since.after(early.max(settings.unacknowledged_early_after));
        let turn = self.queue_moved(since, self.acknowledgement_deadline());
        Some([turn, self.busy_until()].into_iter().flatten().fold(early, Timestamp::max))
    }

    /// Returns until when all workers of the kind's controller may be busy, according to the last
    /// scrape that showed them so. An open finding stays open.
    fn busy_until(&self) -> Option<Timestamp> {
        let busy = self.kind.workers_busy.map(|at| at.after(BUSY_FOR));
        busy.filter(|_| !self.has_finding(FindingCode::Unacknowledged))
    }

    /// Detects a spec change that the operator has not acknowledged although it has acknowledged
    /// many later ones of other objects of the kind: these occupy its workers, or it missed the
    /// event.
    fn starved(&self) -> Option<Detection> {
        let unconverged = self.record.unconverged()?;
        let obligation =
            unconverged.obligation.as_ref().filter(|obligation| !obligation.unconfirmed)?;
        let is_answered = obligation
            .converged_since
            .or(obligation.failed_since)
            .or(unconverged.status_written)
            .is_some();

        let since = unconverged.unacknowledged_since?;
        if is_answered || self.record.verdict == Verdict::Unknown {
            return None;
        }

        let durations = &self.kind.learned.acknowledgement;
        let known = self.settings.learn_after > 0
            && durations.samples() >= u64::from(self.settings.learn_after);
        let usual = durations.p50().filter(|_| known);
        // Objects of a lower priority may always wait for the others.
        let longest = durations.p99().max(durations.usual_late()).filter(|_| known);
        let after = Span(usual.unwrap_or_default().0.saturating_mul(STARVED_FACTOR))
            .max(longest.unwrap_or_default())
            .max(self.settings.starved_after);
        let acknowledged = &self.kind.acknowledged;
        let others: BTreeSet<Slot> =
            acknowledged.later_than(since).filter(|other| *other != self.slot).collect();

        let mut due = acknowledged.served_others_since(since).after(after);
        if due <= self.now && others.len() < self.settings.starved_others as usize {
            // An acknowledgement of another object does not trigger a review of this one.
            due = self.now.after(LOOK_AGAIN_AFTER);
        }

        Some(self.detect(FindingCode::Starved, since, due, || {
            Evidence::new()
                .with("acknowledged_others", Value::Count(others.len() as i64))
                .with("waiting_for", Value::Age(since))
                .with("threshold", Value::Span(after))
                .with_some("usual", usual.map(Value::Span))
        }))
    }

    fn overdue_evidence(
        &self,
        obligation: &Obligation,
        since: Timestamp,
        due: Timestamp,
    ) -> Evidence {
        self.with_signal(Evidence::new())
            .with("generation", Value::Count(self.record.generation.number()))
            .with("waiting_for", Value::Age(since))
            .with("deadline", Value::Span(due.since(since)))
            .text("deadline_source", self.source_of_deadline(obligation).as_str())
            .text("phase", self.texts.get(self.record.phase).to_string())
    }

    fn regressed(&self) -> Option<Detection> {
        let unconverged = self.record.unconverged()?;
        let since = unconverged.regressed_since?;
        if self.record.verdict == Verdict::Unknown || self.judges_others() {
            return None;
        }

        let due = self.regression_due(unconverged, since);
        let detection = self.detect(FindingCode::Regressed, since, due, || {
            self.with_signal(Evidence::new())
                .with("lost_for", Value::Age(since))
                .with("threshold", Value::Span(due.since(since)))
        });
        let detection = detection.suspected_if(unconverged.perhaps_never_converged);
        Some(detection.for_reason(self.failure_reason()))
    }

    /// Detects an object that does not recover although its spec was reverted to one that had
    /// converged.
    fn never_recovered(&self) -> Option<Detection> {
        let unconverged = self.record.unconverged()?;
        if unconverged.unacknowledged_since.is_some() && self.record.verdict != Verdict::Failed {
            return None; // the status is about an earlier spec
        }

        let obligation = unconverged
            .obligation
            .as_ref()
            .filter(|o| o.converged_since.is_none() && !o.unconfirmed)?;
        let reverted = unconverged.last_converged.filter(|_| !obligation.backfilled);
        let reverted = reverted.filter(|(spec, _)| *spec == self.record.spec_hash && *spec != 0);
        let took = reverted.map(|(_, took)| took);

        if took.is_none() && !unconverged.not_recovered {
            return None;
        }

        let factor = i64::from(self.settings.recover_factor);
        let allowed = Span(took.unwrap_or_default().0.saturating_mul(factor))
            .max(self.settings.recover_at_least);
        let mut due = obligation.opened.after(allowed);

        if self.record.verdict != Verdict::Failed {
            // The revert may need a rollout, too.
            due = due.max(self.deadline_passes(unconverged));
        }

        Some(self.detect(FindingCode::NeverRecovered, obligation.opened, due, || {
            let evidence = self.with_signal(Evidence::new());

            // After a restart, loopwatch no longer knows how long it took.
            let evidence = evidence.with_some("took_then", took.map(Value::Span));
            evidence.with("waiting_for", Value::Age(obligation.opened))
        }))
    }

    fn phase_stuck(&self) -> Option<Detection> {
        let phase = self.texts.get(self.record.phase);
        if self.record.verdict != Verdict::Progressing
            || phase.is_empty()
            || reading::is_resting_phase(phase)
        {
            return None;
        }

        let since = self.in_phase_since()?;
        let due = since.after(self.settings.phase_stuck_after.max(self.longest_stay(phase)));
        let due = due.max(self.run_under_way_passes().unwrap_or(due));

        // A run whose turn has not come is not to blame, whatever its phase is called.
        let turn = self.record.obligation().and_then(|obligation| self.turn_to_run(obligation));
        let due = due.max(turn.unwrap_or(due));
        if due == Timestamp(i64::MAX) {
            return None;
        }

        Some(self.detect(FindingCode::PhaseStuck, since, due, || {
            Evidence::new()
                .text("phase", phase.to_string())
                .with("in_phase_for", Value::Age(since))
                .with("threshold", Value::Span(due.since(since)))
        }))
    }

    fn phase_cycling(&self) -> Option<Detection> {
        let (phases, returns, since) = self.cycling()?;
        Some(self.detect(FindingCode::PhaseCycling, since, self.now, || {
            Evidence::new()
                .with("phases", Value::Names(phases))
                .with("returns", Value::Count(returns as i64))
                .with("window", Value::Span(self.settings.cycle_window))
        }))
    }

    fn condition_flapping(&self) -> Option<Detection> {
        let (condition, transitions, since) = self.flapping()?;
        Some(self.detect(FindingCode::ConditionFlapping, since, self.now, || {
            Evidence::new()
                .text("condition", condition.condition.to_string())
                .with("transitions", Value::Count(transitions as i64))
                .with("window", Value::Span(self.settings.flap_window))
                .with("reasons", Value::Names(condition.reasons.clone()))
        }))
    }

    fn annotations_invalid(&self) -> Option<Detection> {
        let problems = &self.record.hot.as_ref()?.annotated.as_ref()?.problems;
        let evidence = || Evidence::new().text("problem", problems.join("; "));
        (!problems.is_empty())
            .then(|| self.detect(FindingCode::ConfigInvalid, self.now, self.now, evidence))
    }

    /// Adds the signal that decided the verdict, and its message.
    fn with_signal(&self, evidence: Evidence) -> Evidence {
        let Some(hot) = self.record.hot.as_ref() else { return evidence };
        evidence.text("signal", hot.signal.clone()).text("message", hot.message.clone())
    }
}
