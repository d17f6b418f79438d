//! The beginning of an operator that starts together with loopwatch, as with a sidecar. The
//! operator gets time to work off the objects that waited before: nobody could see whether
//! `OperatorDown` explained their wait.
//!
//! It gets this time only once. Otherwise, if Pods replaced each other again and again, each with a
//! loopwatch that knows nothing, waiting objects would never alert. Two beginnings within twice
//! this time therefore count as one. The other Pods and the leases show the earlier beginning, and
//! the later one gets only the rest of the time. Usually these show only the last Pod. The Pod
//! before it may have run for as long, so the time that they show counts double.

use crate::model::findings::open_findings::OpenFindings;
use crate::model::operator::Operator;
use crate::model::operator::pod_history::PROVEN_AFTER;
use crate::model::world::World;
use crate::observation::{LeaseView, PodView};
use crate::time::{Span, Timestamp};

impl Operator {
    /// Notes that the operator has begun only now, or has not begun yet: a sidecar starts together
    /// with it, and a rollout replaces both.
    pub(super) fn note_beginning(&mut self, world: &World, findings: &mut OpenFindings) {
        let (now, settings) = (world.now, &world.settings);
        let Some(view) = self.view.as_ref().filter(|_| !self.has_begun) else {
            return;
        };

        let known =
            || view.pods.iter().filter(|pod| pod.deleted.is_none() && !pod.phase.is_empty());

        if known().next().is_none() {
            return;
        }

        let running = known().filter_map(|pod| pod.containers.first()?.running_since).min();
        let first_seen = *self.first_seen.get_or_insert(now);
        self.has_begun =
            running.is_some() || now.since(first_seen) >= settings.operator_start_within;

        let began = running.map_or(now, |running| running.min(now));
        let until = began.after(settings.deadline);
        if until > now {
            findings.operator_began(now, began, until);
        }
    }

    /// Shortens the time that an operator gets at its beginning if there was an earlier beginning
    /// shortly before.
    pub(crate) fn review_beginning(&self, world: &World, findings: &mut OpenFindings) {
        let (Some(began), Some(view)) = (findings.catches_up_since(world.now), &self.view) else {
            return;
        };

        let deadline = world.settings.deadline.0;
        let from = began.before(Span(deadline.saturating_mul(2)));

        // The operator's own leadership may seem to begin just before `began`, because the API
        // server writes whole seconds.
        let is_earlier = |(start, _): &Run| from <= *start && start.after(PROVEN_AFTER) <= began;
        let leases = self.leases.in_namespace(&view.namespace);
        let is_own = |lease: &&LeaseView| view.pod_of_holder(&lease.holder).is_some();
        let led = leases.filter(is_own).filter_map(led);
        let led: Vec<Run> = led.filter(is_earlier).collect();
        let ran: Vec<Run> =
            view.pods.iter().filter_map(|pod| ran(pod, began)).filter(is_earlier).collect();
        let Some(first) = led.iter().chain(&ran).map(|(start, _)| *start).min() else { return };

        // The leader is one of the Pods, so the two sums overlap. Several Pods may have run at
        // once, so the time since the first start is the maximum.
        let sum = |runs: &[Run]| runs.iter().map(|(_, took)| took.0).sum::<i64>();
        let had = sum(&led).max(sum(&ran)).min(began.since(first).0);
        let left = deadline.saturating_sub(had.saturating_mul(2));
        findings.operator_had_time(world.now, began.after(Span(left)));
    }
}

/// When the operator began to run, and for how long it did.
type Run = (Timestamp, Span);

/// Returns since when and for how long the holder of a lease has led, by the API server's clock, if
/// that was long enough to work.
fn led(lease: &LeaseView) -> Option<Run> {
    let led = lease.renewed?.since(lease.acquired?);
    (led >= PROVEN_AFTER).then_some((lease.written?.before(led), led))
}

/// Returns since when and for how long the operator ran in a Pod before `began`, if that was long
/// enough to work.
fn ran(pod: &PodView, began: Timestamp) -> Option<Run> {
    let container = pod.containers.first()?;
    let ended = container.ended.as_ref().and_then(|end| Some((end.started?, end.finished?)));
    let (since, until) = container.running_since.map(|since| (since, began)).or(ended)?;
    let ran = until.since(since);

    (ran >= PROVEN_AFTER).then_some((since, ran))
}
