//! Finds out what to watch, without configuration: from what the API server serves and what the account may do.
//!
//! The sidecar shares the operator's service account. What that account may write says what the operator owes: the
//! right to write `widgets/status` makes Widget a primary kind, the right to create a ConfigMap makes it a child.

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

/// Looks at rights and kinds, again and again.
pub(crate) struct Discovery {
    cluster: Cluster,
    options: SourceOptions,
    definitions: Definitions,
    /// What was found last and taken for true: a scope that was seen once is not forgotten when the right to see it is withdrawn.
    last: Vec<WatchedKind>,
    /// What was served then.
    api_resources: ApiResources,
}

/// What one look found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Discovered {
    /// Kinds and scopes, primary ones first.
    pub(crate) kinds: Vec<WatchedKind>,
    /// One view per scope: of the cluster, and of each namespace in question.
    pub(crate) permissions: Vec<PermissionsView>,
    /// What the user must know, if anything.
    pub(crate) problem: Option<String>,
}

/// Enough candidates to recognise the own ones by.
const CANDIDATES: usize = 8;

// === impl Discovery ===

impl Discovery {
    pub(crate) fn new(cluster: Cluster, options: SourceOptions, definitions: Definitions) -> Self {
        Self { cluster, options, definitions, last: Vec::new(), api_resources: ApiResources::default() }
    }

    /// Where failures of this source are told.
    pub(crate) const SOURCE: SourceId = SourceId::Discovery;

    /// Whether the account certainly may list and watch a resource that is useful but not needed.
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

    /// Whether the API server serves something else than at the last look.
    pub(crate) async fn is_outdated(&self) -> Result<bool, Failure> {
        self.api_resources.is_outdated(&self.cluster).await
    }

    /// What was found is taken for true: the next look may rely on it.
    pub(crate) fn remember(&mut self, kinds: &[WatchedKind]) {
        kinds.clone_into(&mut self.last);
    }

    /// Looks.
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
        let doubtful = self.doubtful(&api_resources, &reviews.rules, &selected);
        for candidate in selected.kinds.iter().chain(&doubtful) {
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

    /// Kinds that were found before and that rules which are incomplete do not mention now: their rights are asked for.
    fn doubtful(&self, api_resources: &ApiResources, rules: &[Rules], selected: &SelectedKinds) -> Vec<Candidate> {
        if !rules.iter().any(|rules| rules.incomplete) {
            return Vec::new();
        }
        let mut doubtful: Vec<Candidate> = Vec::new();
        for WatchedKind { group, resource, role, why, status, .. } in &self.last {
            let is = |candidate: &Candidate| candidate.kind.group == *group && candidate.kind.resource == *resource;
            if let Some(kind) = api_resources.get(group, resource)
                && !selected.kinds.iter().chain(&doubtful).any(is)
            {
                doubtful.push(Candidate { kind: kind.clone(), role: *role, why: *why, status: *status });
            }
        }
        doubtful
    }
}

/// One view per namespace in question, and one of the cluster.
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

/// Whether a kind cannot be found because its server does not answer: then it has not vanished.
fn is_unanswered(kind: &WatchedKind, api_resources: &ApiResources) -> bool {
    api_resources.is_unknown(&kind.group) && api_resources.get(&kind.group, &kind.resource).is_none()
}

fn watched(candidate: &Candidate, scope: Scope, missing: Vec<String>) -> WatchedKind {
    let Candidate { kind, role, why, status } = candidate.clone();
    let ApiKind { group, version, kind, resource, .. } = kind;
    let watch = WatchId::new(&group, &resource, &scope);
    WatchedKind { watch, group, version, kind, resource, scope, role, status, why, missing }
}

/// What the user must know: that nothing is watched, or not what was named.
fn problem(input: &SelectionInput<'_>, selected: &SelectedKinds) -> Option<String> {
    if !selected.not_served.is_empty() {
        let named = selected.not_served.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let known = candidates(input, CANDIDATES).join(", ");
        return Some(format!("the API server does not serve {named}, which --watch names; it serves: {known}"));
    }
    if selected.kinds.iter().any(|candidate| candidate.role == Role::Primary) {
        return None;
    }
    let known = match candidates(input, CANDIDATES) {
        known if known.is_empty() => "none is served yet".to_owned(),
        known => known.join(", "),
    };
    Some(match input.select {
        Selection::EveryKindWithStatus => "no custom resource with a status is served".to_owned(),
        Selection::OperatorRights if input.rules.iter().any(|rules| rules.incomplete) => format!(
            "the API server does not tell all that this account may do; name the operator's kinds with \
             --watch GROUP/KIND. Candidates: {known}"
        ),
        Selection::OperatorRights if !selected.excess.is_empty() => format!(
            "the account may write everything, so its permissions do not say what the operator owns; \
             name its kinds with --watch GROUP/KIND. Candidates: {known}"
        ),
        Selection::OperatorRights => format!(
            "the account may not write the status or the finalizers of any custom resource, so it does not look like \
             an operator's; name the kinds with --watch GROUP/KIND. Candidates: {known}"
        ),
    })
}
