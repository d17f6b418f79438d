//! Watches one kind in one scope and never loses an event silently.
//!
//! ```text
//!         ┌─────────── streamed list refused, ignored, or longer than one stream ───────────┐
//!         │                                                                                 ▼
//!  Unlisted(Streamed) ─▶ StreamingList ─complete──▶ Following ─ended─▶ Known ◀─complete── Paging ◀─ Unlisted(Paged)
//!         ▲                                    │     ▲             │                  │          ▲
//!         │                                    │     └───opened────┘                  └─ token ──┘
//!         └──── 410, or a version too large ───┴─────────────────────┘                    expired
//!
//!  after any failure: Resting, then the state that follows
//! ```
//!
//! A watch lists by streaming where the API server supports it, because that costs neither side
//! memory; elsewhere it reads pages, and tries to stream again after a while. A watch lists again
//! only if the API server no longer has its version, or if the list had none. After every other
//! failure it continues from its version. It skips and counts objects that it cannot read.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use loopwatch_model::observation::{Cause, Observation, SourceId};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tracing::{debug, info, warn};

use super::connection::Cluster;
use super::initial_sync::SyncReporter;
use crate::net::Failure;
use crate::sources::feed::{Closed, Feed};

mod event;
pub(crate) mod fuzzing;
mod following;
mod frames;
mod listing;
mod backoffs;
mod outages;
mod page;
mod sharing;
mod stream;
mod streaming;
mod subscription;
mod target;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod wire_tests;

use self::backoffs::Backoffs;
pub(crate) use self::event::WatchEvent;
pub(crate) use self::frames::Frame;
use self::outages::Outages;
pub(crate) use self::page::ListPage;
use self::sharing::SharedStreams;
pub(crate) use self::stream::{StreamItem, WatchStream};
use self::streaming::StreamingSupport;
pub(crate) use self::target::WatchTarget;

/// The state of a watch.
pub(crate) enum WatchState {
    /// Nothing is known, or it is too old: the watch has to list.
    Unlisted(Listing),
    /// A streamed list is in progress.
    StreamingList {
        stream: Box<WatchStream>,
        epoch: u64,
        /// When the watch concludes that the API server, or a proxy, ignored the request to list.
        give_up: Instant,
        permit: OwnedSemaphorePermit,
    },
    /// A paged list is in progress. `permit` is `None` while the watch rests after a failure.
    Paging { page: ListPage, epoch: u64, permit: Option<OwnedSemaphorePermit> },
    /// The watch has received everything up to `version`, and has no open stream.
    Disconnected {
        /// Empty right after a list without a version.
        version: String,
        /// How often the API server has rejected this version.
        rejected: u32,
    },
    /// A stream delivers events.
    Following {
        stream: Box<WatchStream>,
        /// Empty after a list without a version, because the versions of objects do not show where
        /// to continue.
        version: String,
        /// When silence starts to prove that the stream works; `None` once it is known to work.
        proven_at: Option<Instant>,
    },
    /// A step failed; `next` follows after the backoff.
    Resting { until: Instant, next: Box<WatchState> },
    /// A watch that only lists has completed its list, or has given up.
    Done,
}

/// How to list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Listing {
    /// At the beginning of a watch stream.
    Streamed,
    /// In pages; `expired` counts the continue tokens that expired before the end.
    Paged { expired: u32 },
    /// In one response: for kinds so large and busy that tokens expire before the last page.
    Whole,
}

/// Turns the events of a watch into observations. Receives objects as JSON.
pub(crate) trait WatchSink: Send + Sync {
    /// The source that fails if this watch fails.
    fn source(&self) -> SourceId;
    /// Handles a failure of the watch.
    fn failed(&mut self) {}
    /// Returns the observation that the source works again; `None` if other watches of it still
    /// fail.
    fn recovered(&mut self) -> Option<Observation> {
        Some(Observation::SourceRecovered { source: self.source() })
    }
    /// Handles the beginning of a list.
    fn began(&mut self, epoch: u64, out: &mut Vec<Observation>);
    /// Handles an object of the list.
    fn listed(&mut self, object: &[u8], out: &mut Vec<Observation>) -> Result<(), Failure>;
    /// Handles an object that could not be read. Its name is unknown, so a list with such an object
    /// does not show which objects are gone.
    fn skipped(&mut self) {}
    /// Handles the end of a list.
    fn ended(&mut self, epoch: u64, version: &str, out: &mut Vec<Observation>);
    /// Handles a new or changed object; returns its version.
    fn applied(&mut self, object: &[u8], out: &mut Vec<Observation>) -> Result<String, Failure>;
    /// Handles a deletion; returns the version of the deletion.
    fn deleted(&mut self, object: &[u8], out: &mut Vec<Observation>) -> Result<String, Failure>;
    /// Handles a bookmark: nothing else happened up to `version`.
    fn progressed(&mut self, version: &str, out: &mut Vec<Observation>);
    /// Whether the next stream has to begin with a list, because the sink has dropped objects.
    fn needs_list(&self) -> bool {
        false
    }
}

/// State shared by all watches of a cluster.
#[derive(Debug)]
pub(crate) struct SharedWatchState {
    /// The epoch of the latest list.
    epochs: AtomicU64,
    /// Limits concurrent lists, so that the start of loopwatch does not overload the API server.
    lists: Arc<Semaphore>,
    /// Whether the API server streams lists.
    streaming: Arc<StreamingSupport>,
    /// The watches that have lost the API server.
    outages: Arc<Outages>,
    /// Notified when the API server refuses a watch, because permissions or kinds may have changed.
    pub(crate) review_requested: Notify,
    /// The streams of the watches, if those of several models share them.
    streams: Option<Arc<SharedStreams>>,
}

/// One watch, with everything that its steps need.
pub(crate) struct Watcher<S: WatchSink> {
    cluster: Cluster,
    target: WatchTarget,
    sink: S,
    feed: Feed,
    shared: Arc<SharedWatchState>,
    reporter: SyncReporter,
    /// Whether to stop after the first list.
    once: bool,
    /// Until when to list in pages, after streamed lists of this kind have failed.
    pages_until: Option<Instant>,
    /// Whether the API server sends bookmarks in time, so that long silence means a dead
    /// connection. `None` until the first bookmark.
    bookmarks: Option<bool>,
    /// Streamed lists that failed in a row although the API server was reachable.
    stream_failures: u32,
    /// The version after which a line was garbled. If the same line is garbled again, the
    /// connection is not the cause.
    garbled_after: Option<String>,
    /// Objects skipped so far.
    skipped: u64,
    /// Failures in a row without any event.
    attempts: u32,
    backoffs: Backoffs,
    failing: bool,
    /// The end of the last list.
    listed_at: Option<Instant>,
    out: Vec<Observation>,
}

/// Limit on concurrent lists, over all watches.
const LISTS_AT_ONCE: usize = 8;
/// Requested duration of a stream on which no bookmark has come in time. Some load balancers drop idle
/// connections after 240 s.
const STREAM_FOR: Duration = Duration::from_secs(200);
/// Requested duration of a stream with bookmarks, which come approximately every minute: so its connection is
/// not idle, and silence shows that it is dead. client-go requests at most as much (`minWatchTimeout` in its
/// reflector, doubled), so what stands between operators and the API server lets it pass.
const STREAM_WITH_BOOKMARKS_FOR: Duration = Duration::from_secs(600);
/// The time between two lists for a sink that has dropped objects.
const LISTS_AGAIN_AFTER: Duration = Duration::from_secs(600);
/// Failures in a row after which a watch that only lists gives up.
const ATTEMPTS_ONCE: u32 = 3;

impl Default for SharedWatchState {
    fn default() -> Self {
        Self {
            epochs: AtomicU64::new(0),
            lists: Arc::new(Semaphore::new(LISTS_AT_ONCE)),
            streaming: Arc::default(),
            outages: Arc::default(),
            review_requested: Notify::new(),
            streams: None,
        }
    }
}

impl SharedWatchState {
    /// The state for several models, whose watches share their streams.
    #[must_use]
    pub(crate) fn for_models() -> Self {
        Self { streams: Some(Arc::default()), ..Self::default() }
    }

    /// The state of the watches of one of these models.
    #[must_use]
    pub(crate) fn for_another_model(&self) -> Self {
        Self {
            epochs: AtomicU64::new(0),
            lists: Arc::clone(&self.lists),
            streaming: Arc::clone(&self.streaming),
            outages: Arc::clone(&self.outages),
            review_requested: Notify::new(),
            streams: self.streams.clone(),
        }
    }
}

impl<S: WatchSink> Watcher<S> {
    pub(crate) fn new(
        cluster: Cluster,
        target: WatchTarget,
        sink: S,
        feed: Feed,
        shared: Arc<SharedWatchState>,
        reporter: SyncReporter,
        once: bool,
    ) -> Self {
        Self {
            cluster,
            target,
            sink,
            feed,
            shared,
            reporter,
            once,
            pages_until: None,
            bookmarks: None,
            stream_failures: 0,
            garbled_after: None,
            skipped: 0,
            attempts: 0,
            backoffs: Backoffs::new(),
            failing: false,
            listed_at: None,
            out: Vec::new(),
        }
    }

    /// Watches until the feed is closed. The future can be dropped at any await.
    pub(crate) async fn run(mut self) {
        let mut state = WatchState::Unlisted(Listing::Streamed);
        while !matches!(state, WatchState::Done) {
            state = match self.step(state).await {
                Ok(next) => next,
                Err(Closed) => return,
            };
        }
    }

    /// Takes one step: one request, one page, one line or one rest.
    pub(crate) async fn step(&mut self, state: WatchState) -> Result<WatchState, Closed> {
        match state {
            WatchState::Unlisted(listing) => self.begin(listing).await,
            WatchState::StreamingList { stream, epoch, give_up, permit } => {
                self.fill(stream, epoch, give_up, permit).await
            }
            WatchState::Paging { page, epoch, permit } => self.read_page(page, epoch, permit).await,
            WatchState::Disconnected { .. } if self.may_list_again() && self.sink.needs_list() => {
                self.begin(Listing::Streamed).await
            }
            WatchState::Disconnected { version, rejected } => self.open(version, rejected).await,
            WatchState::Following { stream, version, proven_at } => {
                self.follow(stream, version, proven_at).await
            }
            WatchState::Resting { until, next } => {
                tokio::time::sleep_until(until).await;
                Ok(*next)
            }
            WatchState::Done => Ok(WatchState::Done),
        }
    }

    /// Whether the last list is so old that another one is cheap.
    fn may_list_again(&self) -> bool {
        self.listed_at.is_none_or(|at| at.elapsed() >= LISTS_AGAIN_AFTER)
    }

    /// Reports the failure and rests before `next`.
    async fn rest(&mut self, failure: &Failure, next: WatchState) -> Result<WatchState, Closed> {
        self.out.clear();
        self.failing = true;
        self.attempts += 1;
        self.sink.failed();

        let source = self.sink.source();
        let begins_outage = Outages::includes(failure.cause) && self.shared.outages.lost(&source);
        let (server, reason) = (self.cluster.url(), &failure.detail);

        if begins_outage {
            warn!(server, %source, cause = %failure.cause, reason, "lost the connection to the API server");
        } else {
            debug!(server, %source, cause = %failure.cause, reason, "a watch failed");
        }

        self.feed.failed(source, failure).await?;
        let refused = matches!(failure.cause, Cause::Forbidden | Cause::NotFound);
        if refused {
            self.reporter.failed();
            self.shared.review_requested.notify_one();
        }

        if self.once && (refused || self.attempts >= ATTEMPTS_ONCE) {
            self.reporter.failed();
            return Ok(WatchState::Done);
        }

        let until = Instant::now() + self.backoffs.wait(failure);
        Ok(WatchState::Resting { until, next: Box::new(next) })
    }

    /// Reports that the watch works, if it had failed or is new.
    async fn report_recovered(&mut self) -> Result<(), Closed> {
        self.attempts = 0;
        if std::mem::replace(&mut self.failing, false) || self.reporter.is_first() {
            let source = self.sink.source();
            if let Some(lasted) = self.shared.outages.recovered(&source) {
                info!(
                    server = self.cluster.url(),
                    ?lasted,
                    "the connection to the API server works again"
                );
            }

            if let Some(recovered) = self.sink.recovered() {
                self.feed.send(recovered).await?;
            }
        }

        Ok(())
    }

    /// Skips an object that cannot be read, and counts it.
    fn skip(&mut self, cause: Cause) {
        let source = self.sink.source();
        self.sink.skipped();
        self.skipped += 1;

        // The same object may be unreadable in every event.
        if self.skipped.is_power_of_two() {
            warn!(%source, %cause, skipped = self.skipped, "skipped an object that cannot be read");
        }

        self.out.push(Observation::Skipped { source, cause });
    }

    async fn flush(&mut self) -> Result<(), Closed> {
        for observation in self.out.drain(..) {
            self.feed.send(observation).await?;
        }
        Ok(())
    }
}

impl<S: WatchSink> Drop for Watcher<S> {
    fn drop(&mut self) {
        self.shared.outages.recovered(&self.sink.source());
    }
}
