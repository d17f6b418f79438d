//! The restarts of the operator: restart loops, and kills for its memory soon after its start.

use crate::finding::{Evidence, FindingCode, Value};
use crate::model::findings::detection::Detection;
use crate::model::operator::Operator;
use crate::model::operator::lost_pods::MAX_LOST;
use crate::model::operator::pod_history::PodHistory;
use crate::model::operator::review::Verdicts;
use crate::model::world::World;
use crate::observation::{ContainerEnd, PodView};
use crate::time::{Span, Timestamp};

/// How often a Pod may be moved for each restart of its container that `restarts` allows.
const MOVES: usize = 2;

/// A container or a process, or all Pods together, with its restarts.
struct Restarting<'a> {
    pod: &'a str,
    /// Empty if it is not one container.
    container: &'a str,
    /// The operator does not work while this restarts.
    of_operator: bool,
    restarts: Vec<Timestamp>,
    /// How many of them count as a loop.
    needed: usize,
    end: Option<&'a ContainerEnd>,
    /// Why its last Pod ended, if the end of no container says so.
    reason: &'a str,
}

impl Restarting<'_> {
    fn new(needed: usize) -> Self {
        let (pod, container, reason) = ("", "", "");
        Self { pod, container, of_operator: true, restarts: Vec::new(), needed, end: None, reason }
    }

    fn is_loop(&self) -> bool {
        self.restarts.len() >= self.needed
    }

    /// Returns the key by which the worst one is the greatest.
    fn rank(&self) -> (bool, usize) {
        (self.of_operator, self.restarts.len())
    }
}

impl Operator {
    /// Detects an operator that restarts again and again, for example because it crashes at its
    /// start.
    pub(super) fn restart_loop(&self, world: &World, verdicts: &mut Verdicts, down: bool) {
        let window = world.settings.restart_window;
        let from = world.now.before(window);
        let mut worst: Option<Restarting<'_>> = None;
        for found in self.restarting(world, from) {
            verdicts.look_again(found.restarts.first().map(|first| first.after(window)));
            if found.is_loop() && worst.as_ref().is_none_or(|worst| found.rank() > worst.rank()) {
                worst = Some(found);
            }
        }

        let Some(Restarting { pod, container, of_operator, restarts, end, reason, .. }) = worst
        else {
            // An operator that does not run does not restart, so the loop is not over.
            if down {
                verdicts.keep(FindingCode::RestartLoop);
            }

            return;
        };
        let Some(first) = restarts.first() else { return };
        let detection =
            Detection::new(world.now, FindingCode::RestartLoop, *first, world.now, || {
                let reason = end.map_or(reason, |end| &end.reason);
                let message = end.map_or("", |end| &end.message);
                Evidence::new()
                    .text("pod", pod)
                    .text("container", container)
                    .with("restarts", Value::count(restarts.len()))
                    .with("window", Value::Span(window))
                    .text("reason", reason)
                    .with_some("exit_code", end.map(|end| Value::Count(i64::from(end.exit_code))))
                    .text("message", message)
            });

        let blocks = of_operator && self.restarts_block(world, *first, down);
        let detection = detection.weak_if(!down || !of_operator).aside_if(!of_operator);
        verdicts.push(self.operator_subject(), detection.blocks_if(blocks));
    }

    /// Returns everything of the operator that may restart, with its restarts since `from`.
    fn restarting<'a>(&'a self, world: &'a World, from: Timestamp) -> Vec<Restarting<'a>> {
        let needed = self.restarts_needed(world);
        let new = |pod: &'a str, restarts| Restarting { pod, restarts, ..Restarting::new(needed) };
        let of_pods = self.operator_pods().map(|(pod, history)| Restarting {
            container: pod.containers.first().map_or("", |container| &container.name),
            end: history.last_end(),
            ..new(&pod.name, history.restarts_since(from))
        });

        // A Pod shows more than its process does, so a process counts only if no Pod of it is
        // visible. It does not count if its Pod is gone.
        let counts = |name: &str| self.pod_of(name).is_none() && self.may_run(name);
        let without_pod = self.instances.iter().filter(|(name, _)| counts(name));
        let of_processes = without_pod.map(|(name, instance)| {
            let restarts = instance.restarts.iter().filter(|at| **at > from).copied();
            new(name, restarts.collect())
        });

        let of_others = self.operator_pods().flat_map(|(pod, _)| {
            let others = self.pods.others.restarts_since(pod, from);
            others.map(move |(container, restarts, end)| Restarting {
                container,
                end,
                of_operator: false,
                ..new(&pod.name, restarts)
            })
        });

        of_pods.chain(of_processes).chain(self.replaced(from, needed)).chain(of_others).collect()
    }

    /// Returns how many restarts count as a loop.
    fn restarts_needed(&self, world: &World) -> usize {
        self.threshold(FindingCode::RestartLoop, world.settings.restarts) as usize
    }

    /// Returns the Pods that ended since `from` although nobody replaced them on purpose, as
    /// restarts of the last one. Upgrades of nodes move each Pod, and may move it again.
    fn replaced(&self, from: Timestamp, needed: usize) -> Option<Restarting<'_>> {
        let view = self.view.as_ref()?;
        let replicas = view.workload.as_ref().map_or(1, |workload| workload.replicas.max(1));
        let needed = needed.saturating_mul(MOVES).saturating_mul(replicas as usize).min(MAX_LOST);
        let restarts = self.pods.lost.since(view, from).map(|lost| lost.at).collect();
        let last = self.pods.lost.since(view, from).last()?;
        let (pod, reason) = (last.name.as_str(), last.reason.as_str());

        Some(Restarting { pod, reason, restarts, ..Restarting::new(needed) })
    }

    /// Detects an operator that the kernel kills for its memory soon after it starts.
    pub(super) fn startup_out_of_memory(&self, world: &World, verdicts: &mut Verdicts, down: bool) {
        let settings = &world.settings;
        for (pod, history) in self.operator_pods() {
            let kills = kills_at_start(world, history);
            let (Some((first, _)), Some((_, lived))) = (kills.first(), kills.last()) else {
                continue;
            };

            verdicts.look_again(Some(first.after(settings.restart_window)));
            if kills.len() < settings.startup_kills as usize {
                continue;
            }

            let limit = pod.containers.first().and_then(|container| container.memory_limit);
            let ends = history.ends_since(world.now.before(settings.restart_window));
            let message = ends.last().map_or("", |(end, _)| &end.message);
            let evidence = Evidence::new()
                .text("pod", pod.name.clone())
                .with("kills", Value::Count(kills.len() as i64))
                .with("lived_for", Value::Span(*lived))
                .with_some("memory_limit", limit.map(Value::Bytes))
                .text("message", message);
            let code = FindingCode::StartupOutOfMemory;
            let detection = Detection::new(world.now, code, *first, world.now, || evidence);

            let blocks = self.restarts_block(world, *first, down);
            let detection = detection.weak_if(!down).blocks_if(blocks);
            return verdicts.push(self.operator_subject(), detection);
        }
    }
}

/// Returns when the kernel killed the container of a Pod for its memory soon after its start, and
/// how long the container had run.
fn kills_at_start(world: &World, history: &PodHistory) -> Vec<(Timestamp, Span)> {
    let settings = &world.settings;
    let ends = history.ends_since(world.now.before(settings.restart_window));
    let at_start = ends.filter_map(|(end, finished)| {
        let lived = finished.since(end.started?);
        (end.reason == "OOMKilled" && lived <= settings.startup_within).then_some((finished, lived))
    });

    at_start.collect()
}

impl Operator {
    /// Returns whether a Pod has restarted, or been killed at its start, often enough for a
    /// finding.
    pub(super) fn restarts_too_often(&self, world: &World) -> bool {
        let from = world.now.before(world.settings.restart_window);
        let needed = self.restarts_needed(world);
        let restarts = |history: &PodHistory| history.restarts_since(from).len() >= needed;
        let kills = |history: &PodHistory| {
            kills_at_start(world, history).len() >= world.settings.startup_kills as usize
        };

        self.operator_pods().any(|(_, history)| restarts(history) || kills(history))
    }

    /// Returns the Pods of the operator that do not terminate, with their histories.
    pub(super) fn operator_pods(&self) -> impl Iterator<Item = (&PodView, &PodHistory)> {
        let pods = self.view.iter().flat_map(|view| &view.pods).filter(|pod| pod.deleted.is_none());
        pods.filter_map(|pod| Some((pod, self.pods.history(&pod.uid)?)))
    }
}
