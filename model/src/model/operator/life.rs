//! Signs of life of the operator other than its Pods: its lease, its metrics, its process and its
//! writes. They are weak, because other programs may show them, too: agents of the same product
//! write the same statuses and have leases of their own.

use std::sync::Arc;

use crate::model::operator::pods::{PodsSay, Stopped};
use crate::model::operator::{Instance, Operator};
use crate::model::world::World;
use crate::model::world::controller_names::is_generic;
use crate::model::world::kinds::Watch;
use crate::model::world::visibility::Visibility;
use crate::observation::{InstanceName, Role, SourceId};
use crate::time::Timestamp;

/// The shortest name of a field manager that may be a part of the name of a workload.
const SHORTEST_NAME: usize = 4;

impl Operator {
    /// Returns since when loopwatch can see the operator; `None` while it could be alive unseen.
    ///
    /// Without the Pods, each watch could show a sign of life, unless the API server refuses it
    /// while it serves others. If all Pods are visible and none runs, one watch is enough to show
    /// that the API server can be reached: a conversion webhook may have died with the operator.
    pub(super) fn operator_sighted(&self, world: &World) -> Option<Timestamp> {
        let heard = self.heard_since?;
        let up = [SourceId::Pods, SourceId::Lease]
            .iter()
            .map(|id| world.sources.up_since(id))
            .collect::<Option<Vec<_>>>()?;

        let is_dead = matches!(self.pods_say(world), PodsSay::Down(Stopped { certain: true, .. }));
        let regained = if is_dead { any_regained(world) } else { all_regained(world) }?;
        up.into_iter().chain([heard, regained]).max()
    }

    /// Returns the last sign of life from anything but the Pods.
    pub(super) fn last_sign_of_life(&self, world: &World) -> Option<Timestamp> {
        let lease = self.operator_lease().map(|(_, lease)| lease.alive);
        let seen = self.instances.values().flat_map(instance_seen);
        seen.chain([lease, self.operator_written(world)]).flatten().max()
    }

    /// Returns the last sign of life although no Pod of the operator runs, and loopwatch sees all
    /// of them. Only a program in one of these Pods, or one that runs elsewhere, can have shown it.
    pub(super) fn life_beside_pods(&self, world: &World) -> Option<Timestamp> {
        let view = self.view.as_ref()?;
        let is_there = |pod: &str| view.pods.iter().any(|seen| seen.name == pod);
        let leases = self.operator_leases().filter(|(_, _, pod)| is_there(pod));
        let leases = leases.map(|(_, lease, _)| Some(lease.alive));

        let may_run = |name: &str| view.may_run(InstanceName(name));
        let instances = self.instances.iter().filter(|(name, _)| may_run(name));
        let seen = instances.flat_map(|(_, instance)| instance_seen(instance));
        let written = self.operator_written(world).filter(|_| !view.pods.is_empty());

        leases.chain(seen).chain([written]).flatten().max()
    }

    /// Returns when the operator last wrote the status of a primary object. If a writer has the
    /// name of the operator or one that any program may have, others belong to other programs.
    pub(super) fn operator_written(&self, world: &World) -> Option<Timestamp> {
        self.operator_writers(world).map(|(_, at)| (*at).min(world.now)).max()
    }

    /// Returns the field managers of the operator, and when each last wrote an object of a primary
    /// kind.
    pub(crate) fn operator_writers<'w>(
        &self,
        world: &'w World,
    ) -> impl Iterator<Item = &'w (Arc<str>, Timestamp)> {
        let kinds = world.kinds.iter().filter(|kind| kind.role == Role::Primary && !kind.suspected);
        let all: Vec<_> = kinds.flat_map(|kind| &kind.writers).collect();
        let is_own = |name: &str| is_generic(name) || self.is_named(name);
        let knows_own = all.iter().any(|(name, _)| is_own(name));
        let own: Vec<_> = all.into_iter().filter(|(name, _)| !knows_own || is_own(name)).collect();

        own.into_iter()
    }

    /// Returns whether a field manager has the name of the operator's workload, or a longer or
    /// shorter form of it.
    fn is_named(&self, manager: &str) -> bool {
        let workload = self.view.as_ref().map_or("", |view| view.name.as_str());
        !workload.is_empty()
            && (manager.contains(workload)
                || (manager.len() >= SHORTEST_NAME && workload.contains(manager)))
    }
}

/// Returns when an instance was last scraped, and when its process was last seen.
fn instance_seen(instance: &Instance) -> [Option<Timestamp>; 2] {
    let scraped = instance.metrics.as_ref().map(|(at, _)| *at);
    [scraped, instance.by_kernel.as_ref().map(|(at, _)| *at)]
}

/// Returns since when at least one watch of a primary kind has been up to date; `None` if all of
/// them are blind, and the API server does not even answer.
fn any_regained(world: &World) -> Option<Timestamp> {
    let mut unanswered = false;
    let mut earliest: Option<Timestamp> = None;
    for watch in primary_watches(world) {
        match is_blind(world, watch) {
            false => earliest = earliest.into_iter().chain([watch.blindness.regained]).min(),
            true => unanswered |= !is_answered(world, watch),
        }
    }

    earliest.or((!unanswered).then_some(Timestamp(0)))
}

/// Returns since when all watches of primary kinds have been up to date, except those that the API
/// server refuses; `None` while one is blind for another reason, or all are.
fn all_regained(world: &World) -> Option<Timestamp> {
    let mut refused = false;
    let mut latest: Option<Timestamp> = None;
    for watch in primary_watches(world) {
        match is_blind(world, watch) {
            false => latest = latest.max(Some(watch.blindness.regained)),
            true if is_answered(world, watch) => refused = true,
            true => return None,
        }
    }

    latest.or((!refused).then_some(Timestamp(0)))
}

fn primary_watches(world: &World) -> impl Iterator<Item = &Watch> {
    let active = world.watches.iter().filter(|watch| watch.active && watch.missing.is_empty());
    active.filter(|watch| world.kinds[watch.kind as usize].role == Role::Primary)
}

fn is_blind(world: &World, watch: &Watch) -> bool {
    watch.blindness.failing
        || (watch.blindness.seen_before && watch.visibility(world.now) == Visibility::Lost)
}

/// Returns whether a watch fails although the API server answers.
fn is_answered(world: &World, watch: &Watch) -> bool {
    world.sources.is_answered(&SourceId::Watch(watch.id.clone()))
}
