//! Follows everything of one kind in one scope, and never loses an event without saying so.
//!
//! ```text
//!         ┌────────── streamed lists are refused, ignored, or longer than a stream ─────────┐
//!         │                                                                                 ▼
//!  Unlisted(Streamed) ─▶ Filling ─all there─▶ Following ─ended─▶ Known ◀─all there─ Paging ◀─ Unlisted(Paged)
//!         ▲                                    │     ▲             │                  │          ▲
//!         │                                    │     └───opened────┘                  └─ token ──┘
//!         └────── 410, or what came cannot be read ────────────────┘                    expired
//!
//!  any failure: Resting, then on from there
//! ```
//!
//! A list is streamed where the API server can, which costs neither side memory; else it is read by pages. Whatever
//! cannot be read makes a new list, because a list says everything and thereby heals everything.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use loopwatch_model::observation::{Cause, Observation, SourceId};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::cluster::Cluster;
use super::failure::Failure;
use super::feed::{Closed, Feed};
use super::sync::SyncReporter;

pub(crate) mod event;
mod following;
mod frames;
mod listing;
pub(crate) mod objects;
pub(crate) mod backoff;
mod page;
mod stream;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod wire_tests;

use self::backoff::Backoffs;
use self::page::Page;
use self::stream::WatchStream;

/// Where a watch stands.
pub(crate) enum WatchState {
    /// Nothing is known, or what is known is too old: everything has to be listed.
    Unlisted(Listing),
    /// A streamed list is under way.
    Filling {
        stream: Box<WatchStream>,
        epoch: u64,
        /// When to conclude that the API server does not know streamed lists.
        give_up: Instant,
        permit: OwnedSemaphorePermit,
    },
    /// A list is read page by page; without a permit while it rests.
    Paging { page: Page, epoch: u64, permit: Option<OwnedSemaphorePermit> },
    /// Everything up to `version` is known, and no stream is open.
    Known {
        version: String,
        /// How often the API server has refused to go on from here.
        refused: u32,
    },
    /// A stream tells what happens.
    Following {
        stream: Box<WatchStream>,
        version: String,
        /// When silence counts as proof that the stream works.
        proven: Option<Instant>,
    },
    /// Something failed; `next` follows after a while.
    Resting { until: Instant, next: Box<WatchState> },
    /// The first list was all that was asked for.
    Done,
}

/// How to list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Listing {
    /// As the beginning of a watch stream.
    Streamed,
    /// By pages; so many times a continue token has expired half-way.
    Paged { expired: u32 },
    /// In one answer: for kinds so large and busy that tokens expire faster than pages are read.
    Whole,
}

/// What to watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WatchTarget {
    /// For example `/apis/example.io/v1/namespaces/team-a/widgets`.
    pub(crate) path: String,
    /// Whether only the metadata of the objects is asked for.
    pub(crate) metadata_only: bool,
}

/// Turns what a watch delivers into observations. ObjectSink come as JSON.
pub(crate) trait Sink: Send + Sync {
    /// Who fails when this watch fails.
    fn source(&self) -> SourceId;
    /// A list begins.
    fn began(&mut self, epoch: u64, out: &mut Vec<Observation>);
    /// An object of the list.
    fn listed(&mut self, object: &[u8], out: &mut Vec<Observation>) -> Result<(), Failure>;
    /// The list is complete.
    fn ended(&mut self, epoch: u64, version: &str, out: &mut Vec<Observation>);
    /// An object is new or changed; returns its version.
    fn applied(&mut self, object: &[u8], out: &mut Vec<Observation>) -> Result<String, Failure>;
    /// An object is gone; returns the version at which it went.
    fn deleted(&mut self, object: &[u8], out: &mut Vec<Observation>) -> Result<String, Failure>;
    /// Nothing more happened up to `version`.
    fn progressed(&mut self, version: &str, out: &mut Vec<Observation>);
}

/// What all watches of one cluster share.
#[derive(Debug)]
pub(crate) struct SharedWatchState {
    /// The last epoch that was given to a list.
    epochs: AtomicU64,
    /// Lists that may be under way at once: the start of a program must not be felt by the API server.
    lists: Arc<Semaphore>,
    /// Rung when a watch is refused in a way that a new look at rights and kinds may explain.
    pub(crate) review: Notify,
}

/// One watch: a state, and what it takes to make the next.
pub(crate) struct Watcher<S> {
    cluster: Cluster,
    target: WatchTarget,
    sink: S,
    feed: Feed,
    shared: Arc<SharedWatchState>,
    reporter: SyncReporter,
    /// Stop after the first list.
    once: bool,
    /// Whether streamed lists are worth trying.
    streams: bool,
    /// Whether the API server has ever sent a bookmark, so that silence tells something.
    bookmarks: bool,
    /// How often in a row a streamed list failed although the API server was there.
    stream_failures: u32,
    /// Failures in a row without anything that came.
    attempts: u32,
    backoffs: Backoffs,
    failing: bool,
    out: Vec<Observation>,
}

/// Lists under way at once, over all watches.
const LISTS_AT_ONCE: usize = 8;
/// How long the API server is asked to keep a stream open. Load balancers drop idle connections from 240 s.
const STREAM_FOR: Duration = Duration::from_secs(200);
/// A stream that outlives what was asked for by this much is not a stream any more: half-open connections end here.
const STREAM_GRACE: Duration = Duration::from_secs(10);
/// An API server that sends bookmarks sends one about every minute (`bookmarkFrequency` in its cacher): a stream without
/// any line for so long is half-open.
const SILENT_FOR: Duration = Duration::from_secs(110);
/// When only one list is wanted, so many failures in a row mean that it will not be had.
const ATTEMPTS_ONCE: u32 = 3;

// === impl SharedWatchState ===

impl Default for SharedWatchState {
    fn default() -> Self {
        Self { epochs: AtomicU64::new(0), lists: Arc::new(Semaphore::new(LISTS_AT_ONCE)), review: Notify::new() }
    }
}

// === impl Watcher ===

impl<S: Sink> Watcher<S> {
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
            streams: true,
            bookmarks: false,
            stream_failures: 0,
            attempts: 0,
            backoffs: Backoffs::new(),
            failing: false,
            out: Vec::new(),
        }
    }

    /// Watches until nobody listens any more. May be dropped at any await.
    pub(crate) async fn run(mut self) {
        let mut state = WatchState::Unlisted(Listing::Streamed);
        while !matches!(state, WatchState::Done) {
            state = match self.step(state).await {
                Ok(next) => next,
                Err(Closed) => return,
            };
        }
    }

    /// Makes one step: one request, one page, one line or one rest.
    pub(crate) async fn step(&mut self, state: WatchState) -> Result<WatchState, Closed> {
        match state {
            WatchState::Unlisted(Listing::Streamed) if self.streams => self.begin_stream().await,
            WatchState::Unlisted(Listing::Streamed) => self.begin_pages(Listing::Paged { expired: 0 }).await,
            WatchState::Unlisted(listing) => self.begin_pages(listing).await,
            WatchState::Filling { stream, epoch, give_up, permit } => self.fill(stream, epoch, give_up, permit).await,
            WatchState::Paging { page, epoch, permit } => self.read_page(page, epoch, permit).await,
            WatchState::Known { version, refused } => self.open(version, refused).await,
            WatchState::Following { stream, version, proven } => self.follow(stream, version, proven).await,
            WatchState::Resting { until, next } => {
                tokio::time::sleep_until(until).await;
                Ok(*next)
            }
            WatchState::Done => Ok(WatchState::Done),
        }
    }

    /// Tells the failure and waits before what comes next.
    async fn rest(&mut self, failure: &Failure, next: WatchState) -> Result<WatchState, Closed> {
        self.out.clear();
        self.failing = true;
        self.attempts += 1;
        self.feed.failed(self.sink.source(), failure).await?;
        let refused = matches!(failure.cause, Cause::Forbidden | Cause::NotFound);
        if refused {
            self.reporter.failed();
            self.shared.review.notify_one();
        }
        if self.once && (refused || self.attempts >= ATTEMPTS_ONCE) {
            self.reporter.failed();
            return Ok(WatchState::Done);
        }
        let until = Instant::now() + self.backoffs.wait(failure);
        Ok(WatchState::Resting { until, next: Box::new(next) })
    }

    /// Tells that the watch works, if that is news.
    async fn works(&mut self) -> Result<(), Closed> {
        self.attempts = 0;
        if std::mem::replace(&mut self.failing, false) || self.reporter.is_first() {
            self.feed.recovered(self.sink.source()).await?;
        }
        Ok(())
    }

    async fn flush(&mut self) -> Result<(), Closed> {
        for observation in self.out.drain(..) {
            self.feed.tell(observation).await?;
        }
        Ok(())
    }
}
