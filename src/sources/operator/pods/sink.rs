//! Keeps the operator's Pods, from a watch or from single reads.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use loopwatch_model::observation::{MAX_PODS, Observation, PodView, Revision, SourceId};
use tokio::sync::Notify;

use super::containers;
use super::document::{PodDocument, PodMetadata};
use super::ports;
use super::workload::{WorkloadName, template_hash};
use crate::lock::lock;
use crate::net::Failure;
use crate::sources::api_server::WatchSink;
use crate::sources::operator::hints::TargetPod;

/// The label with the version of the operator.
const VERSION: &str = "app.kubernetes.io/version";

/// Limit on the Pods that loopwatch remembers. It is higher than [`MAX_PODS`], so that another Pod
/// can take the place of one that ends.
const MAX_REMEMBERED: usize = 500;

/// A Pod of the operator.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SeenPod {
    view: PodView,
    /// Absent if the Pod has ended: another Pod may have its address.
    target: Option<TargetPod>,
}

/// Which Pods are the operator's.
#[derive(Clone, Debug)]
pub(super) struct PodFilter {
    pub(super) namespace: String,
    pub(super) workload: WorkloadName,
    /// The name of loopwatch's own Pod.
    pub(super) own: Option<String>,
    /// The name of the container of this process, if the manifest sets it.
    pub(super) container: Option<String>,
}

/// The Pods of the operator by name.
#[derive(Clone, Debug, Default)]
pub(super) struct SeenPods(Arc<Mutex<Pods>>);

#[derive(Debug, Default)]
struct Pods {
    by_name: BTreeMap<String, SeenPod>,
    /// Whether a list was complete.
    are_listed: bool,
}

/// The Pods to report.
#[derive(Debug, Default)]
pub(super) struct ChosenPods {
    /// At most [`MAX_PODS`], ordered by name, including loopwatch's own Pod.
    pub(super) views: Vec<PodView>,
    /// The Pods in `views` that have not ended.
    pub(super) targets: Vec<TargetPod>,
    /// The number of Pods beyond the limit.
    pub(super) left_out: u32,
}

/// Turns events about Pods into [`SeenPods`].
pub(super) struct PodSink {
    filter: PodFilter,
    seen: SeenPods,
    changed: Arc<Notify>,
    /// The Pods of the list in progress.
    listed: BTreeMap<String, SeenPod>,
    /// Whether that list had to skip a Pod.
    is_incomplete: bool,
}

impl SeenPods {
    /// One Pod that was read on its own.
    pub(super) fn of(pod: Option<SeenPod>) -> Self {
        let by_name = pod.into_iter().map(|pod| (pod.view.name.clone(), pod)).collect();
        Self(Arc::new(Mutex::new(Pods { by_name, are_listed: true })))
    }

    /// The Pods to report; `None` before the first complete list.
    pub(super) fn chosen(&self) -> Option<ChosenPods> {
        let pods = self.lock();
        if !pods.are_listed {
            return None;
        }

        let mut chosen: Vec<&SeenPod> = pods.by_name.values().collect();

        // Evicted Pods may remain by the hundreds, and must not hide the running one.
        chosen.sort_by_key(|pod| (!pod.view.own, pod.target.is_none()));
        let beyond = chosen.split_off(chosen.len().min(MAX_PODS));
        chosen.sort_by(|a, b| a.view.name.cmp(&b.view.name));
        Some(ChosenPods {
            views: chosen.iter().map(|pod| pod.view.clone()).collect(),
            targets: chosen.iter().filter_map(|pod| pod.target.clone()).collect(),
            left_out: u32::try_from(beyond.len()).unwrap_or(u32::MAX),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Pods> {
        lock(&self.0)
    }
}

impl PodFilter {
    /// Returns a Pod if it is the operator's.
    pub(super) fn see(&self, pod: &PodDocument) -> Option<SeenPod> {
        let is_own = self.own.as_ref() == Some(&pod.metadata.name);
        let belongs = pod.metadata.namespace == self.namespace
            && (is_own || self.workload.has(&pod.metadata));
        belongs.then(|| see(pod, is_own, self.container.as_deref()))
    }
}

/// Builds the view of a Pod. `container` is the name of loopwatch's own container, if known.
fn see(pod: &PodDocument, own: bool, container: Option<&str>) -> SeenPod {
    let PodDocument { metadata, spec, status } = pod;
    let PodMetadata {
        namespace, name, uid, creation_timestamp, deletion_timestamp, labels, ..
    } = metadata;
    let of_operator = containers::of_operator(pod, container);
    let revision = Revision {
        hash: template_hash(metadata).to_owned(),
        version: labels.get(VERSION).cloned().unwrap_or_default(),
        image: of_operator
            .first()
            .map(|container| container.image().to_owned())
            .unwrap_or_default(),
    };

    let view = PodView {
        name: name.clone(),
        uid: uid.clone(),
        own,
        created: containers::time(creation_timestamp.as_deref()),
        deleted: containers::time(deletion_timestamp.as_deref()),
        phase: containers::word(&status.phase),
        reason: containers::word(&status.reason),
        node_lost: status.node_lost(),
        revision,
        containers: of_operator.iter().map(containers::PodContainer::view).collect(),
        helpers: containers::helpers(pod, container)
            .iter()
            .map(containers::PodContainer::view)
            .collect(),
    };

    let target = (!matches!(status.phase.as_str(), "Succeeded" | "Failed")).then(|| TargetPod {
        instance: format!("{namespace}/{name}"),
        own,
        ip: status.pod_ip.parse().ok().filter(may_be_of_pod),
        host_network: spec.host_network,
        ports: ports::of_pod(pod, container),
        container_ids: of_operator.iter().filter_map(containers::PodContainer::id).collect(),
    });

    SeenPod { view, target }
}

/// Whether a Pod may have this address. Clouds serve credentials at a link-local address. Some
/// stand-ins for a node give Pods loopback addresses.
fn may_be_of_pod(ip: &IpAddr) -> bool {
    let is_link_local = match ip.to_canonical() {
        IpAddr::V4(ip) => ip.is_link_local() || ip.is_broadcast(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    let ip = ip.to_canonical();

    !(is_link_local || ip.is_unspecified() || ip.is_multicast())
}

impl PodSink {
    pub(super) fn new(filter: PodFilter, seen: SeenPods, changed: Arc<Notify>) -> Self {
        Self { filter, seen, changed, listed: BTreeMap::new(), is_incomplete: false }
    }
}

impl WatchSink for PodSink {
    fn source(&self) -> SourceId {
        SourceId::Pods
    }

    fn began(&mut self, _: u64, _: &mut Vec<Observation>) {
        self.listed.clear();
        self.is_incomplete = false;
    }

    fn listed(&mut self, object: &[u8], _: &mut Vec<Observation>) -> Result<(), Failure> {
        let pod = decode(object)?;
        self.listed.remove(&pod.metadata.name);
        if let Some(seen) = self.filter.see(&pod) {
            insert(&mut self.listed, seen);
        }

        Ok(())
    }

    fn skipped(&mut self) {
        self.is_incomplete = true;
    }

    fn ended(&mut self, _: u64, _: &str, _: &mut Vec<Observation>) {
        let listed = std::mem::take(&mut self.listed);
        let mut pods = self.seen.lock();
        if !self.is_incomplete {
            pods.by_name.clear(); // a Pod that the list skipped is not gone
        }

        listed.into_values().for_each(|pod| insert(&mut pods.by_name, pod));
        pods.are_listed = true;
        drop(pods);
        self.changed.notify_one();
    }

    fn applied(&mut self, object: &[u8], _: &mut Vec<Observation>) -> Result<String, Failure> {
        let pod = decode(object)?;
        let seen = self.filter.see(&pod);
        let mut pods = self.seen.lock();

        if pods.by_name.get(&pod.metadata.name) != seen.as_ref() {
            pods.by_name.remove(&pod.metadata.name);
            seen.into_iter().for_each(|seen| insert(&mut pods.by_name, seen));
            self.changed.notify_one();
        }

        Ok(pod.metadata.resource_version)
    }

    fn deleted(&mut self, object: &[u8], _: &mut Vec<Observation>) -> Result<String, Failure> {
        let PodMetadata { name, resource_version, .. } = decode(object)?.metadata;
        self.listed.remove(&name);
        if self.seen.lock().by_name.remove(&name).is_some() {
            self.changed.notify_one();
        }

        Ok(resource_version)
    }

    fn progressed(&mut self, _: &str, _: &mut Vec<Observation>) {}
}

/// Adds a Pod if there is room. There is always room for loopwatch's own Pod, and a Pod that has
/// ended makes room for a running one.
fn insert(pods: &mut BTreeMap<String, SeenPod>, pod: SeenPod) {
    if pods.len() >= MAX_REMEMBERED && pod.target.is_some() {
        let ended =
            pods.iter().find(|(_, known)| known.target.is_none()).map(|(name, _)| name.clone());
        ended.into_iter().for_each(|name| _ = pods.remove(&name));
    }

    if pods.len() < MAX_REMEMBERED || pod.view.own {
        pods.insert(pod.view.name.clone(), pod);
    }
}

fn decode(object: &[u8]) -> Result<PodDocument, Failure> {
    serde_json::from_slice(object).map_err(|error| Failure::undecodable(&error))
}
