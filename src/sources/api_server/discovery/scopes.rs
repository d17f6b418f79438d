//! The scopes in which the account can see a kind: the whole cluster, or single namespaces.

use loopwatch_model::observation::{Role, Scope, WatchedKind};

use super::needed::{list_and_watch, ownership};
use super::permissions::Rules;
use super::reviews::Question;
use super::select::KindCandidate;
use super::{Discovery, Reach, watched};
use crate::net::Failure;
use crate::sources::api_server::api_resources::ApiKind;

impl Discovery {
    /// The home namespaces: the configured ones, or else our own and those that the operator
    /// watches.
    pub(super) fn homes(&self) -> Vec<String> {
        if !self.options.namespaces.is_empty() {
            return self.options.namespaces.clone();
        }

        let mut namespaces = vec![self.cluster.namespace().to_owned()];
        namespaces.extend(
            self.cluster
                .watched_namespaces()
                .iter()
                .filter(|name| *name != self.cluster.namespace())
                .cloned(),
        );

        namespaces
    }

    /// The reviewed namespaces without those that the user excludes. The rules of an excluded
    /// namespace still show which kinds the operator owns.
    fn watched_namespaces(&self) -> impl Iterator<Item = (&str, &Rules, bool)> {
        let excluded = &self.options.exclude_namespaces;
        self.reviews
            .namespaces()
            .filter(move |(namespace, ..)| !excluded.iter().any(|name| name == namespace))
    }

    /// The scopes in which the account can see the kinds, or should be able to see them. The latter
    /// list the missing verbs. Asks all questions of one step at once, because each review costs a
    /// round trip.
    pub(super) async fn scopes(
        &mut self,
        candidates: &[KindCandidate],
    ) -> Result<Vec<WatchedKind>, Failure> {
        let ask = |candidate: &KindCandidate, namespace: &str| {
            let ApiKind { group, resource, .. } = &candidate.kind;
            list_and_watch(group, resource).map(|permission| Question::new(&permission, namespace))
        };
        let everywhere = candidates.iter().filter(|candidate| !self.is_bound(candidate));
        let questions: Vec<Question> =
            everywhere.flat_map(|candidate| ask(candidate, "")).collect();

        self.reviews.ask(&self.cluster, &questions).await?;

        let hidden: Vec<&KindCandidate> =
            candidates.iter().filter(|candidate| !self.is_seen_everywhere(candidate)).collect();
        let mut questions = Vec::new();
        for candidate in hidden.iter().filter(|candidate| candidate.kind.namespaced) {
            let namespaces = self
                .watched_namespaces()
                .filter(|(_, rules, is_home)| may_see(candidate, rules, *is_home));
            questions.extend(namespaces.flat_map(|(namespace, ..)| ask(candidate, namespace)));
        }

        self.reviews.ask(&self.cluster, &questions).await?;

        let writes = hidden
            .iter()
            .filter_map(|candidate| ownership(&candidate.kind, candidate.why))
            .flatten();
        let questions: Vec<Question> =
            writes.map(|permission| Question::new(&permission, "")).collect();
        self.reviews.ask(&self.cluster, &questions).await?;

        Ok(candidates.iter().flat_map(|candidate| self.scopes_of(candidate)).collect())
    }

    /// The scopes of one kind, once all questions are answered.
    fn scopes_of(&self, candidate: &KindCandidate) -> Vec<WatchedKind> {
        let ApiKind { group, resource, namespaced, .. } = &candidate.kind;
        let everywhere = if *namespaced { Scope::AllNamespaces } else { Scope::Cluster };
        if let Some(scopes) = self.scopes_of_owned(candidate, &everywhere) {
            return scopes;
        }
        if self.is_seen_everywhere(candidate) {
            return vec![watched(candidate, everywhere, Vec::new())];
        }

        let is_bound = self.is_bound(candidate);
        let mut scopes = Vec::new();
        for (namespace, rules, is_home) in self.watched_namespaces().filter(|_| *namespaced) {
            // If an operator may write the status of a kind that it cannot list, the user should
            // know.
            let is_expected = candidate.role == Role::Primary && writes(candidate, rules);
            let missing = match may_see(candidate, rules, is_home) {
                true => self.missing(group, resource, namespace),
                false => both(),
            };
            if is_bound || is_expected || missing.is_empty() {
                scopes.push(watched(candidate, Scope::Namespace(namespace.to_owned()), missing));
            }
        }

        let none_left = *namespaced && self.watched_namespaces().next().is_none();
        if is_bound || none_left || scopes.iter().any(|kind| kind.missing.is_empty()) {
            return scopes;
        }

        self.invisible_scopes(candidate, everywhere, scopes)
    }

    /// The scopes of a kind that belongs to one of many operators: where the operator may write it. Whether
    /// loopwatch may see it there is another question.
    fn scopes_of_owned(
        &self,
        candidate: &KindCandidate,
        everywhere: &Scope,
    ) -> Option<Vec<WatchedKind>> {
        let observed = self.options.observed.as_ref()?;
        let (reach, _) = observed.owned(&candidate.kind.id())?;
        let namespaces: Vec<String> = match reach {
            Reach::Everywhere if !self.is_bound(candidate) => {
                return Some(vec![watched(candidate, everywhere.clone(), Vec::new())]);
            }
            Reach::Everywhere => self.options.namespaces.clone(),
            Reach::In(namespaces) => namespaces.into_iter().collect(),
        };

        let is_excluded = |name: &String| self.options.exclude_namespaces.contains(name);
        let wanted = namespaces.into_iter().filter(|name| !is_excluded(name));
        let scope = |name| watched(candidate, Scope::Namespace(name), Vec::new());
        Some(wanted.map(scope).collect())
    }

    /// The scopes in which the account should see a kind, but cannot.
    fn invisible_scopes(
        &self,
        candidate: &KindCandidate,
        everywhere: Scope,
        expected: Vec<WatchedKind>,
    ) -> Vec<WatchedKind> {
        let ApiKind { group, resource, .. } = &candidate.kind;
        let is_same = |kind: &&WatchedKind| kind.group == *group && kind.resource == *resource;
        let last: Vec<Scope> =
            self.last.iter().filter(is_same).map(|kind| kind.scope.clone()).collect();
        let scopes = if !last.is_empty() {
            last
        } else if candidate.role == Role::Child {
            // A child kind that was never visible is not a loss.
            return Vec::new();
        } else if !expected.is_empty() && !self.writes_everywhere(candidate) {
            return expected;
        } else {
            vec![everywhere]
        };

        scopes.into_iter().map(|scope| watched(candidate, scope, both())).collect()
    }

    /// Whether the user restricts the kind to namespaces.
    fn is_bound(&self, candidate: &KindCandidate) -> bool {
        candidate.kind.namespaced && !self.options.namespaces.is_empty()
    }

    fn is_seen_everywhere(&self, candidate: &KindCandidate) -> bool {
        let ApiKind { group, resource, .. } = &candidate.kind;
        !self.is_bound(candidate) && self.missing(group, resource, "").is_empty()
    }

    /// Whether the account may write an invisible kind in all namespaces, and should thus see it
    /// there.
    fn writes_everywhere(&self, candidate: &KindCandidate) -> bool {
        ownership(&candidate.kind, candidate.why)
            .iter()
            .flatten()
            .any(|permission| !self.reviews.deny(permission, ""))
    }

    /// The missing verbs for watching a resource. An empty namespace means all.
    fn missing(&self, group: &str, resource: &str, namespace: &str) -> Vec<String> {
        let permissions = list_and_watch(group, resource).into_iter();
        let missing = permissions.filter(|permission| self.reviews.deny(permission, namespace));
        missing.map(|permission| permission.verb).collect()
    }
}

/// Whether the account may see a kind in a namespace: a rule lists it or, in a home namespace, an
/// unlisted rule might allow it.
fn may_see(candidate: &KindCandidate, rules: &Rules, is_home: bool) -> bool {
    let ApiKind { group, resource, .. } = &candidate.kind;
    rules.allow("list", group, resource)
        || (rules.incomplete && (is_home || writes(candidate, rules)))
}

fn writes(candidate: &KindCandidate, rules: &Rules) -> bool {
    ownership(&candidate.kind, candidate.why)
        .iter()
        .flatten()
        .any(|permission| rules.allow(&permission.verb, &permission.group, &permission.resource))
}

/// The verbs of a watch.
fn both() -> Vec<String> {
    vec!["list".to_owned(), "watch".to_owned()]
}
