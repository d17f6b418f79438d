//! The operator's Deployment or StatefulSet: its service account and the namespaces that it
//! watches.

use std::collections::BTreeMap;

use serde::Deserialize;

/// The fields of a Deployment or StatefulSet that loopwatch reads.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Workload {
    pub(super) spec: WorkloadSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct WorkloadSpec {
    pub(super) template: PodTemplate,
}

/// The template of its Pods.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PodTemplate {
    metadata: PodTemplateMetadata,
    spec: PodSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PodTemplateMetadata {
    annotations: BTreeMap<String, String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PodSpec {
    service_account_name: String,
    containers: Vec<Container>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Container {
    env: Vec<EnvVariable>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct EnvVariable {
    name: String,
    value: String,
}

/// Environment variables that list the namespaces to watch. Most frameworks use the first.
const VARIABLES: [&str; 3] = ["WATCH_NAMESPACE", "WATCH_NAMESPACES", "NAMESPACES"];
/// The longest name of a namespace.
const MAX_NAME: usize = 63;
/// Limit on the namespaces in such a list. Each of them is a watch for each kind.
const MAX_NAMESPACES: usize = 100;
/// Annotation of the Operator Lifecycle Manager that lists the namespaces to watch.
const ANNOTATION: &str = "olm.targetNamespaces";

impl PodTemplate {
    /// The service account of the Pods.
    pub(crate) fn account(&self) -> &str {
        match self.spec.service_account_name.as_str() {
            "" => "default",
            account => account,
        }
    }

    /// The namespaces that the operator watches. Empty if it watches all, or names none or too many.
    pub(crate) fn watched_namespaces(&self) -> Vec<String> {
        let variables = self.spec.containers.iter().flat_map(|container| &container.env);
        let said = variables
            .filter(|variable| VARIABLES.contains(&variable.name.as_str()))
            .map(|v| v.value.as_str());
        let annotated = self.metadata.annotations.get(ANNOTATION).map(String::as_str);
        let mut watched_namespaces: Vec<String> = said
            .chain(annotated)
            .flat_map(|list| list.split(','))
            .map(|name| name.trim().to_owned())
            .collect();

        let is_name = |name: &str| {
            (1..=MAX_NAME).contains(&name.len())
                && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
        };
        watched_namespaces.retain(|name| is_name(name));
        watched_namespaces.sort();
        watched_namespaces.dedup();

        // Nobody watches that many one by one. The permissions of the account then decide.
        if watched_namespaces.len() > MAX_NAMESPACES {
            watched_namespaces.clear();
        }
        watched_namespaces
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deployment_names_its_account_and_namespaces() {
        let read =
            |json: &str| serde_json::from_str::<Workload>(json).expect("a workload").spec.template;
        let plain = read(r#"{"spec":{"template":{"spec":{"containers":[{"image":"x"}]}}}}"#);

        assert_eq!((plain.account(), plain.watched_namespaces()), ("default", vec![]));

        let told = read(
            r#"{"spec":{"template":{"metadata":{"annotations":{"olm.targetNamespaces":"b"}},
                "spec":{"serviceAccountName":"m","containers":[{"env":[{"name":"WATCH_NAMESPACE","value":"b, a,"},
                {"name":"POD","valueFrom":{}}]}]}}}}"#,
        );

        assert_eq!(
            (told.account(), told.watched_namespaces()),
            ("m", vec!["a".to_owned(), "b".to_owned()])
        );
    }
}
