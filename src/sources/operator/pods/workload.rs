//! Reads the operator's workload: a Deployment, StatefulSet or DaemonSet.

use std::time::Duration;

use loopwatch_model::observation::{MAX_OBJECT_BYTES, OperatorWorkload};
use tokio::time::Instant;

use super::document::{ExpressionDocument, PodMetadata, SelectorDocument, WorkloadDocument};
use crate::net::{Failure, percent_encode};
use crate::sources::api_server::{Cluster, JSON};

/// Reads the operator's workload if the account may do so.
pub(super) struct WorkloadReader {
    cluster: Cluster,
    /// Whether it has existed, although it may be gone by now.
    has_existed: bool,
    /// Its kind and name, once known.
    name: Option<WorkloadName>,
    /// The workload as last read; `None` if unknown.
    workload: Option<Workload>,
    /// When to read the workload again.
    pub(super) due: Instant,
}

/// The kind and name of a workload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct WorkloadName {
    /// Empty if unknown.
    pub(super) kind: String,
    pub(super) name: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Workload {
    pub(super) view: OperatorWorkload,
    /// The label selector of its Pods.
    pub(super) labels: String,
}

/// The kinds of workloads that loopwatch reads, each with its resource.
const KINDS: [(&str, &str); 3] =
    [("Deployment", "deployments"), ("StatefulSet", "statefulsets"), ("DaemonSet", "daemonsets")];

/// The labels with the hash of the Pod template: of a Deployment, and of an Argo Rollout.
const TEMPLATE_HASHES: [(&str, &str); 2] =
    [("pod-template-hash", "Deployment"), ("rollouts-pod-template-hash", "Rollout")];

/// The beginnings of the annotations of tools that scale workloads to zero at night.
const SCHEDULES: [&str; 2] = ["downscaler/", "kube-green.dev/"];

/// The label with the hash of a StatefulSet's or DaemonSet's Pod template.
const CONTROLLER_HASH: &str = "controller-revision-hash";

/// The hash that identifies the Pod template; empty if the Pod has none.
pub(super) fn template_hash(pod: &PodMetadata) -> &str {
    let labels = TEMPLATE_HASHES.iter().map(|(label, _)| *label).chain([CONTROLLER_HASH]);
    labels
        .filter_map(|label| pod.labels.get(label))
        .find(|hash| !hash.is_empty())
        .map_or("", String::as_str)
}

/// Interval between reads of the workload. Changes of Pods reveal most of its changes.
const WORKLOAD_EVERY: Duration = Duration::from_secs(60);
/// Interval between these reads during a rollout.
const WORKLOAD_OFTEN: Duration = Duration::from_secs(5);
/// Time from the change of a Pod to a read of the workload, whose status changes later.
const WORKLOAD_AFTER_CHANGE: Duration = Duration::from_secs(1);
/// Interval between reads that the API server refuses, because each is an entry in the audit log. A
/// review of the permissions may trigger one earlier.
pub(super) const REFUSED_FOR: Duration = Duration::from_secs(600);

impl WorkloadReader {
    pub(super) fn new(cluster: Cluster, has_existed: bool) -> Self {
        Self { cluster, has_existed, name: None, workload: None, due: Instant::now() }
    }

    pub(super) fn name(&self) -> Option<&WorkloadName> {
        self.name.as_ref()
    }

    pub(super) fn view(&self) -> Option<&OperatorWorkload> {
        self.workload.as_ref().map(|workload| &workload.view)
    }

    /// The label selector of its Pods; empty if unknown.
    pub(super) fn labels(&self) -> &str {
        self.workload.as_ref().map_or("", |workload| &workload.labels)
    }

    pub(super) fn set(&mut self, name: WorkloadName) {
        if self.name.as_ref() != Some(&name) {
            (self.name, self.workload, self.due) = (Some(name), None, Instant::now());
        }
    }

    pub(super) fn set_if_unknown(&mut self, name: WorkloadName) {
        if self.name.is_none() {
            self.set(name);
        }
    }

    /// Notes that Pods have changed: the status of the workload will change, too.
    pub(super) fn pods_changed(&mut self) {
        if self.workload.is_some() {
            self.due = self.due.min(Instant::now() + WORKLOAD_AFTER_CHANGE);
        }
    }

    /// Reads the workload if a read is due. Ignores failures: the Pods show whether the API server
    /// works.
    pub(super) async fn read_if_due(&mut self, namespace: &str) {
        if self.due > Instant::now() {
            return;
        }

        let Some(name) = self.name.clone() else {
            self.due = Instant::now() + WORKLOAD_EVERY;
            return;
        };
        let wait = match self.read(namespace, &name).await {
            Ok(Some((kind, workload))) => {
                let wait = if workload.view.rolling { WORKLOAD_OFTEN } else { WORKLOAD_EVERY };
                self.name = Some(WorkloadName { kind: kind.to_owned(), ..name });
                self.workload = Some(workload);
                wait
            }
            Ok(None) => {
                self.note_absence();
                if self.workload.is_some() { WORKLOAD_EVERY } else { REFUSED_FOR }
            }
            Err(failure) if failure.status == Some(403) => {
                self.workload = None;
                REFUSED_FOR
            }
            Err(_) => WORKLOAD_EVERY,
        };

        self.due = Instant::now() + wait;
    }

    /// Notes that the workload is not there. A deleted one should have no Pods.
    fn note_absence(&mut self) {
        if self.has_existed && self.workload.is_none() {
            self.workload = Some(Workload::default());
        }
        if let Some(Workload { view, .. }) = &mut self.workload {
            (view.replicas, view.rolling, view.deleted) = (0, false, true);
        }
    }

    /// The workload and its kind; `None` if loopwatch does not know the kind.
    async fn read(
        &self,
        namespace: &str,
        WorkloadName { kind, name }: &WorkloadName,
    ) -> Result<Option<(&'static str, Workload)>, Failure> {
        for (kind, resource) in
            KINDS.into_iter().filter(|(known, _)| kind.is_empty() || kind == known)
        {
            let path = format!(
                "/apis/apps/v1/namespaces/{}/{resource}/{}",
                percent_encode(namespace),
                percent_encode(name)
            );
            let read = self
                .cluster
                .get_json_within::<WorkloadDocument>(&path, JSON, MAX_OBJECT_BYTES)
                .await;
            match read {
                Ok(document) => return Ok(Some((kind, Workload::new(kind, &document)))),
                Err(failure) if failure.absent_object == *name => {}
                Err(failure) => return Err(failure),
            }
        }

        Ok(None)
    }
}

impl WorkloadName {
    /// The workload of a Pod: that of its ReplicaSet, another controller, or the Pod itself. A
    /// Deployment's ReplicaSet is named after it and the hash of the template, so loopwatch needs
    /// no permission to read ReplicaSets.
    pub(super) fn of_pod(pod: &PodMetadata) -> Self {
        let named = |kind: &str, name: &str| Self { kind: kind.to_owned(), name: name.to_owned() };
        let Some(owner) = pod.owner_references.iter().find(|owner| owner.controller == Some(true))
        else {
            return named("Pod", &pod.name);
        };
        if owner.kind != "ReplicaSet" {
            return named(&owner.kind, &owner.name);
        }

        let owning = TEMPLATE_HASHES.iter().find_map(|(label, kind)| {
            let hash = pod.labels.get(*label).filter(|hash| !hash.is_empty())?;
            let name = owner.name.strip_suffix(hash.as_str())?.strip_suffix('-')?;
            Some(named(kind, name))
        });

        owning.unwrap_or_else(|| named(&owner.kind, &owner.name))
    }

    /// Whether a Pod belongs to this workload.
    pub(super) fn has(&self, pod: &PodMetadata) -> bool {
        let of_pod = Self::of_pod(pod);
        self.name == of_pod.name && (self.kind.is_empty() || self.kind == of_pod.kind)
    }
}

impl Workload {
    pub(super) fn new(kind: &str, document: &WorkloadDocument) -> Self {
        let WorkloadDocument { spec, status, metadata } = document;
        let replicas = match kind {
            "DaemonSet" => status.desired_number_scheduled,
            _ => spec.replicas.unwrap_or(1),
        };

        // The other kinds delete a Pod before they create its replacement.
        let recreates = kind != "Deployment" || spec.strategy.r#type == "Recreate";
        let rolling = is_rolling(kind, replicas, document);
        let scheduled =
            metadata.annotations.keys().any(|key| SCHEDULES.iter().any(|by| key.starts_with(by)));
        let kind = kind.to_owned();
        let deleted = false;
        let view = OperatorWorkload { kind, replicas, recreates, rolling, deleted, scheduled };
        Self { view, labels: selector(&spec.selector) }
    }
}

/// Whether a rollout is in progress. Unavailable Pods do not prove one: the operator may have died.
fn is_rolling(
    kind: &str,
    replicas: u32,
    WorkloadDocument { metadata, spec, status }: &WorkloadDocument,
) -> bool {
    let by_hand = spec.update_strategy.r#type == "OnDelete";
    let outdated = match kind {
        "Deployment" => {
            let progress =
                status.conditions.iter().find(|condition| condition.r#type == "Progressing");

            // The rollout is complete, or the Deployment has given it up.
            let has_ended = progress.is_none_or(|it| {
                ["NewReplicaSetAvailable", "ProgressDeadlineExceeded"].contains(&it.reason.as_str())
            });
            let unavailable = status.available_replicas < replicas && !has_ended;

            status.updated_replicas != replicas
                || status.replicas != status.updated_replicas
                || unavailable
        }
        "DaemonSet" => !by_hand && status.updated_number_scheduled < replicas,
        _ => {
            let kept = spec.update_strategy.rolling_update.partition.unwrap_or(0);
            let updated = by_hand || status.updated_replicas >= replicas.saturating_sub(kept);
            status.replicas != replicas || !updated
        }
    };

    status.observed_generation < metadata.generation || outdated
}

/// Formats a selector as a request parameter.
fn selector(SelectorDocument { match_labels, match_expressions }: &SelectorDocument) -> String {
    let equal = match_labels.iter().map(|(key, value)| format!("{key}={value}"));
    let expression =
        |ExpressionDocument { key, operator, values }: &ExpressionDocument| match operator.as_str()
        {
            "In" => format!("{key} in ({})", values.join(",")),
            "NotIn" => format!("{key} notin ({})", values.join(",")),
            "DoesNotExist" => format!("!{key}"),
            _ => key.clone(),
        };

    equal.chain(match_expressions.iter().map(expression)).collect::<Vec<_>>().join(",")
}
