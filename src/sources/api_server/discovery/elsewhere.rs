//! Permissions in namespaces other than the operator's own, from role bindings there.
//!
//! Most accounts have none, so loopwatch reviews new namespaces first, then those with permissions,
//! and all others in turn. Each namespace is a request, and a cluster may have many namespaces and
//! many loopwatches, so the requests are spread over time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use loopwatch_model::observation::{LeftOut, Permission};
use serde::Deserialize;
use tokio::time::Instant;

use super::permissions::Rules;
use super::reviews::{AT_ONCE, Question, Reviews, rules_in};
use crate::net::{Backoff, Failure, percent_encode};
use crate::sources::api_server::connection::{Cluster, LIST_METADATA};
use crate::sources::decoding::{ListMetadata, ObjectMetadata, or_default};

/// The reviews of other namespaces.
#[derive(Debug)]
pub(super) struct Elsewhere {
    /// Reviewed namespaces, with the rules of those that grant more than the whole cluster does.
    reviewed: BTreeMap<String, Option<Rules>>,
    /// The namespaces that the current round has yet to review.
    queue: VecDeque<String>,
    /// Whether the current round has found a change.
    changed: bool,
    /// Up to when the requests so far have used up the allowed rate.
    paid_until: Option<Instant>,
    /// Namespaces beyond the limit.
    beyond: u64,
    /// The namespace after which the next round continues to repeat reviews.
    cursor: String,
    /// When the next round is due.
    next: Option<Instant>,
    wait: Duration,
    random: Backoff,
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
/// Time per review, on average.
const REVIEW_EVERY: Duration = Duration::from_millis(600);
/// Number of reviews that may follow one another at once. Most clusters have no more namespaces.
const BURST: u32 = 24;
/// The longest wait before the first review, if the namespaces are more than a burst: the
/// loopwatches of a cluster may start together.
const BEGIN_WITHIN: Duration = Duration::from_secs(30);
/// Number of namespaces without permissions to review again in one round.
const REPEATS_PER_ROUND: usize = 50;
/// Namespaces per page.
const PAGE: usize = 500;
/// Wait between two rounds: the first and the longest. It doubles while nothing changes.
const ROUND_EVERY: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(960));

impl Default for Elsewhere {
    fn default() -> Self {
        Self {
            reviewed: BTreeMap::new(),
            queue: VecDeque::new(),
            changed: false,
            paid_until: None,
            beyond: 0,
            cursor: String::new(),
            next: None,
            wait: Duration::ZERO,
            random: Backoff::new(),
        }
    }
}

impl Elsewhere {
    /// Reviews the namespaces that are due, as far as the rate allows. With `once`, no other call
    /// follows, so it reviews all of them.
    pub(super) async fn update(
        &mut self,
        cluster: &Cluster,
        reviews: &mut Reviews,
        homes: &[String],
        once: bool,
    ) -> Result<(), Failure> {
        if self.queue.is_empty() {
            if self.next.is_some_and(|next| Instant::now() < next) {
                return Ok(());
            }
            if !self.may_list(cluster, reviews).await? {
                *self = Self::default();
                return Ok(());
            }

            self.begin_round(cluster, homes, once).await?;
        }

        let most = if once { self.queue.len() } else { self.allowance() };
        let due: Vec<String> = self.queue.drain(..most.min(self.queue.len())).collect();

        // A failure loses only these reviews: the next round repeats them.
        for batch in due.chunks(AT_ONCE) {
            self.review(cluster, reviews, batch).await?;
        }

        if self.queue.is_empty() {
            self.end_round();
        }

        Ok(())
    }

    async fn may_list(&self, cluster: &Cluster, reviews: &mut Reviews) -> Result<bool, Failure> {
        let list = Permission {
            verb: "list".to_owned(),
            group: String::new(),
            resource: "namespaces".to_owned(),
        };

        reviews.ask(cluster, &[Question::new(&list, "")]).await?;
        Ok(reviews.allow(&list, ""))
    }

    /// Lists the namespaces, and plans what to review.
    async fn begin_round(
        &mut self,
        cluster: &Cluster,
        homes: &[String],
        once: bool,
    ) -> Result<(), Failure> {
        let (names, beyond) = namespaces(cluster).await?;
        self.beyond = beyond;
        self.reviewed.retain(|namespace, _| names.contains(namespace));

        let is_new = |name: &&String| !self.reviewed.contains_key(*name) && !homes.contains(name);
        let mut due: Vec<String> = names.iter().filter(is_new).cloned().collect();
        self.changed = false;
        due.extend(
            self.reviewed.iter().filter(|(_, rules)| rules.is_some()).map(|(name, _)| name.clone()),
        );

        let (repeats, cursor) = self.repeats();
        due.extend(repeats);
        (self.queue, self.cursor) = (due.into(), cursor);

        let is_first = self.paid_until.is_none();
        if is_first && !once && self.queue.len() > BURST as usize {
            self.paid_until = Some(Instant::now() + self.random.below(BEGIN_WITHIN));
        }

        Ok(())
    }

    /// The number of reviews that the rate allows now. Counts them as made.
    fn allowance(&mut self) -> usize {
        let (now, most) = (Instant::now(), REVIEW_EVERY * BURST);
        let since = |until: Instant| now.saturating_duration_since(until).min(most);
        let earned = self.paid_until.map_or(most, since);

        let mut number = 0;
        let mut spent = Duration::ZERO;
        while spent + REVIEW_EVERY <= earned && number < self.queue.len() {
            number += 1;
            spent += REVIEW_EVERY;
        }

        if number > 0 {
            self.paid_until = now.checked_sub(earned - spent).or(Some(now));
        }

        number
    }

    async fn review(
        &mut self,
        cluster: &Cluster,
        reviews: &Reviews,
        batch: &[String],
    ) -> Result<(), Failure> {
        for (namespace, rules) in rules_in(cluster, batch).await? {
            let own = Some(rules).filter(|rules| rules.exceed(&reviews.everywhere));
            self.changed |= self.reviewed.get(&namespace).unwrap_or(&None) != &own;
            self.reviewed.insert(namespace, own);
        }

        Ok(())
    }

    fn end_round(&mut self) {
        let (first, longest) = ROUND_EVERY;
        let is_short = self.changed || self.wait.is_zero();
        self.wait = if is_short { first } else { (self.wait * 2).min(longest) };
        self.next = Some(Instant::now() + self.wait);
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

    /// Whether namespaces wait for a review, so that the next poll should come soon.
    pub(super) fn is_busy(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Whether namespaces wait for their first review.
    pub(super) fn is_behind(&self) -> bool {
        self.waiting() > 0
    }

    fn waiting(&self) -> usize {
        self.queue.iter().filter(|namespace| !self.reviewed.contains_key(*namespace)).count()
    }

    /// Forgets everything, because permissions in other namespaces cannot matter.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }

    /// The namespaces that no review has covered.
    pub(super) fn left_out(&self) -> Vec<LeftOut> {
        let mut left_out = Vec::new();
        let waiting = self.waiting();
        if waiting > 0 {
            left_out.push(LeftOut {
                what: format!("{waiting} namespaces"),
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

    fn names(number: usize) -> Vec<&'static str> {
        (0..number).map(|number| &*Box::leak(format!("ns-{number:04}").into_boxed_str())).collect()
    }

    /// A cluster with this many namespaces, which the account may list.
    fn world(namespaces: usize) -> World {
        let world = World::new(&[NAMESPACE]).allow("", &["list"], "", &["namespaces"]);
        world.change(|state| state.namespaces = names(namespaces));
        world
    }

    /// The namespaces that have been reviewed.
    fn reviewed(world: &World) -> Vec<String> {
        let all = world.change(|state| state.reviewed.clone());
        let of_review = |line: &String| {
            line.strip_prefix("selfsubjectrulesreviews ns-").map(|name| format!("ns-{name}"))
        };
        all.iter().filter_map(of_review).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_loses_only_the_reviews_of_its_batch_until_the_next_round() {
        let world = world(60);
        let (cluster, mut elsewhere) = (world.cluster(), Elsewhere::default());
        let mut reviews = Reviews::request(&cluster, Vec::new()).await.expect("reviews");
        world.change(|state| state.unreviewable = vec!["ns-0020"]);

        let mut failures = 0;
        for _ in 0..20 {
            let updated = elsewhere.update(&cluster, &mut reviews, &[], false).await;
            failures += u32::from(updated.is_err());
            tokio::time::advance(Duration::from_secs(5)).await;
        }

        assert!(failures >= 1);
        let others = names(60).into_iter().filter(|name| elsewhere.has_reviewed(name)).count();
        assert!(others >= 60 - BURST as usize, "{others}");

        world.change(|state| state.unreviewable.clear());
        for _ in 0..20 {
            tokio::time::advance(Duration::from_secs(30)).await;
            elsewhere.update(&cluster, &mut reviews, &[], false).await.expect("reviewed");
        }

        assert!(names(60).into_iter().all(|name| elsewhere.has_reviewed(name)));
    }

    #[tokio::test(start_paused = true)]
    async fn many_namespaces_are_reviewed_slowly_and_from_a_random_time() {
        let mut begins = Vec::new();
        for _ in 0..10 {
            let world = world(5_000);
            let (cluster, mut elsewhere) = (world.cluster(), Elsewhere::default());
            let mut reviews = Reviews::request(&cluster, Vec::new()).await.expect("reviews");
            let (mut begin, mut before) = (None, 0);
            for second in 0..300_u32 {
                elsewhere.update(&cluster, &mut reviews, &[], false).await.expect("reviewed");
                let number = reviewed(&world).len();
                if number > 0 {
                    begin.get_or_insert(second);
                }

                assert!(number - before <= 2, "at most two per second: {before} {number}");
                before = number;
                tokio::time::advance(Duration::from_secs(1)).await;
            }

            begins.push(begin.expect("a review"));
            assert!((440..=500).contains(&before), "{before}");
            assert!(elsewhere.is_busy() && elsewhere.is_behind());
        }

        begins.sort_unstable();
        assert!(begins[9] <= 32 && begins[9] - begins[0] >= 3, "{begins:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn few_namespaces_are_reviewed_at_once() {
        let world = world(24);
        let (cluster, mut elsewhere) = (world.cluster(), Elsewhere::default());
        let mut reviews = Reviews::request(&cluster, Vec::new()).await.expect("reviews");
        elsewhere.update(&cluster, &mut reviews, &[], false).await.expect("reviewed");

        assert_eq!(reviewed(&world).len(), 24);
        assert!(!elsewhere.is_busy());
    }
}
