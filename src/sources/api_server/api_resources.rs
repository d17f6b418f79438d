//! The kinds that the API server serves, from aggregated discovery or, on older servers, from one
//! request per group and version.

use std::collections::{BTreeMap, BTreeSet};

use http::HeaderValue;
use loopwatch_model::observation::names_kind;
use serde::Deserialize;

pub(crate) mod fuzzing;

use super::collections::collection;
use super::connection::{Cluster, JSON};
use crate::net::Failure;
use crate::sources::decoding::{ObjectMetadata, or_default};

/// All kinds that the API server serves, each in its preferred version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ApiResources {
    kinds: BTreeMap<Kind, ApiKind>,
    /// Groups whose API server did not respond, so that their kinds are unknown now.
    unknown: BTreeSet<String>,
    /// The ETag of the response.
    tag: Option<HeaderValue>,
}

/// The group and the plural name of a kind.
pub(crate) type Kind = (String, String);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ApiKind {
    pub(crate) group: String,
    pub(crate) version: String,
    /// All served versions, in order of preference.
    pub(crate) versions: Vec<String>,
    pub(crate) kind: String,
    /// The plural resource name.
    pub(crate) resource: String,
    /// The singular resource name; empty if the API server omits it.
    pub(crate) singular: String,
    pub(crate) short_names: Vec<String>,
    pub(crate) namespaced: bool,
    /// Whether the API supports list and watch.
    pub(crate) watchable: bool,
    /// Whether the API supports delete.
    pub(crate) deletable: bool,
    /// Whether the kind has a status subresource.
    pub(crate) has_status: bool,
}

/// Any of the responses to `/api`, `/apis` and `/apis/GROUP/VERSION`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct DiscoveryDocument {
    kind: String,
    #[serde(deserialize_with = "or_default")]
    items: Vec<AggregatedGroup>,
    #[serde(deserialize_with = "or_default")]
    groups: Vec<ApiGroupDocument>,
    #[serde(deserialize_with = "or_default")]
    versions: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    resources: Vec<ApiResourceDocument>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct AggregatedGroup {
    metadata: ObjectMetadata,
    #[serde(deserialize_with = "or_default")]
    versions: Vec<AggregatedVersion>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct AggregatedVersion {
    version: String,
    #[serde(deserialize_with = "or_default")]
    resources: Vec<AggregatedResource>,
    /// `Current` or `Stale`.
    freshness: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct AggregatedResource {
    resource: String,
    response_kind: Option<ResponseKind>,
    scope: String,
    singular_resource: String,
    #[serde(deserialize_with = "or_default")]
    short_names: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    verbs: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    subresources: Vec<Subresource>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ResponseKind {
    kind: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Subresource {
    subresource: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ApiGroupDocument {
    name: String,
    #[serde(deserialize_with = "or_default")]
    versions: Vec<GroupVersionDocument>,
    preferred_version: GroupVersionDocument,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct GroupVersionDocument {
    version: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ApiResourceDocument {
    /// `widgets` or `widgets/status`.
    name: String,
    kind: String,
    singular_name: String,
    #[serde(deserialize_with = "or_default")]
    short_names: Vec<String>,
    namespaced: bool,
    #[serde(deserialize_with = "or_default")]
    verbs: Vec<String>,
}

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
                          application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";

/// Groups of Kubernetes itself. An operator never owns their kinds, even if it may write them.
const BUILT_IN: &[&str] = &[
    "",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "apps",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "coordination.k8s.io",
    "custom.metrics.k8s.io",
    "discovery.k8s.io",
    "events.k8s.io",
    "extensions",
    "external.metrics.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "internal.apiserver.k8s.io",
    "metrics.k8s.io",
    "networking.k8s.io",
    "node.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "resource.k8s.io",
    "scheduling.k8s.io",
    "storage.k8s.io",
    "storagemigration.k8s.io",
];

/// The longest group, and the longest other name, in bytes.
const MAX_DOMAIN: usize = 253;
const MAX_LABEL: usize = 63;

/// Maximum number of versions of a kind to keep.
const MAX_VERSIONS: usize = 32;

impl ApiResources {
    /// Reads all kinds: two requests, or one per group and version from an old API server.
    pub(crate) async fn read(cluster: &Cluster) -> Result<Self, Failure> {
        let mut api_resources = Self::default();
        let core: DiscoveryDocument = cluster.get_json("/api", AGGREGATED).await?;
        if core.kind == "APIGroupDiscoveryList" {
            api_resources.add_aggregated(core);
        } else {
            for version in core.versions {
                api_resources.add_version(cluster, "", &version).await?;
            }
        }

        let (groups, tag) = cluster.get_tagged::<DiscoveryDocument>("/apis", AGGREGATED).await?;
        api_resources.tag = tag;
        if groups.kind == "APIGroupDiscoveryList" {
            api_resources.add_aggregated(groups);
            return Ok(api_resources);
        }

        for group in groups.groups {
            let ApiGroupDocument { name, versions, preferred_version } = group;
            let others = versions.into_iter().filter(|v| v.version != preferred_version.version);
            for version in std::iter::once(preferred_version.clone()).chain(others) {
                api_resources.add_version(cluster, &name, &version.version).await?;
            }
        }

        Ok(api_resources)
    }

    /// Whether the served kinds have changed. The check is cheap with ETags; without them, it
    /// always returns false.
    pub(crate) async fn is_outdated(&self, cluster: &Cluster) -> Result<bool, Failure> {
        Ok(self.tag.is_some() && !self.has_current_tag(cluster).await?)
    }

    /// Whether these are certainly the served kinds.
    pub(crate) async fn is_current(&self, cluster: &Cluster) -> Result<bool, Failure> {
        Ok(self.unknown.is_empty() && self.has_current_tag(cluster).await?)
    }

    /// Whether reading the kinds again would certainly give the same result, even if groups are
    /// missing in it.
    pub(crate) async fn has_current_tag(&self, cluster: &Cluster) -> Result<bool, Failure> {
        match &self.tag {
            Some(tag) => cluster.is_unchanged("/apis", AGGREGATED, tag).await,
            None => Ok(false),
        }
    }

    /// All kinds, by group and resource.
    pub(crate) fn kinds(&self) -> impl Iterator<Item = &ApiKind> {
        self.kinds.values()
    }

    /// The kind of this group and plural resource.
    pub(crate) fn get(&self, group: &str, resource: &str) -> Option<&ApiKind> {
        self.kinds.get(&(group.to_owned(), resource.to_owned()))
    }

    /// The groups whose API server did not respond.
    pub(crate) fn unknown(&self) -> impl Iterator<Item = &String> {
        self.unknown.iter()
    }

    /// Whether the API server sends an ETag, which shows when the kinds change.
    pub(crate) fn has_tag(&self) -> bool {
        self.tag.is_some()
    }

    /// The kind of this group and name, which may be in lower case, as in an owner reference. If
    /// several resources have the kind, one that can be watched.
    pub(crate) fn find_kind(&self, group: &str, kind: &str) -> Option<&ApiKind> {
        let first = (group.to_owned(), String::new());
        let in_group = self
            .kinds
            .range(first..)
            .map(|(_, known)| known)
            .take_while(|known| known.group == group);

        in_group.filter(|known| names_kind(kind, &known.kind)).max_by_key(|known| known.watchable)
    }

    /// Whether the API server of any group did not respond.
    pub(crate) fn has_unknown_groups(&self) -> bool {
        !self.unknown.is_empty()
    }

    /// Whether the API server of this group did not respond.
    pub(crate) fn is_unknown(&self, group: &str) -> bool {
        self.unknown.contains(group)
    }

    fn add_aggregated(&mut self, document: DiscoveryDocument) {
        for AggregatedGroup { metadata: ObjectMetadata { name: group, .. }, versions } in
            document.items
        {
            for AggregatedVersion { version, resources, freshness } in versions {
                if !has_valid_lengths(&group, &version) {
                    continue;
                }

                if freshness == "Stale" {
                    self.unknown.insert(group.clone());
                }
                for resource in resources {
                    let AggregatedResource { response_kind, scope, verbs, subresources, .. } =
                        resource;
                    self.add(ApiKind {
                        group: group.clone(),
                        version: version.clone(),
                        versions: vec![version.clone()],
                        kind: response_kind.unwrap_or_default().kind,
                        resource: resource.resource,
                        singular: resource.singular_resource,
                        short_names: resource.short_names,
                        namespaced: scope == "Namespaced",
                        watchable: supports(&verbs, &["list", "watch"]),
                        deletable: supports(&verbs, &["delete"]),
                        has_status: subresources.iter().any(|sub| sub.subresource == "status"),
                    });
                }
            }
        }
    }

    /// Adds one group and version from an API server without aggregated discovery. A failing group
    /// affects no other.
    async fn add_version(
        &mut self,
        cluster: &Cluster,
        group: &str,
        version: &str,
    ) -> Result<(), Failure> {
        let path = if group.is_empty() {
            format!("/api/{version}")
        } else {
            format!("/apis/{group}/{version}")
        };
        let document: DiscoveryDocument = match cluster.get_json(&path, JSON).await {
            Ok(document) => document,
            Err(failure) if failure.status.is_some() => {
                self.unknown.insert(group.to_owned());
                return Ok(());
            }
            Err(failure) => return Err(failure),
        };

        self.add_resources(group, version, &document);
        Ok(())
    }

    /// Adds the kinds of one group and version.
    fn add_resources(&mut self, group: &str, version: &str, document: &DiscoveryDocument) {
        if !has_valid_lengths(group, version) {
            return;
        }

        let with_status: BTreeSet<&str> =
            document.resources.iter().filter_map(|r| r.name.strip_suffix("/status")).collect();
        for ApiResourceDocument { name, kind, singular_name, short_names, namespaced, verbs } in
            &document.resources
        {
            if name.contains('/') {
                continue;
            }
            self.add(ApiKind {
                group: group.to_owned(),
                version: version.to_owned(),
                versions: vec![version.to_owned()],
                kind: kind.clone(),
                resource: name.clone(),
                singular: singular_name.clone(),
                short_names: short_names.clone(),
                namespaced: *namespaced,
                watchable: supports(verbs, &["list", "watch"]),
                deletable: supports(verbs, &["delete"]),
                has_status: with_status.contains(name.as_str()),
            });
        }
    }

    /// Adds a kind. Versions come in order of preference, so the first watchable one stays.
    fn add(&mut self, kind: ApiKind) {
        if !kind.is_valid() {
            return;
        }

        let Some(known) = self.kinds.get_mut(&kind.id()) else {
            self.kinds.insert(kind.id(), kind);
            return;
        };
        let mut versions = std::mem::take(&mut known.versions);

        if versions.len() < MAX_VERSIONS && !versions.contains(&kind.version) {
            versions.push(kind.version.clone());
        }

        if !known.watchable && kind.watchable {
            *known = kind;
        }

        known.versions = versions;
    }
}

#[cfg(test)]
impl FromIterator<ApiKind> for ApiResources {
    fn from_iter<I: IntoIterator<Item = ApiKind>>(kinds: I) -> Self {
        let mut api_resources = Self::default();
        kinds.into_iter().for_each(|kind| api_resources.add(kind));
        api_resources
    }
}

impl ApiKind {
    pub(crate) fn id(&self) -> Kind {
        (self.group.clone(), self.resource.clone())
    }

    /// Whether its names have the lengths that Kubernetes allows.
    fn is_valid(&self) -> bool {
        let names = [&self.kind, &self.resource, &self.singular];
        !self.resource.is_empty() && names.iter().all(|name| name.len() <= MAX_LABEL)
    }

    /// The path of all objects, or of those in one namespace.
    pub(crate) fn collection(&self, namespace: Option<&str>) -> String {
        collection(&self.group, &self.version, &self.resource, namespace)
    }

    /// Whether the kind is part of Kubernetes.
    pub(crate) fn is_built_in(&self) -> bool {
        BUILT_IN.contains(&self.group.as_str())
    }

    pub(crate) fn is_secret(&self) -> bool {
        self.group.is_empty() && self.resource == "secrets"
    }
}

impl std::fmt::Display for ApiKind {
    /// Formats the kind as `--watch` takes it: `example.io/Widget`, `Pod`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let slash = if self.group.is_empty() { "" } else { "/" };
        write!(f, "{}{slash}{}", self.group, self.kind)
    }
}

/// Whether a group and a version have the lengths that Kubernetes allows (RFC 1123). Those of an aggregated API
/// server are not validated, and each of its kinds has a copy of both.
fn has_valid_lengths(group: &str, version: &str) -> bool {
    group.len() <= MAX_DOMAIN && version.len() <= MAX_LABEL
}

fn supports(verbs: &[String], needed: &[&str]) -> bool {
    needed.iter().all(|needed| verbs.iter().any(|verb| verb == needed))
}

#[cfg(test)]
mod tests {
    use loopwatch_testbed::standin::{Reply, Script};

    use super::*;
    use crate::sources::testing::InProcess as _;

    async fn kinds(documents: &[&str]) -> Vec<String> {
        let replies =
            documents.iter().map(|document| Reply::Response(200, vec![], (*document).to_owned()));
        let api_resources = ApiResources::read(&Script::new(replies).cluster()).await;
        api_resources.expect("readable").kinds().map(ToString::to_string).collect()
    }

    #[tokio::test]
    async fn null_is_an_empty_list() {
        let core = r#"{"kind":"APIGroupDiscoveryList","items":null}"#;
        let groups = r#"{"kind":"APIGroupDiscoveryList","items":[
            {"metadata":{"name":"b.io"},"versions":null},
            {"metadata":{"name":"c.io"},"versions":[{"version":"v1","resources":null}]},
            {"metadata":{"name":"a.io"},"versions":[{"version":"v1","resources":[{"resource":"ws",
                "responseKind":{"kind":"W"},"verbs":null,"subresources":null}]}]}]}"#;

        assert_eq!(kinds(&[core, groups]).await, ["a.io/W"]);

        let (core, groups) = (
            r#"{"versions":null}"#,
            r#"{"groups":[{"name":"a.io","preferredVersion":{"version":"v1"},
            "versions":null},{"name":"b.io","preferredVersion":{"version":"v1"}}]}"#,
        );
        let (empty, one) =
            (r#"{"resources":null}"#, r#"{"resources":[{"name":"ws","kind":"W","verbs":null}]}"#);

        assert_eq!(kinds(&[core, groups, one, empty]).await, ["a.io/W"]);
    }

    #[tokio::test]
    async fn what_an_aggregated_api_server_repeats_is_kept_once() {
        let version = |name: &str, resources: &str| {
            format!(r#"{{"version":"{name}","resources":[{resources}]}}"#)
        };
        let long = "v".repeat(MAX_LABEL + 1);
        let ws = r#"{"resource":"ws","responseKind":{"kind":"W"}}"#;
        let versions =
            [version("v1", &[ws, ws, "{}", ws].join(",")), version("v2", ws), version(&long, ws)];
        let groups = format!(
            r#"{{"kind":"APIGroupDiscoveryList","items":[{{"metadata":{{"name":"a.io"}},"versions":[{}]}}]}}"#,
            versions.join(",")
        );
        let core = r#"{"kind":"APIGroupDiscoveryList","items":[]}"#;
        let replies = [core, &groups].map(|text| Reply::Response(200, vec![], text.to_owned()));
        let read = ApiResources::read(&Script::new(replies).cluster()).await.expect("readable");

        let versions: Vec<_> = read.kinds().map(|kind| kind.versions.clone()).collect();
        assert_eq!(versions, [["v1", "v2"]]);
    }
}
