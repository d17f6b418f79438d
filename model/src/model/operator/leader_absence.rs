//! Whether nobody leads although Pods of the operator run.
//!
//! An operator may have one lease per controller or shard. Of these, the one that was renewed last decides
//! whether the operator leads at all. Another lease may be left over from an earlier version. So
//! its loss counts only if the process that held it for a while still runs, or if that process is
//! gone and others of the same revision do not take the lease over.

use crate::checkpoint::SeenLease;
use crate::finding::{Confidence, Evidence, FindingCode, Value};
use crate::model::findings::detection::Detection;
use crate::model::operator::Operator;
use crate::model::operator::controllers::patience;
use crate::model::operator::pod_history::has_ended;
use crate::model::operator::pods::PodsSay;
use crate::model::operator::review::Verdicts;
use crate::model::world::World;
use crate::observation::{OperatorView, PodView};
use crate::time::{Span, Timestamp};

/// A lease of the operator, with its name and the Pod that held it last.
type HeldLease<'a> = (&'a str, &'a SeenLease, &'a str);

impl Operator {
    /// Detects that nobody leads although Pods run. An open finding stays open while loopwatch
    /// cannot see the operator.
    pub(super) fn leader_absence(&self, world: &World, verdicts: &mut Verdicts) {
        let newest = self.operator_leases().max_by_key(|(_, lease, _)| lease.alive);
        let (Some(view), Some(newest)) = (&self.view, newest) else { return };
        let Some(looked_since) = self.operator_sighted(world) else {
            return verdicts.keep(FindingCode::LeaderAbsent);
        };

        let is_kept = |name: &str| self.leases.exists(&view.namespace, name);
        if self.pods_say(world) != PodsSay::Running {
            return;
        }

        let others = self.operator_leases().filter(|(name, ..)| *name != newest.0 && is_kept(name));
        let others = others.filter_map(|held| {
            self.lost_by_a_running_process(world, view, held)
                .or_else(|| self.never_taken_over(world, view, held))
        });

        // If somebody removed the lease, no controller needs it.
        let newest = Some(newest).filter(|(name, ..)| is_kept(name));
        let all = newest.and_then(|held| self.led_by_nobody(world, view, held, looked_since));
        let first = others
            .map(|detection| Detection { due: detection.due.max(looked_since), ..detection })
            .chain(all)
            .inspect(|found| verdicts.look_again(Some(found.due)))
            .min_by_key(|found| {
                let is_suspected = found.confidence != Confidence::Confirmed;
                (found.due > world.now, is_suspected, found.aside, found.due)
            });

        first.into_iter().for_each(|found| verdicts.push(self.operator_subject(), found));
    }

    /// Detects that nobody has renewed any lease of the operator.
    fn led_by_nobody(
        &self,
        world: &World,
        view: &OperatorView,
        held: HeldLease<'_>,
        looked_since: Timestamp,
    ) -> Option<Detection> {
        let leading = || {
            self.fresh_instances(world)
                .filter_map(|(_, _, i)| i.metrics.as_ref().and_then(|(_, m)| m.leading))
        };
        if leading().any(|leads| leads) {
            return None;
        }

        // After its start, a Pod needs time to take the lease. The Pod that has run longest counts.
        let oldest = running_since(view).min()?;
        let (name, lease, holder) = held;
        let from = [looked_since, oldest.min(world.now)]
            .into_iter()
            .chain(self.operator_written(world))
            .max()
            .unwrap_or(looked_since);
        let absent_after = world.settings.leader_absent_after;
        let due = from.after(absent_after).max(lease.alive.after(patience(lease, absent_after)));

        // After an upgrade, the operator may no longer elect a leader, or may use another lease. So
        // the finding is certain only if the last holder still exists, or if metrics say who leads.
        // The Pods of a StatefulSet keep their names.
        let uid = self.holder_uid(name);
        let has_led = |pod: &PodView| pod.name == holder && (uid.is_empty() || pod.uid == uid);
        let is_known = view.pods.iter().any(has_led) || leading().next().is_some();
        Some(absent(world, view, held, due, String::new).suspected_if(!is_known))
    }

    /// Detects that a process no longer renews one of its leases although it runs. Its other
    /// controllers work, so this explains nothing. A lease that it held only for a while may have
    /// been a lock for one task.
    fn lost_by_a_running_process(
        &self,
        world: &World,
        view: &OperatorView,
        held: HeldLease<'_>,
    ) -> Option<Detection> {
        let (name, lease, holder) = held;
        let absent_after = world.settings.leader_absent_after;
        let held_for = self.held_for(held)?;
        let uid = self.holder_uid(name);
        let pod = view.pods.iter().find(|pod| pod.name == holder && pod.uid == uid)?;
        let ran = |since: Timestamp| since <= lease.alive;
        let runs = pod.deleted.is_none()
            && pod.containers.iter().any(|container| container.running_since.is_some_and(ran));

        let due = lease.alive.after(patience(lease, absent_after));
        let renewed = || self.renewed_leases(world, view);
        let lost = || absent(world, view, held, due, renewed).aside_if(true);
        (runs && held_for >= absent_after).then(lost)
    }

    /// Detects that nobody takes over a lease whose holder is gone, although the Pods that run need
    /// it. Other leases are renewed, so this explains nothing.
    fn never_taken_over(
        &self,
        world: &World,
        view: &OperatorView,
        held: HeldLease<'_>,
    ) -> Option<Detection> {
        let (name, lease, holder) = held;
        let absent_after = world.settings.leader_absent_after;
        let held_for = self.held_for(held)?;
        let is_there = view.pods.iter().any(|pod| pod.name == holder && !has_ended(pod));
        let is_lost = view.complete && !is_there && held_for >= absent_after;
        if !is_lost || !self.needs_lease(view, name, lease.alive) {
            return None;
        }

        // The Pod in the place of the holder needs time to start.
        let newest = running_since(view).max()?.min(world.now);
        let due = lease.alive.after(patience(lease, absent_after)).max(newest.after(absent_after));
        let renewed = || self.renewed_leases(world, view);
        Some(absent(world, view, held, due, renewed).aside_if(true))
    }

    /// Returns for how long the last holder has held a lease.
    fn held_for(&self, (name, lease, _): HeldLease<'_>) -> Option<Span> {
        Some(lease.alive.since(self.held_since(name, &lease.holder)?))
    }

    /// Returns how many of the operator's leases somebody renews.
    fn renewed_leases(&self, world: &World, view: &OperatorView) -> String {
        let absent_after = world.settings.leader_absent_after;
        let is_renewed =
            |lease: &SeenLease| lease.alive.after(patience(lease, absent_after)) > world.now;
        let leases = || {
            self.operator_leases().filter(|(name, ..)| self.leases.exists(&view.namespace, name))
        };
        let renewed = leases().filter(|(_, lease, _)| is_renewed(lease)).count();
        format!("{renewed} of {}", leases().count())
    }
}

/// Returns the detection of a lease that nobody renews. `renewed` says how many others somebody
/// does.
fn absent(
    world: &World,
    view: &OperatorView,
    (name, lease, _): HeldLease<'_>,
    due: Timestamp,
    renewed: impl FnOnce() -> String,
) -> Detection {
    let running = running_since(view).count();
    Detection::new(world.now, FindingCode::LeaderAbsent, lease.alive, due, || {
        Evidence::new()
            .text("lease", name)
            .text("last_holder", lease.holder.clone())
            .with("absent_for", Value::Age(lease.alive))
            .text("renewed_leases", renewed())
            .with("running_pods", Value::count(running))
    })
}

/// Returns since when the operator's container has run in each Pod in which it runs.
fn running_since(view: &OperatorView) -> impl Iterator<Item = Timestamp> {
    let live = view.pods.iter().filter(|pod| pod.deleted.is_none());
    live.filter_map(|pod| pod.containers.first()?.running_since)
}
