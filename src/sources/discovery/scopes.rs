//! The scopes in which the account can see a kind: the whole cluster, or single namespaces.

use loopwatch_model::observation::{Permission, Role, Scope, WatchedKind, Why};
use serde::Deserialize;

use super::api_resources::ApiKind;
use super::permissions::{Rules, is_allowed};
use super::select::{Candidate, SelectedKinds};
use super::{Discovery, watched};
use crate::sources::cluster::LIST_METADATA;
use crate::sources::failure::Failure;
use crate::sources::metadata::ObjectMetadata;
use crate::sources::options::Selection;

/// The rules in each reviewed namespace. Each includes the rules of the cluster.
#[derive(Debug, Default)]
pub(super) struct NamespaceRules {
    pub(super) namespaces: Vec<String>,
    pub(super) rules: Vec<Rules>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct NamespaceListDocument {
    items: Vec<NamespaceDocument>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct NamespaceDocument {
    metadata: ObjectMetadata,
}

/// Maximum number of namespaces to review. Operators with role bindings in more namespaces need `--namespace`.
const MOST_NAMESPACES: usize = 100;

// === impl NamespaceRules ===

impl NamespaceRules {
    pub(super) fn iter(&self) -> impl Iterator<Item = (&String, &Rules)> {
        self.namespaces.iter().zip(&self.rules)
    }

    pub(super) fn extend(&mut self, other: Self) {
        self.namespaces.extend(other.namespaces);
        self.rules.extend(other.rules);
    }
}

// === impl Discovery ===

impl Discovery {
    pub(super) async fn review(&self, namespaces: Vec<String>) -> Result<NamespaceRules, Failure> {
        let mut rules = Vec::new();
        for namespace in &namespaces {
            rules.push(Rules::review(&self.cluster, namespace).await?);
        }
        Ok(NamespaceRules { namespaces, rules })
    }

    /// The namespaces to review first: the configured ones, or else our own and those that the operator watches.
    pub(super) fn namespaces(&self) -> Vec<String> {
        if !self.options.namespaces.is_empty() {
            return self.options.namespaces.clone();
        }
        let mut namespaces = vec![self.cluster.namespace().to_owned()];
        namespaces
            .extend(self.cluster.watched_namespaces().iter().filter(|name| *name != self.cluster.namespace()).cloned());
        namespaces
    }

    /// Whether the operator may have permissions in other namespaces.
    pub(super) fn may_be_elsewhere(&self, selected: &SelectedKinds) -> bool {
        let options = &self.options;
        options.namespaces.is_empty()
            && options.watch.is_empty()
            && options.select == Selection::OperatorPermissions
            && selected.excess.is_empty()
    }

    /// The other namespaces, if the account may list namespaces.
    pub(super) async fn other_namespaces(&self) -> Result<Vec<String>, Failure> {
        let list = Permission { verb: "list".to_owned(), group: String::new(), resource: "namespaces".to_owned() };
        if is_allowed(&self.cluster, &list, "").await? != Some(true) {
            return Ok(Vec::new());
        }
        let path = format!("/api/v1/namespaces?limit={MOST_NAMESPACES}");
        let NamespaceListDocument { items } = self.cluster.get_json(&path, LIST_METADATA).await?;
        let known = self.namespaces();
        Ok(items
            .into_iter()
            .map(|item| item.metadata.name)
            .filter(|name| !known.contains(name) && !self.options.exclude_namespaces.contains(name))
            .collect())
    }

    /// The scopes in which the account can see a kind, or should be able to see it. The latter list the missing verbs.
    pub(super) async fn scopes(
        &self,
        candidate: &Candidate,
        reviews: &NamespaceRules,
    ) -> Result<Vec<WatchedKind>, Failure> {
        let ApiKind { group, resource, namespaced, .. } = &candidate.kind;
        let everywhere = if *namespaced { Scope::AllNamespaces } else { Scope::Cluster };
        let named = *namespaced && !self.options.namespaces.is_empty();
        if !named {
            // Each namespace's rules include those of the cluster, so this saves most reviews.
            let possible = reviews.rules.iter().any(|rules| rules.may_allow("list", group, resource));
            if possible && self.missing(group, resource, "").await?.is_empty() {
                return Ok(vec![watched(candidate, everywhere, Vec::new())]);
            }
        }
        let mut scopes = Vec::new();
        // The rules of an excluded namespace still show which kinds the operator owns.
        let is_watched = |namespace: &String| !self.options.exclude_namespaces.contains(namespace);
        for (namespace, rules) in reviews.iter().filter(|(namespace, _)| *namespaced && is_watched(namespace)) {
            let is_expected = candidate.role == Role::Primary && writes(candidate, rules);
            let possible = rules.may_allow("list", group, resource);
            let missing = if possible { self.missing(group, resource, namespace).await? } else { list_and_watch() };
            if named || is_expected || missing.is_empty() {
                scopes.push(watched(candidate, Scope::Namespace(namespace.clone()), missing));
            }
        }
        let none_left = *namespaced && !reviews.namespaces.iter().any(is_watched);
        if named || none_left || scopes.iter().any(|kind| kind.missing.is_empty()) {
            return Ok(scopes);
        }
        self.invisible_scopes(candidate, everywhere, scopes).await
    }

    /// The scopes in which the account should see a kind that it cannot see.
    async fn invisible_scopes(
        &self,
        candidate: &Candidate,
        everywhere: Scope,
        expected: Vec<WatchedKind>,
    ) -> Result<Vec<WatchedKind>, Failure> {
        let ApiKind { group, resource, .. } = &candidate.kind;
        let is_same = |kind: &&WatchedKind| kind.group == *group && kind.resource == *resource;
        let last: Vec<Scope> = self.last.iter().filter(is_same).map(|kind| kind.scope.clone()).collect();
        let scopes = if !last.is_empty() {
            last
        } else if candidate.role == Role::Child {
            // A child kind that was never visible is no loss.
            return Ok(Vec::new());
        } else if !expected.is_empty() && !self.writes_everywhere(candidate).await? {
            return Ok(expected);
        } else {
            vec![everywhere]
        };
        Ok(scopes.into_iter().map(|scope| watched(candidate, scope, list_and_watch())).collect())
    }

    /// Whether the account may write an invisible kind in all namespaces, so that it should see it there.
    async fn writes_everywhere(&self, candidate: &Candidate) -> Result<bool, Failure> {
        for permission in write_permissions(candidate) {
            if is_allowed(&self.cluster, &permission, "").await? != Some(false) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The missing verbs for watching a resource. An empty namespace means all.
    async fn missing(&self, group: &str, resource: &str, namespace: &str) -> Result<Vec<String>, Failure> {
        let mut missing = Vec::new();
        for verb in ["list", "watch"] {
            let permission =
                Permission { verb: verb.to_owned(), group: group.to_owned(), resource: resource.to_owned() };
            // If the cluster forbids the review, the watch itself will report a refusal.
            if is_allowed(&self.cluster, &permission, namespace).await? == Some(false) {
                missing.push(permission.verb);
            }
        }
        Ok(missing)
    }
}

/// The permissions that made this a primary kind.
fn write_permissions(candidate: &Candidate) -> Vec<Permission> {
    let ApiKind { group, resource, .. } = &candidate.kind;
    let subresource = match candidate.why {
        Why::StatusPermission => "status",
        Why::FinalizerPermission => "finalizers",
        _ => return Vec::new(),
    };
    let permission = |verb: &str| Permission {
        verb: verb.to_owned(),
        group: group.clone(),
        resource: format!("{resource}/{subresource}"),
    };
    vec![permission("update"), permission("patch")]
}

fn writes(candidate: &Candidate, rules: &Rules) -> bool {
    write_permissions(candidate)
        .iter()
        .any(|permission| rules.allow(&permission.verb, &permission.group, &permission.resource))
}

fn list_and_watch() -> Vec<String> {
    vec!["list".to_owned(), "watch".to_owned()]
}
