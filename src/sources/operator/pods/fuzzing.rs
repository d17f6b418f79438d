//! Pods and workloads, for the fuzz targets.

use std::sync::Arc;

use loopwatch_model::observation::{OperatorWorkload, PodView};

use super::sink::{PodFilter, PodSink, SeenPods};
use super::workload::{Workload, WorkloadName};
use crate::sources::api_server::WatchSink as _;

/// A Pod of the Deployment `operator` in the namespace `team-a`.
#[derive(Clone, Debug, PartialEq)]
pub struct SeenPodView {
    pub view: PodView,
    /// The ports that may serve metrics.
    pub ports: Vec<u16>,
    /// The IDs of the operator's containers.
    pub ids: Vec<String>,
}

/// Gives a Pod to the sink of the watch, in a list and in an event. Returns the resource version and
/// the Pod, if it is the operator's; `None` if it cannot be decoded.
#[must_use]
pub fn pod(document: &[u8]) -> [Option<(String, Option<SeenPodView>)>; 2] {
    let [namespace, kind, name] = ["team-a", "Deployment", "operator"].map(str::to_owned);
    let own = Some("operator-5d9c-x2x7k".to_owned());
    let workload = WorkloadName { kind, name };
    let filter = PodFilter { namespace, workload, own, container: None };
    let new = |seen: &SeenPods| PodSink::new(filter.clone(), seen.clone(), Arc::default());

    let seen = SeenPods::default();
    let mut sink = new(&seen);
    sink.began(1, &mut Vec::new());
    let listed = sink.listed(document, &mut Vec::new());
    sink.ended(1, "1", &mut Vec::new());
    let listed = listed.ok().map(|()| (String::new(), only(&seen)));

    let seen = SeenPods::of(None);
    let applied = new(&seen).applied(document, &mut Vec::new());
    [listed, applied.ok().map(|version| (version, only(&seen)))]
}

fn only(seen: &SeenPods) -> Option<SeenPodView> {
    let chosen = seen.chosen()?;
    let view = chosen.views.into_iter().next()?;
    let targets = &chosen.targets;

    Some(SeenPodView {
        view,
        ports: targets.iter().flat_map(|pod| &pod.ports).map(|port| port.number).collect(),
        ids: targets.iter().flat_map(|pod| pod.container_ids.clone()).collect(),
    })
}

/// Reads a workload of this kind. Returns its view and its selector.
#[must_use]
pub fn workload(kind: &str, document: &[u8]) -> Option<(OperatorWorkload, String)> {
    let document = serde_json::from_slice(document).ok()?;
    let Workload { view, labels } = Workload::new(kind, &document);
    Some((view, labels))
}
