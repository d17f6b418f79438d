//! Who runs loopwatch in a cluster, and who scrapes it: the workloads with a loopwatch container and
//! their Pods, the monitors and rules, and each Prometheus that may select them. For `doctor`.

mod documents;

use kube::core::Selector;
use loopwatch_model::observation::Cause;
use serde::de::DeserializeOwned;

pub(crate) use self::documents::{
    Container, ContainerState, Endpoint, MonitorSpec, Object, PORT, Pod, PrometheusSpec, Workload,
    matches,
};
use self::documents::{Nothing, RuleSpec, ServiceSpec};

use super::installation::{all, selected};
use super::listing::reason;
use crate::net::{Failure, percent_encode};
use crate::sources::api_server::Cluster;

/// Everything that `doctor` reads from the API server.
#[derive(Debug, Default)]
pub(crate) struct Surroundings {
    /// Deployments, StatefulSets and DaemonSets.
    pub(crate) workloads: Part<Workload>,
    /// The Pods of the workloads with a loopwatch container.
    pub(crate) pods: Part<Pod>,
    pub(crate) services: Part<Object<ServiceSpec>>,
    pub(crate) namespaces: Part<Object<Nothing>>,
    pub(crate) pod_monitors: Part<Object<MonitorSpec>>,
    pub(crate) service_monitors: Part<Object<MonitorSpec>>,
    pub(crate) rules: Part<Object<RuleSpec>>,
    /// Each Prometheus and each agent.
    pub(crate) prometheuses: Part<Object<PrometheusSpec>>,
}

/// The objects of one kind, as far as the account may see them.
#[derive(Debug)]
pub(crate) struct Part<T> {
    pub(crate) items: Vec<T>,
    /// Whether the API server serves the kind.
    pub(crate) is_installed: bool,
    /// Why some or all objects are missing; empty if none is.
    pub(crate) left_out: String,
}

/// Limit on workloads whose Pods loopwatch reads.
const MOST_WORKLOADS: usize = 50;

impl Surroundings {
    /// Reads everything. `namespace` limits workloads and Services; a monitor and a Prometheus may be
    /// in any namespace.
    pub(crate) async fn read(cluster: &Cluster, namespace: Option<&str>) -> Self {
        let mut all = Self::default();
        for (kind, resource) in [
            ("Deployment", "deployments"),
            ("StatefulSet", "statefulsets"),
            ("DaemonSet", "daemonsets"),
        ] {
            all.workloads.add(part(cluster, "/apis/apps/v1", resource, kind, namespace).await);
        }
        all.read_pods(cluster).await;

        all.services = part(cluster, "/api/v1", "services", "Service", namespace).await;
        all.namespaces = match self::all(cluster, "/api/v1/namespaces").await {
            Ok(items) => Part { items, ..Part::default() },
            Err(failure) => Part::failed(&failure, "namespaces"),
        };

        let group = "/apis/monitoring.coreos.com/v1";
        all.pod_monitors = part(cluster, group, "podmonitors", "PodMonitor", None).await;
        all.service_monitors =
            part(cluster, group, "servicemonitors", "ServiceMonitor", None).await;
        all.rules = part(cluster, group, "prometheusrules", "PrometheusRule", None).await;
        all.prometheuses = part(cluster, group, "prometheuses", "Prometheus", None).await;

        let alpha = "/apis/monitoring.coreos.com/v1alpha1";
        let agents = part(cluster, alpha, "prometheusagents", "PrometheusAgent", None).await;
        if agents.is_installed {
            all.prometheuses.add(agents);
        }
        all
    }

    async fn read_pods(&mut self, cluster: &Cluster) {
        let with = self.workloads.items.iter().filter(|workload| workload.loopwatch().is_some());
        for workload in with.take(MOST_WORKLOADS) {
            let Ok(selector) = Selector::try_from(workload.spec.selector.clone()) else { continue };
            let path =
                format!("/api/v1/namespaces/{}/pods", percent_encode(&workload.metadata.namespace));
            self.pods.add(match selected(cluster, &path, &selector.to_string()).await {
                Ok(items) => Part { items, ..Part::default() },
                Err(failure) => Part::failed(&failure, "pods"),
            });
        }
    }
}

impl<T> Part<T> {
    fn failed(failure: &Failure, what: &str) -> Self {
        match failure.cause {
            Cause::NotFound => Self { is_installed: false, ..Self::default() },
            _ => Self { left_out: format!("{what}: {}", reason(failure)), ..Self::default() },
        }
    }

    fn add(&mut self, other: Self) {
        self.items.extend(other.items);
        self.is_installed |= other.is_installed;
        if self.left_out.is_empty() {
            self.left_out = other.left_out;
        }
    }
}

impl<T> Default for Part<T> {
    fn default() -> Self {
        Self { items: Vec::new(), is_installed: true, left_out: String::new() }
    }
}

/// Reads one kind in all namespaces, or only in one, which is that of the account if it may not list
/// more.
async fn part<S: Default + DeserializeOwned>(
    cluster: &Cluster,
    group: &str,
    resource: &'static str,
    kind: &'static str,
    namespace: Option<&str>,
) -> Part<Object<S>> {
    let within =
        |namespace: &str| format!("{group}/namespaces/{}/{resource}", percent_encode(namespace));
    let path = namespace.map_or_else(|| format!("{group}/{resource}"), within);
    let home = cluster.namespace();

    let mut part = match all(cluster, &path).await {
        Ok(items) => Part { items, ..Part::default() },
        Err(failure) if failure.cause == Cause::Forbidden && namespace.is_none() => {
            match all(cluster, &within(home)).await {
                Ok(items) => Part {
                    items,
                    left_out: format!(
                        "{resource}: no permission to list outside the namespace {home}"
                    ),
                    ..Part::default()
                },
                Err(failure) => Part::failed(&failure, resource),
            }
        }
        Err(failure) => Part::failed(&failure, resource),
    };

    part.items.iter_mut().for_each(|object: &mut Object<S>| object.kind = kind);
    part
}
