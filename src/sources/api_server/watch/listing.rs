//! The steps of a list: streamed or in pages.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use loopwatch_model::observation::{Cause, MAX_OBJECT_BYTES};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use super::event::WatchEvent;
use super::frames::Frame;
use super::page::ListPage;
use super::stream::{StreamItem, WatchStream};
use super::streaming::RETRY_STREAMS_AFTER;
use super::{Listing, WatchSink, WatchState, Watcher};
use crate::net::Failure;
use crate::sources::feed::Closed;

/// Time after which a streamed list without progress counts as ignored: the API server or a proxy
/// has opened a plain watch, in which no bookmark ends the list.
const LIST_IDLE: Duration = Duration::from_secs(10);
/// Progress of a list with each object. New objects of a plain watch come more slowly than 50 per
/// second.
const PROGRESS_PER_OBJECT: Duration = Duration::from_millis(20);
/// Progress of a list with each MiB, so that a slow connection may carry large objects.
const PROGRESS_PER_MIB: Duration = Duration::from_secs(4);
/// Time between two reads of a list: a few dozen, which the connection can buffer.
const BATCH_TIME: Duration = Duration::from_millis(5);
/// Failures in a row, other than of the connection, after which a watch lists in pages.
const STREAM_FAILURES: u32 = 2;

impl<S: WatchSink> Watcher<S> {
    /// Begins a list, in the best way known to work.
    pub(super) async fn begin(&mut self, listing: Listing) -> Result<WatchState, Closed> {
        let permit = Arc::clone(&self.shared.lists).acquire_owned().await.map_err(|_| Closed)?;
        // Other watches may have learnt something during the wait for the permit.
        match listing {
            Listing::Streamed if self.may_stream() => self.begin_stream(permit).await,
            Listing::Streamed => self.begin_pages(Listing::Paged { expired: 0 }, permit).await,
            Listing::Paged { .. } | Listing::Whole => self.begin_pages(listing, permit).await,
        }
    }

    fn may_stream(&mut self) -> bool {
        self.pages_until = self.pages_until.filter(|until| Instant::now() < *until);
        self.target.cached && self.pages_until.is_none() && self.shared.streaming.allows()
    }

    /// Lists in pages, now and for a while.
    fn switch_to_pages(&mut self) -> WatchState {
        self.pages_until = Some(Instant::now() + self.backoffs.jitter(RETRY_STREAMS_AFTER));
        WatchState::Unlisted(Listing::Paged { expired: 0 })
    }

    /// Lists in pages after a streamed list was refused or ignored.
    fn streams_refused(&mut self) -> WatchState {
        self.shared.streaming.refused();
        self.switch_to_pages()
    }

    async fn begin_stream(&mut self, permit: OwnedSemaphorePermit) -> Result<WatchState, Closed> {
        let stay = self.stream_for();
        let stream = match WatchStream::open(&self.cluster, &self.target, None, stay).await {
            Ok(stream) => Box::new(stream),
            Err(failure) if refuses_streamed_lists(&failure) => return Ok(self.streams_refused()),
            Err(failure) => return self.stream_failed(&failure).await,
        };
        let epoch = self.begin_list().await?;

        Ok(WatchState::StreamingList { stream, epoch, give_up: Instant::now() + LIST_IDLE, permit })
    }

    /// Reads one line of a streamed list.
    pub(super) async fn fill(
        &mut self,
        mut stream: Box<WatchStream>,
        epoch: u64,
        mut give_up: Instant,
        permit: OwnedSemaphorePermit,
    ) -> Result<WatchState, Closed> {
        let line = match stream.next(give_up, BATCH_TIME).await {
            // Events of a plain watch may keep coming.
            Ok(_) if Instant::now() >= give_up => return Ok(self.streams_refused()),
            Ok(StreamItem::Silence) => return Ok(self.streams_refused()),
            Ok(StreamItem::Line(line)) => line,
            Ok(StreamItem::Oversized) => {
                self.skip(Cause::TooLarge);
                self.flush().await?;
                give_up = after_progress(give_up, MAX_OBJECT_BYTES);
                return Ok(WatchState::StreamingList { stream, epoch, give_up, permit });
            }
            // The list takes longer than a stream may last. Pages have no such limit.
            Ok(StreamItem::End) => return Ok(self.switch_to_pages()),
            Err(failure) => return self.stream_failed(&failure).await,
        };

        let handled = match WatchEvent::parse(&line) {
            Ok(WatchEvent::Added(object)) => {
                give_up = after_progress(give_up, object.len());
                self.reporter.object();
                self.sink.listed(object, &mut self.out)
            }
            // Objects keep changing while the list is in progress.
            Ok(WatchEvent::Modified(object)) => self.sink.listed(object, &mut self.out),
            Ok(WatchEvent::Deleted(object)) => self.sink.deleted(object, &mut self.out).map(drop),
            Ok(WatchEvent::Bookmark { ends_list: false, .. }) => Ok(()),
            Ok(WatchEvent::Bookmark { version, ends_list: true }) => {
                drop(permit);
                self.bookmarks.get_or_insert(true);
                self.stream_failures = 0;
                self.shared.streaming.worked();
                return self.end_list(epoch, version, Some(stream)).await;
            }
            Ok(WatchEvent::Error(failure)) if refuses_streamed_lists(&failure) => {
                return Ok(self.streams_refused());
            }
            Ok(WatchEvent::Error(failure)) | Err(failure) => {
                return self.stream_failed(&failure).await;
            }
        };

        if let Err(failure) = handled {
            self.skip(failure.cause);
        }

        let before = Instant::now();
        self.flush().await?;
        give_up += before.elapsed(); // the API server is not to blame for a slow model
        Ok(WatchState::StreamingList { stream, epoch, give_up, permit })
    }

    async fn stream_failed(&mut self, failure: &Failure) -> Result<WatchState, Closed> {
        self.stream_failures += u32::from(blames_the_stream(failure));
        if self.stream_failures < STREAM_FAILURES {
            return self.rest(failure, WatchState::Unlisted(Listing::Streamed)).await;
        }

        // Pages may work where streams do not: behind a proxy, or if the API server cannot fill its
        // watch cache.
        let next = self.switch_to_pages();
        self.rest(failure, next).await
    }

    async fn begin_pages(
        &mut self,
        listing: Listing,
        permit: OwnedSemaphorePermit,
    ) -> Result<WatchState, Closed> {
        let epoch = self.begin_list().await?;
        Ok(WatchState::Paging { page: ListPage::first(listing), epoch, permit: Some(permit) })
    }

    /// Reads one page of a list.
    pub(super) async fn read_page(
        &mut self,
        page: ListPage,
        epoch: u64,
        permit: Option<OwnedSemaphorePermit>,
    ) -> Result<WatchState, Closed> {
        let permit = match permit {
            Some(permit) => permit,
            None => Arc::clone(&self.shared.lists).acquire_owned().await.map_err(|_| Closed)?,
        };
        let mut body = match page.open(&self.cluster, &self.target).await {
            Ok(body) => body,
            Err(failure) => return self.page_failed(page, epoch, &failure).await,
        };

        // Counts at the end of the page, because a page that fails is read again.
        let mut skipped = Vec::new();
        loop {
            match body.next().await {
                Ok(Some(Frame::Document(object))) => {
                    self.reporter.object();
                    if let Err(failure) = self.sink.listed(&object, &mut self.out) {
                        skipped.push(failure.cause);
                    }

                    self.flush().await?;
                }
                Ok(Some(Frame::Oversized)) => skipped.push(Cause::TooLarge),
                Ok(None) => break,
                Err(failure) => return self.page_failed(page, epoch, &failure).await,
            }
        }

        let end = match body.end() {
            Ok(end) => end,
            Err(failure) => return self.page_failed(page, epoch, &failure).await,
        };

        skipped.into_iter().for_each(|cause| self.skip(cause));
        self.flush().await?;
        if end.token.is_empty() {
            drop(permit);
            return self.end_list(epoch, end.resource_version, None).await;
        }

        self.attempts = 0;
        Ok(WatchState::Paging { page: page.followed_by(end.token), epoch, permit: Some(permit) })
    }

    async fn page_failed(
        &mut self,
        page: ListPage,
        epoch: u64,
        failure: &Failure,
    ) -> Result<WatchState, Closed> {
        if failure.cause == Cause::Gone && page.is_continued() {
            // A new epoch replaces the objects listed so far.
            return Ok(WatchState::Unlisted(page.after_expiry()));
        }

        if self.stream_failures >= STREAM_FAILURES
            && !page.is_continued()
            && blames_the_stream(failure)
        {
            // Pages fail, too. The watch continues with whichever works first.
            self.stream_failures = STREAM_FAILURES - 1;
            self.pages_until = None;
            return self.rest(failure, WatchState::Unlisted(Listing::Streamed)).await;
        }

        // Reads the same page again: otherwise a large list would never end on a poor connection.
        // Gives the permit back, so that a kind whose list fails does not delay others.
        self.rest(failure, WatchState::Paging { page, epoch, permit: None }).await
    }

    async fn begin_list(&mut self) -> Result<u64, Closed> {
        let epoch = self.shared.epochs.fetch_add(1, Ordering::Relaxed) + 1;
        self.reporter.listing();
        self.sink.began(epoch, &mut self.out);
        self.flush().await?;

        Ok(epoch)
    }

    async fn end_list(
        &mut self,
        epoch: u64,
        version: String,
        stream: Option<Box<WatchStream>>,
    ) -> Result<WatchState, Closed> {
        self.listed_at = Some(Instant::now());
        self.sink.ended(epoch, &version, &mut self.out);
        self.flush().await?;
        self.report_recovered().await?;
        self.reporter.listed();

        let stream = match (stream, &self.shared.streams) {
            (Some(own), Some(shared)) if !self.once => {
                Some(Box::new(shared.adopt(&self.target, &version, *own).await))
            }
            (stream, _) => stream,
        };
        Ok(match stream {
            _ if self.once => WatchState::Done,
            Some(stream) => WatchState::Following { stream, version, proven_at: None },
            None => WatchState::Disconnected { version, rejected: 0 },
        })
    }
}

/// Whether a paged list might succeed after this failure. Without a connection, permissions or the
/// kind, it cannot.
fn blames_the_stream(failure: &Failure) -> bool {
    match failure.cause {
        Cause::ServerError
        | Cause::Undecodable
        | Cause::TooLarge
        | Cause::Invalid
        | Cause::Other => true,
        Cause::Timeout => failure.status.is_some(),
        _ => false,
    }
}

/// Whether the API server does not support streamed lists, at least for this kind.
fn refuses_streamed_lists(failure: &Failure) -> bool {
    matches!(failure.status, Some(400 | 406 | 415 | 422))
}

/// When to give up a streamed list, after an object of this size. A list whose objects come in
/// quick succession never ends early; one that stalls, or has a new object only now and then, ends
/// after `LIST_IDLE`.
fn after_progress(give_up: Instant, bytes: usize) -> Instant {
    let progress =
        PROGRESS_PER_OBJECT + PROGRESS_PER_MIB.mul_f64(bytes as f64 / f64::from(1 << 20));
    (give_up + progress).min(Instant::now() + LIST_IDLE)
}
