//! Replicas of the zoo's operator with leader election, each with a Pod that stands for its
//! process.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use serde_json::{Value, json};

use super::accounts::allow_leader_election;
use super::controlplane::ControlPlane;
use super::kube::{Kube, documents};
use super::operator::{NAMESPACE, Operator};
use super::pods::{self, StandInPod};
use super::wait::eventually;
use super::{ports, repository};

/// The name of the operator's Lease.
const LEASE: &str = "widget-operator.zoo.loopwatch.dev";

/// The time after which a standby takes over from a leader that is gone.
pub const LEASE_DURATION: Duration = Duration::from_secs(4);

/// The operator's Deployment, with a process for each Pod.
pub struct Replicas {
    kube: Kube,
    namespace: String,
    deployment: Value,
    metrics: u16,
    flags: Vec<String>,
    /// The number of Pods so far.
    started: u8,
    /// The replicas.
    pub all: Vec<Replica>,
}

/// A process and its Pod.
pub struct Replica {
    /// The process.
    pub operator: Operator,
    /// The Pod.
    pub pod: StandInPod,
}

impl Replicas {
    /// Deploys replicas in the namespace that they serve, with additional flags. Their
    /// Pods share the ports of the Deployment, so each process has an address of its own.
    pub fn start(plane: &ControlPlane, namespace: &str, count: u8, flags: &[&str]) -> Self {
        let metrics = ports::free();
        Self::deploy(plane, deployment(namespace, metrics), metrics, count, flags)
    }

    /// Deploys one replica, whose Deployment names this image.
    pub fn start_image(plane: &ControlPlane, namespace: &str, image: &str, flags: &[&str]) -> Self {
        let metrics = ports::free();
        let mut deployment = deployment(namespace, metrics);
        deployment["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image);
        Self::deploy(plane, deployment, metrics, 1, flags)
    }

    fn deploy(
        plane: &ControlPlane,
        deployment: Value,
        metrics: u16,
        count: u8,
        flags: &[&str],
    ) -> Self {
        let namespace = deployment["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
        allow_leader_election(&plane.kube, &namespace);
        let addresses: Vec<Ipv4Addr> = (0..count).map(address).collect();
        let pods = pods::deploy(&plane.kube, &deployment, &addresses);
        let lease = [
            "--leader-elect".to_owned(),
            format!("--leader-election-namespace={namespace}"),
            format!("--leader-elect-lease-duration={}s", LEASE_DURATION.as_secs()),
        ];

        let flags = lease.into_iter().chain(flags.iter().map(|flag| (*flag).to_owned())).collect();
        let kube = plane.kube.clone();
        let mut replicas =
            Self { kube, namespace, deployment, metrics, flags, started: 0, all: Vec::new() };

        pods.into_iter().for_each(|pod| replicas.start_in(plane, pod));
        replicas.wait_for_leader();
        replicas
    }

    /// Starts a process in the next Pod of the Deployment, such as one of a rollout.
    pub fn start_next(&mut self, plane: &ControlPlane) {
        let pod = pods::run_next(&self.kube, &self.deployment, address(self.started));
        self.start_in(plane, pod);
    }

    /// Starts a process in a Pod.
    fn start_in(&mut self, plane: &ControlPlane, pod: StandInPod) {
        let name = format!("{}.operator-{}", self.namespace, self.started);
        let own = format!("--pod-name={}", pod.name);
        let flags: Vec<&str> =
            self.flags.iter().map(String::as_str).chain([own.as_str()]).collect();
        let at = SocketAddr::from((pod.address, self.metrics));
        let operator = Operator::start_at(plane, &name, &self.namespace, at, &flags);

        self.started += 1;
        self.all.push(Replica { operator, pod });
    }

    /// Changes the spec of the Deployment (merge patch).
    pub fn change(&self, spec: &Value) {
        let name = self.deployment["metadata"]["name"].as_str().unwrap_or_default();
        self.kube.patch("apps/v1", "Deployment", &self.namespace, name, &json!({"spec": spec}));
    }

    /// Returns the name of the Pod that holds the Lease, and how often the Lease has changed hands.
    pub fn lease(&self) -> (String, u64) {
        let lease = self
            .kube
            .find("coordination.k8s.io/v1", "Lease", &self.namespace, LEASE)
            .unwrap_or_default();
        let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
        let pod = holder.split('_').next().unwrap_or_default();

        (pod.to_owned(), lease["spec"]["leaseTransitions"].as_u64().unwrap_or_default())
    }

    /// Returns the index of the replica that holds the Lease, if any does.
    pub fn leader(&self) -> Option<usize> {
        let (holder, _) = self.lease();
        self.all.iter().position(|replica| replica.pod.name == holder)
    }

    /// Waits until a replica holds the Lease, and returns its index.
    pub fn wait_for_leader(&self) -> usize {
        let lease = || format!("the Lease is {:?}", self.lease());
        eventually(Duration::from_secs(20), "a replica leads", || self.leader().ok_or_else(lease))
    }
}

/// The address of the Pod that has `before` Pods before it.
fn address(before: u8) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, 0, 2 + before)
}

/// The Deployment of the zoo in another namespace, with another port for its metrics.
fn deployment(namespace: &str, metrics: u16) -> Value {
    let file = repository("tests/zoo/widget-operator/config/manager/manager.yaml");
    let text = std::fs::read_to_string(&file)
        .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let mut deployment = documents(&text).swap_remove(0);

    assert_eq!(deployment["metadata"]["namespace"], NAMESPACE, "{}", file.display());

    deployment["metadata"]["namespace"] = json!(namespace);
    deployment["spec"]["template"]["spec"]["containers"][0]["ports"][0]["containerPort"] =
        json!(metrics);
    deployment
}

impl Replica {
    /// Kills the process with SIGKILL, without an entry in its Pod's status: see
    /// [`StandInPod::ended`].
    pub fn kill(&mut self) {
        self.operator.process.kill();
    }

    /// Waits until the process ends by itself, and writes that into its Pod's status, as the
    /// kubelet does. The reason is `OOMKilled` for an end by SIGKILL if `oom` is set, else `Error`.
    /// Returns the exit code.
    pub fn wait_end(&mut self, within: Duration, oom: bool) -> i32 {
        let ended = self.operator.process.wait(within);
        let code = ended
            .unwrap_or_else(|| panic!("{} did not end within {within:?}", self.pod.name))
            .code();
        let code = code.unwrap_or_default();
        let reason = if oom && code == 137 { "OOMKilled" } else { "Error" };

        self.pod.ended(reason, code);
        code
    }

    /// Starts the process again after it has ended, and writes that into its Pod's status.
    pub fn restart(&mut self) {
        self.operator.start_again();
        self.pod.restarted();
    }
}
