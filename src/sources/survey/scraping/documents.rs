//! The objects around loopwatch, as far as `doctor` reads them, and which of them select which.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::core::Selector;
use serde::Deserialize;

use crate::sources::decoding::or_default;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Object<S> {
    /// The list does not say it.
    #[serde(skip)]
    pub(crate) kind: &'static str,
    pub(crate) metadata: Metadata,
    #[serde(deserialize_with = "or_default", bound(deserialize = "S: Default + Deserialize<'de>"))]
    pub(crate) spec: S,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Metadata {
    pub(crate) namespace: String,
    pub(crate) name: String,
    #[serde(deserialize_with = "or_default")]
    pub(crate) labels: BTreeMap<String, String>,
}

/// The spec of an object of which only the metadata matters.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Nothing {}

pub(crate) type Workload = Object<WorkloadSpec>;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct WorkloadSpec {
    /// The number of Pods that somebody wants; `None` for a DaemonSet.
    pub(crate) replicas: Option<u32>,
    pub(in crate::sources::survey) selector: LabelSelector,
    pub(crate) template: PodTemplate,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PodTemplate {
    pub(crate) metadata: Metadata,
    spec: PodSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Pod {
    pub(crate) metadata: Metadata,
    spec: PodSpec,
    status: PodStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PodSpec {
    #[serde(deserialize_with = "or_default")]
    init_containers: Vec<Container>,
    #[serde(deserialize_with = "or_default")]
    containers: Vec<Container>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Container {
    pub(crate) name: String,
    pub(crate) image: String,
    #[serde(deserialize_with = "or_default")]
    pub(crate) ports: Vec<ContainerPort>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct ContainerPort {
    pub(crate) name: String,
    pub(crate) container_port: i32,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PodStatus {
    phase: String,
    #[serde(deserialize_with = "or_default")]
    init_container_statuses: Vec<ContainerStatus>,
    #[serde(deserialize_with = "or_default")]
    container_statuses: Vec<ContainerStatus>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct ContainerStatus {
    name: String,
    state: ContainerState,
}

/// The state of a container. At most one field is set.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ContainerState {
    pub(crate) running: Option<Nothing>,
    pub(crate) waiting: Option<Why>,
    pub(crate) terminated: Option<Why>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Why {
    pub(crate) reason: String,
    #[serde(deserialize_with = "or_default")]
    pub(crate) message: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ServiceSpec {
    /// Without labels, the Service selects no Pods.
    #[serde(deserialize_with = "or_default")]
    pub(crate) selector: BTreeMap<String, String>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) ports: Vec<ServicePort>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct ServicePort {
    pub(crate) name: String,
    port: i32,
    /// The port of the container; the same as `port` if absent.
    target_port: Option<IntOrString>,
}

/// The common part of PodMonitors and ServiceMonitors.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct MonitorSpec {
    pub(crate) selector: LabelSelector,
    #[serde(deserialize_with = "or_default")]
    pub(crate) namespace_selector: NamespaceSelector,
    #[serde(alias = "podMetricsEndpoints", deserialize_with = "or_default")]
    pub(crate) endpoints: Vec<Endpoint>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct NamespaceSelector {
    any: bool,
    #[serde(deserialize_with = "or_default")]
    match_names: Vec<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Endpoint {
    pub(crate) port: Option<String>,
    port_number: Option<i32>,
    target_port: Option<IntOrString>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct RuleSpec {
    #[serde(deserialize_with = "or_default")]
    groups: Vec<RuleGroup>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct RuleGroup {
    name: String,
}

/// The selectors of a Prometheus. Without a selector of objects, it selects none; without a selector
/// of namespaces, only those in its own namespace. An empty one selects all.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct PrometheusSpec {
    pub(crate) pod_monitor_selector: Option<LabelSelector>,
    pub(crate) pod_monitor_namespace_selector: Option<LabelSelector>,
    pub(crate) service_monitor_selector: Option<LabelSelector>,
    pub(crate) service_monitor_namespace_selector: Option<LabelSelector>,
    pub(crate) rule_selector: Option<LabelSelector>,
    pub(crate) rule_namespace_selector: Option<LabelSelector>,
}

/// The name of loopwatch's container and image in `deploy/`, and that of its port.
const CONTAINER: &str = "loopwatch";
pub(crate) const PORT: &str = "loopwatch-http";

impl<S> Object<S> {
    /// The object in words: `PodMonitor shop/loopwatch`.
    pub(crate) fn in_words(&self) -> String {
        format!("{} {}/{}", self.kind, self.metadata.namespace, self.metadata.name)
    }
}

impl Workload {
    /// The loopwatch container in its Pods.
    pub(crate) fn loopwatch(&self) -> Option<&Container> {
        self.spec.template.spec.loopwatch()
    }

    /// The labels of its Pods.
    pub(crate) fn pod_labels(&self) -> &BTreeMap<String, String> {
        &self.spec.template.metadata.labels
    }

    /// Makes the template that of a Pod, which has more than the template said.
    pub(crate) fn run_like(&mut self, pod: &Pod) {
        let template = &mut self.spec.template;
        template.spec = pod.spec.clone();
        template.metadata.labels.clone_from(&pod.metadata.labels);
    }

    pub(crate) fn owns(&self, pod: &Pod) -> bool {
        pod.metadata.namespace == self.metadata.namespace
            && matches(&self.spec.selector, &pod.metadata.labels)
    }
}

impl Pod {
    /// Whether no container of the Pod runs or will run again.
    pub(crate) fn has_ended(&self) -> bool {
        matches!(self.status.phase.as_str(), "Failed" | "Succeeded")
    }

    /// The image and the state of its loopwatch container.
    pub(crate) fn loopwatch(&self) -> Option<(&str, ContainerState)> {
        let container = self.spec.loopwatch()?;
        let PodStatus { init_container_statuses, container_statuses, .. } = &self.status;
        let status = init_container_statuses
            .iter()
            .chain(container_statuses)
            .find(|status| status.name == container.name);
        let state = status.map(|status| status.state.clone()).unwrap_or_default();
        Some((&container.image, state))
    }
}

impl PodSpec {
    /// Users may rename the container or the image, but hardly both and the port.
    fn loopwatch(&self) -> Option<&Container> {
        let image_name = |image: &str| {
            let path = image.split('@').next().unwrap_or_default();
            let last = path.rsplit('/').next().unwrap_or_default();
            last.split(':').next() == Some(CONTAINER)
        };
        self.init_containers.iter().chain(&self.containers).find(|container| {
            container.name == CONTAINER
                || image_name(&container.image)
                || container.ports.iter().any(|port| port.name == PORT)
        })
    }
}

impl MonitorSpec {
    /// Whether it looks at objects of a namespace; it is itself in `own`.
    pub(crate) fn looks_at(&self, own: &str, namespace: &str) -> bool {
        let NamespaceSelector { any, match_names } = &self.namespace_selector;
        match match_names.as_slice() {
            _ if *any => true,
            [] => own == namespace,
            names => names.iter().any(|name| name == namespace),
        }
    }
}

impl Endpoint {
    /// Whether this endpoint of a PodMonitor is a port of the container.
    pub(crate) fn names_port_of(&self, container: &Container) -> bool {
        container.ports.iter().any(|port| match (&self.port, self.port_number, &self.target_port) {
            (Some(name), ..) => *name == port.name,
            (None, Some(number), _) => number == port.container_port,
            (None, None, Some(target)) => is_port(target, port),
            (None, None, None) => false,
        })
    }

    /// Whether this endpoint of a ServiceMonitor is a port of the Service that leads to the container.
    pub(crate) fn leads_to(&self, service: &ServiceSpec, container: &Container) -> bool {
        let reaches = |port: &ServicePort| {
            let own = IntOrString::Int(port.port);
            let target = port.target_port.as_ref().unwrap_or(&own);
            container.ports.iter().any(|port| is_port(target, port))
        };
        match (&self.port, &self.target_port) {
            (Some(name), _) => service.ports.iter().any(|port| port.name == *name && reaches(port)),
            (None, Some(target)) => container.ports.iter().any(|port| is_port(target, port)),
            (None, None) => false,
        }
    }
}

impl RuleSpec {
    /// Whether these are rules that come with loopwatch.
    pub(crate) fn is_of_loopwatch(&self) -> bool {
        self.groups.iter().any(|group| group.name.starts_with("loopwatch-"))
    }
}

fn is_port(target: &IntOrString, port: &ContainerPort) -> bool {
    match target {
        IntOrString::Int(number) => *number == port.container_port,
        IntOrString::String(name) => *name == port.name,
    }
}

/// Whether a selector selects labels. One that loopwatch cannot read selects none.
pub(crate) fn matches(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> bool {
    use kube::core::SelectorExt as _;

    Selector::try_from(selector.clone()).is_ok_and(|selector| selector.matches(labels))
}
