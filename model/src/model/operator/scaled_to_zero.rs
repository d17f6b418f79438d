//! Maintenance: while the operator is scaled to zero, nothing is expected of it. No deadline
//! passes, and once the operator should run again, the time of the stop does not count. Deletions
//! do count: an object that waits for a finalizer of a stopped operator does not go away. That is
//! how uninstalled operators block namespaces.
//!
//! Without a view of the operator's workload, nothing shows that it is stopped.

use crate::model::operator::Operator;
use crate::model::world::World;
use crate::model::world::store::{Record, Slot, Unconverged};
use crate::observation::Role;
use crate::time::{Span, Timestamp};

impl Operator {
    /// Schedules a review of the waiting and unhealthy objects if the operator has just been
    /// stopped, or is no longer stopped. `was` is since when it was stopped according to the
    /// previous view.
    pub(super) fn review_stop(&self, world: &mut World, was: Option<Timestamp>) {
        let stopped = self.pods.unwanted_since;
        if was.is_some() == stopped.is_some() {
            return;
        }

        let primary = world.kinds.iter().filter(|kind| kind.role == Role::Primary);
        let waiting: Vec<Slot> =
            primary.flat_map(|kind| kind.unconverged.iter().map(|(_, slot)| *slot)).collect();
        if let Some(since) = was {
            let now = world.now;
            for slot in &waiting {
                let record = world.store.get_mut(*slot);
                if let Some(unconverged) = record.and_then(Record::unconverged_mut) {
                    unconverged.pause(since, now);
                }
            }
        }

        world.agenda.objects.extend(waiting);
        world.agenda.objects.extend(world.unhealthy.iter().copied());
    }
}

impl Unconverged {
    /// Moves all starts and deadlines so that the time from `from` to `to` does not count.
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
