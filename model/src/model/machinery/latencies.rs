//! How long the operator takes to answer the calls of its webhooks, according to its metrics.

use std::collections::{BTreeMap, VecDeque};

use crate::observation::{Durations, MAX_WEBHOOK_PATHS, MetricsView};
use crate::time::{Span, Timestamp};

/// The calls of each webhook by instance, as the last scrapes of it told them.
#[derive(Debug, Default)]
pub(super) struct Latencies {
    /// By path and instance.
    scrapes: BTreeMap<(String, String), VecDeque<(Timestamp, Durations)>>,
}

/// The window of the mean.
pub(super) const WINDOW: Span = Span::mins(5);

/// The shortest time between two scrapes that are kept for the same window.
const GRAIN: Span = Span::secs(10);

/// The maximum number of webhooks of all instances together.
const MAX_SERIES: usize = 16 * MAX_WEBHOOK_PATHS;

impl Latencies {
    /// Takes a scrape.
    pub(super) fn note(&mut self, now: Timestamp, view: &MetricsView) {
        for (path, calls) in view.webhooks.iter().take(MAX_WEBHOOK_PATHS) {
            let key = (path.clone(), view.instance.clone());
            if self.scrapes.len() >= MAX_SERIES && !self.scrapes.contains_key(&key) {
                continue;
            }

            let scrapes = self.scrapes.entry(key).or_default();
            let restarted = scrapes.back().is_some_and(|(_, last)| last.count > calls.count);
            if restarted {
                scrapes.clear();
            }

            // The newest scrape always stays; those before it are apart.
            let before = scrapes.len().checked_sub(2).map(|index| scrapes[index].0);
            if before.is_some_and(|at| now.since(at) < GRAIN) {
                scrapes.pop_back();
            }

            scrapes.push_back((now, *calls));
        }
    }

    /// Forgets what lies before the window. The last scrape before it stays, because the window begins
    /// there.
    pub(super) fn forget_old(&mut self, now: Timestamp) {
        let from = now.before(WINDOW);
        self.scrapes.retain(|_, scrapes| {
            while scrapes.get(1).is_some_and(|(at, _)| *at <= from) {
                scrapes.pop_front();
            }
            scrapes.back().is_some_and(|(at, _)| *at > from)
        });
    }

    /// Returns the calls of a webhook within the window, of all instances together.
    pub(super) fn recent(&self, path: &str) -> Durations {
        let first = (path.to_owned(), String::new());
        let of_path = self.scrapes.range(first..).take_while(|((it, _), _)| it == path);
        let mut recent = Durations::default();
        for (_, scrapes) in of_path {
            let Some(((_, from), (_, to))) = scrapes.front().zip(scrapes.back()) else { continue };
            recent.count = recent.count.saturating_add(to.count.saturating_sub(from.count));
            recent.sum += (to.sum - from.sum).max(0.0);
        }

        recent
    }

    pub(super) fn is_empty(&self) -> bool {
        self.scrapes.is_empty()
    }

    /// Moves all instants by `by_ms` milliseconds.
    pub(super) fn clock_stepped(&mut self, by_ms: i64) {
        let instants = self.scrapes.values_mut().flatten().map(|(at, _)| at);
        instants.for_each(|at| *at = at.shifted(by_ms));
    }
}
