//! The kinds that the Operator Lifecycle Manager (OLM) says are an operator's. Its ClusterServiceVersions
//! name the custom resource definitions that an operator owns, and the Deployments that it consists of.

use std::collections::BTreeSet;
use std::time::Duration;

use loopwatch_model::observation::Cause;
use serde::Deserialize;

use crate::net::Failure;
use crate::sources::api_server::api_resources::{ApiKind, Kind};
use crate::sources::api_server::connection::{Cluster, JSON};
use crate::sources::decoding::or_default;

/// The group and the resource of ClusterServiceVersions.
pub(crate) const CLUSTER_SERVICE_VERSIONS: (&str, &str) =
    ("operators.coreos.com", "clusterserviceversions");

#[derive(Deserialize)]
struct VersionList {
    #[serde(default, deserialize_with = "or_default")]
    items: Vec<VersionItem>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct VersionItem {
    #[serde(deserialize_with = "or_default")]
    spec: VersionSpec,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct VersionSpec {
    #[serde(rename = "customresourcedefinitions", deserialize_with = "or_default")]
    definitions: Definitions,
    #[serde(deserialize_with = "or_default")]
    install: Install,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Definitions {
    #[serde(deserialize_with = "or_default")]
    owned: Vec<Named>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Install {
    #[serde(deserialize_with = "or_default")]
    spec: InstallSpec,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct InstallSpec {
    #[serde(deserialize_with = "or_default")]
    deployments: Vec<Named>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Named {
    #[serde(deserialize_with = "or_default")]
    name: String,
}

/// Limit on ClusterServiceVersions to read from the namespace of an operator.
const MOST: usize = 20;

/// Limit on the bytes of all of them. Each contains an icon and examples.
const LARGEST: usize = 4 << 20;

/// The wait before the only other attempt.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// OLM copies those of operators that watch all namespaces into each namespace.
const ORIGINALS: &str = "%21olm.copiedFrom";

/// Reads the kinds that ClusterServiceVersions in the namespace of an operator declare as those of its
/// Deployment. If they cannot be read, there are none.
pub(super) async fn read(cluster: &Cluster, versions: &ApiKind) -> Result<BTreeSet<Kind>, Failure> {
    let Some(workload) = cluster.workload() else { return Ok(BTreeSet::new()) };
    let collection = versions.collection(Some(cluster.namespace()));
    let path = format!("{collection}?limit={MOST}&labelSelector={ORIGINALS}");

    let mut read = cluster.get_json_within::<VersionList>(&path, JSON, LARGEST).await;
    if matches!(&read, Err(failure) if failure.cause == Cause::Throttled) {
        // An API server answers so while it prepares to serve a new kind.
        tokio::time::sleep(AGAIN_AFTER).await;
        read = cluster.get_json_within(&path, JSON, LARGEST).await;
    }

    match read {
        Ok(list) => Ok(declared(&list, workload)),
        Err(failure) if failure.status.is_some() => Ok(BTreeSet::new()),
        Err(failure) if matches!(failure.cause, Cause::TooLarge | Cause::Undecodable) => {
            Ok(BTreeSet::new())
        }
        Err(failure) => Err(failure),
    }
}

fn declared(list: &VersionList, workload: &str) -> BTreeSet<Kind> {
    let is_of_workload = |item: &&VersionItem| {
        item.spec.install.spec.deployments.iter().any(|deployment| deployment.name == workload)
    };
    let owned = list.items.iter().filter(is_of_workload).flat_map(|it| &it.spec.definitions.owned);

    // The name of a definition is the plural, a dot and the group.
    let kind = |definition: &Named| {
        definition.name.split_once('.').map(|(plural, group)| (group.to_owned(), plural.to_owned()))
    };
    owned.filter_map(kind).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_version_with_the_deployment_declares_its_kinds() {
        let list = r#"{"items":[
            {"spec":{"customresourcedefinitions":{"owned":[{"name":"widgets.example.io","kind":"Widget"},{"name":"odd"},{}],
                "required":[{"name":"others.example.io"}]},
                "install":{"strategy":"deployment","spec":{"deployments":[{"name":"op"},{"name":"webhook"}]}}}},
            {"spec":{"customresourcedefinitions":{"owned":[{"name":"gadgets.example.io"}]},
                "install":{"spec":{"deployments":[{"name":"other"}]}}}},
            {"spec":{"customresourcedefinitions":null,"install":null}},
            {}]}"#;
        let list: VersionList = serde_json::from_str(list).expect("a list");

        let widgets = ("example.io".to_owned(), "widgets".to_owned());
        assert_eq!(declared(&list, "op"), BTreeSet::from([widgets]));
        assert_eq!(declared(&list, "nobody"), BTreeSet::new());
    }
}
