//! The JSON of Pods and workloads: only the fields that loopwatch reads.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::sources::decoding::or_default;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct PodDocument {
    pub(super) metadata: PodMetadata,
    pub(super) spec: PodSpec,
    pub(super) status: PodStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct PodListDocument {
    #[serde(deserialize_with = "or_default")]
    pub(super) items: Vec<PodDocument>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct PodMetadata {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) resource_version: String,
    pub(super) creation_timestamp: Option<String>,
    pub(super) deletion_timestamp: Option<String>,
    #[serde(deserialize_with = "or_default")]
    pub(super) labels: BTreeMap<String, String>,
    #[serde(deserialize_with = "or_default")]
    pub(super) annotations: BTreeMap<String, String>,
    #[serde(deserialize_with = "or_default")]
    pub(super) owner_references: Vec<OwnerDocument>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct OwnerDocument {
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) controller: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct PodSpec {
    pub(super) host_network: bool,
    #[serde(deserialize_with = "or_default")]
    pub(super) containers: Vec<ContainerDocument>,
    #[serde(deserialize_with = "or_default")]
    pub(super) init_containers: Vec<ContainerDocument>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ContainerDocument {
    pub(super) name: String,
    pub(super) image: String,
    pub(super) restart_policy: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) command: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    pub(super) args: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    pub(super) ports: Vec<PortDocument>,
    #[serde(deserialize_with = "or_default")]
    pub(super) resources: ResourcesDocument,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct PortDocument {
    pub(super) name: String,
    #[serde(deserialize_with = "in_range")]
    pub(super) container_port: u16,
    /// Empty, `TCP`, `UDP` or `SCTP`.
    pub(super) protocol: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ResourcesDocument {
    /// Quantities, as strings.
    #[serde(deserialize_with = "or_default")]
    pub(super) limits: BTreeMap<String, Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct PodStatus {
    pub(super) phase: String,
    pub(super) reason: String,
    #[serde(rename = "podIP")]
    pub(super) pod_ip: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) conditions: Vec<PodCondition>,
    #[serde(deserialize_with = "or_default")]
    pub(super) container_statuses: Vec<ContainerStatus>,
    #[serde(deserialize_with = "or_default")]
    pub(super) init_container_statuses: Vec<ContainerStatus>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct PodCondition {
    #[serde(rename = "type")]
    name: String,
    status: String,
    reason: String,
}

impl PodStatus {
    /// Whether the node of the Pod no longer reports. The node controller then makes the Pod unready and
    /// changes nothing else (`MarkPodsNotReady` of Kubernetes). The kubelet and readiness gates always
    /// name a reason.
    pub(super) fn node_lost(&self) -> bool {
        let condition = |name| self.conditions.iter().find(|condition| condition.name == name);
        let ready = condition("Ready");
        ready.is_some_and(|ready| ready.status == "False" && ready.reason.is_empty())
            && condition("ContainersReady").is_some_and(|containers| containers.status == "True")
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ContainerStatus {
    pub(super) name: String,
    pub(super) ready: bool,
    #[serde(deserialize_with = "in_range")]
    pub(super) restart_count: u32,
    #[serde(rename = "containerID")]
    pub(super) container_id: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) state: ContainerState,
    #[serde(deserialize_with = "or_default")]
    pub(super) last_state: ContainerState,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ContainerState {
    pub(super) running: Option<RunningState>,
    pub(super) waiting: Option<WaitingState>,
    pub(super) terminated: Option<TerminatedState>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct RunningState {
    pub(super) started_at: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct WaitingState {
    pub(super) reason: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct TerminatedState {
    pub(super) reason: String,
    /// What the process left in its termination log, or the end of its log.
    pub(super) message: String,
    pub(super) exit_code: i32,
    pub(super) started_at: Option<String>,
    pub(super) finished_at: Option<String>,
}

/// Reads a number that the API server does not check: one out of range must not hide the whole Pod.
fn in_range<'de, D: Deserializer<'de>, T: TryFrom<i64> + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    let number = Option::<i64>::deserialize(deserializer)?;
    Ok(number.and_then(|number| T::try_from(number).ok()).unwrap_or_default())
}

/// A Deployment, StatefulSet or DaemonSet.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct WorkloadDocument {
    pub(super) metadata: WorkloadMetadata,
    pub(super) spec: WorkloadSpec,
    pub(super) status: WorkloadStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct WorkloadMetadata {
    pub(super) generation: i64,
    #[serde(deserialize_with = "or_default")]
    pub(super) annotations: BTreeMap<String, String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct WorkloadSpec {
    /// Absent for a DaemonSet.
    pub(super) replicas: Option<u32>,
    pub(super) selector: SelectorDocument,
    /// For a Deployment.
    #[serde(deserialize_with = "or_default")]
    pub(super) strategy: StrategyDocument,
    /// For the other kinds.
    #[serde(deserialize_with = "or_default")]
    pub(super) update_strategy: StrategyDocument,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct SelectorDocument {
    #[serde(deserialize_with = "or_default")]
    pub(super) match_labels: BTreeMap<String, String>,
    #[serde(deserialize_with = "or_default")]
    pub(super) match_expressions: Vec<ExpressionDocument>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ExpressionDocument {
    pub(super) key: String,
    pub(super) operator: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) values: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct StrategyDocument {
    pub(super) r#type: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) rolling_update: RollingUpdateDocument,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct RollingUpdateDocument {
    /// For a StatefulSet: Pods with a lower number keep the old template.
    pub(super) partition: Option<u32>,
}

/// Kubernetes omits numbers that are 0.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct WorkloadStatus {
    pub(super) observed_generation: i64,
    pub(super) replicas: u32,
    pub(super) updated_replicas: u32,
    pub(super) available_replicas: u32,
    /// For a Deployment.
    #[serde(deserialize_with = "or_default")]
    pub(super) conditions: Vec<ConditionDocument>,
    /// For a DaemonSet.
    pub(super) desired_number_scheduled: u32,
    pub(super) updated_number_scheduled: u32,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ConditionDocument {
    pub(super) r#type: String,
    pub(super) reason: String,
}
