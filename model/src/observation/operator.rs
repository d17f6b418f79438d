//! The operator itself: its workload, its Pods and their revisions.

use serde::{Deserialize, Serialize};

use super::holders::{is_held_by, pod_of_workload};
use super::omission::is_default;
use crate::instance::InstanceName;
use crate::time::Timestamp;

/// The operator's workload and Pods, as far as the account may read them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct OperatorView {
    /// The namespace of the operator.
    pub namespace: String,
    /// The name of the workload that runs it, for example of its Deployment. Without the permission
    /// to read it, the name of the Pod without the generated parts.
    pub name: String,
    /// The workload; absent if the account may not read it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workload: Option<OperatorWorkload>,
    /// The Pods, ordered by name, at most [`MAX_PODS`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pods: Vec<PodView>,
    /// The number of Pods beyond that limit.
    #[serde(skip_serializing_if = "is_default")]
    pub pods_left_out: u32,
    /// Whether the account may read all Pods. A sidecar may often read only its own.
    pub complete: bool,
}

/// The Deployment or StatefulSet of the operator.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OperatorWorkload {
    /// Its kind.
    pub kind: String,
    /// The number of Pods that it should have.
    pub replicas: u32,
    /// Whether a rollout ends each old Pod before it starts the new one.
    #[serde(skip_serializing_if = "is_default")]
    pub recreates: bool,
    /// Whether a rollout is under way. A finished rollout with unready Pods, or one that was given
    /// up, is not.
    #[serde(skip_serializing_if = "is_default")]
    pub rolling: bool,
    /// Whether it no longer exists.
    #[serde(skip_serializing_if = "is_default")]
    pub deleted: bool,
    /// Whether a schedule scales it to zero, according to its annotations.
    #[serde(skip_serializing_if = "is_default")]
    pub scheduled: bool,
}

/// A Pod of the operator.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PodView {
    /// Name. The namespace is that of the operator.
    pub name: String,
    /// UID.
    pub uid: String,
    /// Whether loopwatch runs in this Pod.
    #[serde(skip_serializing_if = "is_default")]
    pub own: bool,
    /// `metadata.creationTimestamp`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<Timestamp>,
    /// `metadata.deletionTimestamp`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deleted: Option<Timestamp>,
    /// `status.phase`; empty if the account may not read the Pod.
    pub phase: String,
    /// `status.reason`, for example `Evicted`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Whether its node no longer reports, so that its containers are what they were before.
    #[serde(skip_serializing_if = "is_default")]
    pub node_lost: bool,
    /// The revision of the operator.
    pub revision: Revision,
    /// The operator's own containers: neither loopwatch's nor those of a service mesh. The first
    /// one runs the operator.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub containers: Vec<ContainerView>,
    /// Other containers, such as those of a service mesh and init containers that have been
    /// restarted, but not loopwatch's.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub helpers: Vec<ContainerView>,
}

/// A revision of the operator.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
pub struct Revision {
    /// The label `pod-template-hash`, or `controller-revision-hash`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub hash: String,
    /// The label `app.kubernetes.io/version`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// The image of the operator's container.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub image: String,
}

/// A container of the operator.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ContainerView {
    /// Name.
    pub name: String,
    /// Whether it is ready.
    #[serde(skip_serializing_if = "is_default")]
    pub ready: bool,
    /// Since when it has been running; absent if it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running_since: Option<Timestamp>,
    /// Why it is waiting, for example `CrashLoopBackOff`; empty if it is not.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub waiting: String,
    /// How often the kubelet has restarted it.
    pub restarts: u32,
    /// How it last ended; absent if it never did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<ContainerEnd>,
    /// `resources.limits.memory`, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_limit: Option<u64>,
}

/// The end of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ContainerEnd {
    /// For example `OOMKilled` or `Error`.
    pub reason: String,
    /// The exit code.
    pub exit_code: i32,
    /// The message that it left, at most [`MAX_END_MESSAGE`] bytes of it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// When it had started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started: Option<Timestamp>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished: Option<Timestamp>,
}

/// The maximum length of the message of a [`ContainerEnd`], in bytes.
pub const MAX_END_MESSAGE: usize = 200;

/// The maximum number of Pods in an [`OperatorView`].
pub const MAX_PODS: usize = 50;

/// The longest name of a host. The kubelet cuts longer names of Pods.
const MAX_HOST_NAME: usize = 63;

impl OperatorView {
    /// Returns the name of the operator's Pod that holds a lease; `None` if the holder is no Pod of
    /// the operator. A Pod that is gone is recognized by the form of its name.
    #[must_use]
    pub fn pod_of_holder<'a>(&'a self, holder: &'a str) -> Option<&'a str> {
        let named = |name: &str| match name.get(..MAX_HOST_NAME) {
            Some(cut) => is_held_by(holder, name) || is_held_by(holder, cut),
            None => is_held_by(holder, name),
        };
        let known = self.pods.iter().map(|pod| pod.name.as_str()).filter(|name| named(name));

        known.max_by_key(|name| name.len()).or_else(|| pod_of_workload(holder, &self.name))
    }

    /// Returns the Pod of an instance, if it is among these Pods.
    #[must_use]
    pub fn pod_of(&self, instance: InstanceName<'_>) -> Option<&PodView> {
        let (namespace, name) = instance.pod()?;
        self.pods.iter().find(|pod| namespace == self.namespace && pod.name == name)
    }

    /// Returns whether an instance may still be running: not if its Pod is gone.
    #[must_use]
    pub fn may_run(&self, instance: InstanceName<'_>) -> bool {
        let is_own = instance.pod().is_some_and(|(namespace, _)| namespace == self.namespace);
        !self.complete || !is_own || self.pod_of(instance).is_some()
    }
}

impl Revision {
    /// Returns the value of the `operator_revision` label: the hash, or else the version or the
    /// image; empty if none is known.
    #[must_use]
    pub fn label(&self) -> &str {
        [&self.hash, &self.version, &self.image]
            .into_iter()
            .find(|part| !part.is_empty())
            .map_or("", String::as_str)
    }
}
