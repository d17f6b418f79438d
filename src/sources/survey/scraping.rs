//! Who runs loopwatch in a cluster, and who scrapes it: the workloads with a loopwatch container and
//! their Pods, the monitors and rules, and each Prometheus that may select them. For `doctor`.

mod documents;

use futures::{StreamExt as _, stream};
use kube::core::Selector;
use loopwatch_model::observation::Cause;
use serde::de::DeserializeOwned;
use tokio::join;

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
    /// The Pods of the workloads that have a loopwatch container, or whose Pods may get one.
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

/// The label of the namespaces whose Pods `deploy/injection` may change.
const INJECTION: (&str, &str) = ("loopwatch/injection", "enabled");

/// Limit on workloads whose Pods loopwatch reads.
const MOST_WORKLOADS: usize = 50;

/// Lists of Pods that loopwatch reads at once.
const AT_ONCE: usize = 8;

impl Surroundings {
    /// Reads everything, several kinds at a time. `namespace` limits workloads and Services; a monitor
    /// and a Prometheus may be in any namespace.
    pub(crate) async fn read(cluster: &Cluster, namespace: Option<&str>) -> Self {
        const APPS: &str = "/apis/apps/v1";
        const MONITORING: &str = "/apis/monitoring.coreos.com/v1";
        const AGENTS: &str = "/apis/monitoring.coreos.com/v1alpha1";

        let workloads = |resource, kind| part(cluster, APPS, resource, kind, namespace);
        let (mut workloads, stateful_sets, daemon_sets) = join!(
            workloads("deployments", "Deployment"),
            workloads("statefulsets", "StatefulSet"),
            workloads("daemonsets", "DaemonSet"),
        );
        workloads.add(stateful_sets);
        workloads.add(daemon_sets);

        let (services, namespaces) = join!(
            part(cluster, "/api/v1", "services", "Service", namespace),
            all(cluster, "/api/v1/namespaces"),
        );
        let namespaces = Part::of(namespaces, "namespaces");
        let pods = pods(cluster, &workloads.items, &namespaces.items).await;
        add_injected(&mut workloads.items, &pods.items);

        let (pod_monitors, service_monitors, rules, mut prometheuses, agents) = join!(
            part(cluster, MONITORING, "podmonitors", "PodMonitor", None),
            part(cluster, MONITORING, "servicemonitors", "ServiceMonitor", None),
            part(cluster, MONITORING, "prometheusrules", "PrometheusRule", None),
            part(cluster, MONITORING, "prometheuses", "Prometheus", None),
            part(cluster, AGENTS, "prometheusagents", "PrometheusAgent", None),
        );
        if agents.is_installed {
            prometheuses.add(agents);
        }

        Self {
            workloads,
            pods,
            services,
            namespaces,
            pod_monitors,
            service_monitors,
            rules,
            prometheuses,
        }
    }
}

/// Reads the Pods of the workloads that have a loopwatch container, or whose Pods may get one, of up to
/// [`MOST_WORKLOADS`].
async fn pods(
    cluster: &Cluster,
    workloads: &[Workload],
    namespaces: &[Object<Nothing>],
) -> Part<Pod> {
    let is_injected = |workload: &&Workload| {
        let (label, value) = INJECTION;
        let of = |object: &&Object<Nothing>| object.metadata.name == workload.metadata.namespace;
        let namespace = namespaces.iter().find(of);
        namespace.is_some_and(|it| it.metadata.labels.get(label).is_some_and(|is| is == value))
    };
    let (with, mut perhaps): (Vec<&Workload>, Vec<&Workload>) =
        workloads.iter().partition(|workload| workload.loopwatch().is_some());
    perhaps.retain(is_injected);

    let with = [with, perhaps].concat();
    let requests = with.iter().take(MOST_WORKLOADS).filter_map(|workload| {
        let selector = Selector::try_from(workload.spec.selector.clone()).ok()?.to_string();
        let namespace = percent_encode(&workload.metadata.namespace);
        Some((format!("/api/v1/namespaces/{namespace}/pods"), selector))
    });
    let answers = requests.map(async |(path, selector)| selected(cluster, &path, &selector).await);

    let mut pods = Part::default();
    let mut answers = stream::iter(answers).buffered(AT_ONCE);
    while let Some(answer) = answers.next().await {
        pods.add(Part::of(answer, "pods"));
    }

    if with.len() > MOST_WORKLOADS && pods.left_out.is_empty() {
        pods.left_out = format!(
            "pods: doctor reads those of {MOST_WORKLOADS} of {} workloads; select a namespace",
            with.len()
        );
    }

    pods
}

/// Adds to the templates of workloads the container and the labels that an admission policy has added to
/// their Pods.
fn add_injected(workloads: &mut [Workload], pods: &[Pod]) {
    for workload in workloads.iter_mut().filter(|workload| workload.loopwatch().is_none()) {
        let has_it = |pod: &&Pod| !pod.has_ended() && pod.loopwatch().is_some();
        if let Some(pod) = pods.iter().find(|pod| workload.owns(pod) && has_it(pod)) {
            workload.run_like(pod);
        }
    }
}

impl<T> Part<T> {
    /// What a list has brought.
    fn of(list: Result<Vec<T>, Failure>, what: &str) -> Self {
        match list {
            Ok(items) => Self { items, ..Self::default() },
            Err(failure) => Self::failed(&failure, what),
        }
    }

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
        list => Part::of(list, resource),
    };

    part.items.iter_mut().for_each(|object: &mut Object<S>| object.kind = kind);
    part
}
