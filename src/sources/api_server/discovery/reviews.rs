//! The account's permissions in one poll: rules, which answer most questions at once, and access
//! reviews for the rest.

use std::collections::BTreeMap;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use loopwatch_model::observation::Permission;

use super::permissions::{Rules, is_allowed};
use crate::net::Failure;
use crate::sources::api_server::connection::Cluster;

/// The rules in force, and the answers to access reviews.
#[derive(Clone, Debug, Default)]
pub(super) struct Reviews {
    /// The rules in force in every namespace.
    pub(super) everywhere: Rules,
    /// The rules in single namespaces, home namespaces first. Each includes the rules in force
    /// everywhere.
    namespaces: Vec<(String, Rules)>,
    /// The number of home namespaces.
    homes: usize,
    /// The answers; `None` if the cluster forbids the review.
    answers: BTreeMap<Question, Option<bool>>,
}

/// Whether the account has a permission in a namespace. An empty namespace means all.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Question {
    permission: Permission,
    namespace: String,
}

/// Limit on concurrent requests of discovery.
pub(super) const AT_ONCE: usize = 8;
/// Limit on access reviews in one poll. Beyond it, the listed rules count.
const MOST_REVIEWS: usize = 1_000;
/// Number of open questions that justify one wider question.
const WORTH_WIDENING: usize = 3;
/// A namespace without role bindings, in which only the rules in force everywhere apply. The API
/// server does not require that the namespace of a review exists.
pub(crate) const NOWHERE: &str = "loopwatch-review-of-the-cluster";

/// Awaits requests, several at a time, and returns the results in order, or the first failure.
pub(super) async fn concurrently<T>(
    requests: Vec<BoxFuture<'_, Result<T, Failure>>>,
) -> Result<Vec<T>, Failure> {
    stream::iter(requests).buffered(AT_ONCE).try_collect().await
}

/// Requests the rules in several namespaces.
pub(super) async fn rules_in(
    cluster: &Cluster,
    namespaces: &[String],
) -> Result<Vec<(String, Rules)>, Failure> {
    let rules = concurrently(
        namespaces.iter().map(|namespace| Rules::review(cluster, namespace).boxed()).collect(),
    )
    .await?;

    Ok(namespaces.iter().cloned().zip(rules).collect())
}

impl Reviews {
    /// Requests the rules in force everywhere and those in the home namespaces.
    pub(super) async fn request(cluster: &Cluster, homes: Vec<String>) -> Result<Self, Failure> {
        let names: Vec<String> = std::iter::once(NOWHERE.to_owned()).chain(homes).collect();
        let mut namespaces = rules_in(cluster, &names).await?;
        let (_, everywhere) = namespaces.remove(0);
        Ok(Self::known(everywhere, namespaces))
    }

    /// Rules that are known without a review: those in force everywhere, and those in the home namespaces.
    pub(super) fn known(everywhere: Rules, homes: Vec<(String, Rules)>) -> Self {
        Self { everywhere, homes: homes.len(), namespaces: homes, answers: BTreeMap::new() }
    }

    /// Adds the rules in other namespaces.
    pub(super) fn extend(&mut self, others: impl IntoIterator<Item = (String, Rules)>) {
        self.namespaces.extend(others);
    }

    pub(super) fn rules(&self) -> Vec<Rules> {
        std::iter::once(&self.everywhere)
            .chain(self.namespaces.iter().map(|(_, rules)| rules))
            .cloned()
            .collect()
    }

    /// Reviewed namespaces with their rules, and whether each is a home namespace.
    pub(super) fn namespaces(&self) -> impl Iterator<Item = (&str, &Rules, bool)> {
        let numbered = self.namespaces.iter().enumerate();
        numbered
            .map(|(number, (namespace, rules))| (namespace.as_str(), rules, number < self.homes))
    }

    /// The rules in a namespace; those in force everywhere if it is empty or has none of its own.
    fn rules_of(&self, namespace: &str) -> &Rules {
        self.namespaces
            .iter()
            .find(|(name, _)| name == namespace)
            .map_or(&self.everywhere, |(_, rules)| rules)
    }

    /// Whether the account is known to have a permission.
    pub(super) fn allow(&self, permission: &Permission, namespace: &str) -> bool {
        let Permission { verb, group, resource } = permission;
        let rules = self.rules_of(namespace);
        match rules.incomplete {
            false => rules.allow(verb, group, resource),
            true => self.answer(&Question::new(permission, namespace)) == Some(Some(true)),
        }
    }

    /// Whether the account is known to lack a permission. If the cluster forbids reviews, nothing
    /// is known, and the watch itself reports a refusal.
    pub(super) fn deny(&self, permission: &Permission, namespace: &str) -> bool {
        let Permission { verb, group, resource } = permission;
        let rules = self.rules_of(namespace);
        let listed = rules.allow(verb, group, resource);

        match self.answer(&Question::new(permission, namespace)).filter(|_| rules.incomplete) {
            Some(answer) => answer == Some(false),
            None => !listed && !self.are_forbidden(),
        }
    }

    /// Whether the rules or an answer show that the account lacks a permission. Unlike
    /// [`Self::deny`], a question without an answer shows nothing.
    pub(super) fn is_denied(&self, permission: &Permission, namespace: &str) -> bool {
        let Permission { verb, group, resource } = permission;
        let rules = self.rules_of(namespace);
        let answer = self.answer(&Question::new(permission, namespace));
        match rules.incomplete {
            true => answer == Some(Some(false)),
            false => !rules.allow(verb, group, resource),
        }
    }

    /// Asks access reviews the questions that the rules leave open, the widest first: one
    /// permission for all kinds or for a whole group answers the questions about single kinds.
    pub(super) async fn ask(
        &mut self,
        cluster: &Cluster,
        questions: &[Question],
    ) -> Result<(), Failure> {
        let levels: [fn(&Question) -> Question; 4] = [
            |question| question.widened("*", ""),
            |question| question.widened("*", &question.namespace),
            |question| question.widened(&question.permission.group, ""),
            |question| question.widened(&question.permission.group, &question.namespace),
        ];

        for widen in levels {
            let mut worth: BTreeMap<Question, usize> = BTreeMap::new();
            for question in questions.iter().filter(|question| self.is_open(question)) {
                *worth.entry(widen(question)).or_default() += 1;
            }

            worth.retain(|question, count| *count >= WORTH_WIDENING && self.is_open(question));
            self.review(cluster, worth.into_keys().collect()).await?;
        }

        let mut rest: Vec<Question> =
            questions.iter().filter(|question| self.is_open(question)).cloned().collect();
        rest.sort();
        rest.dedup();

        self.review(cluster, rest).await
    }

    async fn review(
        &mut self,
        cluster: &Cluster,
        mut questions: Vec<Question>,
    ) -> Result<(), Failure> {
        if self.are_forbidden() {
            return Ok(());
        }

        questions.truncate(MOST_REVIEWS.saturating_sub(self.answers.len()));
        let reviews =
            questions.iter().map(|q| is_allowed(cluster, &q.permission, &q.namespace).boxed());
        let answers = concurrently(reviews.collect()).await?;

        self.answers.extend(questions.into_iter().zip(answers));
        Ok(())
    }

    /// Whether only an access review can answer the question.
    fn is_open(&self, question: &Question) -> bool {
        self.rules_of(&question.namespace).incomplete && self.answer(question).is_none()
    }

    /// The answer to this question, or to a wider one if that is yes.
    fn answer(&self, question: &Question) -> Option<Option<bool>> {
        let Question { permission: Permission { group, .. }, namespace } = question;
        let wider = [("*", ""), ("*", namespace.as_str()), (group, ""), (group, namespace)];
        let is_yes = |question: Question| self.answers.get(&question) == Some(&Some(true));

        if wider.into_iter().any(|(group, namespace)| is_yes(question.widened(group, namespace))) {
            return Some(Some(true));
        }

        // A permission in all namespaces holds in each of them.
        let everywhere = Question { namespace: String::new(), ..question.clone() };
        if is_yes(everywhere) { Some(Some(true)) } else { self.answers.get(question).copied() }
    }

    /// Whether the cluster forbids access reviews.
    fn are_forbidden(&self) -> bool {
        self.answers.values().any(Option::is_none)
    }
}

impl Question {
    pub(super) fn new(permission: &Permission, namespace: &str) -> Self {
        Self { permission: permission.clone(), namespace: namespace.to_owned() }
    }

    /// The same question about all kinds of a group.
    fn widened(&self, group: &str, namespace: &str) -> Self {
        let Permission { verb, resource, .. } = &self.permission;
        let resource = match resource.split_once('/') {
            Some((_, subresource)) => format!("*/{subresource}"),
            None => "*".to_owned(),
        };

        Self {
            permission: Permission { verb: verb.clone(), group: group.to_owned(), resource },
            namespace: namespace.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use loopwatch_testbed::standin::{CONFIG_MAP, GADGET, WIDGET, World};

    use super::*;
    use crate::sources::testing::InProcess as _;

    fn list(group: &str, resource: &str) -> Permission {
        Permission {
            verb: "list".to_owned(),
            group: group.to_owned(),
            resource: resource.to_owned(),
        }
    }

    #[tokio::test]
    async fn complete_rules_answer_without_an_access_review() {
        let world = World::new(&[WIDGET]).allow("", &["list"], "example.io", &["widgets"]);
        let world = world.allow("op", &["list"], "", &["configmaps"]);
        let mut reviews =
            Reviews::request(&world.cluster(), vec!["op".to_owned()]).await.expect("reviews");
        let (widgets, maps) = (list("example.io", "widgets"), list("", "configmaps"));

        reviews
            .ask(&world.cluster(), &[Question::new(&widgets, ""), Question::new(&maps, "op")])
            .await
            .expect("asked");

        assert!(reviews.allow(&widgets, "") && reviews.allow(&widgets, "elsewhere"));
        assert!(reviews.allow(&maps, "op") && reviews.deny(&maps, "") && !reviews.allow(&maps, ""));
        assert_eq!(
            world.change(|state| state.reviewed.len()),
            2,
            "one for the cluster and one for the namespace"
        );
    }

    #[tokio::test]
    async fn one_review_for_everything_answers_many_questions() {
        let world = World::new(&[WIDGET, GADGET, CONFIG_MAP]).allow("", &["*"], "*", &["*"]);
        world.change(|state| state.incomplete = true);

        let mut reviews = Reviews::request(&world.cluster(), vec![]).await.expect("reviews");
        let questions: Vec<Question> = (0..500)
            .map(|number| Question::new(&list("example.io", &format!("kinds{number}")), ""))
            .collect();

        reviews.ask(&world.cluster(), &questions).await.expect("asked");
        assert!(questions.iter().all(|question| reviews.allow(&question.permission, "")));
        assert_eq!(world.change(|state| state.reviewed.len()), 2, "the rules, and list *.*");
    }

    #[tokio::test]
    async fn incomplete_rules_are_confirmed_and_a_denial_wins() {
        let world = World::new(&[WIDGET, GADGET]).allow(
            "",
            &["list"],
            "example.io",
            &["widgets", "gadgets"],
        );

        world.change(|state| {
            state.incomplete = true;
            state.denied.push("gadgets".to_owned());
        });
        let mut reviews = Reviews::request(&world.cluster(), vec![]).await.expect("reviews");
        let (widgets, gadgets) = (list("example.io", "widgets"), list("example.io", "gadgets"));

        assert!(!reviews.allow(&widgets, ""), "not yet confirmed");

        reviews
            .ask(&world.cluster(), &[Question::new(&widgets, ""), Question::new(&gadgets, "")])
            .await
            .expect("asked");

        assert!(reviews.allow(&widgets, "") && reviews.deny(&gadgets, ""));
    }
}
