//! Discovers what to watch, without configuration, from the served kinds and the account's
//! permissions.
//!
//! The sidecar shares the operator's service account. The permission to write `widgets/status`
//! makes Widget a primary kind; the permission to create a ConfigMap makes it a child kind.

use std::collections::BTreeSet;
use std::sync::Arc;

use loopwatch_model::model::reading::is_workload;
use loopwatch_model::observation::{
    LeftOut, Permission, PermissionsView, Role, Scope, SourceId, StatusSchema, WatchId, WatchedKind,
};
use tokio::time::Instant;

mod child_kinds;
mod declared;
mod elsewhere;
mod grants;
mod needed;
mod observed;
mod permissions;
mod problems;
mod options;
mod reviews;
mod sample;
mod scout;
mod scopes;
mod select;
mod serving;
mod views;
mod withdrawn;

use self::child_kinds::SampledKinds;
pub(crate) use self::declared::CLUSTER_SERVICE_VERSIONS;
use self::elsewhere::Elsewhere;
pub(crate) use self::grants::{Account, Granted, Grants, Subject};
use self::needed::{list_and_watch, shows_ownership, update_status, usual_writes};
use self::observed::Owned;
pub(crate) use self::observed::{Observed, Owner, Owners, Reach, Shared};
pub(crate) use self::options::{
    ChildSelection, DEFAULT_MAX_WATCHES, DiscoveryOptions, KindSelector, SecretAccess, Selection,
};
pub(crate) use self::permissions::{Rules, fuzzing, is_allowed};
use self::problems::problem;
pub(crate) use self::reviews::NOWHERE;
use self::reviews::{Question, Reviews};
pub(crate) use self::scout::{Contender, Contested, Scout, Sign};
use self::select::{KindCandidate, SelectedKinds, SelectionInput, select_kinds};
pub(crate) use self::serving::Clarity;
use self::serving::Serving;
use self::withdrawn::Withdrawn;
use super::api_resources::{ApiKind, ApiResources};
use super::connection::Cluster;
use super::sinks::Definitions;
use crate::net::Failure;

/// Polls permissions and kinds.
pub(crate) struct Discovery {
    cluster: Cluster,
    options: DiscoveryOptions,
    definitions: Definitions,
    /// The last accepted result. It keeps a scope known after the account loses the permission to
    /// see it.
    last: Vec<WatchedKind>,
    /// The kinds that the API server served at the last poll.
    api_resources: Arc<ApiResources>,
    /// The account's permissions in the current poll.
    reviews: Reviews,
    /// What the operator, if it is one of many, owned when the current poll began.
    owned: Owned,
    elsewhere: Elsewhere,
    withdrawn: Withdrawn,
    serving: Serving,
    child_kinds: SampledKinds,
    found: FoundKinds,
}

/// The result of one poll, before samples decide which child kinds to watch.
#[derive(Clone, Debug, Default)]
struct FoundKinds {
    primaries: Vec<WatchedKind>,
    /// Child kinds in all scopes that the account can see.
    children: Vec<WatchedKind>,
    excess: Vec<Permission>,
    left_out: Vec<LeftOut>,
    problem: Option<String>,
}

/// The result of a poll and of all samples so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Discovered {
    /// Kinds and scopes, primary ones first.
    pub(crate) kinds: Vec<WatchedKind>,
    /// One view of the cluster, and one of each reviewed or watched namespace.
    pub(crate) permissions: Vec<PermissionsView>,
    /// A problem that the user has to solve.
    pub(crate) problem: Option<String>,
}

/// Watches of definitions, leases and namespaces, which count towards `--max-watches`, too.
const OTHER_WATCHES: usize = 3;

impl Discovery {
    pub(crate) fn new(
        cluster: Cluster,
        options: DiscoveryOptions,
        definitions: Definitions,
    ) -> Self {
        let withdrawn = Withdrawn::after(&options.known_permissions);
        Self {
            cluster,
            options,
            definitions,
            last: Vec::new(),
            api_resources: Arc::default(),
            reviews: Reviews::default(),
            owned: Owned::default(),
            elsewhere: Elsewhere::default(),
            withdrawn,
            serving: Serving::default(),
            child_kinds: SampledKinds::default(),
            found: FoundKinds::default(),
        }
    }

    /// The source that failures of discovery belong to.
    pub(crate) const SOURCE: SourceId = SourceId::Discovery;

    /// Begins a poll: reviews the account's permissions in the whole cluster and in its home
    /// namespaces.
    pub(crate) async fn review(&mut self) -> Result<(), Failure> {
        let homes = self.homes();
        self.reviews = match &mut self.options.observed {
            Some(observed) => {
                self.owned = observed.all_owned();
                observed.reviews(homes)
            }
            None => Reviews::request(&self.cluster, homes).await?,
        };

        Ok(())
    }

    /// Waits until the permissions of an operator, if it is one of many, or the kinds that it owns have
    /// changed since the last poll began.
    pub(crate) async fn operator_changed(&self) {
        match &self.options.observed {
            Some(observed) => tokio::select! {
                () = observed.grants_changed(self.cluster.watched_namespaces()) => {}
                () = observed.owned_changed(&self.owned) => {}
            },
            None => std::future::pending().await,
        }
    }

    /// Whether loopwatch's account is known to have the permissions to list and watch an optional resource.
    pub(crate) async fn may_watch(
        &mut self,
        group: &str,
        resource: &str,
        namespace: &str,
    ) -> Result<bool, Failure> {
        let permissions = list_and_watch(group, resource);
        if let Some(observed) = &self.options.observed {
            let missing = observed.shared.missing(&self.cluster, &permissions, namespace).await?;
            return Ok(missing.is_empty());
        }

        let questions =
            permissions.each_ref().map(|permission| Question::new(permission, namespace));
        self.reviews.ask(&self.cluster, &questions).await?;

        Ok(permissions.iter().all(|permission| self.reviews.allow(permission, namespace)))
    }

    /// Whether the API server serves a resource that can be watched.
    pub(crate) fn serves(&self, group: &str, resource: &str) -> bool {
        self.api_resources.get(group, resource).is_some_and(|kind| kind.watchable)
    }

    /// Whether the served kinds have changed since the last poll.
    pub(crate) async fn is_outdated(&self) -> Result<bool, Failure> {
        self.api_resources.is_outdated(&self.cluster).await
    }

    /// Whether namespaces still wait for a review, so that the next poll should come soon.
    pub(crate) fn is_behind(&self) -> bool {
        self.elsewhere.is_busy()
    }

    /// Accepts a result: the next poll builds on it.
    pub(crate) fn remember(&mut self, kinds: &[WatchedKind]) {
        kinds.clone_into(&mut self.last);
    }

    /// Completes a poll.
    pub(crate) async fn poll(&mut self) -> Result<Discovered, Failure> {
        self.read_api_resources().await?;
        self.look_elsewhere().await?;
        self.withdrawn.update(&self.reviews, |namespace| self.elsewhere.has_reviewed(namespace));
        let mut rules = self.reviews.rules();
        let mut selected = self.select(&rules, false);

        if rules.iter().any(|rules| rules.incomplete) {
            rules.push(self.confirm_ownership(&rules, &selected).await?);

            // Keep the kinds that earlier rules showed: incomplete rules may no longer mention
            // them.
            selected = self.select(&rules, !self.last.iter().any(|kind| shows_ownership(kind.why)));
        }

        // Namespaces that wait for their review may still grant what is missing.
        let is_final = !self.elsewhere.is_behind() || !selected.not_served.is_empty();
        let problem = problem(&self.input(&rules, true), &selected).filter(|_| is_final);
        let mut left_out = self.elsewhere.left_out();
        if selected.leaves_out_secrets && self.options.secrets == SecretAccess::Named {
            left_out.push(LeftOut {
                what: "Secrets as children".to_owned(),
                why: "loopwatch reads only single Secrets that other objects name; with --secrets=metadata, it lists and \
                      watches the metadata of all"
                    .to_owned(),
            });
        }

        if selected.by_wildcard && self.options.observed.is_none() {
            left_out.extend(self.limit_to_served(&mut selected).await?);
        }

        self.keep_owned(&mut selected);

        let unmentioned = self.unmentioned(&rules, &selected);
        let all: Vec<KindCandidate> = selected.kinds.iter().cloned().chain(unmentioned).collect();
        let mut kinds = self.scopes(&all).await?;
        self.note_own_blindness(&mut kinds).await?;
        kinds.extend(
            self.last.iter().filter(|kind| is_unanswered(kind, &self.api_resources)).cloned(),
        );

        self.confirm_lacking(&kinds).await?;
        let (primaries, children) = kinds.into_iter().partition(|kind| kind.role == Role::Primary);
        self.found = FoundKinds { primaries, children, excess: selected.excess, left_out, problem };
        Ok(self.discovered())
    }

    /// The result of the last poll, with the child kinds that are worth a watch.
    pub(crate) fn discovered(&self) -> Discovered {
        let FoundKinds { primaries, children, excess, left_out, problem } = &self.found;
        let mut kinds = primaries.clone();
        for child in children {
            // A scope with missing verbs was visible before.
            match child.missing.is_empty() {
                true => kinds.extend(self.child_kinds.watched(child)),
                false => kinds.push(child.clone()),
            }
        }

        // Several scopes of the candidates may lead to the same watch.
        let mut names = BTreeSet::new();
        kinds.retain(|kind| names.insert(kind.watch.clone()));

        let left_out: Vec<LeftOut> =
            left_out.iter().cloned().chain(self.child_kinds.left_out(children)).collect();
        let mut permissions = views::permissions(&kinds, excess, left_out, &self.reviews);
        views::add_lacking(&kinds, &self.reviews, &self.withdrawn, &mut permissions);
        Discovered { kinds, permissions, problem: problem.clone() }
    }

    /// When to sample child kinds again; `None` if there are none, or before the first round.
    pub(crate) fn next_round(&self, new_primary: Option<Instant>) -> Option<Instant> {
        let is_visible = |kind: &WatchedKind| kind.missing.is_empty();
        if self.found.children.iter().any(is_visible) {
            self.child_kinds.due(new_primary)
        } else {
            None
        }
    }

    /// Samples the child kinds. Returns true if the result has changed.
    pub(crate) async fn sample_children(&mut self, new: BTreeSet<String>) -> bool {
        let visible = |kind: &&WatchedKind| kind.missing.is_empty();

        // Another operator may serve a suspected kind, whose children are then not this operator's.
        let primaries: Vec<_> =
            self.found.primaries.iter().filter(visible).filter(|kind| !kind.suspected).collect();
        let children: Vec<_> = self.found.children.iter().filter(visible).collect();
        if children.is_empty() {
            return false;
        }

        self.child_kinds
            .round(&self.cluster, &self.options.hash_key, &primaries, &children, new)
            .await
    }

    fn input<'a>(&'a self, rules: &'a [Rules], confirmed: bool) -> SelectionInput<'a> {
        let DiscoveryOptions { watch, select, .. } = &self.options;
        let (api_resources, definitions) = (&self.api_resources, &self.definitions);
        SelectionInput { api_resources, rules, definitions, watch, select: *select, confirmed }
    }

    fn select(&self, rules: &[Rules], confirmed: bool) -> SelectedKinds {
        let mut selected = select_kinds(&self.input(rules, confirmed));
        if self.options.children == ChildSelection::None {
            selected.kinds.retain(|candidate| candidate.role == Role::Primary);
        }

        if !self.options.secrets.may_list() {
            let all = selected.kinds.len();
            selected
                .kinds
                .retain(|candidate| candidate.role == Role::Primary || !candidate.kind.is_secret());
            selected.leaves_out_secrets = selected.kinds.len() < all;
        }

        selected
    }

    /// Reads the kinds that the API server serves, if they have changed.
    async fn read_api_resources(&mut self) -> Result<(), Failure> {
        if let Some(observed) = &self.options.observed {
            self.api_resources = observed.shared.api_resources(&self.cluster).await?;
        } else if !self.api_resources.is_current(&self.cluster).await? {
            self.api_resources = Arc::new(ApiResources::read(&self.cluster).await?);
        }

        Ok(())
    }

    /// Keeps only the primary kinds that the operator owns, if it is one of many.
    fn keep_owned(&self, selected: &mut SelectedKinds) {
        let Some(observed) = &self.options.observed else { return };
        selected.kinds.retain_mut(|candidate| {
            if candidate.role != Role::Primary {
                return true;
            }
            let owned = observed.owned(&candidate.kind.id());
            candidate.suspected = owned.as_ref().is_some_and(|(_, is_certain)| !is_certain);
            owned.is_some()
        });
    }

    /// Marks the kinds that loopwatch's own account may not see, although the operator's may.
    async fn note_own_blindness(&self, kinds: &mut Vec<WatchedKind>) -> Result<(), Failure> {
        let Some(observed) = &self.options.observed else { return Ok(()) };
        for kind in kinds.iter_mut().filter(|kind| kind.missing.is_empty()) {
            let namespace = kind.scope.namespace().unwrap_or_default();
            let needed = list_and_watch(&kind.group, &kind.resource);
            kind.missing = observed.shared.missing(&self.cluster, &needed, namespace).await?;
        }

        // A child kind that was never visible is not a loss.
        kinds.retain(|kind| kind.role == Role::Primary || kind.missing.is_empty());
        Ok(())
    }

    /// Reviews permissions in other namespaces, unless they cannot matter.
    async fn look_elsewhere(&mut self) -> Result<(), Failure> {
        if let Some(observed) = &self.options.observed {
            self.reviews.extend(observed.elsewhere(&self.homes()));
            return Ok(());
        }

        let options = &self.options;
        let everywhere = &self.reviews.everywhere;
        let is_seen = |selector: &KindSelector| {
            let mut named = self
                .api_resources
                .kinds()
                .filter(|k| selector.names(&k.group, &k.kind, &k.resource));
            let may =
                |kind: &ApiKind, verb: &str| everywhere.allow(verb, &kind.group, &kind.resource);

            named.all(|kind| may(kind, "list") && may(kind, "watch"))
        };

        let settled = !options.namespaces.is_empty()
            || options.select != Selection::OperatorPermissions
            || everywhere.allow("*", "*", "*")
            || (!options.watch.is_empty() && options.watch.iter().all(is_seen))
            || self.is_covered();
        if settled {
            self.elsewhere.forget();
            return Ok(());
        }

        let homes = self.homes();
        self.elsewhere.update(&self.cluster, &mut self.reviews, &homes, self.options.once).await?;
        self.reviews.extend(self.elsewhere.granted());
        Ok(())
    }

    /// Whether the rules in force everywhere show kinds of the operator, and the account may watch
    /// all of these kinds in all namespaces. The rules in single namespaces repeat these rules, and
    /// rarely add others that are worth a request per namespace.
    fn is_covered(&self) -> bool {
        let everywhere = &self.reviews.everywhere;
        let rules = std::slice::from_ref(everywhere);
        let selected = select_kinds(&self.input(rules, false));
        let may_watch = |candidate: &KindCandidate| {
            list_and_watch(&candidate.kind.group, &candidate.kind.resource)
                .iter()
                .all(|Permission { verb, group, resource }| everywhere.allow(verb, group, resource))
        };

        let mut owned =
            selected.kinds.iter().filter(|candidate| shows_ownership(candidate.why)).peekable();
        owned.peek().is_some() && owned.all(may_watch)
    }

    /// Asks for the permissions that make a kind a primary one, where the rules are incomplete: an
    /// authorizer that lists no rules, such as the webhook of a managed cluster, may grant them.
    async fn confirm_ownership(
        &mut self,
        rules: &[Rules],
        selected: &SelectedKinds,
    ) -> Result<Rules, Failure> {
        let input = self.input(rules, false);
        let permissions: Vec<Permission> = selected
            .unlisted(&input)
            .iter()
            .map(|kind| update_status(&kind.group, &kind.resource))
            .collect();

        if !selected.has_primary() {
            // A permission for all kinds shows no ownership.
            let all = update_status("*", "*");
            self.reviews.ask(&self.cluster, &[Question::new(&all, "")]).await?;
            if self.reviews.allow(&all, "") {
                return Ok(Rules::granting([&all]));
            }
        }

        let questions: Vec<Question> =
            permissions.iter().map(|permission| Question::new(permission, "")).collect();
        self.reviews.ask(&self.cluster, &questions).await?;
        Ok(Rules::granting(
            permissions.iter().filter(|permission| self.reviews.allow(permission, "")),
        ))
    }

    /// Asks for the permissions that the account may lack, where the rules are incomplete.
    async fn confirm_lacking(&mut self, kinds: &[WatchedKind]) -> Result<(), Failure> {
        let suspects = self.withdrawn.suspects();
        let mut questions: Vec<Question> =
            suspects.map(|(namespace, permission)| Question::new(permission, namespace)).collect();
        for (namespace, writes) in kinds.iter().filter_map(usual_writes) {
            questions.extend(writes.iter().map(|permission| Question::new(permission, namespace)));
        }

        self.reviews.ask(&self.cluster, &questions).await
    }

    /// Ranks the custom resources of an account with wildcards: those that this operator serves
    /// first, then those with a status. Keeps as many as may be watched, and returns what is left
    /// out.
    async fn limit_to_served(
        &mut self,
        selected: &mut SelectedKinds,
    ) -> Result<Option<LeftOut>, Failure> {
        let (mut primaries, children): (Vec<KindCandidate>, Vec<KindCandidate>) =
            std::mem::take(&mut selected.kinds)
                .into_iter()
                .partition(|candidate| candidate.role == Role::Primary);
        let kinds: Vec<&ApiKind> = primaries.iter().map(|candidate| &candidate.kind).collect();

        self.serving.review(&self.cluster, &self.options.hash_key, &kinds).await?;
        for candidate in &mut primaries {
            candidate.suspected = !self.serving.serves(&candidate.kind);
        }

        let reports = |c: &KindCandidate| {
            matches!(c.status, StatusSchema::Subresource | StatusSchema::InBody)
        };
        primaries.sort_by_key(|candidate| (candidate.suspected, !reports(candidate)));

        let scopes = self.options.namespaces.len().max(1);
        let others = OTHER_WATCHES + usize::from(self.cluster.operator().is_some());
        let room = (self.options.max_watches.saturating_sub(others) / scopes).max(1);
        let all = primaries.len();

        if !self.options.once {
            primaries.truncate(room);
        }

        let over = all - primaries.len();
        selected.kinds = primaries;
        selected.kinds.extend(children);
        Ok((over > 0).then(|| LeftOut {
            what: format!("{over} of {all} custom resources"),
            why: format!(
                "this account may write all of them, and loopwatch opens {} watches at most (--max-watches); select \
                 the operator's kinds with --watch GROUP/KIND",
                self.options.max_watches
            ),
        }))
    }

    /// Kinds of the last result that incomplete rules no longer mention. Each needs a review of its
    /// permissions.
    fn unmentioned(&self, rules: &[Rules], selected: &SelectedKinds) -> Vec<KindCandidate> {
        if !rules.iter().any(|rules| rules.incomplete) {
            return Vec::new();
        }

        let mut unmentioned: Vec<KindCandidate> = Vec::new();
        for WatchedKind { group, resource, role, why, status, suspected, .. } in &self.last {
            let is = |candidate: &KindCandidate| {
                candidate.kind.group == *group && candidate.kind.resource == *resource
            };
            if let Some(kind) = self.api_resources.get(group, resource)
                && !selected.kinds.iter().chain(&unmentioned).any(is)
            {
                let (role, why, status, suspected) = (*role, *why, *status, *suspected);
                unmentioned.push(KindCandidate {
                    kind: kind.clone(),
                    role,
                    why,
                    status,
                    suspected,
                });
            }
        }

        unmentioned
    }
}

/// Whether a kind is absent only because its API server does not respond.
fn is_unanswered(kind: &WatchedKind, api_resources: &ApiResources) -> bool {
    api_resources.is_unknown(&kind.group)
        && api_resources.get(&kind.group, &kind.resource).is_none()
}

fn watched(candidate: &KindCandidate, scope: Scope, missing: Vec<String>) -> WatchedKind {
    let KindCandidate { kind, role, why, status, suspected } = candidate.clone();
    let is_secret = kind.is_secret();
    let ApiKind { group, version, versions, kind, resource, .. } = kind;
    let watch = WatchId::new(&group, &resource, &scope);
    let filtered = role == Role::Child;

    // For most children, owners and finalizers suffice. The status of a workload shows what its
    // owner waits for. Nobody needs the data of Secrets.
    let metadata_only = is_secret || (filtered && !is_workload(&group, &kind));
    WatchedKind {
        watch,
        group,
        version,
        kind,
        resource,
        scope,
        role,
        status,
        why,
        missing,
        suspected,
        filtered,
        metadata_only,
        versions,
    }
}
