//! Pods that stand for processes. No kubelet runs in the test bed, so these Pods have no node, and
//! the test bed writes their statuses as a kubelet would.

use std::net::Ipv4Addr;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::kube::{Kube, path};
use super::wait::eventually;

/// The scheduler of these Pods. It does not exist, so that no Pod gets a node, whose fake kubelet
/// would write statuses.
pub const SCHEDULER: &str = "testbed";

/// The finalizer that keeps a deleted Pod until the test ends it. Without a node, it would be gone
/// at once.
const HELD: &str = "testbed.loopwatch.dev/held";

/// A Pod that stands for a process. The test says what happens to the process.
pub struct StandInPod {
    kube: Kube,
    namespace: String,
    /// Its name.
    pub name: String,
    /// Its address.
    pub address: Ipv4Addr,
    container: Value,
    ready: bool,
    restarts: u32,
    started: Timestamp,
    /// `state` and `lastState` of its container.
    states: [Value; 2],
}

/// Applies a Deployment of an operator, and waits for its Pods. They get these addresses, and all
/// run.
pub fn deploy(kube: &Kube, deployment: &Value, addresses: &[Ipv4Addr]) -> Vec<StandInPod> {
    let namespace = deployment["metadata"]["namespace"].as_str().unwrap_or_default();
    let mut deployment = deployment.clone();
    deployment["spec"]["replicas"] = json!(addresses.len());
    deployment["spec"]["template"]["spec"]["schedulerName"] = json!(SCHEDULER);

    let labels = deployment["spec"]["selector"]["matchLabels"].clone();
    kube.apply(&deployment);

    let pods = eventually(Duration::from_secs(30), "the Deployment has its Pods", || {
        let mut pods = kube.try_list("v1", "Pod", namespace)?;
        pods.retain(|pod| is_selected(pod, &labels));
        if pods.len() == addresses.len() { Ok(pods) } else { Err(format!("{} Pods", pods.len())) }
    });

    pods.iter().zip(addresses).map(|(pod, address)| StandInPod::run(kube, pod, *address)).collect()
}

/// Deploys an operator of the zoo in a namespace, with the name of its account and one Pod, whose
/// container may have a port for metrics.
pub fn deploy_for(
    kube: &Kube,
    namespace: &str,
    account: &str,
    address: Ipv4Addr,
    metrics: Option<u16>,
) -> StandInPod {
    let labels = json!({"app": account});
    let ports: Vec<Value> =
        metrics.iter().map(|port| json!({"name": "metrics", "containerPort": port})).collect();
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": account, "namespace": namespace}, "spec": {
            "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": {
                "serviceAccountName": account,
                "containers": [{"name": "operator", "image": format!("registry.example.com/{account}:v1"),
                    "ports": ports}]}}}});

    deploy(kube, &deployment, &[address]).swap_remove(0)
}

/// Waits for a Pod of a Deployment that does not run yet, such as one of a rollout, and lets it
/// run.
pub fn run_next(kube: &Kube, deployment: &Value, address: Ipv4Addr) -> StandInPod {
    let namespace = deployment["metadata"]["namespace"].as_str().unwrap_or_default();
    let labels = &deployment["spec"]["selector"]["matchLabels"];
    let pod = eventually(Duration::from_secs(30), "the Deployment has another Pod", || {
        let pods = kube.try_list("v1", "Pod", namespace)?;
        let is_new = |pod: &&Value| is_selected(pod, labels) && pod["status"]["podIP"].is_null();
        pods.iter()
            .filter(is_new)
            .find(|pod| pod["metadata"]["deletionTimestamp"].is_null())
            .cloned()
            .ok_or_else(|| "none".to_owned())
    });

    StandInPod::run(kube, &pod, address)
}

/// Whether a Pod has all these labels.
fn is_selected(pod: &Value, labels: &Value) -> bool {
    let fits = |(key, value): (&String, &Value)| pod["metadata"]["labels"][key] == *value;
    labels.as_object().is_some_and(|labels| labels.iter().all(fits))
}

impl StandInPod {
    /// Lets a Pod without a node run.
    fn run(kube: &Kube, pod: &Value, address: Ipv4Addr) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let started = Timestamp::now();
        let stand_in = Self {
            kube: kube.clone(),
            namespace: text(&pod["metadata"]["namespace"]),
            name: text(&pod["metadata"]["name"]),
            address,
            container: pod["spec"]["containers"][0].clone(),
            ready: true,
            restarts: 0,
            started,
            states: [json!({"running": {"startedAt": seconds(started)}}), json!({})],
        };

        let held = json!({"metadata": {"finalizers": [HELD]}});
        kube.patch("v1", "Pod", &stand_in.namespace, &stand_in.name, &held);
        stand_in.write();
        stand_in
    }

    /// Sets whether its container is ready, as a readiness probe would.
    pub fn set_ready(&mut self, ready: bool) {
        self.ready = ready;
        self.write();
    }

    /// Records that its container has ended: with `OOMKilled` and 137, or with `Error` and another
    /// code.
    pub fn ended(&mut self, reason: &str, code: i32) {
        let [started, finished] = [self.started, Timestamp::now()].map(seconds);
        let end = json!({"exitCode": code, "reason": reason, "startedAt": started, "finishedAt": finished,
            "containerID": self.container_id()});
        self.ready = false;
        self.states[0] = json!({"terminated": end});
        self.write();
    }

    /// Records that the kubelet waits before it starts the container again.
    pub fn backs_off(&mut self) {
        self.remember_end();
        let message = format!("back-off restarting failed container {}", self.container["name"]);
        self.states[0] = json!({"waiting": {"reason": "CrashLoopBackOff", "message": message}});
        self.write();
    }

    /// Records that the kubelet has started the container again.
    pub fn restarted(&mut self) {
        self.remember_end();
        self.restarts += 1;
        (self.started, self.ready) = (Timestamp::now(), true);
        self.states[0] = json!({"running": {"startedAt": seconds(self.started)}});
        self.write();
    }

    /// Begins its deletion, as a rollout does. The Pod stays until [`StandInPod::remove`].
    pub fn terminate(&self) {
        self.kube.delete("v1", "Pod", &self.namespace, &self.name);
    }

    /// Removes it. Its ReplicaSet may create another one.
    pub fn remove(self) {
        self.kube.patch(
            "v1",
            "Pod",
            &self.namespace,
            &self.name,
            &json!({"metadata": {"finalizers": null}}),
        );
        self.kube.delete("v1", "Pod", &self.namespace, &self.name);
    }

    /// Returns how often its container has been started again.
    pub fn restarts(&self) -> u32 {
        self.restarts
    }

    fn remember_end(&mut self) {
        if !self.states[0]["terminated"].is_null() {
            self.states[1] = self.states[0].take();
        }
    }

    fn container_id(&self) -> String {
        format!("testbed://{}-{}", self.name, self.restarts)
    }

    /// Writes its status as a kubelet does.
    fn write(&self) {
        let now = seconds(Timestamp::now());
        let condition = |kind: &str, is: bool| {
            let status = if is { "True" } else { "False" };
            json!({"type": kind, "status": status, "lastTransitionTime": now})
        };
        let [state, last] = &self.states;
        let status = json!({
            "phase": "Running",
            "startTime": seconds(self.started),
            "hostIP": self.address,
            "podIP": self.address,
            "podIPs": [{"ip": self.address}],
            "conditions": [condition("PodScheduled", true), condition("Initialized", true),
                condition("ContainersReady", self.ready), condition("Ready", self.ready)],
            "containerStatuses": [{
                "name": self.container["name"],
                "image": self.container["image"],
                "imageID": "",
                "containerID": self.container_id(),
                "ready": self.ready,
                "started": self.ready,
                "restartCount": self.restarts,
                "state": state,
                "lastState": last,
            }],
        });

        let target = format!("{}/status", path("v1", "Pod", &self.namespace, &self.name));
        let patch = json!({"status": status});
        let answer = self.kube.call("PATCH", &target, "application/merge-patch+json", Some(&patch));
        answer.unwrap_or_else(|error| panic!("{error}"));
    }
}

/// The API server stores times without fractions.
fn seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
