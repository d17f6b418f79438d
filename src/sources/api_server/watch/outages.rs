//! The watches that have lost the API server. Because they share this state, an outage is logged
//! once and not once per watch and attempt.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use loopwatch_model::observation::{Cause, SourceId};
use tokio::time::Instant;

use crate::lock::lock;

/// The current outage, shared by all watches of one cluster.
#[derive(Debug, Default)]
pub(crate) struct Outages(Mutex<Outage>);

#[derive(Debug, Default)]
struct Outage {
    /// The sources without a working connection.
    lost: BTreeSet<SourceId>,
    /// When the first of them lost it.
    since: Option<Instant>,
    /// Whether another watch has recovered since the outage was logged, so that a new loss is
    /// logged again.
    recovered: bool,
}

impl Outages {
    /// Whether a failure of this cause means that the API server cannot be reached.
    pub(crate) const fn includes(cause: Cause) -> bool {
        matches!(cause, Cause::Connection | Cause::Timeout | Cause::Tls | Cause::ServerError)
    }

    /// Records that a source has lost the API server. Returns true if this begins an outage.
    pub(crate) fn lost(&self, source: &SourceId) -> bool {
        let mut outage = self.lock();
        if !outage.lost.insert(source.clone()) {
            return false;
        }

        outage.since.get_or_insert_with(Instant::now);
        outage.lost.len() == 1 || std::mem::take(&mut outage.recovered)
    }

    /// Records that a source works again, or has ended. Returns the duration of the outage if it
    /// was the last one.
    pub(crate) fn recovered(&self, source: &SourceId) -> Option<Duration> {
        let mut outage = self.lock();
        if !outage.lost.remove(source) {
            return None;
        }

        outage.recovered = !outage.lost.is_empty();
        if outage.recovered { None } else { outage.since.take().map(|since| since.elapsed()) }
    }

    fn lock(&self) -> MutexGuard<'_, Outage> {
        lock(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_outage_begins_and_ends_once() {
        let (outages, a, b) = (Outages::default(), SourceId::Lease, SourceId::Discovery);
        assert!(outages.lost(&a), "it begins");
        assert!(!outages.lost(&b) && !outages.lost(&a), "it goes on");

        tokio::time::advance(Duration::from_secs(40)).await;
        assert_eq!(outages.recovered(&a), None);
        assert!(!outages.lost(&b), "it goes on");
        assert!(outages.lost(&a), "another one, while one source is still without a connection");
        assert_eq!(outages.recovered(&b), None);
        assert_eq!(outages.recovered(&a), Some(Duration::from_secs(40)));
        assert_eq!(outages.recovered(&a), None);
        assert!(outages.lost(&b), "the next one");
    }
}
