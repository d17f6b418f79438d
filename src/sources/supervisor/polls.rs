//! Polls of discovery: when the next one is due, and what becomes of its result.

use std::collections::BTreeSet;
use std::time::Duration;

use loopwatch_model::observation::WatchedKind;
use tokio::time::Instant;

use super::Running;
use crate::net::Failure;
use crate::sources::api_server::{Discovered, Discovery};
use crate::sources::feed::Closed;

/// Interval of discovery. Permissions and kinds change rarely, and other events reveal most
/// changes.
const POLL_EVERY: Duration = Duration::from_secs(300);
/// Interval of discovery while something is missing, or while the account may not watch
/// definitions.
const POLL_OFTEN: Duration = Duration::from_secs(60);
/// Interval of discovery while it has yet to review the account's permissions in some namespaces.
const POLL_WHILE_BEHIND: Duration = Duration::from_secs(15);
/// Number of polls in a row without a change from which on the intervals double, and the limit of
/// their growth.
const IDLE_POLLS: (u32, u32) = (5, 4);
/// Time for which polls must miss a kind before its watch ends.
const BELIEVE_LOSS_AFTER: Duration = Duration::from_secs(5);
/// Time to wait for the first samples of child kinds.
const CHILDREN_WITHIN: Duration = Duration::from_secs(3);

impl Running {
    /// Polls once and applies the result; returns the time until the next poll.
    pub(super) async fn poll(&mut self) -> Result<Duration, Closed> {
        let found = match self.find().await? {
            Ok(found) => found,
            Err(failure) => {
                if self.options.discovery.once {
                    self.sync.discovery_failed();
                }
                return self.discovery_failed(&failure).await;
            }
        };

        self.backoff.reset();
        if let Some(wait) = self.wait_before_loss(&found) {
            return Ok(wait);
        }

        let unseen =
            found.kinds.iter().any(|kind| !kind.missing.is_empty()) || found.problem.is_some();
        let changed = self.kinds.as_ref() != Some(&found.kinds) || self.problem != found.problem;
        self.idle_polls = if changed { 0 } else { self.idle_polls.saturating_add(1) };
        self.apply_with_children(found).await?;

        if !self.options.discovery.once
            && let Err(failure) = self.follow_events().await?
        {
            return self.discovery_failed(&failure).await;
        }

        Ok(self.backoff.jitter(self.interval(unseen)))
    }

    /// Applies a result of discovery, with the child kinds that samples show.
    async fn apply_with_children(&mut self, found: Discovered) -> Result<(), Closed> {
        if self.options.discovery.once {
            self.discovery.sample_children(BTreeSet::new()).await;
            let found = self.discovery.discovered();
            self.apply(found).await
        } else if self.kinds.is_none() {
            // A model that has outlived its sources, or restored a checkpoint, would forget the
            // children that it knows.
            let sampled = self.discovery.sample_children(BTreeSet::new());
            let _ = tokio::time::timeout(CHILDREN_WITHIN, sampled).await;
            let found = self.discovery.discovered();
            self.apply(found).await
        } else {
            self.apply(found).await?;
            match self.discovery.next_round(None) {
                None => self.sample_children().await,
                Some(_) => Ok(()),
            }
        }
    }

    /// The time until the next poll. `unseen` tells whether something is missing.
    fn interval(&self, unseen: bool) -> Duration {
        let often = unseen || !self.definitions.are_known();
        let (patience, most) = IDLE_POLLS;
        let idle = (1 << self.idle_polls.saturating_sub(patience).min(most)).min(most);

        match often {
            _ if self.discovery.is_behind() => POLL_WHILE_BEHIND,
            true => POLL_OFTEN * idle,
            false => POLL_EVERY * idle,
        }
    }

    /// Reports that discovery failed; returns the time until the next poll.
    async fn discovery_failed(&mut self, failure: &Failure) -> Result<Duration, Closed> {
        self.problem = Some(failure.detail.clone());
        self.feed.failed(Discovery::SOURCE, failure).await?;
        Ok(self.backoff.wait(failure.retry_after))
    }

    /// Samples the child kinds, and watches those that have earned it.
    pub(super) async fn sample_children(&mut self) -> Result<(), Closed> {
        self.announced = None;
        if self.discovery.sample_children(self.new_primaries.take()).await {
            let found = self.discovery.discovered();
            self.apply(found).await?;
        }

        Ok(())
    }

    /// The time until a loss of kinds counts; `None` if no kind is lost, or if the loss has lasted
    /// long enough.
    fn wait_before_loss(&mut self, found: &Discovered) -> Option<Duration> {
        let is_seen = |kind: &WatchedKind| kind.missing.is_empty();
        let lost = |was: &WatchedKind| {
            !found.kinds.iter().any(|now| is_seen(now) && now.watch == was.watch)
        };
        if !self.kinds.iter().flatten().filter(|kind| is_seen(kind)).any(lost) {
            self.lost_since = None;
            return None;
        }

        let left = BELIEVE_LOSS_AFTER
            .saturating_sub(self.lost_since.get_or_insert_with(Instant::now).elapsed());
        if left.is_zero() {
            self.lost_since = None;
            return None;
        }

        Some(left)
    }
}
