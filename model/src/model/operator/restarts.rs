//! The restarts of the operator: restart loops, and kills for its memory soon after its start.

use crate::finding::{Evidence, FindingCode, Value};
use crate::model::findings::detection::Detection;
use crate::model::operator::Operator;
use crate::model::operator::lost_pods::MAX_LOST;
use crate::model::operator::pod_history::PodHistory;
use crate::model::operator::repeated_ends::REPEATED_WITHIN;
use crate::model::operator::review::Verdicts;
use crate::model::world::World;
use crate::observation::{ContainerEnd, PodView};
use crate::time::{Span, Timestamp};

/// How often a Pod may be moved for each restart of its container that `restarts` allows.
const MOVES: usize = 2;

/// A container or a process, or all Pods together, with its restarts.
#[derive(Default)]
struct Restarting<'a> {
    pod: &'a str,
    /// Empty if it is not one container.
    container: &'a str,
    /// Another program than the operator restarts, so the operator works nevertheless.
    is_other: bool,
    /// Within the window.
    restarts: Vec<Timestamp>,
    end: Option<&'a ContainerEnd>,
    /// Why its last Pod ended, if the end of no container says so.
    reason: &'a str,
    /// How each run ended, if the restarts are rare but alike.
    pattern: String,
}

impl<'a> Restarting<'a> {
    fn of(pod: &'a PodView, container: &'a str, history: &'a PodHistory) -> Self {
        Self { pod: &pod.name, container, end: history.last_end(), ..Self::default() }
    }

    /// Returns the key by which the worst one is the greatest.
    fn rank(&self) -> (bool, usize) {
        (!self.is_other, self.restarts.len())
    }

    /// Returns whether the restarts are rare, so that the operator works between them.
    fn is_rare(&self) -> bool {
        !self.pattern.is_empty()
    }
}

impl Operator {
    /// Detects an operator that restarts again and again, for example because it crashes at its
    /// start, or that ends in the same way every few hours.
    pub(super) fn restart_loop(&mut self, world: &World, verdicts: &mut Verdicts, down: bool) {
        let loops = self.restart_loops(world, verdicts);
        let affected = self.affected_pods(&loops);
        let worst = loops.into_iter().reduce(worse);
        let Some(worst) = worst.or_else(|| self.repeated_end(world, verdicts)) else {
            // An operator that does not run does not restart, so the loop is not over.
            if down {
                verdicts.keep(FindingCode::RestartLoop);
            }

            return;
        };
        let Some(first) = worst.restarts.first().copied() else { return };
        let (worst_pod, is_other, is_rare) = (worst.pod, worst.is_other, worst.is_rare());
        let detection =
            Detection::new(world.now, FindingCode::RestartLoop, first, world.now, || {
                let window = if is_rare { REPEATED_WITHIN } else { world.settings.restart_window };
                let reason = worst.end.map_or(worst.reason, |end| &end.reason);
                let message = worst.end.map_or("", |end| &end.message);
                let exit_code = worst.end.map(|end| Value::Count(i64::from(end.exit_code)));
                Evidence::new()
                    .text("pod", worst.pod)
                    .text("affected", affected)
                    .text("container", worst.container)
                    .with("restarts", Value::count(worst.restarts.len()))
                    .with("window", Value::Span(window))
                    .text("pattern", worst.pattern)
                    .text("reason", reason)
                    .with_some("exit_code", exit_code)
                    .text("message", message)
            });

        let aside = is_other || is_rare;
        let stops = down || self.serves_nobody(world, verdicts, worst_pod, first);
        let blocks = !aside && self.restarts_block(world, first, down);
        let detection = detection.weak_if(!stops || aside).aside_if(aside);
        verdicts.push(self.operator_subject(), detection.blocks_if(blocks));
        self.restarts_rarely = is_rare;
    }

    /// Returns everything of the operator that has restarted often enough within the window.
    fn restart_loops<'a>(
        &'a self,
        world: &'a World,
        verdicts: &mut Verdicts,
    ) -> Vec<Restarting<'a>> {
        let window = world.settings.restart_window;
        let (from, needed) = (world.now.before(window), self.restarts_needed(world));
        let of_containers = self.containers().map(|(container, history)| Restarting {
            restarts: history.restarts_since(from),
            ..container
        });

        // A Pod shows more than its process does, so a process counts only if no Pod of it is
        // visible. It does not count if its Pod is gone.
        let counts = |name: &str| self.pod_of(name).is_none() && self.may_run(name);
        let without_pod = self.instances.iter().filter(|(name, _)| counts(name));
        let of_processes = without_pod.map(|(pod, instance)| {
            let restarts = instance.restarts.iter().filter(|at| **at > from).copied().collect();
            Restarting { pod, restarts, ..Restarting::default() }
        });

        let counted = of_containers.chain(of_processes).map(|found| (found, needed));
        let counted: Vec<(Restarting<'a>, usize)> =
            counted.chain(self.replaced(from, needed)).collect();
        for (found, _) in &counted {
            verdicts.look_again(found.restarts.first().map(|first| first.after(window)));
        }

        let loops = counted.into_iter().filter(|(found, needed)| found.restarts.len() >= *needed);
        loops.map(|(found, _)| found).collect()
    }

    /// Returns the container that most often ended in the same way within a day.
    fn repeated_end(&self, world: &World, verdicts: &mut Verdicts) -> Option<Restarting<'_>> {
        let found = self.containers().filter_map(|(container, history)| {
            let (failure, restarts) = history.repeated_ends(world.now)?;
            let pattern = format!("each run ended with {failure}");
            Some(Restarting { restarts, pattern, ..container })
        });
        let worst = found.reduce(worse)?;

        verdicts.look_again(worst.restarts.first().map(|first| first.after(REPEATED_WITHIN)));
        Some(worst)
    }

    /// Returns the containers of the operator's Pods, with their histories.
    fn containers(&self) -> impl Iterator<Item = (Restarting<'_>, &PodHistory)> {
        let own = self.operator_pods().map(|(pod, history)| {
            let container = pod.containers.first().map_or("", |container| &container.name);
            (Restarting::of(pod, container, history), history)
        });
        let others = self.operator_pods().flat_map(|(pod, _)| {
            self.pods.others.of(pod).map(move |(container, history)| {
                let found = Restarting::of(pod, container, history);
                (Restarting { is_other: true, ..found }, history)
            })
        });

        own.chain(others)
    }

    /// Returns in how many of the operator's Pods the operator restarts again and again; empty if it
    /// has one Pod, or if none of the loops is in one of its Pods.
    fn affected_pods(&self, loops: &[Restarting<'_>]) -> String {
        let all = self.operator_pods().count();
        let loops = |name: &str| loops.iter().any(|found| !found.is_other && found.pod == name);
        let affected = self.operator_pods().filter(|(pod, _)| loops(&pod.name)).count();
        if all < 2 || affected == 0 { String::new() } else { format!("{affected} of {all} Pods") }
    }

    /// Returns how many restarts count as a loop. An open finding about rare ones shows no loop.
    fn restarts_needed(&self, world: &World) -> usize {
        let to_open = world.settings.restarts;
        let needed = match self.restarts_rarely {
            true => to_open,
            false => self.threshold(FindingCode::RestartLoop, to_open),
        };

        needed as usize
    }

    /// Returns the Pods that ended since `from` although nobody replaced them on purpose, as
    /// restarts of the last one, and how many of them count. Upgrades of nodes move each Pod, and may
    /// move it again.
    fn replaced(&self, from: Timestamp, needed: usize) -> Option<(Restarting<'_>, usize)> {
        let view = self.view.as_ref()?;
        let replicas = view.workload.as_ref().map_or(1, |workload| workload.replicas.max(1));
        let needed = needed.saturating_mul(MOVES).saturating_mul(replicas as usize).min(MAX_LOST);
        let restarts = self.pods.lost.since(view, from).map(|lost| lost.at).collect();
        let last = self.pods.lost.since(view, from).last()?;
        let (pod, reason) = (last.name.as_str(), last.reason.as_str());

        Some((Restarting { pod, reason, restarts, ..Restarting::default() }, needed))
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
                .with("lived_for", Value::Elapsed(*lived))
                .with_some("memory_limit", limit.map(Value::Bytes))
                .text("message", message);
            let code = FindingCode::StartupOutOfMemory;
            let detection = Detection::new(world.now, code, *first, world.now, || evidence);

            let stops = down || self.serves_nobody(world, verdicts, &pod.name, *first);
            let blocks = self.restarts_block(world, *first, down);
            let detection = detection.weak_if(!stops).blocks_if(blocks);
            return verdicts.push(self.operator_subject(), detection);
        }
    }
}

/// Returns the worse one; of two that are alike, the first.
fn worse<'a>(one: Restarting<'a>, other: Restarting<'a>) -> Restarting<'a> {
    if other.rank() > one.rank() { other } else { one }
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
