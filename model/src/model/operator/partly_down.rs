//! Some of the operator's Pods, or some of the managers in them, have been down for long while the
//! others run. The finding is a ticket and explains nothing, because most of the operator works.
//!
//! A standby may be down: the leader does the work. Each Pod of a StatefulSet or a DaemonSet without
//! a leader has work of its own, for example a shard, and so has each replica of a Deployment whose
//! replicas elect no leader.

use std::collections::BTreeSet;

use crate::finding::{Evidence, FindingCode, Value};
use crate::model::findings::detection::Detection;
use crate::model::operator::Operator;
use crate::model::operator::pod_history::runs;
use crate::model::operator::review::Verdicts;
use crate::model::world::World;
use crate::observation::{ContainerView, OperatorView};
use crate::time::Timestamp;

/// The kinds of workloads whose Pods may each have work of their own although one of them leads.
const NUMBERED: [&str; 2] = ["StatefulSet", "DaemonSet"];

/// The maximum number of signs in the evidence.
const MAX_SIGNS: usize = 5;

impl Operator {
    /// Detects that a part of the operator is down although the rest runs.
    pub(super) fn partly_down(&self, world: &World, verdicts: &mut Verdicts) {
        let Some(view) = &self.view else { return };
        let pods = self.missing_pods(view);
        let found = pods.into_iter().chain(self.stopped_managers(view));
        let Some((since, signs)) = found.min_by_key(|(since, _)| *since) else { return };

        let due = since.after(world.settings.partly_down_after);
        let detection = Detection::new(world.now, FindingCode::OperatorDown, since, due, || {
            let signs = signs.into_iter().take(MAX_SIGNS).collect();
            Evidence::new().with("signs", Value::Names(signs)).with("absent_for", Value::Age(since))
        });

        verdicts.push(self.operator_subject(), detection.weak_if(true).aside_if(true));
    }

    /// Returns since when Pods that have work of their own do not run, and their states.
    fn missing_pods(&self, view: &OperatorView) -> Option<(Timestamp, Vec<String>)> {
        let since = self.pods.short_since()?;
        let wanted = view.workload.as_ref()?.replicas as usize;
        let live = || view.pods.iter().filter(|pod| pod.deleted.is_none());
        let running = live().filter(|pod| runs(pod)).count();
        if !self.works_in_each_pod(view) {
            return None;
        }

        let states = live().filter(|pod| !runs(pod)).filter_map(|pod| {
            let container = pod.containers.first()?;
            Some(format!("{}: {}", pod.name, state(container, &pod.phase)))
        });
        let summary = format!("{running} of {wanted} Pods run");
        Some((since, std::iter::once(summary).chain(states).collect()))
    }

    /// Returns whether each Pod of the workload has work of its own.
    fn works_in_each_pod(&self, view: &OperatorView) -> bool {
        let leaders: BTreeSet<&str> = self.operator_leases().map(|(_, _, pod)| pod).collect();
        let elects = self.instances.values().any(|instance| {
            instance.metrics.as_ref().is_some_and(|(_, metrics)| metrics.leading.is_some())
        });
        let is_numbered =
            view.workload.as_ref().is_some_and(|workload| NUMBERED.contains(&&*workload.kind));

        match leaders.len() {
            0 => !elects && (is_numbered || self.controllers.are_leases_visible()),
            1 => false,
            _ => is_numbered,
        }
    }

    /// Returns since when a manager beside a running one has been down, and its state.
    fn stopped_managers(&self, view: &OperatorView) -> Option<(Timestamp, Vec<String>)> {
        let live = view.pods.iter().filter(|pod| pod.deleted.is_none() && runs(pod));
        let stopped = live.flat_map(|pod| {
            self.pods.others.stopped(pod).map(move |(container, since)| (pod, container, since))
        });
        let (pod, container, since) = stopped.min_by_key(|(_, _, since)| *since)?;
        let state = state(container, "");

        Some((since, vec![format!("{} {}: {state}", pod.name, container.name)]))
    }
}

/// Returns why a container does not run, for people.
fn state(container: &ContainerView, phase: &str) -> String {
    let reason = container.ended.as_ref().map_or("", |end| end.reason.as_str());
    let words = [container.waiting.as_str(), reason, phase];
    words.into_iter().find(|word| !word.is_empty()).unwrap_or("does not run").to_owned()
}
