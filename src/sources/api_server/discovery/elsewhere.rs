//! Permissions in namespaces other than the operator's own, from role bindings there.
//!
//! Most accounts have none, so loopwatch reviews new namespaces at once, those with permissions in
//! every round, and all others in turn.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use loopwatch_model::observation::{LeftOut, Permission};
use serde::Deserialize;
use tokio::time::Instant;

use super::permissions::Rules;
use super::reviews::{AT_ONCE, Question, Reviews, rules_in};
use crate::net::{Failure, percent_encode};
use crate::sources::api_server::connection::{Cluster, LIST_METADATA};
use crate::sources::decoding::{ListMetadata, ObjectMetadata, or_default};

/// The reviews of other namespaces.
#[derive(Debug, Default)]
pub(super) struct Elsewhere {
    /// Reviewed namespaces, with the rules of those that grant more than the whole cluster does.
    reviewed: BTreeMap<String, Option<Rules>>,
    /// Namespaces that no round has reviewed yet.
    waiting: usize,
    /// Namespaces beyond the limit.
    beyond: u64,
    /// The namespace after which the next round continues to repeat reviews.
    cursor: String,
    next: Option<Instant>,
    wait: Duration,
}

#[derive(Deserialize)]
struct NamespaceListDocument {
    #[serde(default)]
    metadata: ListMetadata,
    #[serde(default, deserialize_with = "or_default")]
    items: Vec<NamespaceDocument>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct NamespaceDocument {
    metadata: ObjectMetadata,
}

/// Limit on known namespaces. In a larger cluster, an operator with role bindings in the remaining
/// ones needs `--namespace`.
const MOST_NAMESPACES: usize = 5_000;
/// Limit on new namespaces to review in one round.
const REVIEWS_PER_ROUND: usize = 200;
/// Number of namespaces without permissions to review again in one round.
const REPEATS_PER_ROUND: usize = 50;
/// Namespaces per page.
const PAGE: usize = 500;
/// Wait between two rounds: the first and the longest. It doubles while nothing changes.
const ROUND_EVERY: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(960));

impl Elsewhere {
    /// Runs a round if one is due. With `once`, no other round follows, so it reviews all
    /// namespaces.
    pub(super) async fn update(
        &mut self,
        cluster: &Cluster,
        reviews: &mut Reviews,
        homes: &[String],
        once: bool,
    ) -> Result<(), Failure> {
        let now = Instant::now();
        if self.next.is_some_and(|next| now < next) {
            return Ok(());
        }

        let list = Permission {
            verb: "list".to_owned(),
            group: String::new(),
            resource: "namespaces".to_owned(),
        };

        reviews.ask(cluster, &[Question::new(&list, "")]).await?;
        if !reviews.allow(&list, "") {
            *self = Self::default();
            return Ok(());
        }

        let (names, beyond) = namespaces(cluster).await?;
        self.beyond = beyond;
        self.reviewed.retain(|namespace, _| names.contains(namespace));

        let is_new = |name: &&String| !self.reviewed.contains_key(*name) && !homes.contains(name);
        let mut due: Vec<String> = names.iter().filter(is_new).cloned().collect();
        let most = if once { MOST_NAMESPACES } else { REVIEWS_PER_ROUND };
        self.waiting = due.len().saturating_sub(most);
        due.truncate(most);
        due.extend(
            self.reviewed.iter().filter(|(_, rules)| rules.is_some()).map(|(name, _)| name.clone()),
        );

        let (repeats, cursor) = self.repeats();
        let first_repeat = due.len();
        due.extend(repeats);

        let mut changed = self.waiting > 0;

        // A failure loses only the reviews of its batch: the next round continues after it.
        for (number, batch) in due.chunks(AT_ONCE).enumerate() {
            if number * AT_ONCE + batch.len() > first_repeat {
                self.cursor = batch.last().cloned().unwrap_or_default();
            }
            for (namespace, rules) in rules_in(cluster, batch).await? {
                let own = Some(rules).filter(|rules| rules.exceed(&reviews.everywhere));
                changed |= self.reviewed.get(&namespace).unwrap_or(&None) != &own;
                self.reviewed.insert(namespace, own);
            }
        }

        self.cursor = cursor;
        let (first, longest) = ROUND_EVERY;
        self.wait =
            if changed || self.wait.is_zero() { first } else { (self.wait * 2).min(longest) };
        self.next = if self.waiting > 0 { None } else { Some(now + self.wait) };

        Ok(())
    }

    /// Namespaces that granted nothing and are due for another review, and the cursor after them.
    fn repeats(&self) -> (Vec<String>, String) {
        use std::ops::Bound::{Excluded, Unbounded};

        let without =
            |(name, rules): (&String, &Option<Rules>)| rules.is_none().then(|| name.clone());
        let after = self.reviewed.range::<String, _>((Excluded(&self.cursor), Unbounded));
        let repeats: Vec<String> = after.filter_map(without).take(REPEATS_PER_ROUND).collect();
        let is_last = repeats.len() < REPEATS_PER_ROUND;
        let cursor = repeats.last().filter(|_| !is_last).cloned().unwrap_or_default();

        (repeats, cursor)
    }

    /// The namespaces that grant more than the whole cluster does.
    pub(super) fn granted(&self) -> impl Iterator<Item = (String, Rules)> {
        self.reviewed.iter().filter_map(|(name, rules)| Some((name.clone(), rules.clone()?)))
    }

    /// Whether the account's permissions in this namespace have been reviewed.
    pub(super) fn has_reviewed(&self, namespace: &str) -> bool {
        self.reviewed.contains_key(namespace)
    }

    /// Whether namespaces wait for their first review.
    pub(super) fn is_behind(&self) -> bool {
        self.waiting > 0
    }

    /// Forgets everything, because permissions in other namespaces cannot matter.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }

    /// The namespaces that no review has covered.
    pub(super) fn left_out(&self) -> Vec<LeftOut> {
        let mut left_out = Vec::new();
        if self.waiting > 0 {
            left_out.push(LeftOut {
                what: format!("{} namespaces", self.waiting),
                why: "loopwatch has not reviewed the account's permissions in them yet".to_owned(),
            });
        }

        if self.beyond > 0 {
            left_out.push(LeftOut {
                what: format!("{} namespaces", self.beyond),
                why: format!(
                    "loopwatch reviews the account's permissions in {MOST_NAMESPACES} namespaces at most; name all \
                     namespaces of the operator with --namespace"
                ),
            });
        }

        left_out
    }
}

/// The names of all namespaces up to the limit, and the number of those beyond it.
async fn namespaces(cluster: &Cluster) -> Result<(BTreeSet<String>, u64), Failure> {
    let (mut names, mut token) = (BTreeSet::new(), String::new());
    loop {
        let mut path = format!("/api/v1/namespaces?limit={PAGE}");
        if !token.is_empty() {
            path = format!("{path}&continue={}", percent_encode(&token));
        }

        let NamespaceListDocument { metadata, items } =
            cluster.get_json(&path, LIST_METADATA).await?;
        names.extend(items.into_iter().map(|item| item.metadata.name));
        if metadata.token.is_empty() || names.len() >= MOST_NAMESPACES {
            let beyond = if metadata.token.is_empty() {
                0
            } else {
                metadata.remaining_item_count.unwrap_or(1)
            };

            return Ok((names, beyond));
        }

        token = metadata.token;
    }
}

#[cfg(test)]
mod tests {
    use loopwatch_testbed::standin::{NAMESPACE, World};

    use super::*;
    use crate::sources::testing::InProcess as _;

    #[tokio::test(start_paused = true)]
    async fn after_a_failure_the_next_round_continues_after_the_batch_that_failed() {
        let world = World::new(&[NAMESPACE]).allow("", &["list"], "", &["namespaces"]);
        let names: Vec<&'static str> = (0..120)
            .map(|number| &*Box::leak(format!("ns-{number:03}").into_boxed_str()))
            .collect();

        world.change(|state| state.namespaces.clone_from(&names));
        let (cluster, mut elsewhere) = (world.cluster(), Elsewhere::default());
        let mut reviews = Reviews::request(&cluster, Vec::new()).await.expect("reviews");
        elsewhere
            .update(&cluster, &mut reviews, &[], false)
            .await
            .expect("the first round reviews all");
        tokio::time::advance(ROUND_EVERY.0).await;

        world.change(|state| state.unreviewable = vec![names[20]]);
        elsewhere.update(&cluster, &mut reviews, &[], false).await.expect_err("a review fails");
        world.change(|state| state.reviewed.clear());
        elsewhere.update(&cluster, &mut reviews, &[], false).await.expect("others are reviewed");

        let mut reviewed = world.change(|state| state.reviewed.clone());
        reviewed.sort();

        let expected: Vec<String> = names[24..24 + REPEATS_PER_ROUND]
            .iter()
            .map(|name| format!("selfsubjectrulesreviews {name}"))
            .collect();

        assert_eq!(reviewed, expected);
    }
}
