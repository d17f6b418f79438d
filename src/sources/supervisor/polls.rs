//! Schedules the polls of discovery.

use std::time::Duration;

use loopwatch_model::observation::WatchedKind;
use tokio::time::Instant;

use crate::net::{Backoff, Failure};
use crate::sources::api_server::Discovered;

/// The state from earlier polls that decides when the next one is due.
pub(super) struct Polls {
    /// The last reported problem of discovery.
    problem: Option<String>,
    /// Polls in a row without a change.
    idle: u32,
    /// Since when polls have found fewer kinds than are watched. An API server that is starting may
    /// not know all permissions and kinds yet.
    lost_since: Option<Instant>,
    backoff: Backoff,
}

/// What to report about discovery after a poll.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum DiscoveryReport {
    Problem(String),
    Works,
    Nothing,
}

/// Interval of discovery. Permissions and kinds rarely change, and other events reveal most
/// changes.
const POLL_EVERY: Duration = Duration::from_secs(300);
/// Interval of discovery while something is missing, or while the account may not watch
/// definitions.
const POLL_OFTEN: Duration = Duration::from_secs(60);
/// Interval of discovery while it has yet to review the account's permissions in some namespaces.
const POLL_WHILE_BEHIND: Duration = Duration::from_secs(15);
/// After how many polls in a row without a change the interval doubles, and the maximum factor.
const IDLE_POLLS: (u32, u32) = (5, 4);
/// How long polls must miss a kind before its watch ends.
const BELIEVE_LOSS_AFTER: Duration = Duration::from_secs(5);

impl Polls {
    pub(super) fn new() -> Self {
        Self { problem: None, idle: 0, lost_since: None, backoff: Backoff::new() }
    }

    /// Records a successful poll. Returns the time until a loss of kinds counts; `None` if no kind
    /// is lost, or if the loss has lasted for long enough.
    pub(super) fn succeeded(
        &mut self,
        watched: &[WatchedKind],
        found: &Discovered,
    ) -> Option<Duration> {
        self.backoff.reset();
        let is_seen = |kind: &WatchedKind| kind.missing.is_empty();
        let lost = |was: &WatchedKind| {
            !found.kinds.iter().any(|now| is_seen(now) && now.watch == was.watch)
        };
        if !watched.iter().filter(|kind| is_seen(kind)).any(lost) {
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

    /// Records a failed poll. Returns the time until the next one.
    pub(super) fn failed(&mut self, failure: &Failure) -> Duration {
        self.problem = Some(failure.detail.clone());
        self.backoff.wait(failure.retry_after)
    }

    /// Records whether a poll has changed the kinds or its problem.
    pub(super) fn note_change(&mut self, new_kinds: bool, found: &Discovered) {
        let changed = new_kinds || self.problem != found.problem;
        self.idle = if changed { 0 } else { self.idle.saturating_add(1) };
    }

    /// Records the problem of the last result. Returns what to report about it.
    pub(super) fn report(&mut self, problem: Option<String>, is_first: bool) -> DiscoveryReport {
        let before = std::mem::replace(&mut self.problem, problem);
        match &self.problem {
            Some(detail) if before != self.problem => DiscoveryReport::Problem(detail.clone()),
            None if before.is_some() || is_first => DiscoveryReport::Works,
            _ => DiscoveryReport::Nothing,
        }
    }

    /// The time until the next poll. `often` means that something is missing, and `behind` that
    /// some permissions have yet to be reviewed.
    pub(super) fn interval(&mut self, often: bool, behind: bool) -> Duration {
        let (patience, most) = IDLE_POLLS;
        let idle = (1 << self.idle.saturating_sub(patience).min(most)).min(most);
        let interval = match often {
            _ if behind => POLL_WHILE_BEHIND,
            true => POLL_OFTEN * idle,
            false => POLL_EVERY * idle,
        };

        self.backoff.jitter(interval)
    }
}
