//! Decides from samples which child kinds are worth a watch, and in which scopes.
//!
//! The permission to create Pods does not make all Pods of a cluster children of the operator's
//! objects, and watching all of them is expensive. A round samples a few objects of each child
//! kind: at the start of its list, where the last round stopped, and in namespaces of primary
//! objects. Once a sample shows an object that belongs to a primary object, loopwatch watches the
//! kind. The watch covers the whole scope if that has few foreign objects, and otherwise only the
//! namespaces with children. Rounds repeat, at growing intervals, until each kind is watched; a new
//! primary object brings the next one forward.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::FutureExt as _;
use loopwatch_model::observation::{LeftOut, Scope, WatchId, WatchedKind};
use tokio::time::Instant;

use super::reviews::concurrently;
use super::sample::Sample;
use crate::net::Failure;
use crate::sources::api_server::api_resources::Kind;
use crate::sources::api_server::collections::collection;
use crate::sources::api_server::connection::Cluster;
use crate::sources::decoding::{HashKey, PrimaryKinds};

/// The results of all rounds.
#[derive(Debug, Default)]
pub(super) struct SampledKinds {
    kinds: BTreeMap<Kind, ChildKind>,
    /// The namespaces of sampled primary objects, in the order in which rounds visit them.
    namespaces: Vec<String>,
    /// Whether there are cluster-scoped primary kinds, whose children may be anywhere.
    anywhere: bool,
    /// Where the next samples of primary objects begin.
    tokens: BTreeMap<WatchId, String>,
    last: Option<Instant>,
    wait: Duration,
}

/// What samples have shown of one child kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct ChildKind {
    /// The scopes with children that are worth a watch.
    scopes: BTreeSet<Scope>,
    /// Scopes with children in which too many foreign objects would have to be transferred.
    costly: BTreeSet<Scope>,
    /// Watched scopes with too many foreign objects to transfer more than the metadata.
    crowded: BTreeSet<Scope>,
    /// The number of objects in the whole scope.
    total: u64,
    /// Where the next sample of the whole scope begins.
    token: String,
}

/// One sampled scope of a child kind.
struct SampledScope {
    scope: Scope,
    sample: Sample,
    /// The namespaces of the sampled objects that belong to a primary object.
    own: Vec<String>,
}

/// Objects in a sample.
const OBJECTS: usize = 20;
/// Limit on remembered namespaces of primary objects.
const MOST_NAMESPACES: usize = 500;
/// Namespaces of primary objects that a round visits for each kind.
const NAMESPACES_PER_ROUND: usize = 3;
/// Limit on single namespaces in which a child kind of the whole cluster is watched.
const MOST_SCOPES: usize = 8;
/// Foreign objects for which a watch is too costly: every list would transfer approximately 2 MB of
/// metadata.
const FOREIGN_OBJECTS: u64 = 1_000;
/// Foreign objects for which a watch of whole objects is too costly: they take 1 to 2 MB.
const FOREIGN_WHOLE_OBJECTS: u64 = 200;
/// Wait between two rounds: the first and the longest. It doubles while rounds find nothing.
const ROUND_EVERY: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(1_920));
/// Time from the first new primary object to a round, so that its children exist.
const AFTER_NEW_PRIMARY: Duration = Duration::from_secs(5);

impl SampledKinds {
    /// When the next round is due. A new primary object brings it forward, but only a little after
    /// many fruitless rounds: an operator may create primary objects all the time.
    pub(super) fn due(&self, new_primary: Option<Instant>) -> Option<Instant> {
        let last = self.last?;
        let early = new_primary.map(|at| (at + AFTER_NEW_PRIMARY).max(last + self.wait / 8));
        let regular = last + self.wait;
        Some(early.map_or(regular, |early| early.min(regular)))
    }

    /// Runs a round. `primaries` and `candidates` are watches that the account may open; `new`
    /// holds namespaces with new primary objects. Returns whether the watched scopes have changed.
    pub(super) async fn round(
        &mut self,
        cluster: &Cluster,
        key: &HashKey,
        primaries: &[&WatchedKind],
        candidates: &[&WatchedKind],
        new: BTreeSet<String>,
    ) -> bool {
        let owners: PrimaryKinds =
            primaries.iter().map(|kind| (kind.group.as_str(), kind.kind.as_str())).collect();
        self.anywhere = primaries.iter().any(|kind| kind.scope == Scope::Cluster);

        let before = self.conclusions();
        let exist = self.sample_primaries(cluster, key, primaries, new).await;
        let mut by_kind: BTreeMap<Kind, Vec<&WatchedKind>> = BTreeMap::new();

        for candidate in candidates.iter().filter(|_| exist) {
            by_kind.entry(id(candidate)).or_default().push(candidate);
        }

        by_kind.retain(|name, scopes| !scopes.iter().all(|kind| self.covers(name, &kind.scope)));
        let samples = by_kind
            .iter()
            .map(|(name, scopes)| self.sample_kind(cluster, key, name, scopes, &owners).boxed());
        let samples = concurrently(samples.collect()).await.unwrap_or_default();
        let visited = NAMESPACES_PER_ROUND.min(self.namespaces.len());

        self.namespaces.rotate_left(visited);
        for (name, sampled) in by_kind.keys().zip(samples) {
            // The next round visits the namespaces of children that the start of a list has shown.
            self.visit_first(sampled.iter().flat_map(|s| s.own.iter().cloned()).collect());
            self.kinds.entry(name.clone()).or_default().learn(&sampled);
        }

        let changed = before != self.conclusions();
        let (first, longest) = ROUND_EVERY;
        self.wait =
            if changed || self.wait.is_zero() { first } else { (self.wait * 2).min(longest) };
        self.last = Some(Instant::now());

        changed
    }

    /// All scopes with children, and whether each is worth a watch.
    fn conclusions(&self) -> Vec<(BTreeSet<Scope>, BTreeSet<Scope>)> {
        let found =
            self.kinds.values().filter(|kind| !kind.scopes.is_empty() || !kind.costly.is_empty());
        found.map(|kind| (kind.scopes.clone(), kind.costly.clone())).collect()
    }

    /// The part of a candidate's scope to watch: all of it, single namespaces, or nothing.
    pub(super) fn watched(&self, candidate: &WatchedKind) -> Vec<WatchedKind> {
        let Some(kind) = self.kinds.get(&id(candidate)) else { return Vec::new() };
        let metadata_only = |scope: &Scope| candidate.metadata_only || kind.crowded.contains(scope);
        if kind.scopes.contains(&candidate.scope) {
            let metadata_only = metadata_only(&candidate.scope);
            return vec![WatchedKind { filtered: true, metadata_only, ..candidate.clone() }];
        }

        let parts = kind.scopes.iter().filter(|_| candidate.scope == Scope::AllNamespaces);
        let within = |scope: &Scope| WatchedKind {
            watch: WatchId::new(&candidate.group, &candidate.resource, scope),
            scope: scope.clone(),
            filtered: true,
            metadata_only: metadata_only(scope),
            ..candidate.clone()
        };

        parts.take(MOST_SCOPES).map(within).collect()
    }

    /// The children that are not watched.
    pub(super) fn left_out(&self, candidates: &[WatchedKind]) -> Vec<LeftOut> {
        let mut left_out = Vec::new();
        for (name, kind) in &self.kinds {
            let Some(candidate) = candidates.iter().find(|candidate| id(candidate) == *name) else {
                continue;
            };
            let beyond = kind.scopes.len().saturating_sub(MOST_SCOPES);
            if candidate.scope == Scope::AllNamespaces
                && !kind.scopes.contains(&candidate.scope)
                && beyond > 0
            {
                left_out.push(LeftOut {
                    what: format!("{} children in {beyond} namespaces", candidate.kind),
                    why: format!(
                        "loopwatch watches a child kind in {MOST_SCOPES} namespaces at most"
                    ),
                });
            }

            if !kind.crowded.is_empty() && !candidate.metadata_only {
                left_out.push(LeftOut {
                    what: format!("the status of {} children", candidate.kind),
                    why: format!(
                        "a watch would transfer more than {FOREIGN_WHOLE_OBJECTS} whole objects that do not belong to a watched kind"
                    ),
                });
            }

            if !kind.costly.is_empty() && kind.scopes.is_empty() {
                left_out.push(LeftOut {
                    what: format!("{} children", candidate.kind),
                    why: format!(
                        "a watch would transfer more than {FOREIGN_OBJECTS} objects that do not belong to a watched kind"
                    ),
                });
            }
        }

        left_out
    }

    /// Whether a namespace may hold children. A namespaced object has its children in its own
    /// namespace.
    fn may_have_children(&self, namespace: &str) -> bool {
        self.anywhere || self.namespaces.iter().any(|known| known == namespace)
    }

    /// Whether the scope is already known to be worth a watch.
    fn covers(&self, name: &Kind, scope: &Scope) -> bool {
        self.kinds.get(name).is_some_and(|kind| kind.scopes.contains(scope))
    }

    /// Samples primary objects for their namespaces; returns whether there are any primary objects.
    async fn sample_primaries(
        &mut self,
        cluster: &Cluster,
        key: &HashKey,
        primaries: &[&WatchedKind],
        new: BTreeSet<String>,
    ) -> bool {
        let samples = primaries.iter().map(|kind| {
            let token = self.tokens.get(&kind.watch).map_or("", String::as_str);
            sample(cluster, key, kind, &kind.scope, token).map(Ok).boxed()
        });
        let samples = concurrently(samples.collect()).await.unwrap_or_default();
        let exist = !new.is_empty()
            || !self.tokens.is_empty()
            || samples.iter().flatten().any(|sample| sample.total > Some(0));

        self.tokens.clear();
        let mut found: Vec<String> = new.into_iter().collect();
        for (kind, sample) in primaries.iter().zip(samples) {
            let Some(sample) = sample else { continue };
            found.extend(sample.objects.into_iter().map(|object| object.key.namespace));
            if !sample.token.is_empty() {
                self.tokens.insert(kind.watch.clone(), sample.token);
            }
        }

        found.retain(|namespace| !self.namespaces.contains(namespace));
        self.visit_first(found);
        exist
    }

    /// Moves namespaces to the front of those that rounds visit.
    fn visit_first(&mut self, namespaces: Vec<String>) {
        for namespace in namespaces.into_iter().rev().filter(|namespace| !namespace.is_empty()) {
            self.namespaces.retain(|known| *known != namespace);
            self.namespaces.insert(0, namespace);
        }
        self.namespaces.truncate(MOST_NAMESPACES);
    }

    /// Samples the scopes of one child kind: the whole scope and some namespaces in it, or single
    /// namespaces.
    async fn sample_kind(
        &self,
        cluster: &Cluster,
        key: &HashKey,
        name: &Kind,
        scopes: &[&WatchedKind],
        owners: &PrimaryKinds,
    ) -> Result<Vec<SampledScope>, Failure> {
        let token = self.kinds.get(name).map_or("", |kind| kind.token.as_str());
        let visits = self.namespaces.iter().take(NAMESPACES_PER_ROUND);
        let visits = visits
            .map(|namespace| Scope::Namespace(namespace.clone()))
            .filter(|scope| !self.covers(name, scope));
        let mut sampled = Vec::new();

        for kind in scopes.iter().filter(|kind| !self.covers(name, &kind.scope)) {
            if kind.scope.namespace().is_some_and(|namespace| !self.may_have_children(namespace)) {
                continue;
            }

            let whole = kind.scope.namespace().is_none();
            let token = if whole { token } else { "" };
            let Some(first) = sample(cluster, key, kind, &kind.scope, token).await else {
                continue;
            };
            let is_all = first.total.is_some() && first.token.is_empty();

            sampled.push(SampledScope::new(kind.scope.clone(), first, owners));
            if kind.scope == Scope::AllNamespaces && !is_all {
                for scope in visits.clone() {
                    if let Some(sample) = sample(cluster, key, kind, &scope, "").await {
                        sampled.push(SampledScope::new(scope, sample, owners));
                    }
                }
            }
        }

        Ok(sampled)
    }
}

impl SampledScope {
    fn new(scope: Scope, sample: Sample, owners: &PrimaryKinds) -> Self {
        let own = sample.objects.iter().filter(|object| owners.own(object));
        let own = own.map(|object| object.key.namespace.clone()).collect();
        Self { scope, sample, own }
    }
}

impl ChildKind {
    /// Concludes from samples which scopes are worth a watch.
    fn learn(&mut self, sampled: &[SampledScope]) {
        let own_anywhere = sampled.iter().any(|s| !s.own.is_empty()) || !self.scopes.is_empty();
        for SampledScope { scope, sample, own } in sampled {
            let is_whole = scope.namespace().is_none();
            if is_whole {
                self.total = sample.total.unwrap_or(self.total);
                self.token.clone_from(&sample.token);
            }

            if own.is_empty() && !(is_whole && own_anywhere) {
                continue;
            }

            let objects = sample.objects.len().max(1) as u64;
            let total = sample.total.unwrap_or(self.total);
            let foreign = total * (objects - (own.len() as u64).min(objects)) / objects;

            if foreign <= FOREIGN_OBJECTS {
                self.scopes.insert(scope.clone());
                self.costly.remove(scope);
                if foreign > FOREIGN_WHOLE_OBJECTS {
                    self.crowded.insert(scope.clone());
                }
            } else if !own.is_empty() {
                self.costly.insert(scope.clone());
            }
        }
    }
}

fn id(kind: &WatchedKind) -> Kind {
    (kind.group.clone(), kind.resource.clone())
}

/// Samples one scope. Returns `None` if the request fails.
async fn sample(
    cluster: &Cluster,
    key: &HashKey,
    kind: &WatchedKind,
    scope: &Scope,
    token: &str,
) -> Option<Sample> {
    let path = collection(&kind.group, &kind.version, &kind.resource, scope.namespace());
    Sample::request(cluster, key, &path, OBJECTS, token).await.ok()
}
