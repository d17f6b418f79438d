//! Judges one object at one instant: its state, what is wrong with it, and when to look again.
//!
//! The same function serves events and timers, so that it does not matter which of them comes first.

use super::context::ObjectContext;
use super::reading::{self, Verdict};
use super::store::{Obligation, Unconverged};
use crate::finding::{Evidence, FindingCode, Value};
use crate::observation::StatusSchema;
use crate::snapshot::{DeadlineSource, ObjectState};
use crate::time::{Span, Timestamp};

/// Something wrong with an object: what, since when, and what shows it.
pub(crate) type Problem = (FindingCode, Timestamp, Evidence);

// === impl ObjectContext ===

impl ObjectContext<'_> {
    /// The state at this instant.
    pub(crate) fn state(&self) -> ObjectState {
        if self.record.hot.as_ref().is_some_and(|hot| hot.deletion.is_some()) {
            return ObjectState::Terminating;
        }
        let obligation = self.record.obligation();
        match self.record.verdict {
            Verdict::Suspended => ObjectState::Suspended,
            Verdict::Finished if obligation.is_none_or(|o| o.reached.is_some()) => ObjectState::Finished,
            Verdict::Converged if obligation.is_none_or(|o| o.reached.is_some()) => ObjectState::Converged,
            Verdict::Failed if obligation.is_none_or(|o| o.answered.is_some()) => ObjectState::Failed,
            Verdict::Unknown => ObjectState::Unknown,
            // What the status says is still about an older spec, or work is under way.
            _ if self.overdue_since().is_some_and(|since| since <= self.now) => ObjectState::Overdue,
            _ => ObjectState::Progressing,
        }
    }

    /// When the object is, or will be, overdue.
    fn overdue_since(&self) -> Option<Timestamp> {
        let unconverged = self.record.unconverged()?;
        match (&unconverged.obligation, unconverged.regressed) {
            (Some(obligation), _) => Some(obligation.deadline),
            (None, Some(lost)) => Some(lost.after(self.regressed_after())),
            (None, None) => None,
        }
    }

    /// A loss may last as long as the kind is known to need for converging: planned work looks the same.
    fn regressed_after(&self) -> Span {
        let (deadline, source) = self.kind.deadline(self.settings);
        let known = source != DeadlineSource::Default;
        if known { self.settings.regressed_after.max(deadline) } else { self.settings.regressed_after }
    }

    /// Everything that is wrong with the object now.
    pub(crate) fn problems(&self) -> Vec<Problem> {
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

    /// When the object has to be looked at next although nothing happened.
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
                o.reached.map(|reached| reached.after(settings.settle)),
                o.answered.map(|answered| answered.after(settings.reject_after)),
                o.stale.then(|| o.opened.after(settings.unsaid_after)),
                Some(o.late_at),
                Some(o.deadline),
            ]
        });
        let others =
            [unconverged.regressed.map(|lost| lost.after(self.regressed_after())), self.recovery_due(unconverged)];
        of_obligation.into_iter().flatten().chain(others).flatten()
    }

    fn missed_deadline(&self, unconverged: &Unconverged) -> Option<Problem> {
        let obligation = unconverged.obligation.as_ref()?;
        let open = obligation.reached.is_none() && obligation.answered.is_none() && !obligation.stale;
        let judged = self.record.verdict != Verdict::Unknown;
        if !open || !judged || self.now < obligation.deadline || self.blind {
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
        self.words(evidence)
            .text("deadline_source", obligation.deadline_source.as_str())
            .text("phase", self.texts.get(self.record.phase).to_string())
    }

    fn regressed(&self, unconverged: &Unconverged) -> Option<Problem> {
        let lost = unconverged.regressed?;
        if self.now < lost.after(self.regressed_after()) || self.blind {
            return None;
        }
        let evidence = self
            .words(Evidence::new())
            .with("lost_for", Value::Age(lost))
            .with("threshold", Value::Span(self.regressed_after()));
        Some((FindingCode::Regressed, lost, evidence))
    }

    fn never_recovered(&self, unconverged: &Unconverged) -> Option<Problem> {
        let due = self.recovery_due(unconverged)?;
        let (_, took) = unconverged.good?;
        let obligation = unconverged.obligation.as_ref()?;
        if self.now < due || self.blind {
            return None;
        }
        let evidence = self
            .words(Evidence::new())
            .with("took_then", Value::Span(took))
            .with("waiting_for", Value::Age(obligation.opened));
        Some((FindingCode::NeverRecovered, obligation.opened, evidence))
    }

    /// When an object that is back at a spec that worked should have recovered.
    fn recovery_due(&self, unconverged: &Unconverged) -> Option<Timestamp> {
        let obligation =
            unconverged.obligation.as_ref().filter(|o| o.reached.is_none() && !o.backfilled && !o.stale)?;
        let (_, took) = unconverged.good.filter(|(spec, _)| *spec == self.record.spec && *spec != 0)?;
        let factor = i64::from(self.settings.recover_factor);
        let allowed = Span(took.0.saturating_mul(factor)).max(self.settings.recover_at_least);
        Some(obligation.opened.after(allowed))
    }

    fn phase_stuck(&self) -> Option<Problem> {
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
        let passing = self.record.verdict == Verdict::Progressing && !phase.is_empty() && !reading::may_last(phase);
        let since = self.in_phase_since().filter(|_| passing)?;
        let deadline = self.kind.deadline(self.settings).0;
        Some(since.after(self.settings.phase_stuck_after.max(deadline)))
    }

    fn finalizer_stuck(&self, deletion: &super::store::Deletion) -> Problem {
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

    /// What the operator itself says about the object.
    fn words(&self, evidence: Evidence) -> Evidence {
        let Some(hot) = self.record.hot.as_ref() else { return evidence };
        evidence.text("signal", hot.signal.clone()).text("message", hot.message.clone())
    }

    /// Whether the object failed although it worked with this very spec: what a kind fails by.
    pub(crate) fn fails_without_cause(&self) -> bool {
        self.record.verdict == Verdict::Failed
            && self.record.unconverged().is_some_and(|unconverged| unconverged.regressed.is_some())
    }

    /// The kind's status writes raise the generation, so that what it has observed means nothing.
    pub(crate) fn generation_means_nothing(&self) -> bool {
        self.kind.status == StatusSchema::InBody
    }
}
