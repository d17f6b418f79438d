//! Spec changes that a newer one superseded before the operator acknowledged them.
//!
//! Something may change a spec again and again, such as an autoscaler. If the operator is dead, each
//! change is superseded before its SLO deadline passes. It still counts as late when that deadline
//! passes, unless the operator has acknowledged it or a newer one by then.

use crate::model::convergence::object_context::ObjectContext;
use crate::model::world::store::{Obligation, Superseded};
use crate::model::world::visibility::Visibility;
use crate::snapshot::Outcome;
use crate::time::Timestamp;

/// The maximum number of superseded spec changes per object that may still count as late. All
/// further ones count as superseded at once.
const MAX_SUPERSEDED: usize = 64;

impl ObjectContext<'_> {
    /// Ends an obligation that a newer spec change supersedes. If the operator has not acknowledged
    /// the spec, the SLO deadline decides the outcome.
    pub(super) fn supersede(&mut self, obligation: &Obligation) {
        let is_open = obligation.acknowledged.is_none()
            && obligation.converged_since.is_none()
            && obligation.failed_since.is_none()
            && !obligation.unconfirmed
            && !obligation.uncounted;
        let open = self
            .record
            .unconverged_mut()
            .filter(|unconverged| is_open && unconverged.superseded.len() < MAX_SUPERSEDED);

        let Some(unconverged) = open else { return self.count_outcome(Outcome::Superseded) };
        let Obligation { generation, opened, slo_deadline, .. } = *obligation;
        unconverged.superseded.push(Superseded { generation, opened, slo_deadline });
    }

    /// Counts the superseded spec changes whose SLO deadlines have passed without an
    /// acknowledgement.
    pub(super) fn advance_superseded(&mut self) {
        if self.operator_stopped {
            return;
        }

        let (now, lost) = (self.now, self.visibility == Visibility::Lost);
        let (blind_from, blind_to) = (self.lost, self.regained);
        for change in self.take_superseded(|change| change.slo_deadline <= now) {
            let unseen = lost || (blind_from..=blind_to).contains(&change.slo_deadline);
            self.count(if unseen { Outcome::Unknown } else { Outcome::Late });
        }
    }

    /// Ends the superseded spec changes that the operator has acknowledged: those up to its
    /// observed generation, or all of them.
    pub(super) fn superseded_acknowledged(&mut self, all: bool) {
        let observed = self.record.observed.number();
        for _ in self.take_superseded(|change| all || change.generation <= observed) {
            self.count(Outcome::Superseded);
        }
    }

    /// Returns when the next superseded spec change counts as late.
    pub(super) fn superseded_due(&self) -> Option<Timestamp> {
        let superseded = &self.record.unconverged()?.superseded;
        superseded.iter().map(|change| change.slo_deadline).min()
    }

    fn take_superseded(&mut self, ended: impl Fn(&Superseded) -> bool) -> Vec<Superseded> {
        let Some(unconverged) = self.record.unconverged_mut() else { return Vec::new() };
        unconverged.superseded.extract_if(.., |change| ended(change)).collect()
    }

    fn count(&mut self, outcome: Outcome) {
        self.namespace.totals.obligations[outcome as usize] += 1;
    }
}
