//! Maintenance: while somebody has scaled the operator to zero, nothing is expected of it. No
//! deadline passes, and when the operator should run again, the time of the stop does not count.
//! Deletions go on counting: an object that waits for a finalizer of an operator that is stopped
//! does not go away, which is how uninstalled operators block namespaces.
//!
//! Without a view of the operator's workload, nothing shows that it is stopped.

use crate::model::Model;
use crate::model::world::store::{Slot, Unconverged};
use crate::observation::Role;
use crate::time::{Span, Timestamp};

// === impl Model ===

impl Model {
    /// Returns whether nothing is expected of the operator that serves the objects of a watch.
    pub(crate) fn is_stopped_for(&self, watch: u16) -> bool {
        let kind = self.watches.get(watch as usize).map(|watch| &self.kinds[watch.kind as usize]);
        self.operator.pods.unwanted_since.is_some()
            && kind.is_some_and(|kind| kind.role == Role::Primary)
    }

    /// Judges the objects again if the operator was stopped, or is no longer. `was` is since when
    /// it was stopped before.
    pub(super) fn review_stop(&mut self, was: Option<Timestamp>) {
        let stopped = self.operator.pods.unwanted_since;
        if was.is_some() == stopped.is_some() {
            return;
        }

        let primary = self.kinds.iter().filter(|kind| kind.role == Role::Primary);
        let waiting: Vec<Slot> =
            primary.flat_map(|kind| kind.unconverged.iter().map(|(_, slot)| *slot)).collect();
        if let Some(since) = was {
            let now = self.now;
            let hot = |model: &mut Self, slot: Slot| -> Option<()> {
                let record = model.store.get_mut(slot)?;
                record.hot.as_mut()?.unconverged.as_mut()?.pause(since, now);
                Some(())
            };

            waiting.iter().for_each(|slot| _ = hot(self, *slot));
        }

        self.reviews.objects.extend(waiting);
        self.reviews.objects.extend(self.unhealthy.iter().copied());
    }
}

// === impl Unconverged ===

impl Unconverged {
    /// Takes the time from `from` to `to` out of everything that is waited for.
    fn pause(&mut self, from: Timestamp, to: Timestamp) {
        let lost = |since: Timestamp| to.since(since.max(from)).max(Span::ZERO);
        let move_start = |since: &mut Timestamp| *since = since.after(lost(*since));
        [&mut self.unacknowledged_since, &mut self.regressed_since]
            .into_iter()
            .flatten()
            .for_each(move_start);

        let working = lost(self.working_since);
        self.working_since = self.working_since.after(working);
        [&mut self.rollout_until, &mut self.mended_by]
            .into_iter()
            .flatten()
            .for_each(|until| *until = until.after(working));

        if let Some(obligation) =
            self.obligation.as_mut().filter(|obligation| obligation.outcome.is_none())
        {
            let waited = lost(obligation.opened);
            for at in
                [&mut obligation.opened, &mut obligation.deadline, &mut obligation.slo_deadline]
            {
                *at = at.after(waited);
            }

            obligation.unmeasured = true;
        }
    }
}
