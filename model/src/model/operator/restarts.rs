//! The restarts of the operator: restart loops, and kills for its memory soon after its start.

use crate::finding::{Evidence, FindingCode, Value};
use crate::model::findings::detection::Detection;
use crate::model::operator::Operator;
use crate::model::operator::pods::PodHistory;
use crate::model::operator::review::Verdicts;
use crate::model::world::World;
use crate::observation::{ContainerEnd, PodView};
use crate::time::{Span, Timestamp};

impl Operator {
    /// Detects an operator that restarts again and again, for example because it crashes at its
    /// start.
    pub(super) fn restart_loop(&self, world: &World, verdicts: &mut Verdicts, down: bool) {
        let window = world.settings.restart_window;
        let from = world.now.before(window);
        let of_pods = self.operator_pods();
        let of_pods = of_pods.map(|(pod, history)| {
            (pod.name.as_str(), history.restarts_since(from), history.last_end())
        });

        // A Pod shows more than its process does, so a process counts only if no Pod of it is
        // visible. It does not count if its Pod is gone.
        let counts = |name: &str| self.pod_of(name).is_none() && self.may_run(name);
        let without_pod = self.instances.iter().filter(|(name, _)| counts(name));
        let of_processes = without_pod.map(|(name, instance)| {
            let restarts: Vec<Timestamp> =
                instance.restarts.iter().filter(|at| **at > from).copied().collect();
            (name.as_str(), restarts, None)
        });

        let mut worst: Option<(&str, Vec<Timestamp>, Option<&ContainerEnd>)> = None;
        for (name, restarts, end) in of_pods.chain(of_processes) {
            verdicts.look_again(restarts.first().map(|first| first.after(window)));
            if worst.as_ref().is_none_or(|(_, most, _)| restarts.len() > most.len()) {
                worst = Some((name, restarts, end));
            }
        }

        let Some((name, restarts, end)) = worst else { return };
        let Some(first) =
            restarts.first().filter(|_| restarts.len() >= world.settings.restarts as usize)
        else {
            // An operator that does not run does not restart, so the loop is not over.
            if down {
                verdicts.keep(FindingCode::RestartLoop);
            }

            return;
        };

        let detection =
            Detection::new(world.now, FindingCode::RestartLoop, *first, world.now, || {
                Evidence::new()
                    .text("pod", name)
                    .with("restarts", Value::count(restarts.len()))
                    .with("window", Value::Span(window))
                    .text("reason", end.map(|end| end.reason.clone()).unwrap_or_default())
                    .with_some("exit_code", end.map(|end| Value::Count(i64::from(end.exit_code))))
            });

        let blocks = self.restarts_block(world, *first, down);
        verdicts.push(self.operator_subject(), detection.weak_if(!down).blocks_if(blocks));
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
            let evidence = Evidence::new()
                .text("pod", pod.name.clone())
                .with("kills", Value::Count(kills.len() as i64))
                .with("lived_for", Value::Span(*lived))
                .with_some("memory_limit", limit.map(Value::Bytes));
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
        let restarts = |history: &PodHistory| {
            history.restarts_since(from).len() >= world.settings.restarts as usize
        };
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
