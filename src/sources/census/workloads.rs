//! The fields of workloads, and of the Pods that a loopwatch of their own serves.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::table::{Metadata, Read, Record, TEXT};
use crate::net::Failure;
use crate::sources::api_server::PodTemplate;
use crate::sources::decoding::or_default;
use crate::sources::operator::PodSpec;

/// A Deployment, StatefulSet, DaemonSet or CronJob.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Workload {
    /// The service account of its Pods, in its namespace.
    pub(super) account: String,
    /// The namespaces that it watches, according to its environment; empty for all.
    pub(super) watched_namespaces: Vec<String>,
    /// Whether its template has a loopwatch container.
    pub(super) has_sidecar: bool,
    /// Whether it is a CronJob, whose Pods run only at times.
    pub(super) is_cron_job: bool,
}

/// A Pod with a loopwatch container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ScrapedPod {
    /// The name of its controller. That of a Deployment's ReplicaSet is the name of the Deployment, and the
    /// hash of the template.
    pub(super) controller: String,
    /// The hash of the template, if the Pod has one.
    pub(super) hash: String,
}

/// A workload, for one view of its Pod template.
#[derive(Default, Deserialize)]
#[serde(default, bound = "T: Default + Deserialize<'de>")]
struct WorkloadDocument<T> {
    metadata: Metadata,
    spec: WorkloadSpec<T>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound = "T: Default + Deserialize<'de>")]
struct WorkloadSpec<T> {
    template: T,
    /// The Jobs of a CronJob.
    job_template: Option<JobTemplate<T>>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound = "T: Default + Deserialize<'de>")]
struct JobTemplate<T> {
    spec: JobSpec<T>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound = "T: Default + Deserialize<'de>")]
struct JobSpec<T> {
    template: T,
}

/// The containers of a Pod template.
#[derive(Default, Deserialize)]
#[serde(default)]
struct ContainersTemplate {
    spec: PodSpec,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PodDocument {
    metadata: PodMetadata,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PodMetadata {
    namespace: String,
    name: String,
    resource_version: String,
    #[serde(deserialize_with = "or_default")]
    labels: BTreeMap<String, String>,
    #[serde(deserialize_with = "or_default")]
    owner_references: Vec<Owner>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Owner {
    name: String,
    controller: Option<bool>,
}

/// The label with the hash of a Deployment's Pod template.
const TEMPLATE_HASH: &str = "pod-template-hash";

impl ScrapedPod {
    /// Whether the Pod belongs to the workload of this name.
    pub(super) fn is_of(&self, workload: &str) -> bool {
        let by_hash = self.controller.strip_suffix(&self.hash).and_then(|it| it.strip_suffix('-'));
        self.controller == workload || (!self.hash.is_empty() && by_hash == Some(workload))
    }
}

impl Record for Workload {
    fn read(object: &[u8]) -> Result<Read<Self>, Failure> {
        let (metadata, template, is_cron_job) = template_of::<PodTemplate>(object)?;
        let (_, containers, _) = template_of::<ContainersTemplate>(object)?;
        let record = Self {
            account: template.account().to_owned(),
            watched_namespaces: template.watched_namespaces(),
            has_sidecar: containers.spec.has_loopwatch(),
            is_cron_job,
        };

        Ok(metadata.read(Some(record)))
    }

    fn weight(&self) -> usize {
        let watched = self.watched_namespaces.iter().map(|name| name.len() + TEXT);
        self.account.len() + watched.sum::<usize>()
    }
}

/// Reads the Pod template of a workload, and whether this is a CronJob.
fn template_of<T: Default + DeserializeOwned>(
    object: &[u8],
) -> Result<(Metadata, T, bool), Failure> {
    let WorkloadDocument { metadata, spec } =
        serde_json::from_slice(object).map_err(|error| Failure::undecodable(&error))?;
    let is_cron_job = spec.job_template.is_some();
    let template = spec.job_template.map_or(spec.template, |jobs| jobs.spec.template);

    Ok((metadata, template, is_cron_job))
}

impl Record for ScrapedPod {
    fn read(object: &[u8]) -> Result<Read<Self>, Failure> {
        let PodDocument { metadata } =
            serde_json::from_slice(object).map_err(|error| Failure::undecodable(&error))?;
        let PodMetadata {
            namespace,
            name,
            resource_version: version,
            mut labels,
            owner_references,
        } = metadata;
        let hash = labels.remove(TEMPLATE_HASH).unwrap_or_default();
        let owner = owner_references.into_iter().find(|owner| owner.controller == Some(true));
        let record = owner.map(|owner| Self { controller: owner.name, hash });

        Ok(Read { name: (namespace, name), version, record })
    }

    fn weight(&self) -> usize {
        self.controller.len() + self.hash.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workload_names_its_account_and_its_sidecar() {
        let read = |spec: &str| {
            let json = format!(
                r#"{{"metadata":{{"namespace":"ops","name":"op","resourceVersion":"7"}},"spec":{{"template":{{"spec":{spec}}}}}}}"#
            );
            let read = Workload::read(json.as_bytes()).expect("a workload");
            assert_eq!((read.name, read.version), (("ops".into(), "op".into()), "7".to_owned()));
            read.record.expect("a record")
        };

        let plain = read(r#"{"containers":[{"name":"manager","image":"x/op:1"}]}"#);
        assert_eq!((plain.account.as_str(), plain.has_sidecar), ("default", false));

        for with in [
            r#"{"serviceAccountName":"op","initContainers":[{"name":"loopwatch","image":"x"}],"containers":[]}"#,
            r#"{"serviceAccountName":"op","containers":[{"name":"x","image":"registry:5000/a/loopwatch:1@sha256:0"}]}"#,
        ] {
            let with = read(with);
            assert_eq!((with.account.as_str(), with.has_sidecar), ("op", true));
        }
    }

    #[test]
    fn a_cron_job_has_the_account_of_its_jobs() {
        let json = r#"{"metadata":{"namespace":"ops","name":"sweep","resourceVersion":"7"},"spec":{"schedule":"* * * * *",
            "jobTemplate":{"spec":{"template":{"spec":{"serviceAccountName":"sweeper","containers":[]}}}}}}"#;
        let record = Workload::read(json.as_bytes()).expect("a workload").record.expect("a record");
        assert_eq!((record.account.as_str(), record.is_cron_job), ("sweeper", true));
    }

    #[test]
    fn a_pod_belongs_to_the_workload_of_its_controller() {
        let pod = |controller: &str, hash: &str| ScrapedPod {
            controller: controller.to_owned(),
            hash: hash.to_owned(),
        };

        assert!(pod("op-5f7c", "5f7c").is_of("op"));
        assert!(pod("op", "").is_of("op"));
        assert!(!pod("op-5f7c", "5f7c").is_of("op-5f7"), "the hash is not a part of the name");
        assert!(!pod("other-5f7c", "5f7c").is_of("op"));
        assert!(!pod("op-5f7c", "").is_of("op"), "an own ReplicaSet, not that of a Deployment");
    }
}
