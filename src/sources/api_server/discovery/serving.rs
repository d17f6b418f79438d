//! Finds the kinds that an operator with all permissions serves, by the signs that it leaves: its
//! field managers in statuses and finalizers, and the domain in the name of its leader election
//! lease.

use std::collections::BTreeSet;

use futures::FutureExt as _;
use loopwatch_model::observation::ObjectView;
use serde::Deserialize;

use super::reviews::concurrently;
use super::sample::Sample;
use crate::net::{Failure, percent_encode};
use crate::sources::api_server::api_resources::{ApiKind, Kind};
use crate::sources::api_server::connection::{Cluster, JSON};
use crate::sources::decoding::{HashKey, or_default};

/// The signs of the operator, and the kinds that have shown one.
#[derive(Debug, Default)]
pub(super) struct Serving {
    signs: Signs,
    /// Kinds (group and resource) that have shown a sign. They are never removed, because a sign
    /// disappears only with the objects that bear it.
    served: BTreeSet<Kind>,
}

/// What an operator leaves behind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Signs {
    managers: BTreeSet<String>,
    domains: BTreeSet<String>,
}

/// How clearly an operator shows as the owner of a kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Clarity {
    #[default]
    None,
    /// A writer has a name that begins like the operator's, with as many characters.
    Similar(usize),
    /// A ClusterServiceVersion declares the kind to be the operator's.
    Declared,
    /// A writer of a status, or the group of the kind, is the operator's.
    Own,
}

#[derive(Deserialize)]
struct LeaseList {
    #[serde(default, deserialize_with = "or_default")]
    items: Vec<LeaseItem>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct LeaseItem {
    metadata: LeaseItemMetadata,
    spec: LeaseItemSpec,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct LeaseItemMetadata {
    name: String,
    #[serde(deserialize_with = "or_default")]
    managed_fields: Vec<LeaseManager>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct LeaseManager {
    manager: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct LeaseItemSpec {
    holder_identity: Option<String>,
}

/// The answer to `SelfSubjectReview`.
#[derive(Default, serde::Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct SelfReview {
    api_version: String,
    kind: String,
    status: SelfReviewStatus,
}

#[derive(Default, serde::Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct SelfReviewStatus {
    user_info: SelfUser,
}

#[derive(Default, serde::Serialize, Deserialize)]
#[serde(default)]
struct SelfUser {
    username: String,
}

/// Names of field managers that many programs share, because they are the defaults of frameworks
/// and tools.
const COMMON_MANAGERS: &[&str] = &[
    "",
    "Go-http-client",
    "Kubernetes Java Client",
    "OpenAPI-Generator",
    "ansible-operator",
    "app",
    "axios",
    "controller",
    "controller-manager",
    "default",
    "fabric8-kubernetes-client",
    "helm",
    "helm-operator",
    "java",
    "kubectl",
    "kubectl-client-side-apply",
    "kubectl-create",
    "kubectl-edit",
    "kubectl-patch",
    "main",
    "manager",
    "node-fetch",
    "okhttp",
    "operator",
    "python-requests",
    "server",
    "unknown",
];
/// Limit on leases to read.
const MOST_LEASES: usize = 100;
/// Objects to read of each kind.
pub(super) const OBJECTS: usize = 5;

impl Serving {
    /// Looks for signs in kinds that have shown none so far. A kind that cannot be read shows
    /// none.
    pub(super) async fn review(
        &mut self,
        cluster: &Cluster,
        key: &HashKey,
        kinds: &[&ApiKind],
    ) -> Result<(), Failure> {
        let names = account(cluster).await.into_iter().chain(cluster.workload().map(str::to_owned));
        self.signs = Signs::of(cluster, names, &[]).await?;
        let open: Vec<&ApiKind> = kinds.iter().copied().filter(|kind| !self.serves(kind)).collect();
        let reviews = open.iter().map(|kind| self.signs.show(cluster, key, kind).boxed()).collect();
        let found = concurrently(reviews).await?;
        let served = open
            .iter()
            .zip(found)
            .filter(|(_, found)| *found)
            .map(|(kind, _)| kind.id())
            .collect::<Vec<_>>();

        self.served.extend(served);
        Ok(())
    }

    /// Whether a kind has shown a sign.
    pub(super) fn serves(&self, kind: &ApiKind) -> bool {
        self.served.contains(&kind.id())
    }
}

impl Signs {
    /// The signs to look for: field managers with these names, such as that of the account, and the leases
    /// in its namespace, unless they are those of `siblings`, other workloads there.
    pub(super) async fn of(
        cluster: &Cluster,
        names: impl Iterator<Item = String>,
        siblings: &[String],
    ) -> Result<Self, Failure> {
        let mut signs = Self { managers: names.collect(), ..Self::default() };

        let namespace = percent_encode(cluster.namespace());
        let path = format!(
            "/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases?limit={MOST_LEASES}"
        );
        match cluster.get_json::<LeaseList>(&path, JSON).await {
            Ok(LeaseList { items }) => {
                items.into_iter().for_each(|lease| signs.add(lease, cluster.workload(), siblings))
            }
            // If the leases cannot be read, the other signs have to suffice.
            Err(failure) if failure.status.is_some() => {}
            Err(failure) => return Err(failure),
        }

        signs.managers.retain(|manager| !COMMON_MANAGERS.contains(&manager.as_str()));
        Ok(signs)
    }

    /// Whether a kind shows a sign: in its group, or in some of its objects.
    async fn show(
        &self,
        cluster: &Cluster,
        key: &HashKey,
        kind: &ApiKind,
    ) -> Result<bool, Failure> {
        if self.name(&kind.group) {
            return Ok(true);
        }

        let path = kind.collection(None);
        let sample = Sample::request(cluster, key, &path, OBJECTS, "").await;
        Ok(sample.is_ok_and(|sample| sample.objects.iter().any(|object| self.are_in(object))))
    }

    /// Adds a lease, unless another workload in the namespace holds it.
    fn add(&mut self, lease: LeaseItem, workload: Option<&str>, siblings: &[String]) {
        let LeaseItem { metadata: LeaseItemMetadata { name, managed_fields }, spec } = lease;
        let holder = spec.holder_identity.unwrap_or_default();
        let is_own = |workload: &str| {
            holder.strip_prefix(workload).is_some_and(|rest| rest.starts_with('-'))
        };

        // A longer name that fits, too, is that of the holder.
        let is_of_another = |workload: &str| {
            siblings.iter().any(|other| other.len() > workload.len() && is_own(other))
        };
        if !workload.is_none_or(|workload| is_own(workload) && !is_of_another(workload)) {
            return;
        }

        self.managers.extend(managed_fields.into_iter().map(|entry| entry.manager));

        // By the convention of controller-runtime: `5dcf1f5b.example.io`.
        if let Some((_, domain)) = name.split_once('.')
            && domain.contains('.')
        {
            self.domains.insert(domain.to_owned());
        }
    }

    /// Whether an object shows a sign.
    pub(super) fn are_in(&self, object: &ObjectView) -> bool {
        let by_manager = writers(object).any(|name| self.managers.contains(name));

        let domain_of =
            |finalizer: &String| finalizer.split('/').next().unwrap_or_default().to_owned();
        by_manager || object.finalizers.iter().map(domain_of).any(|domain| self.name(&domain))
    }

    #[cfg(test)]
    pub(super) fn named(name: &str) -> Self {
        Self { managers: [name.to_owned()].into(), ..Self::default() }
    }

    /// How clearly a name shows that the operator has this name.
    pub(super) fn clarity_of(&self, writer: &str) -> Clarity {
        if self.managers.contains(writer) {
            return Clarity::Own;
        }

        // cert-manager writes as `cert-manager-certificates-trigger`.
        let begins = |name: &&String| {
            writer.strip_prefix(name.as_str()).is_some_and(|it| it.starts_with('-'))
        };
        let longest = self.managers.iter().filter(begins).map(String::len).max();
        longest.map_or(Clarity::None, Clarity::Similar)
    }

    /// Whether a group or domain is one of the operator's domains, or a subdomain of one.
    pub(super) fn name(&self, group: &str) -> bool {
        self.domains.iter().any(|domain| {
            group
                .strip_suffix(domain.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        })
    }
}

/// The managers that have written the status or the finalizers of an object.
fn writers(object: &ObjectView) -> impl Iterator<Item = &String> {
    let writes = object.managers.iter().filter(|manager| {
        manager.subresource == "status" || manager.owns.status || manager.owns.finalizers
    });
    writes.map(|manager| &manager.name)
}

/// The name of the service account. Older API servers do not report it.
async fn account(cluster: &Cluster) -> Option<String> {
    let review = SelfReview {
        api_version: "authentication.k8s.io/v1".to_owned(),
        kind: "SelfSubjectReview".to_owned(),
        ..SelfReview::default()
    };
    let review =
        cluster.review("/apis/authentication.k8s.io/v1/selfsubjectreviews", &review).await.ok()?;
    let (_, name) =
        review.status.user_info.username.strip_prefix("system:serviceaccount:")?.split_once(':')?;

    Some(name.to_owned())
}

#[cfg(test)]
mod tests {
    use loopwatch_model::observation::{Manager, Owned};

    use super::*;

    fn lease(name: &str, holder: &str, manager: &str) -> LeaseItem {
        LeaseItem {
            metadata: LeaseItemMetadata {
                name: name.to_owned(),
                managed_fields: vec![LeaseManager { manager: manager.to_owned() }],
            },
            spec: LeaseItemSpec { holder_identity: Some(holder.to_owned()) },
        }
    }

    fn written_by(manager: &str, status: bool) -> ObjectView {
        let owns = Owned { status, ..Owned::default() };
        ObjectView {
            managers: vec![Manager { name: manager.to_owned(), owns, ..Manager::default() }],
            ..ObjectView::default()
        }
    }

    #[test]
    fn a_name_that_begins_like_the_operators_is_similar() {
        let signs = Signs::named("op");
        assert_eq!(signs.clarity_of("op"), Clarity::Own);
        assert_eq!(signs.clarity_of("op-worker"), Clarity::Similar(2));
        assert_eq!(signs.clarity_of("opera"), Clarity::None);
    }

    #[test]
    fn only_the_own_leases_name_managers_and_domains() {
        let mut signs = Signs::default();
        signs.add(
            lease("5dcf1f5b.example.io", "widget-operator-7f9-x2x_1", "widget-operator"),
            Some("widget-operator"),
            &[],
        );
        signs.add(
            lease("0a1b.other.io", "other-operator-7f9-x2x_1", "other-operator"),
            Some("widget-operator"),
            &[],
        );

        assert!(signs.name("example.io") && signs.name("apps.example.io"));
        assert!(!signs.name("badexample.io") && !signs.name("other.io"));
        assert!(signs.are_in(&written_by("widget-operator", true)));
        assert!(
            !signs.are_in(&written_by("widget-operator", false)),
            "a write of the spec is no service"
        );
        assert!(!signs.are_in(&written_by("other-operator", true)));

        let finalized = ObjectView {
            finalizers: vec!["db.example.io/cleanup".to_owned()],
            ..ObjectView::default()
        };

        assert!(signs.are_in(&finalized));
    }
}
