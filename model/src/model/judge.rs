//! Judges one object at one instant: its state, its problems, and when to judge it again.
//!
//! Events and timers call the same functions, so their order at the same instant does not matter.

use super::context::ObjectContext;
use super::reading::{self, Verdict};
use super::store::{Deletion, Obligation, Unconverged};
use crate::finding::{Evidence, FindingCode, Value};
use crate::observation::StatusSchema;
use crate::snapshot::{DeadlineSource, ObjectState};
use crate::time::{Span, Timestamp};

/// A problem of an object: the finding to open, when the problem began, and the evidence.
pub(crate) type ObjectProblem = (FindingCode, Timestamp, Evidence);

// === impl ObjectContext ===

impl ObjectContext<'_> {
    /// Returns the object's state at this instant.
    pub(crate) fn state(&self) -> ObjectState {
        if self.record.hot.as_ref().is_some_and(|hot| hot.deletion.is_some()) {
            return ObjectState::Terminating;
        }
        let obligation = self.record.obligation();
        match self.record.verdict {
            Verdict::Suspended => ObjectState::Suspended,
            Verdict::Finished if obligation.is_none_or(|o| o.converged_since.is_some()) => ObjectState::Finished,
            Verdict::Converged if obligation.is_none_or(|o| o.converged_since.is_some()) => ObjectState::Converged,
            Verdict::Failed if obligation.is_none_or(|o| o.failed_since.is_some()) => ObjectState::Failed,
            Verdict::Unknown if !self.may_say_more_soon() => ObjectState::Unknown,
            // Work is in progress, or the status may describe an earlier spec.
            _ if self.overdue_since().is_some_and(|since| since <= self.now) => ObjectState::Overdue,
            _ => ObjectState::Progressing,
        }
    }

    /// Returns when an unconverged object becomes, or became, overdue.
    fn overdue_since(&self) -> Option<Timestamp> {
        let unconverged = self.record.unconverged()?;
        match (&unconverged.obligation, unconverged.regressed_since) {
            (Some(obligation), _) => Some(obligation.deadline),
            (None, Some(since)) => Some(since.after(self.regressed_after())),
            (None, None) => None,
        }
    }

    /// Returns how long a regression may last before it is a finding. Planned work, such as a rolling restart, looks
    /// like a regression, so the kind's deadline applies instead if it is configured or learned, and longer.
    fn regressed_after(&self) -> Span {
        let (deadline, source) = self.kind.deadline(self.settings);
        let specific = source != DeadlineSource::Default;
        if specific { self.settings.regressed_after.max(deadline) } else { self.settings.regressed_after }
    }

    /// Returns all problems that the object has now.
    pub(crate) fn problems(&self) -> Vec<ObjectProblem> {
        let mut problems = Vec::new();
        let Some(hot) = self.record.hot.as_ref() else { return problems };
        if let Some(deletion) = &hot.deletion {
            problems.extend(deletion.stuck.then(|| self.finalizer_stuck(deletion)));
            return problems;
        }
        if let Some(unconverged) = &hot.unconverged {
            problems.extend(self.missed_deadline(unconverged));
            problems.extend(self.regressed(unconverged));
            problems.extend(self.never_recovered(unconverged));
        }
        problems.extend(self.phase_stuck());
        if let Some((phases, returns, since)) = self.cycling() {
            let evidence = Evidence::new()
                .with("phases", Value::Names(phases))
                .with("returns", Value::Count(returns as i64))
                .with("window", Value::Span(self.settings.cycle_window));
            problems.push((FindingCode::PhaseCycling, since, evidence));
        }
        if let Some((condition, transitions, since)) = self.flapping() {
            let evidence = Evidence::new()
                .text("condition", condition.condition.to_string())
                .with("transitions", Value::Count(transitions as i64))
                .with("window", Value::Span(self.settings.flap_window))
                .with("reasons", Value::Names(condition.reasons.clone()));
            problems.push((FindingCode::ConditionFlapping, since, evidence));
        }
        problems
    }

    /// Returns when to judge the object again if no event arrives first.
    pub(crate) fn due(&self) -> Option<Timestamp> {
        let hot = self.record.hot.as_ref()?;
        let deletion = hot.deletion.as_ref().map(|deletion| self.stuck_at(deletion));
        let unconverged = hot.unconverged.iter().flat_map(|unconverged| self.unconverged_due(unconverged));
        let phase = self.phase_stuck_at();
        deletion
            .into_iter()
            .chain(unconverged)
            .chain(phase)
            .chain(self.history_due())
            .filter(|due| *due > self.now)
            .min()
    }

    fn unconverged_due(&self, unconverged: &Unconverged) -> impl Iterator<Item = Timestamp> {
        let settings = self.settings;
        let of_obligation = unconverged.obligation.as_ref().map(|o| {
            [
                o.converged_since.map(|since| since.after(settings.settle)),
                o.failed_since.map(|since| since.after(settings.reject_after)),
                o.unconfirmed.then(|| o.opened.after(settings.unsaid_after)),
                Some(o.slo_deadline),
                Some(o.deadline),
            ]
        });
        let others = [
            unconverged.regressed_since.map(|since| since.after(self.regressed_after())),
            self.recovery_due(unconverged),
        ];
        of_obligation.into_iter().flatten().chain(others).flatten()
    }

    fn missed_deadline(&self, unconverged: &Unconverged) -> Option<ObjectProblem> {
        let obligation = unconverged.obligation.as_ref()?;
        let open = obligation.converged_since.is_none() && obligation.failed_since.is_none() && !obligation.unconfirmed;
        let readable = self.record.verdict != Verdict::Unknown;
        if !open || !readable || self.now < obligation.deadline || self.blind {
            return None;
        }
        let evidence = Evidence::new()
            .with("generation", Value::Count(self.record.generation))
            .with("waiting_for", Value::Age(obligation.opened))
            .with("deadline", Value::Span(obligation.deadline.since(obligation.opened)));
        let (code, evidence) = match (obligation.acknowledged, unconverged.status_written) {
            (Some(_), _) => (FindingCode::Overdue, self.overdue_evidence(evidence, obligation)),
            (None, Some(written)) => {
                let evidence = evidence
                    .with("observed_generation", Value::Count(self.record.observed))
                    .with("last_status_write", Value::Time(written));
                (FindingCode::StatusLag, evidence)
            }
            (None, None) => {
                let evidence = evidence
                    .with("observed_generation", Value::Count(self.record.observed))
                    .text("last_status_writer", unconverged.status_writer.clone());
                (FindingCode::Unacknowledged, evidence)
            }
        };
        Some((code, obligation.opened, evidence))
    }

    fn overdue_evidence(&self, evidence: Evidence, obligation: &Obligation) -> Evidence {
        self.with_signal(evidence)
            .text("deadline_source", obligation.deadline_source.as_str())
            .text("phase", self.texts.get(self.record.phase).to_string())
    }

    fn regressed(&self, unconverged: &Unconverged) -> Option<ObjectProblem> {
        let since = unconverged.regressed_since?;
        if self.now < since.after(self.regressed_after()) || self.blind {
            return None;
        }
        let evidence = self
            .with_signal(Evidence::new())
            .with("lost_for", Value::Age(since))
            .with("threshold", Value::Span(self.regressed_after()));
        Some((FindingCode::Regressed, since, evidence))
    }

    fn never_recovered(&self, unconverged: &Unconverged) -> Option<ObjectProblem> {
        let due = self.recovery_due(unconverged)?;
        let (_, took) = unconverged.last_converged?;
        let obligation = unconverged.obligation.as_ref()?;
        if self.now < due || self.blind {
            return None;
        }
        let evidence = self
            .with_signal(Evidence::new())
            .with("took_then", Value::Span(took))
            .with("waiting_for", Value::Age(obligation.opened));
        Some((FindingCode::NeverRecovered, obligation.opened, evidence))
    }

    /// Returns when an object whose spec is back to one that converged before should have recovered.
    fn recovery_due(&self, unconverged: &Unconverged) -> Option<Timestamp> {
        let obligation = unconverged
            .obligation
            .as_ref()
            .filter(|o| o.converged_since.is_none() && !o.backfilled && !o.unconfirmed)?;
        let (_, took) = unconverged.last_converged.filter(|(spec, _)| *spec == self.record.spec_hash && *spec != 0)?;
        let factor = i64::from(self.settings.recover_factor);
        let allowed = Span(took.0.saturating_mul(factor)).max(self.settings.recover_at_least);
        Some(obligation.opened.after(allowed))
    }

    fn phase_stuck(&self) -> Option<ObjectProblem> {
        let due = self.phase_stuck_at()?;
        let since = self.in_phase_since()?;
        if self.now < due || self.blind {
            return None;
        }
        let evidence = Evidence::new()
            .text("phase", self.texts.get(self.record.phase).to_string())
            .with("in_phase_for", Value::Age(since))
            .with("threshold", Value::Span(due.since(since)));
        Some((FindingCode::PhaseStuck, since, evidence))
    }

    fn phase_stuck_at(&self) -> Option<Timestamp> {
        let phase = self.texts.get(self.record.phase);
        let transitional =
            self.record.verdict == Verdict::Progressing && !phase.is_empty() && !reading::is_resting_phase(phase);
        let since = self.in_phase_since().filter(|_| transitional)?;
        let deadline = self.kind.deadline(self.settings).0;
        Some(since.after(self.settings.phase_stuck_after.max(deadline)))
    }

    fn finalizer_stuck(&self, deletion: &Deletion) -> ObjectProblem {
        let mut actors: Vec<String> = Vec::new();
        for (_, actor) in &deletion.actors {
            if !actors.contains(actor) {
                actors.push(actor.clone());
            }
        }
        let evidence = Evidence::new()
            .with("actor", Value::Names(actors))
            .with("finalizers", Value::Names(deletion.actors.iter().map(|(f, _)| f.to_string()).collect()))
            .with("terminating_for", Value::Age(deletion.since))
            .with("last_progress", Value::Time(deletion.last_progress))
            .with("threshold", Value::Span(self.settings.finalizer_stuck_after));
        (FindingCode::FinalizerStuck, deletion.since, evidence)
    }

    /// Adds the signal that decided the verdict, and its message.
    fn with_signal(&self, evidence: Evidence) -> Evidence {
        let Some(hot) = self.record.hot.as_ref() else { return evidence };
        evidence.text("signal", hot.signal.clone()).text("message", hot.message.clone())
    }

    /// Returns whether the object failed after it had converged with the same spec. A kind is failing if many of its
    /// objects do.
    pub(crate) fn fails_after_converging(&self) -> bool {
        self.record.verdict == Verdict::Failed
            && self.record.unconverged().is_some_and(|unconverged| unconverged.regressed_since.is_some())
    }

    /// Returns whether each status write increments the generation, so that a higher generation may not mean a spec
    /// change.
    pub(crate) fn generation_is_unreliable(&self) -> bool {
        self.kind.status == StatusSchema::InBody
    }
}
