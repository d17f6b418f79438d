//! Follows everything of one kind in one scope, and never loses an event without saying so.
//!
//! ```text
//!                 ┌──────────── refused, ignored or too long for one stream ──────────┐
//!                 │                                                                   ▼
//!  Unlisted(Streamed) ──▶ Filling ──all there──▶ Following ◀──opened── Known    Unlisted(Paged) ──▶ Paging ─┐
//!      ▲                                           │    └──ended──────▶ ▲ ▲           ▲               │     │
//!      │                                           │                    │ └── all there ──────────────────── ┘
//!      └──── 410, or what came cannot be read ─────┴── Resting ◀── any failure ───────┴─ token expired┘
//! ```
//!
//! A list is streamed where the API server can, which costs neither side memory; else it is read by pages. Whatever
//! cannot be read makes a new list, because a list says everything and thereby heals everything.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use loopwatch_model::observation::{Cause, Observation, SourceId};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::cluster::Cluster;
use super::failure::Failure;
use super::feed::{Closed, Feed};
use super::sync::Reporter;

pub(crate) mod event;
pub(crate) mod frames;
mod list;
pub(crate) mod objects;
pub(crate) mod pace;
mod stream;
#[cfg(test)]
mod tests;

use self::event::Event;
use self::list::Page;
use self::pace::Pace;
use self::stream::{Next, Stream};

/// Where a watch stands.
pub(crate) enum State {
    /// Nothing is known, or what is known is too old: everything has to be listed.
    Unlisted(Listing),
    /// A streamed list is under way.
    Filling {
        stream: Box<Stream>,
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
        stream: Box<Stream>,
        version: String,
        /// When silence counts as proof that the stream works.
        proven: Option<Instant>,
    },
    /// Something failed; `next` follows after a while.
    Resting { until: Instant, next: Box<State> },
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
pub(crate) struct Target {
    /// For example `/apis/example.io/v1/namespaces/team-a/widgets`.
    pub(crate) path: String,
    /// Whether only the metadata of the objects is asked for.
    pub(crate) metadata_only: bool,
}

/// Turns what a watch delivers into observations. Objects come as JSON.
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
pub(crate) struct Commons {
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
    target: Target,
    sink: S,
    feed: Feed,
    commons: Arc<Commons>,
    reporter: Reporter,
    /// Stop after the first list.
    once: bool,
    /// Whether streamed lists are worth trying.
    streams: bool,
    /// How often in a row a streamed list failed although the API server was there.
    stream_failures: u32,
    /// Failures in a row without anything that came.
    attempts: u32,
    pace: Pace,
    failing: bool,
    out: Vec<Observation>,
}

/// Lists under way at once, over all watches.
const LISTS_AT_ONCE: usize = 8;
/// How long the API server is asked to keep a stream open. Load balancers drop idle connections from 240 s.
const STREAM_FOR: Duration = Duration::from_secs(200);
/// A stream that outlives what was asked for by this much is not a stream any more: half-open connections end here.
const STREAM_GRACE: Duration = Duration::from_secs(10);
/// So long after the last object, a streamed list that does not end is taken for a watch that ignored the request.
const LIST_IDLE: Duration = Duration::from_secs(10);
/// A refusal comes at once, also inside a stream: after so long without one, the stream works.
const PROVEN_AFTER: Duration = Duration::from_secs(2);
/// A stream that lasted so long was a good one: the next failure is a new one.
const GOOD_STREAM: Duration = Duration::from_secs(60);
/// So often the API server may refuse a version before everything is listed again: after a restored backup it waits
/// for a version that will never come.
const REFUSALS: u32 = 3;
/// After so many failures in a row that are not the connection's, lists are read by pages.
const STREAM_FAILURES: u32 = 2;
/// When only one list is wanted, so many failures in a row mean that it will not be had.
const ATTEMPTS_ONCE: u32 = 3;

// === impl Commons ===

impl Default for Commons {
    fn default() -> Self {
        Self { epochs: AtomicU64::new(0), lists: Arc::new(Semaphore::new(LISTS_AT_ONCE)), review: Notify::new() }
    }
}

// === impl Watcher ===

impl<S: Sink> Watcher<S> {
    pub(crate) fn new(
        cluster: Cluster,
        target: Target,
        sink: S,
        feed: Feed,
        commons: Arc<Commons>,
        reporter: Reporter,
        once: bool,
    ) -> Self {
        Self {
            cluster,
            target,
            sink,
            feed,
            commons,
            reporter,
            once,
            streams: true,
            stream_failures: 0,
            attempts: 0,
            pace: Pace::new(),
            failing: false,
            out: Vec::new(),
        }
    }

    /// Watches until nobody listens any more. May be dropped at any await.
    pub(crate) async fn run(mut self) {
        let mut state = State::Unlisted(Listing::Streamed);
        while !matches!(state, State::Done) {
            state = match self.step(state).await {
                Ok(next) => next,
                Err(Closed) => return,
            };
        }
    }

    /// Makes one step: one request, one page, one line or one rest.
    pub(crate) async fn step(&mut self, state: State) -> Result<State, Closed> {
        match state {
            State::Unlisted(Listing::Streamed) if self.streams => self.begin_stream().await,
            State::Unlisted(Listing::Streamed) => self.begin_pages(Listing::Paged { expired: 0 }).await,
            State::Unlisted(listing) => self.begin_pages(listing).await,
            State::Filling { stream, epoch, give_up, permit } => self.fill(stream, epoch, give_up, permit).await,
            State::Paging { page, epoch, permit } => self.read_page(page, epoch, permit).await,
            State::Known { version, refused } => self.open(version, refused).await,
            State::Following { stream, version, proven } => self.follow(stream, version, proven).await,
            State::Resting { until, next } => {
                tokio::time::sleep_until(until).await;
                Ok(*next)
            }
            State::Done => Ok(State::Done),
        }
    }

    async fn begin_stream(&mut self) -> Result<State, Closed> {
        let permit = self.list_permit().await?;
        let stream = match Stream::open(&self.cluster, &self.target, None, STREAM_FOR).await {
            Ok(stream) => Box::new(stream),
            Err(failure) if refuses_streamed_lists(&failure) => {
                self.streams = false;
                return Ok(State::Unlisted(Listing::Paged { expired: 0 }));
            }
            Err(failure) => return self.stream_failed(&failure).await,
        };
        let epoch = self.begin_list().await?;
        Ok(State::Filling { stream, epoch, give_up: Instant::now() + LIST_IDLE, permit })
    }

    /// One line of a streamed list.
    async fn fill(
        &mut self,
        mut stream: Box<Stream>,
        epoch: u64,
        mut give_up: Instant,
        permit: OwnedSemaphorePermit,
    ) -> Result<State, Closed> {
        let line = match stream.next(give_up).await {
            Ok(Next::Line(line)) => line,
            // Ignored, or longer than one stream lasts: pages end in any case.
            Ok(Next::Silence | Next::End) => {
                self.streams = false;
                return Ok(State::Unlisted(Listing::Paged { expired: 0 }));
            }
            Err(failure) => return self.stream_failed(&failure).await,
        };
        let told = match Event::parse(&line) {
            Ok(Event::Added(object)) => {
                give_up = Instant::now() + LIST_IDLE;
                self.reporter.object();
                self.sink.listed(object, &mut self.out)
            }
            // Between the beginning of the list and its end, things go on happening.
            Ok(Event::Modified(object)) => self.sink.listed(object, &mut self.out),
            Ok(Event::Deleted(object)) => self.sink.deleted(object, &mut self.out).map(drop),
            Ok(Event::Bookmark { ends_list: false, .. }) => Ok(()),
            Ok(Event::Bookmark { version, ends_list: true }) => {
                drop(permit);
                return self.end_list(epoch, version, Some(stream)).await;
            }
            Ok(Event::Error(failure)) if refuses_streamed_lists(&failure) => {
                self.streams = false;
                return Ok(State::Unlisted(Listing::Paged { expired: 0 }));
            }
            Ok(Event::Error(failure)) | Err(failure) => Err(failure),
        };
        self.flush().await?;
        match told {
            Ok(()) => Ok(State::Filling { stream, epoch, give_up, permit }),
            Err(failure) => self.stream_failed(&failure).await,
        }
    }

    async fn stream_failed(&mut self, failure: &Failure) -> Result<State, Closed> {
        if blames_the_stream(failure) {
            self.stream_failures += 1;
            // Pages may work where streams do not: behind proxies, or when the watch cache cannot be filled.
            self.streams = self.stream_failures < STREAM_FAILURES;
        }
        self.rest(failure, State::Unlisted(Listing::Streamed)).await
    }

    async fn begin_pages(&mut self, listing: Listing) -> Result<State, Closed> {
        let permit = self.list_permit().await?;
        let epoch = self.begin_list().await?;
        Ok(State::Paging { page: Page::first(listing), epoch, permit: Some(permit) })
    }

    /// One page of a list.
    async fn read_page(
        &mut self,
        page: Page,
        epoch: u64,
        permit: Option<OwnedSemaphorePermit>,
    ) -> Result<State, Closed> {
        let permit = match permit {
            Some(permit) => permit,
            None => self.list_permit().await?,
        };
        let mut body = match page.open(&self.cluster, &self.target).await {
            Ok(body) => body,
            Err(failure) => return self.page_failed(page, epoch, &failure).await,
        };
        loop {
            match body.next().await {
                Ok(Some(object)) => {
                    self.reporter.object();
                    let told = self.sink.listed(&object, &mut self.out);
                    self.flush().await?;
                    if let Err(failure) = told {
                        return self.page_failed(page, epoch, &failure).await;
                    }
                }
                Ok(None) => break,
                Err(failure) => return self.page_failed(page, epoch, &failure).await,
            }
        }
        match body.end() {
            Ok(end) if end.token.is_empty() => {
                drop(permit);
                self.end_list(epoch, end.resource_version, None).await
            }
            Ok(end) => {
                self.attempts = 0;
                Ok(State::Paging { page: page.followed_by(end.token), epoch, permit: Some(permit) })
            }
            Err(failure) => self.page_failed(page, epoch, &failure).await,
        }
    }

    async fn page_failed(&mut self, page: Page, epoch: u64, failure: &Failure) -> Result<State, Closed> {
        if failure.cause == Cause::Gone && page.is_continued() {
            // What was listed so far is abandoned with its epoch.
            return Ok(State::Unlisted(page.after_expiry()));
        }
        // The same page again: a large list over a poor connection would otherwise never end. The permit is given
        // back, so that kinds that cannot be listed do not hold up those that can.
        self.rest(failure, State::Paging { page, epoch, permit: None }).await
    }

    async fn begin_list(&mut self) -> Result<u64, Closed> {
        let epoch = self.commons.epochs.fetch_add(1, Ordering::Relaxed) + 1;
        self.reporter.listing();
        self.sink.began(epoch, &mut self.out);
        self.flush().await?;
        Ok(epoch)
    }

    async fn end_list(&mut self, epoch: u64, version: String, stream: Option<Box<Stream>>) -> Result<State, Closed> {
        self.sink.ended(epoch, &version, &mut self.out);
        self.flush().await?;
        self.works().await?;
        self.reporter.listed();
        Ok(match stream {
            _ if self.once => State::Done,
            Some(stream) => State::Following { stream, version, proven: None },
            None => State::Known { version, refused: 0 },
        })
    }

    /// Opens a stream from a version.
    async fn open(&mut self, version: String, refused: u32) -> Result<State, Closed> {
        let stay = self.pace.jitter(STREAM_FOR).min(STREAM_FOR);
        match Stream::open(&self.cluster, &self.target, Some(&version), stay).await {
            Ok(stream) => {
                let proven = Some(Instant::now() + PROVEN_AFTER);
                Ok(State::Following { stream: Box::new(stream), version, proven })
            }
            Err(failure) => self.go_on_after(&failure, version, refused).await,
        }
    }

    /// One line of a stream.
    async fn follow(
        &mut self,
        mut stream: Box<Stream>,
        mut version: String,
        proven: Option<Instant>,
    ) -> Result<State, Closed> {
        let line = match stream.next(proven.unwrap_or_else(|| stream.overdue())).await {
            Ok(Next::Line(line)) => line,
            Ok(Next::Silence) if proven.is_some() => {
                self.works().await?;
                return Ok(State::Following { stream, version, proven: None });
            }
            Ok(Next::Silence) => {
                let failure = Failure::new(Cause::Timeout, "the stream went silent and did not end when it had to");
                return self.go_on_after(&failure, version, 0).await;
            }
            Ok(Next::End) => return self.ended(stream, version).await,
            Err(failure) => {
                self.credit(&stream);
                return self.go_on_after(&failure, version, 0).await;
            }
        };
        let told = match Event::parse(&line) {
            Ok(Event::Added(object) | Event::Modified(object)) => self.sink.applied(object, &mut self.out),
            Ok(Event::Deleted(object)) => self.sink.deleted(object, &mut self.out),
            Ok(Event::Bookmark { version, .. }) => {
                self.sink.progressed(&version, &mut self.out);
                Ok(version)
            }
            Ok(Event::Error(failure)) => return self.go_on_after(&failure, version, REFUSALS - 1).await,
            Err(failure) => Err(failure),
        };
        self.flush().await?;
        match told {
            Ok(reached) => {
                if !reached.is_empty() {
                    version = reached;
                }
                if proven.is_some() {
                    self.works().await?;
                }
                Ok(State::Following { stream, version, proven: None })
            }
            Err(failure) => self.go_on_after(&failure, version, 0).await,
        }
    }

    /// The API server ended the stream in good order.
    async fn ended(&mut self, stream: Box<Stream>, version: String) -> Result<State, Closed> {
        if self.credit(&stream) {
            return Ok(State::Known { version, refused: 0 });
        }
        // A proxy that ends every stream at once would otherwise be asked without a pause.
        let failure = Failure::new(Cause::Connection, "the stream ended soon after it began");
        self.go_on_after(&failure, version, 0).await
    }

    /// Where to go on after a failure when everything up to `version` is known.
    async fn go_on_after(&mut self, failure: &Failure, version: String, refused: u32) -> Result<State, Closed> {
        let relist = match failure.cause {
            // What is known is too old, or something came that we do not know: only a list helps.
            // A kind that comes back after a 404 is not the one that we knew.
            Cause::Gone | Cause::Undecodable | Cause::TooLarge | Cause::NotFound => true,
            Cause::ServerError | Cause::Timeout | Cause::Invalid | Cause::Other => {
                failure.status.is_some() && refused + 1 >= REFUSALS
            }
            _ => false,
        };
        let next = if relist {
            State::Unlisted(Listing::Streamed)
        } else {
            State::Known { version, refused: if failure.status.is_some() { refused + 1 } else { refused } }
        };
        self.rest(failure, next).await
    }

    /// Tells the failure and waits before what comes next.
    async fn rest(&mut self, failure: &Failure, next: State) -> Result<State, Closed> {
        self.out.clear();
        self.failing = true;
        self.attempts += 1;
        self.feed.failed(self.sink.source(), failure).await?;
        let refused = matches!(failure.cause, Cause::Forbidden | Cause::NotFound);
        if refused {
            self.reporter.failed();
            self.commons.review.notify_one();
        }
        if self.once && (refused || self.attempts >= ATTEMPTS_ONCE) {
            self.reporter.failed();
            return Ok(State::Done);
        }
        let until = Instant::now() + self.pace.wait(failure.retry_after);
        Ok(State::Resting { until, next: Box::new(next) })
    }

    /// Tells that the watch works, if that is news.
    async fn works(&mut self) -> Result<(), Closed> {
        self.attempts = 0;
        if std::mem::replace(&mut self.failing, false) || self.reporter.is_first() {
            self.feed.recovered(self.sink.source()).await?;
        }
        Ok(())
    }

    /// Whether this was a good stream, so that the next failure is the first of its kind.
    fn credit(&mut self, stream: &Stream) -> bool {
        let good = stream.age() >= GOOD_STREAM;
        if good {
            self.pace.reset();
        }
        good
    }

    async fn list_permit(&self) -> Result<OwnedSemaphorePermit, Closed> {
        Arc::clone(&self.commons.lists).acquire_owned().await.map_err(|_| Closed)
    }

    async fn flush(&mut self) -> Result<(), Closed> {
        for observation in self.out.drain(..) {
            self.feed.tell(observation).await?;
        }
        Ok(())
    }
}

/// Whether a page might succeed where this failed: not when the connection, the rights or the kind are missing.
fn blames_the_stream(failure: &Failure) -> bool {
    match failure.cause {
        Cause::ServerError | Cause::Undecodable | Cause::TooLarge | Cause::Invalid | Cause::Other => true,
        Cause::Timeout => failure.status.is_some(),
        _ => false,
    }
}

/// Whether the API server says that it does not know streamed lists, or not for this kind.
fn refuses_streamed_lists(failure: &Failure) -> bool {
    matches!(failure.status, Some(400 | 406 | 415 | 422))
}
