//! The installation of an operator: its workload, its service account, the account's roles, and the
//! kinds whose status these roles allow to write.

use k8s_openapi::api::authorization::v1::ResourceRule;
use k8s_openapi::api::rbac::v1::{PolicyRule, RoleRef, Subject};
use loopwatch_model::observation::{Cause, LeftOut, ObjectAddress};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::listing::reason;
use crate::net::{Failure, percent_encode};
use crate::sources::api_server::{ApiResources, Cluster, JSON, OperatorName, Rules};
use crate::sources::decoding::{ListMetadata, ObjectMetadata, or_default};

/// The installation of an operator.
#[derive(Debug, Default)]
pub(crate) struct Installation {
    /// The objects to delete: workload, service account, bindings, roles, and on request the
    /// definitions.
    pub(crate) objects: Vec<ObjectAddress>,
    /// Group and kind of the objects whose status the operator may write.
    pub(crate) primaries: Vec<(String, String)>,
    /// Objects of the installation that stay because others use them as well.
    pub(crate) shared: Vec<LeftOut>,
    /// Parts of the installation that loopwatch could not read.
    pub(crate) left_out: Vec<LeftOut>,
}

#[derive(Debug, Deserialize)]
struct ListDocument<T> {
    #[serde(default)]
    metadata: ListMetadata,
    #[serde(
        default = "Vec::new",
        deserialize_with = "or_default",
        bound(deserialize = "T: Deserialize<'de>")
    )]
    items: Vec<T>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Binding {
    #[serde(default)]
    metadata: ObjectMetadata,
    role_ref: RoleRef,
    #[serde(default, deserialize_with = "or_default")]
    subjects: Vec<Subject>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RoleDocument {
    #[serde(deserialize_with = "or_default")]
    rules: Vec<PolicyRule>,
}

const RBAC: &str = "rbac.authorization.k8s.io";
/// Bindings per page.
const PAGE: u32 = 500;
/// Limit on pages of bindings.
const MOST_PAGES: usize = 200;
/// Roles of Kubernetes itself, in addition to those that begin with `system:`.
const BUILT_IN_ROLES: &[&str] = &["cluster-admin", "admin", "edit", "view"];

impl Installation {
    /// Reads the installation of an operator. With `definitions`, it includes those of the
    /// operator's kinds.
    ///
    /// # Errors
    /// If the workload cannot be read.
    pub(crate) async fn read(
        cluster: &Cluster,
        resources: &ApiResources,
        operator: &OperatorName,
        definitions: bool,
    ) -> Result<Self, Failure> {
        let (workload, account) = cluster.account_of(operator).await?;
        let OperatorName { namespace, name } = operator;
        let mut installation = Self::default();
        installation.objects.push(object("apps", workload, namespace, name));

        if account == "default" {
            installation.shared.push(LeftOut {
                what: format!("ServiceAccount {namespace}/default"),
                why: "it belongs to the namespace".to_owned(),
            });
        } else {
            installation.objects.push(object("", "ServiceAccount", namespace, &account));
        }

        let rules = installation.add_roles(cluster, namespace, &account).await;
        installation.add_kinds(resources, &rules, definitions);
        Ok(installation)
    }

    /// Adds the bindings and roles of the account, and returns the rules of these roles.
    async fn add_roles(
        &mut self,
        cluster: &Cluster,
        namespace: &str,
        account: &str,
    ) -> Vec<PolicyRule> {
        let mut bindings: Vec<Binding> = Vec::new();
        for (resource, kind) in
            [("clusterrolebindings", "ClusterRoleBinding"), ("rolebindings", "RoleBinding")]
        {
            match all(cluster, &format!("/apis/{RBAC}/v1/{resource}")).await {
                Ok(found) => bindings.extend(found),
                Err(failure) => {
                    self.left_out
                        .push(LeftOut { what: format!("{kind}.{RBAC}"), why: reason(&failure) });
                    if kind == "RoleBinding" {
                        let path = format!(
                            "/apis/{RBAC}/v1/namespaces/{}/{resource}",
                            percent_encode(namespace)
                        );
                        bindings.extend(all(cluster, &path).await.unwrap_or_default());
                    }
                }
            }
        }

        let is_account = |binding: &Binding, subject: &Subject| {
            let within = subject.namespace.as_deref().unwrap_or(&binding.metadata.namespace);
            subject.kind == "ServiceAccount" && subject.name == account && within == namespace
        };
        let (bindings, others): (Vec<Binding>, Vec<Binding>) =
            bindings.into_iter().partition(|binding| {
                binding.subjects.iter().any(|subject| is_account(binding, subject))
            });

        let mut roles: Vec<ObjectAddress> = Vec::new();
        for binding in &bindings {
            let role = role_of(binding);
            let kind = if binding.metadata.namespace.is_empty() {
                "ClusterRoleBinding"
            } else {
                "RoleBinding"
            };
            let itself = object(RBAC, kind, &binding.metadata.namespace, &binding.metadata.name);

            if binding.subjects.iter().all(|subject| is_account(binding, subject)) {
                self.objects.push(itself);
            } else {
                self.keep(&itself, "it also names other accounts");
            }

            if !roles.contains(&role) {
                roles.push(role);
            }
        }

        let mut rules = Vec::new();
        for role in roles {
            match self.rules_of(cluster, &role).await {
                Some(granted) => rules.extend(granted),
                None => continue,
            }

            let shared =
                bindings.iter().filter(|binding| role_of(binding) == role).any(|binding| {
                    !binding.subjects.iter().all(|subject| is_account(binding, subject))
                });
            if role.name.starts_with("system:") || BUILT_IN_ROLES.contains(&role.name.as_str()) {
                self.keep(&role, "it belongs to Kubernetes");
            } else if shared || others.iter().any(|binding| role_of(binding) == role) {
                self.keep(&role, "other accounts use it, too");
            } else {
                self.objects.push(role);
            }
        }

        rules
    }

    /// The rules of a role; `None` if it does not exist or cannot be read.
    async fn rules_of(
        &mut self,
        cluster: &Cluster,
        role: &ObjectAddress,
    ) -> Option<Vec<PolicyRule>> {
        let within = match role.namespace.as_str() {
            "" => "clusterroles".to_owned(),
            namespace => format!("namespaces/{}/roles", percent_encode(namespace)),
        };
        let path = format!("/apis/{RBAC}/v1/{within}/{}", percent_encode(&role.name));
        match cluster.get_json::<RoleDocument>(&path, JSON).await {
            Ok(document) => Some(document.rules),
            Err(failure) if failure.status == Some(404) => None,
            Err(failure) => {
                self.left_out.push(LeftOut {
                    what: format!("{} {}", role.kind, role.name),
                    why: reason(&failure),
                });

                None
            }
        }
    }

    /// Adds the kinds whose status the rules allow to write.
    fn add_kinds(&mut self, resources: &ApiResources, rules: &[PolicyRule], definitions: bool) {
        let rule = |rule: &PolicyRule| ResourceRule {
            api_groups: rule.api_groups.clone(),
            resources: rule.resources.clone(),
            resource_names: rule.resource_names.clone(),
            verbs: rule.verbs.clone(),
        };

        let rules = Rules::new(rules.iter().map(rule).collect(), false);
        for kind in resources.kinds().filter(|kind| kind.watchable && !kind.is_built_in()) {
            let status = format!("{}/status", kind.resource);
            if !["update", "patch"]
                .iter()
                .any(|verb| rules.allow_by_name(verb, &kind.group, &status))
            {
                continue;
            }

            self.primaries.push((kind.group.clone(), kind.kind.clone()));
            if definitions {
                let name = format!("{}.{}", kind.resource, kind.group);
                self.objects.push(object(
                    "apiextensions.k8s.io",
                    "CustomResourceDefinition",
                    "",
                    &name,
                ));
            }
        }

        if self.primaries.is_empty() {
            self.left_out.push(LeftOut {
                what: "the operator's own kinds".to_owned(),
                why: "no role that loopwatch can read names a kind whose status the operator may write".to_owned(),
            });
        }
    }

    fn keep(&mut self, object: &ObjectAddress, why: &str) {
        self.shared.push(LeftOut { what: object.to_string(), why: why.to_owned() });
    }
}

fn object(group: &str, kind: &str, namespace: &str, name: &str) -> ObjectAddress {
    let [group, kind, namespace, name] = [group, kind, namespace, name].map(str::to_owned);
    ObjectAddress { group, kind, namespace, name }
}

fn role_of(binding: &Binding) -> ObjectAddress {
    let namespace =
        if binding.role_ref.kind == "Role" { binding.metadata.namespace.as_str() } else { "" };
    object(RBAC, &binding.role_ref.kind, namespace, &binding.role_ref.name)
}

/// Reads a whole list in pages.
pub(super) async fn all<T: DeserializeOwned>(
    cluster: &Cluster,
    path: &str,
) -> Result<Vec<T>, Failure> {
    selected(cluster, path, "").await
}

/// Reads the part of a list that a selector of labels selects, in pages.
pub(super) async fn selected<T: DeserializeOwned>(
    cluster: &Cluster,
    path: &str,
    labels: &str,
) -> Result<Vec<T>, Failure> {
    let selector = match labels {
        "" => String::new(),
        labels => format!("&labelSelector={}", percent_encode(labels)),
    };
    let (mut items, mut token) = (Vec::new(), String::new());
    for _ in 0..MOST_PAGES {
        let more = if token.is_empty() {
            String::new()
        } else {
            format!("&continue={}", percent_encode(&token))
        };
        let page: ListDocument<T> =
            cluster.get_json(&format!("{path}?limit={PAGE}{selector}{more}"), JSON).await?;

        items.extend(page.items);
        token = page.metadata.token;
        if token.is_empty() {
            return Ok(items);
        }
    }

    Err(Failure::new(Cause::TooLarge, "there are too many to read them all"))
}
