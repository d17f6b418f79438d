//! Reports scrapes, and the state of the source: it is up if at least one instance can be scraped.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use loopwatch_model::observation::{MetricsView, Observation, SourceId};

use super::Hints;
use crate::sources::failure::Failure;
use crate::sources::feed::{Closed, Feed};

/// Reports for all instances. All clones share it.
#[derive(Clone)]
pub(super) struct Reporter {
    feed: Feed,
    hints: Hints,
    states: Arc<Mutex<States>>,
}

#[derive(Default)]
struct States {
    instances: BTreeMap<String, State>,
    /// The last reported state of the source.
    reported: Option<State>,
}

/// The state of an instance, or of the source. The worst is last.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    Up,
    Failing,
    /// There is nothing to scrape.
    Off(String),
}

const SOURCE: SourceId = SourceId::Metrics;

// === impl Reporter ===

impl Reporter {
    pub(super) fn new(feed: Feed, hints: Hints) -> Self {
        Self { feed, hints, states: Arc::default() }
    }

    /// `address` is where the metrics are, and `is_near` says whether the instance may be in loopwatch's own Pod.
    pub(super) async fn scraped(
        &self,
        view: MetricsView,
        address: Option<SocketAddr>,
        is_near: bool,
    ) -> Result<(), Closed> {
        self.hints.scraped(&view, address, is_near);
        let new = self.states().set(&view.instance, State::Up);
        self.feed.send(Observation::MetricsScraped(Box::new(view))).await?;
        if new { self.feed.recovered(SOURCE).await } else { Ok(()) }
    }

    pub(super) async fn failed(&self, instance: &str, failure: Failure) -> Result<(), Closed> {
        let of_source = {
            let mut states = self.states();
            states.set(instance, State::Failing);
            states.reported == Some(State::Failing)
        };
        self.feed.scrape_failed(instance, &failure).await?;
        if of_source { self.feed.failed(SOURCE, &failure).await } else { Ok(()) }
    }

    /// There is nothing to scrape in an instance.
    pub(super) async fn missing(&self, instance: &str, reason: String) -> Result<(), Closed> {
        let off = {
            let mut states = self.states();
            let new = states.set(instance, State::Off(reason));
            states.reported.clone().filter(|_| new)
        };
        match off {
            Some(State::Off(reason)) => self.feed.send(Observation::SourceOff { source: SOURCE, reason }).await,
            _ => Ok(()),
        }
    }

    /// There is no instance.
    pub(super) async fn off(&self, reason: &str) -> Result<(), Closed> {
        self.states().instances.clear();
        self.missing("", reason.to_owned()).await
    }

    /// An instance has ended.
    pub(super) fn gone(&self, instance: &str) {
        self.hints.gone(instance);
        self.states().instances.remove(instance);
    }

    fn states(&self) -> MutexGuard<'_, States> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl States ===

impl States {
    /// Sets the state of an instance. Returns whether the state of the source changes.
    fn set(&mut self, instance: &str, state: State) -> bool {
        self.instances.insert(instance.to_owned(), state);
        let now = self.instances.values().min().cloned();
        let changed = self.reported != now;
        self.reported = now;
        changed
    }
}
