//! Discovers what to watch, without configuration, from the served kinds and the account's permissions.
//!
//! The sidecar shares the operator's service account. The permission to write `widgets/status` makes Widget a primary
//! kind; the permission to create a ConfigMap makes it a child kind.

use std::collections::BTreeMap;

use loopwatch_model::observation::{Permission, PermissionsView, Role, Scope, SourceId, WatchId, WatchedKind};

mod api_resources;

mod permissions;
mod scopes;
mod select;

use self::api_resources::{ApiKind, ApiResources};
use self::permissions::{Rules, is_allowed};
use self::scopes::NamespaceRules;
use self::select::{Candidate, SelectedKinds, SelectionInput, candidates, select_kinds};
use super::cluster::Cluster;
use super::definitions::Definitions;
use super::failure::Failure;
use super::options::{Selection, SourceOptions};

/// Polls permissions and kinds.
pub(crate) struct Discovery {
    cluster: Cluster,
    options: SourceOptions,
    definitions: Definitions,
    /// The last accepted result. Because of it, a scope stays known after the account loses the permission to see it.
    last: Vec<WatchedKind>,
    /// The kinds that the API server served at the last poll.
    api_resources: ApiResources,
}

/// The result of one poll.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Discovered {
    /// Kinds and scopes, primary ones first.
    pub(crate) kinds: Vec<WatchedKind>,
    /// One view of the cluster, and one of each reviewed or watched namespace.
    pub(crate) permissions: Vec<PermissionsView>,
    /// A problem that the user has to solve.
    pub(crate) problem: Option<String>,
}

/// Maximum number of candidate kinds in a message: enough for users to recognise their own.
const CANDIDATES: usize = 8;

// === impl Discovery ===

impl Discovery {
    pub(crate) fn new(cluster: Cluster, options: SourceOptions, definitions: Definitions) -> Self {
        Self { cluster, options, definitions, last: Vec::new(), api_resources: ApiResources::default() }
    }

    /// The source that failures of discovery belong to.
    pub(crate) const SOURCE: SourceId = SourceId::Discovery;

    /// Whether the account is known to have the permissions to list and watch an optional resource.
    pub(crate) async fn may_watch(&self, group: &str, resource: &str, namespace: &str) -> Result<bool, Failure> {
        for verb in ["list", "watch"] {
            let permission =
                Permission { verb: verb.to_owned(), group: group.to_owned(), resource: resource.to_owned() };
            if is_allowed(&self.cluster, &permission, namespace).await? != Some(true) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether the served kinds have changed since the last poll.
    pub(crate) async fn is_outdated(&self) -> Result<bool, Failure> {
        self.api_resources.is_outdated(&self.cluster).await
    }

    /// Accepts a result: the next poll builds on it.
    pub(crate) fn remember(&mut self, kinds: &[WatchedKind]) {
        kinds.clone_into(&mut self.last);
    }

    /// Polls once.
    pub(crate) async fn poll(&mut self) -> Result<Discovered, Failure> {
        let api_resources = ApiResources::read(&self.cluster).await?;
        let mut reviews = self.review(self.namespaces()).await?;
        let (mut selected, mut problem) = self.select(&api_resources, &reviews.rules);
        if problem.is_some() && self.may_be_elsewhere(&selected) {
            let others = self.other_namespaces().await?;
            reviews.extend(self.review(others).await?);
            (selected, problem) = self.select(&api_resources, &reviews.rules);
        }
        let mut kinds = Vec::new();
        let unmentioned = self.unmentioned(&api_resources, &reviews.rules, &selected);
        for candidate in selected.kinds.iter().chain(&unmentioned) {
            kinds.extend(self.scopes(candidate, &reviews).await?);
        }
        kinds.extend(self.last.iter().filter(|kind| is_unanswered(kind, &api_resources)).cloned());
        let permissions = permissions(&kinds, &selected, &reviews);
        self.api_resources = api_resources;
        Ok(Discovered { kinds, permissions, problem })
    }

    fn select(&self, api_resources: &ApiResources, rules: &[Rules]) -> (SelectedKinds, Option<String>) {
        let SourceOptions { watch, select, .. } = &self.options;
        let definition = |group: &str, resource: &str| self.definitions.get(group, resource);
        let input = SelectionInput { api_resources, rules, definition: &definition, watch, select: *select };
        let selected = select_kinds(&input);
        let problem = problem(&input, &selected);
        (selected, problem)
    }

    /// Kinds of the last result that incomplete rules no longer mention. The permissions of each need their own review.
    fn unmentioned(&self, api_resources: &ApiResources, rules: &[Rules], selected: &SelectedKinds) -> Vec<Candidate> {
        if !rules.iter().any(|rules| rules.incomplete) {
            return Vec::new();
        }
        let mut unmentioned: Vec<Candidate> = Vec::new();
        for WatchedKind { group, resource, role, why, status, .. } in &self.last {
            let is = |candidate: &Candidate| candidate.kind.group == *group && candidate.kind.resource == *resource;
            if let Some(kind) = api_resources.get(group, resource)
                && !selected.kinds.iter().chain(&unmentioned).any(is)
            {
                unmentioned.push(Candidate { kind: kind.clone(), role: *role, why: *why, status: *status });
            }
        }
        unmentioned
    }
}

/// Builds one view of the cluster, and one of each reviewed or watched namespace.
fn permissions(kinds: &[WatchedKind], selected: &SelectedKinds, reviews: &NamespaceRules) -> Vec<PermissionsView> {
    let mut views = BTreeMap::new();
    let cluster = PermissionsView { excess: selected.excess.clone(), ..PermissionsView::default() };
    views.insert(String::new(), cluster);
    for (namespace, rules) in reviews.iter() {
        let view = PermissionsView {
            namespace: namespace.clone(),
            incomplete: rules.incomplete,
            ..PermissionsView::default()
        };
        views.insert(namespace.clone(), view);
    }
    for kind in kinds {
        let namespace = kind.scope.namespace().unwrap_or_default();
        let view = views
            .entry(namespace.to_owned())
            .or_insert_with(|| PermissionsView { namespace: namespace.to_owned(), ..PermissionsView::default() });
        view.missing.extend(kind.missing.iter().map(|verb| Permission {
            verb: verb.clone(),
            group: kind.group.clone(),
            resource: kind.resource.clone(),
        }));
    }
    views.into_values().collect()
}

/// Whether a kind is missing only because its API server does not respond.
fn is_unanswered(kind: &WatchedKind, api_resources: &ApiResources) -> bool {
    api_resources.is_unknown(&kind.group) && api_resources.get(&kind.group, &kind.resource).is_none()
}

fn watched(candidate: &Candidate, scope: Scope, missing: Vec<String>) -> WatchedKind {
    let Candidate { kind, role, why, status } = candidate.clone();
    let ApiKind { group, version, kind, resource, .. } = kind;
    let watch = WatchId::new(&group, &resource, &scope);
    WatchedKind { watch, group, version, kind, resource, scope, role, status, why, missing }
}

/// The problem that the user has to solve: the API server does not serve all named kinds, or there is nothing to watch.
fn problem(input: &SelectionInput<'_>, selected: &SelectedKinds) -> Option<String> {
    if !selected.not_served.is_empty() {
        let named = selected.not_served.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let known = candidates(input, CANDIDATES).join(", ");
        return Some(format!("the API server does not serve {named}, which --watch selects; it serves: {known}"));
    }
    if selected.kinds.iter().any(|candidate| candidate.role == Role::Primary) {
        return None;
    }
    let known = match candidates(input, CANDIDATES) {
        known if known.is_empty() => "none".to_owned(),
        known => known.join(", "),
    };
    Some(match input.select {
        Selection::EveryKindWithStatus => "the API server serves no custom resource that has a status".to_owned(),
        Selection::OperatorPermissions if input.rules.iter().any(|rules| rules.incomplete) => format!(
            "the API server does not list all permissions of this account; select the operator's kinds with \
             --watch GROUP/KIND. Candidates: {known}"
        ),
        Selection::OperatorPermissions if !selected.excess.is_empty() => format!(
            "this account may write to all API groups, so its permissions do not show which kinds the operator owns; \
             select them with --watch GROUP/KIND. Candidates: {known}"
        ),
        Selection::OperatorPermissions => format!(
            "this account may not write the status or the finalizers of any custom resource, so it is probably not \
             the account of an operator; select the kinds with --watch GROUP/KIND. Candidates: {known}"
        ),
    })
}
