//! Reports scrapes, and the state of the source: it is up if at least one instance can be scraped,
//! and restricted if loopwatch cannot read all lines of one.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use loopwatch_model::observation::{MetricsView, Observation, SourceId};

use crate::lock::lock;
use crate::net::Failure;
use crate::sources::feed::{Closed, Feed};
use crate::sources::operator::hints::ScrapeHints;

/// Reports for all instances. All clones share the state.
#[derive(Clone)]
pub(super) struct Reporter {
    feed: Feed,
    hints: ScrapeHints,
    states: Arc<Mutex<ScrapeStates>>,
}

#[derive(Default)]
struct ScrapeStates {
    instances: BTreeMap<String, ScrapeState>,
    /// The last reported state of the source.
    reported: Option<ScrapeState>,
}

/// The state of an instance or of the source, from best to worst.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ScrapeState {
    Up,
    /// It works, but some lines are unreadable. The reason contains no numbers, which might change
    /// with each scrape.
    Restricted(String),
    Failing,
    /// There is nothing to scrape.
    Off(String),
}

const SOURCE: SourceId = SourceId::Metrics;

impl Reporter {
    pub(super) fn new(feed: Feed, hints: ScrapeHints) -> Self {
        Self { feed, hints, states: Arc::default() }
    }

    /// `address` is where the metrics are, and `is_near` says whether the instance may be in
    /// loopwatch's own Pod.
    pub(super) async fn scraped(
        &self,
        view: MetricsView,
        address: Option<SocketAddr>,
        is_near: bool,
    ) -> Result<(), Closed> {
        self.hints.scraped(&view, address, is_near);
        let state = match view.problem.split_once(": ") {
            Some((_, problem)) => ScrapeState::Restricted(format!(
                "{}: loopwatch skips a part of the metrics: {problem}",
                view.instance
            )),
            None => ScrapeState::Up,
        };

        let changed = self.states().set(&view.instance, state);
        self.feed.send(Observation::MetricsScraped(Box::new(view))).await?;
        self.changed(changed).await
    }

    pub(super) async fn failed(&self, instance: &str, failure: Failure) -> Result<(), Closed> {
        let (changed, of_source) = {
            let mut states = self.states();
            (
                states.set(instance, ScrapeState::Failing),
                states.reported == Some(ScrapeState::Failing),
            )
        };

        self.feed.scrape_failed(instance, &failure).await?;
        if of_source {
            self.feed.failed(SOURCE, &failure).await
        } else {
            self.changed(changed).await
        }
    }

    /// Reports that an instance has nothing to scrape.
    pub(super) async fn missing(&self, instance: &str, reason: String) -> Result<(), Closed> {
        let changed = self.states().set(instance, ScrapeState::Off(reason));
        self.changed(changed).await
    }

    /// Reports the state of the source, if it has changed.
    async fn changed(&self, state: Option<ScrapeState>) -> Result<(), Closed> {
        match state {
            Some(ScrapeState::Up) => self.feed.recovered(SOURCE).await,
            Some(ScrapeState::Restricted(reason)) => {
                self.feed.send(Observation::SourceRestricted { source: SOURCE, reason }).await
            }
            Some(ScrapeState::Off(reason)) => {
                self.feed.send(Observation::SourceOff { source: SOURCE, reason }).await
            }
            // The caller reports every failure, with its details.
            Some(ScrapeState::Failing) | None => Ok(()),
        }
    }

    /// Reports that there is no instance.
    pub(super) async fn off(&self, reason: &str) -> Result<(), Closed> {
        self.states().instances.clear();
        self.missing("", reason.to_owned()).await
    }

    /// Forgets an instance that has ended.
    pub(super) fn gone(&self, instance: &str) {
        self.hints.gone(instance);
        self.states().instances.remove(instance);
    }

    fn states(&self) -> MutexGuard<'_, ScrapeStates> {
        lock(&self.states)
    }
}

impl ScrapeStates {
    /// Sets the state of an instance. Returns the state of the source if it changes.
    fn set(&mut self, instance: &str, state: ScrapeState) -> Option<ScrapeState> {
        self.instances.insert(instance.to_owned(), state);
        let states = self.instances.values();
        let restricted = states.clone().find(|state| matches!(state, ScrapeState::Restricted(_)));
        let now = restricted.or_else(|| states.min()).cloned();

        if self.reported == now {
            return None;
        }

        self.reported.clone_from(&now);
        now
    }
}
