//! Finds the operator's containers in a Pod, and their state.

use std::collections::BTreeSet;

use loopwatch_model::observation::{ContainerEnd, ContainerView, MAX_END_MESSAGE};
use loopwatch_model::time::Timestamp;
use serde_json::Value;

use super::document::{
    ContainerDocument, ContainerStatus, PodDocument, PodMetadata, PodSpec, TerminatedState,
};
use super::quantity;
use crate::sources::decoding::cut;

/// A container and its status, if it has one yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct PodContainer<'a> {
    spec: &'a ContainerDocument,
    status: Option<&'a ContainerStatus>,
}

/// The longest phase, reason or identifier in the status of a Pod, in bytes. Anybody who may write
/// the status chooses them.
const MAX_WORD: usize = 128;

/// The longest image, in bytes: the longest path, tag and digest that a registry accepts take half.
const MAX_IMAGE: usize = 1024;

/// Limit on the containers of a Pod.
const MAX_CONTAINERS: usize = 20;

/// The name of loopwatch's container and image in `deploy/`.
const LOOPWATCH: &str = "loopwatch";

/// The name of loopwatch's port there.
const LOOPWATCH_PORT: &str = "loopwatch-http";

/// Containers that meshes and agents add to Pods. Their ports serve their own metrics.
const HELPERS: [&str; 17] = [
    "alloydb-auth-proxy",
    "aws-otel-collector",
    "cloud-sql-proxy",
    "cloudsql-proxy",
    "consul-dataplane",
    "daprd",
    "datadog-agent",
    "envoy-sidecar",
    "fluent-bit",
    "istio-proxy",
    "jaeger-agent",
    "kuma-sidecar",
    "linkerd-proxy",
    "osm-envoy",
    "otc-container",
    "tailscale",
    "vault-agent",
];

/// Proxies with which operators protect their metrics. They are not part of the operator, but their
/// ports serve its metrics.
const METRICS_PROXIES: [&str; 2] = ["kube-rbac-proxy", "oauth-proxy"];

/// The beginnings of the lines with which a Go program ends.
const PANICS: [&str; 2] = ["panic:", "fatal error:"];

/// The usual names of the operator's container.
const USUAL: [&str; 3] = ["manager", "operator", "controller"];

/// The annotation that names the container for `kubectl logs`.
const DEFAULT_CONTAINER: &str = "kubectl.kubernetes.io/default-container";

/// The operator's containers, the main one first. `own` is the name of the container of this
/// process, if the manifest sets it.
pub(super) fn of_operator<'a>(pod: &'a PodDocument, own: Option<&str>) -> Vec<PodContainer<'a>> {
    let others: Vec<PodContainer<'_>> =
        all(pod).filter(|container| !is_loopwatch(container.spec, own)).collect();
    let of_operator = others.iter().copied().filter(|container| !is_helper(&container.spec.name));
    let mut containers: Vec<PodContainer<'_>> = of_operator.collect();

    if containers.is_empty() {
        containers = others; // the operator has the name of a helper
    }

    if let Some(position) = main(&pod.metadata, &containers) {
        containers[..=position].rotate_right(1);
    }

    containers.truncate(MAX_CONTAINERS);
    containers
}

/// The containers that are neither the operator's nor loopwatch's, and the init containers that have
/// been restarted.
pub(super) fn helpers<'a>(pod: &'a PodDocument, own: Option<&str>) -> Vec<PodContainer<'a>> {
    let of_operator = of_operator(pod, own);
    let is_known =
        |spec: &ContainerDocument| of_operator.iter().any(|known| known.spec.name == spec.name);
    let others = all(pod)
        .filter(|container| !is_loopwatch(container.spec, own) && !is_known(container.spec));

    let init = pod.spec.init_containers.iter().filter(|spec| spec.restart_policy != "Always");
    let init = init.map(|spec| with_status(spec, &pod.status.init_container_statuses));
    let failed = init.filter(|container| container.status.is_some_and(|it| it.restart_count > 0));

    others.chain(failed).take(MAX_CONTAINERS).collect()
}

/// All containers that run as long as the Pod, including native sidecars. The API server ensures that
/// their names differ; if they do not, the first of a name counts, because series differ only by it.
pub(super) fn all(pod: &PodDocument) -> impl Iterator<Item = PodContainer<'_>> {
    let PodDocument { spec, status, .. } = pod;
    let containers =
        spec.containers.iter().map(|spec| with_status(spec, &status.container_statuses));
    let sidecars = spec.init_containers.iter().filter(|spec| spec.restart_policy == "Always");

    let sidecars = sidecars.map(|spec| with_status(spec, &status.init_container_statuses));
    let mut names = BTreeSet::new();
    containers.chain(sidecars).filter(move |container| names.insert(container.spec.name.as_str()))
}

fn with_status<'a>(
    spec: &'a ContainerDocument,
    statuses: &'a [ContainerStatus],
) -> PodContainer<'a> {
    PodContainer { spec, status: statuses.iter().find(|status| status.name == spec.name) }
}

fn is_helper(name: &str) -> bool {
    serves_others(name) || is_metrics_proxy(name)
}

/// Whether a container of this name belongs to a mesh or an agent.
pub(super) fn serves_others(name: &str) -> bool {
    HELPERS.contains(&name)
}

/// Whether a container of this name protects the operator's metrics.
pub(super) fn is_metrics_proxy(name: &str) -> bool {
    METRICS_PROXIES.contains(&name)
}

/// Whether a container is loopwatch's. Users may rename the container or the image, but hardly both
/// and the port.
pub(super) fn is_loopwatch(container: &ContainerDocument, own: Option<&str>) -> bool {
    container.name == LOOPWATCH
        || own == Some(container.name.as_str())
        || image_name(&container.image) == LOOPWATCH
        || container.ports.iter().any(|port| port.name == LOOPWATCH_PORT)
}

impl PodSpec {
    /// Whether a container is loopwatch's.
    pub(crate) fn has_loopwatch(&self) -> bool {
        self.containers.iter().chain(&self.init_containers).any(|it| is_loopwatch(it, None))
    }
}

/// The last part of an image's path: `loopwatch` for
/// `registry:5000/mirror/loopwatch:0.1.0@sha256:…`.
fn image_name(image: &str) -> &str {
    let without_digest = image.split('@').next().unwrap_or_default();
    let last = without_digest.rsplit('/').next().unwrap_or_default();
    last.split(':').next().unwrap_or_default()
}

/// The position of the container that runs the operator.
fn main(pod: &PodMetadata, containers: &[PodContainer<'_>]) -> Option<usize> {
    let named = |name: &str| containers.iter().position(|container| container.spec.name == name);
    let annotated = pod.annotations.get(DEFAULT_CONTAINER).and_then(|name| named(name));
    annotated
        .or_else(|| USUAL.iter().find_map(|name| named(name)))
        .or((!containers.is_empty()).then_some(0))
}

impl<'a> PodContainer<'a> {
    pub(super) fn spec(&self) -> &'a ContainerDocument {
        self.spec
    }

    pub(super) fn image(&self) -> &str {
        cut(&self.spec.image, MAX_IMAGE)
    }

    /// The ID of the running container, without the name of the container runtime.
    pub(super) fn id(&self) -> Option<String> {
        let id = self.status?.container_id.as_str();
        let id = id.split_once("://").map_or(id, |(_, id)| id);
        (!id.is_empty()).then(|| word(id))
    }

    pub(super) fn view(&self) -> ContainerView {
        let limit = match self.spec.resources.limits.get("memory") {
            Some(Value::String(text)) => quantity::bytes(text),
            Some(Value::Number(number)) => number.as_u64(),
            _ => None,
        };
        let view = ContainerView {
            name: self.spec.name.clone(),
            memory_limit: limit,
            ..ContainerView::default()
        };

        let Some(status) = self.status else { return view };
        let state = &status.state;
        let terminated = state.terminated.as_ref().or(status.last_state.terminated.as_ref());
        ContainerView {
            ready: status.ready,
            running_since: state
                .running
                .as_ref()
                .and_then(|running| time(running.started_at.as_deref())),
            waiting: state
                .waiting
                .as_ref()
                .map(|waiting| word(&waiting.reason))
                .unwrap_or_default(),
            restarts: status.restart_count,
            ended: terminated.map(end),
            ..view
        }
    }
}

fn end(terminated: &TerminatedState) -> ContainerEnd {
    ContainerEnd {
        reason: word(&terminated.reason),
        exit_code: terminated.exit_code,
        message: message(&terminated.message),
        started: time(terminated.started_at.as_deref()),
        finished: time(terminated.finished_at.as_deref()),
    }
}

/// A phase, a reason or an identifier of a limited length.
pub(super) fn word(text: &str) -> String {
    cut(text, MAX_WORD).to_owned()
}

/// The line of a message that says most: that of a panic, or else the last one. A stack trace
/// follows a panic.
fn message(text: &str) -> String {
    let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty());
    let panic = lines().find(|line| is_panic(line));
    let last = panic.or_else(|| lines().next_back()).unwrap_or_default();
    cut(last, MAX_END_MESSAGE).to_owned()
}

/// Whether a program in Go or Rust ends with such a line.
fn is_panic(line: &str) -> bool {
    let in_rust = || line.starts_with("thread '") && line.contains(" panicked at ");
    PANICS.iter().any(|word| line.starts_with(word)) || in_rust()
}

/// Reads a time.
pub(super) fn time(text: Option<&str>) -> Option<Timestamp> {
    text.and_then(Timestamp::parse)
}
