//! Ends obligations, each with exactly one [`Outcome`], and counts and learns how long they took.

use crate::model::convergence::object_context::ObjectContext;
use crate::model::status::reading::{self, Verdict};
use crate::model::world::kinds::completed::Work;
use crate::model::world::kinds::pace::{Answer, Wait};
use crate::model::world::store::{Flag, Obligation};
use crate::model::world::visibility::Visibility;
use crate::snapshot::Outcome;
use crate::time::{Span, Timestamp};

impl ObjectContext<'_> {
    /// Ends the obligation if the waiting time for its outcome is over. While the watch is blind, a
    /// passed SLO deadline ends it as unknown, and all other outcomes wait. In a namespace that is
    /// being deleted, the obligation ends only with the object; while the operator is scaled to
    /// zero, the deadline waits.
    pub(crate) fn advance_obligation(&mut self) {
        if self.namespace_deleted {
            return;
        }

        self.advance_superseded();
        let Some(obligation) = self.record.obligation().cloned() else { return };
        let (now, settings, lost) = (self.now, self.settings, self.visibility == Visibility::Lost);
        if lost && !self.record.flags.has(Flag::Judged) {
            return; // the object appeared while its watch was blind
        }

        if let Some(converged) = obligation.converged_since {
            if now >= converged.after(settings.settle) && !lost {
                self.end_converged(&obligation, converged);
            }
        } else if let (Some(failed), Some(rejected)) =
            (obligation.failed_since, self.rejected_at(&obligation))
        {
            if now >= rejected && !lost {
                self.count_outcome(Outcome::Rejected);
                self.end_obligation_trace(Outcome::Rejected, failed, None);
            }
        } else if obligation.unconfirmed {
            if now >= obligation.opened.after(settings.unsaid_after) && !lost {
                self.end_unconfirmed(&obligation);
            }
        } else if now >= obligation.slo_deadline
            && !self.operator_stopped
            && !self.has_time_to_run()
            && !self.waits_to_run()
        {
            match obligation.outcome {
                None => self.slo_deadline_passed(&obligation),
                Some(_) if self.record.verdict == Verdict::Unknown && !lost => {
                    self.clear_unconverged()
                }
                Some(_) => {}
            }
        }
    }

    /// Returns when a failure counts as the answer of the operator to the spec. An object that only
    /// waits for room in the cluster has not been refused.
    pub(crate) fn rejected_at(&self, obligation: &Obligation) -> Option<Timestamp> {
        let hot = self.record.hot.as_ref();
        let waits = hot.is_some_and(|hot| {
            [&hot.signal, &hot.message].iter().any(|text| reading::lacks_capacity(text))
        });
        let failed = obligation.failed_since.filter(|_| !waits)?;
        Some(failed.after(self.settings.reject_after))
    }

    /// Returns when the next waiting time of the obligation is over.
    pub(crate) fn obligation_due(&self) -> Option<Timestamp> {
        let obligation = self.record.obligation()?;
        let settings = self.settings;
        let steps = [
            obligation.converged_since.map(|since| since.after(settings.settle)),
            self.rejected_at(obligation),
            obligation.unconfirmed.then(|| obligation.opened.after(settings.unsaid_after)),
            Some(obligation.slo_deadline),
            self.run_under_way_passes(),
            self.turn_to_run(obligation),
            self.superseded_due(),
        ];

        steps.into_iter().flatten().filter(|due| *due > self.now).min()
    }

    /// Handles an SLO deadline that passed. An object without a status is late only if objects of
    /// its kind are expected to have one.
    fn slo_deadline_passed(&mut self, obligation: &Obligation) {
        if self.record.verdict == Verdict::Unknown
            && !self.record.flags.has(Flag::HasStatus)
            && self.kind.expects_status()
        {
            self.record.verdict = Verdict::Progressing;
        }

        let unseen = self.visibility == Visibility::Lost
            || (self.lost..=self.regained).contains(&obligation.slo_deadline);
        match self.record.verdict {
            Verdict::Unknown if self.visibility != Visibility::Lost => self.clear_unconverged(),
            _ if unseen => {
                self.count_outcome(Outcome::Unknown);
                self.end_obligation_trace(Outcome::Unknown, obligation.slo_deadline, None);
            }
            _ => {
                self.learn_censored(obligation, obligation.slo_deadline);
                self.count_outcome(Outcome::Late);
                self.end_obligation_trace(Outcome::Late, obligation.slo_deadline, None);
            }
        }
    }

    /// Ends the obligation, if one is open, with an outcome that the operator did not cause:
    /// superseded, deleted, suspended or unknown. If nothing is expected of the object, the
    /// obligation ends without an outcome.
    pub(crate) fn close_obligation(&mut self, outcome: Outcome) {
        let Some(obligation) = self.record.obligation().cloned() else { return };
        if obligation.outcome.is_some() {
            return self.close_obligation_trace(outcome); // counted at the deadline
        }

        if let Some(converged) =
            obligation.converged_since.filter(|at| self.now >= at.after(self.settings.settle))
        {
            // The watch was blind when the waiting time ended.
            return self.end_converged(&obligation, converged);
        }

        let expected = self.record.verdict != Verdict::Unknown
            || self.record.flags.has(Flag::HasStatus)
            || self.kind.expects_status();
        if expected {
            self.learn_censored(&obligation, self.now);
            if outcome == Outcome::Superseded {
                self.supersede(&obligation);
            } else {
                self.count_outcome(outcome);
            }
            self.close_obligation_trace(outcome);
        }
    }

    fn end_converged(&mut self, obligation: &Obligation, converged: Timestamp) {
        let took = converged.since(obligation.opened);
        self.count_outcome(Outcome::Converged);
        self.kind.failures.succeeded(&self.record.namespace, self.now);

        let timed = obligation.is_measured();
        self.end_obligation_trace(Outcome::Converged, converged, timed.then_some(took));
        if timed {
            let answer = if obligation.creation { Answer::Creation } else { Answer::Update };
            let wait = Wait { from: obligation.opened, to: converged };
            self.kind.totals.convergence.observe(took);
            self.namespace.totals.convergences.observe(took);
            self.kind.completed.note(Work::Convergence, obligation.opened, self.now);
            self.learn(answer, wait, obligation.outcome.is_none());
        }

        if obligation.creation {
            self.count_run();
        }

        self.spec_has_converged(obligation, took, timed);
    }

    /// Ends the obligation of an object whose status has said converged all along, so that nothing
    /// shows whether it is about the new spec.
    fn end_unconfirmed(&mut self, obligation: &Obligation) {
        self.count_outcome(Outcome::Unknown);
        self.end_obligation_trace(Outcome::Unknown, self.now, None);
        self.spec_has_converged(obligation, self.now.since(obligation.opened), false);
    }

    fn spec_has_converged(&mut self, obligation: &Obligation, took: Span, timed: bool) {
        self.record.last_convergence_secs = u32::try_from(took.0 / 1000).unwrap_or(u32::MAX);
        self.record.flags.set(Flag::ConvergenceTimed, timed);
        self.record.flags.set(Flag::SpecConverged, true);
        self.record.flags.set(Flag::ConvergedUnseen, obligation.stale);
        self.clear_unconverged();
    }

    /// Removes the unconverged state of an object that has converged or is no longer expected to.
    pub(crate) fn clear_unconverged(&mut self) {
        self.superseded_acknowledged(true);
        if self.take_unconverged().is_some() {
            self.traces.forget_obligation(self.slot);
        }
    }

    /// Sets and counts the outcome of the obligation, unless it already has one.
    pub(super) fn count_outcome(&mut self, outcome: Outcome) {
        let Some(unconverged) = self.record.unconverged_mut() else { return };
        let Some(obligation) = unconverged.obligation.as_mut().filter(|o| o.outcome.is_none())
        else {
            return;
        };

        obligation.outcome = Some(outcome);
        if !obligation.uncounted {
            self.namespace.totals.obligations[outcome as usize] += 1;
        }
    }

    /// Learns how long the operator took to answer a change. If the change was late, it has counted
    /// as censored already, and its real duration counts only if no outage caused it.
    pub(super) fn learn(&mut self, answer: Answer, wait: Wait, in_slo: bool) {
        let took = wait.to.since(wait.from);
        if in_slo {
            self.kind.learned.durations(answer).add(took);
            return;
        }

        let blind = self.regained.since(self.lost.max(wait.from));
        let was_seen = self.regained <= wait.from || Span(blind.0.saturating_mul(4)) < took;
        let was_served = self.operator_failed <= wait.from;
        if was_seen && was_served && self.kind.pace.teaches(answer, wait) {
            self.kind.learned.durations(answer).add_late(took);
        }
    }

    /// Adds a censored duration: the obligation had not converged by `at`. Does the same for the
    /// acknowledgement if that was missing, too.
    fn learn_censored(&mut self, obligation: &Obligation, at: Timestamp) {
        if !obligation.is_measured() || obligation.outcome.is_some() {
            return;
        }

        let lasted = at.since(obligation.opened);
        let answer = if obligation.creation { Answer::Creation } else { Answer::Update };
        self.kind.learned.durations(answer).add_censored(lasted);
        if obligation.acknowledged.is_none() {
            self.kind.learned.acknowledgement.add_censored(lasted);
        }
    }
}

impl Obligation {
    /// Returns whether histograms and learning may use the times of this obligation.
    pub(crate) fn is_measured(&self) -> bool {
        !self.backfilled && !self.uncounted && !self.unmeasured
    }
}
