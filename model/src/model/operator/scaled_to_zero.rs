//! Maintenance: while the operator is scaled to zero, nothing is expected of it. No deadline
//! passes, and once the operator should run again, the time of the stop does not count. Deletions
//! do count: an object that waits for a finalizer of a stopped operator does not go away. That is
//! how uninstalled operators block namespaces. One that a schedule stops comes back by itself, so
//! its absence opens no page before it should have returned.
//!
//! Somebody may have forgotten to start the operator again, or deleted its workload by mistake. So
//! changes that wait for long are a ticket. An operator without objects is uninstalled.
//!
//! Without a view of the operator's workload, nothing shows that it is stopped.

use crate::finding::{Evidence, FindingCode, Value};
use crate::model::findings::detection::Detection;
use crate::model::operator::Operator;
use crate::model::operator::review::Verdicts;
use crate::model::world::World;
use crate::model::world::store::{Record, Slot, Unconverged};
use crate::observation::{OperatorWorkload, Role};
use crate::time::{Span, Timestamp};

/// How much longer an operator may be stopped that has been stopped before.
const REGULAR_FACTOR: i64 = 4;

/// How often loopwatch looks for changes that wait for a stopped operator.
const LOOK_EVERY: Span = Span::hours(1);

impl Operator {
    /// Returns whether the operator comes back by itself from a stop: a schedule stops it, or it has
    /// been stopped and started before.
    fn stops_regularly(&self) -> bool {
        self.pods.stops > 0 || self.workload().is_some_and(|workload| workload.scheduled)
    }

    fn is_deleted(&self) -> bool {
        self.workload().is_some_and(|workload| workload.deleted)
    }

    fn workload(&self) -> Option<&OperatorWorkload> {
        self.view.as_ref()?.workload.as_ref()
    }

    /// Returns until when an operator that is stopped regularly may be stopped before those that wait
    /// for it need somebody's help.
    pub(crate) fn returns_by(&self, world: &World) -> Option<Timestamp> {
        let since = self.pods.unwanted_since.filter(|_| !self.is_deleted())?;
        self.stops_regularly().then(|| since.after(world.settings.stopped_after))
    }

    /// Detects that changes have waited for long for an operator that is stopped, or that its
    /// workload was deleted although objects remain.
    pub(super) fn stopped_for_long(&self, world: &World, verdicts: &mut Verdicts) {
        let Some(since) = self.pods.unwanted_since.filter(|_| self.view.is_some()) else { return };
        let is_deleted = self.is_deleted();

        // Before loopwatch saw the workload, nobody knows whether anything waited.
        let since = since.max(self.first_seen.unwrap_or(since));
        let (waiting, first) = waiting_changes(world);
        let from = first.map(|first| first.max(since));
        let Some(from) = from.or(Some(since).filter(|_| is_deleted && has_objects(world))) else {
            return verdicts.look_again(Some(world.now.after(LOOK_EVERY)));
        };

        let factor = if self.stops_regularly() && !is_deleted { REGULAR_FACTOR } else { 1 };
        let due = from.after(Span(world.settings.stopped_after.0.saturating_mul(factor)));
        let detection = Detection::new(world.now, FindingCode::OperatorDown, since, due, || {
            let sign = if is_deleted { "workload deleted" } else { "scaled to zero" };
            Evidence::new()
                .with("signs", Value::Names(vec![sign.to_owned()]))
                .with("absent_for", Value::Age(since))
                .with("waiting_changes", Value::count(waiting))
        });

        verdicts.look_again(Some(world.now.after(LOOK_EVERY)));
        verdicts.push(self.operator_subject(), detection.weak_if(true));
    }

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

/// Returns the number of objects whose change waits for the operator, and since when the first one
/// does.
fn waiting_changes(world: &World) -> (usize, Option<Timestamp>) {
    let kinds = world.kinds.iter().filter(|kind| kind.role == Role::Primary && !kind.suspected);
    let slots = kinds.flat_map(|kind| kind.unconverged.iter().map(|(_, slot)| *slot));
    let unconverged = slots.filter_map(|slot| world.store.get(slot)?.unconverged());
    let waiting = unconverged.filter_map(|unconverged| {
        let open = unconverged.obligation.as_ref().filter(|open| open.outcome.is_none());
        unconverged.unacknowledged_since.or(open.map(|open| open.opened))
    });

    waiting.fold((0, None), |(count, first), at| (count + 1, first.into_iter().chain([at]).min()))
}

fn has_objects(world: &World) -> bool {
    world.kinds.iter().any(|kind| kind.role == Role::Primary && !kind.suspected && kind.objects > 0)
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

        for change in &mut self.superseded {
            let waited = lost(change.opened);
            [&mut change.opened, &mut change.slo_deadline]
                .into_iter()
                .for_each(|at| *at = at.after(waited));
        }

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
