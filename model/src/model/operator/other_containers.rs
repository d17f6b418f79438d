//! The containers of the operator's Pods other than the one that runs the operator: further managers,
//! and helpers such as the proxy of a service mesh.

use std::collections::BTreeMap;

use crate::model::operator::pod_history::PodHistory;
use crate::observation::{ContainerView, MAX_PODS, OperatorView, PodView};
use crate::time::{Span, Timestamp};

/// The maximum number of such containers per Pod.
const MAX_CONTAINERS: usize = 20;

/// What has happened to these containers.
#[derive(Debug, Default)]
pub(super) struct OtherContainers {
    /// By the UID of the Pod and the name of the container; only those of the latest view.
    histories: BTreeMap<(String, String), PodHistory>,
}

impl OtherContainers {
    /// Takes a new view of the Pods. `regained` is when their source last recovered.
    pub(super) fn update(
        &mut self,
        now: Timestamp,
        view: &OperatorView,
        regained: Option<Timestamp>,
        window: Span,
    ) {
        let mut known = std::mem::take(&mut self.histories);
        let pods = view.pods.iter().take(MAX_PODS);
        for (pod, container) in pods.flat_map(|pod| others(pod).map(move |other| (pod, other))) {
            let key = (pod.uid.clone(), container.name.clone());
            let history = match known.remove(&key) {
                Some(mut history) => {
                    history.update(now, container, regained);
                    history
                }
                None => PodHistory::new(now, pod, container, window),
            };

            self.histories.insert(key, history);
        }
    }

    /// Returns the histories of these containers of a Pod, with their names.
    pub(super) fn of<'a>(
        &'a self,
        pod: &'a PodView,
    ) -> impl Iterator<Item = (&'a str, &'a PodHistory)> {
        others(pod)
            .filter_map(|container| Some((container.name.as_str(), self.history(pod, container)?)))
    }

    /// Returns the managers of a Pod that do not run, and since when.
    pub(super) fn stopped<'a>(
        &'a self,
        pod: &'a PodView,
    ) -> impl Iterator<Item = (&'a ContainerView, Timestamp)> {
        pod.containers.iter().skip(1).filter_map(|container| {
            Some((container, self.history(pod, container)?.stopped_since()?))
        })
    }

    fn history(&self, pod: &PodView, container: &ContainerView) -> Option<&PodHistory> {
        self.histories.get(&(pod.uid.clone(), container.name.clone()))
    }

    pub(super) fn clock_stepped(&mut self, by_ms: i64) {
        self.histories.values_mut().for_each(|history| history.clock_stepped(by_ms));
    }
}

/// Returns the containers of a Pod other than the one that runs the operator.
fn others(pod: &PodView) -> impl Iterator<Item = &ContainerView> {
    pod.containers.iter().skip(1).chain(&pod.helpers).take(MAX_CONTAINERS)
}
