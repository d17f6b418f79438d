//! The steps of a list: streamed or in pages.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use loopwatch_model::observation::Cause;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use super::event::Event;
use super::page::Page;
use super::stream::{StreamItem, WatchStream};
use super::{Listing, STREAM_FOR, Sink, WatchState, Watcher};
use crate::sources::failure::Failure;
use crate::sources::feed::Closed;

/// Silence after which a streamed list without end counts as a plain watch: the API server ignored the request to list.
const LIST_IDLE: Duration = Duration::from_secs(10);
/// Time during which a list gathers objects: a few dozen, which the connection can buffer.
const GATHER: Duration = Duration::from_millis(5);
/// Failures in a row, other than of the connection, after which a watch lists in pages.
const STREAM_FAILURES: u32 = 2;

// === impl Watcher ===

impl<S: Sink> Watcher<S> {
    pub(super) async fn begin_stream(&mut self) -> Result<WatchState, Closed> {
        let permit = self.list_permit().await?;
        let stream = match WatchStream::open(&self.cluster, &self.target, None, STREAM_FOR).await {
            Ok(stream) => Box::new(stream),
            Err(failure) if refuses_streamed_lists(&failure) => {
                self.streams = false;
                return Ok(WatchState::Unlisted(Listing::Paged { expired: 0 }));
            }
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
        let line = match stream.next(give_up, GATHER).await {
            Ok(StreamItem::Line(line)) => line,
            // The API server ignored the request to list, or the list takes longer than a stream may last. Pages work
            // in both cases.
            Ok(StreamItem::Silence | StreamItem::End) => {
                self.streams = false;
                return Ok(WatchState::Unlisted(Listing::Paged { expired: 0 }));
            }
            Err(failure) => return self.stream_failed(&failure).await,
        };
        let handled = match Event::parse(&line) {
            Ok(Event::Added(object)) => {
                give_up = Instant::now() + LIST_IDLE;
                self.reporter.object();
                self.sink.listed(object, &mut self.out)
            }
            // Objects keep changing while the list is under way.
            Ok(Event::Modified(object)) => self.sink.listed(object, &mut self.out),
            Ok(Event::Deleted(object)) => self.sink.deleted(object, &mut self.out).map(drop),
            Ok(Event::Bookmark { ends_list: false, .. }) => Ok(()),
            Ok(Event::Bookmark { version, ends_list: true }) => {
                self.bookmarks = true;
                drop(permit);
                return self.end_list(epoch, version, Some(stream)).await;
            }
            Ok(Event::Error(failure)) if refuses_streamed_lists(&failure) => {
                self.streams = false;
                return Ok(WatchState::Unlisted(Listing::Paged { expired: 0 }));
            }
            Ok(Event::Error(failure)) | Err(failure) => Err(failure),
        };
        self.flush().await?;
        match handled {
            Ok(()) => Ok(WatchState::StreamingList { stream, epoch, give_up, permit }),
            Err(failure) => self.stream_failed(&failure).await,
        }
    }

    async fn stream_failed(&mut self, failure: &Failure) -> Result<WatchState, Closed> {
        if blames_the_stream(failure) {
            self.stream_failures += 1;
            // Pages may work where streams do not: behind a proxy, or if the API server cannot fill its watch cache.
            self.streams = self.stream_failures < STREAM_FAILURES;
        }
        self.rest(failure, WatchState::Unlisted(Listing::Streamed)).await
    }

    pub(super) async fn begin_pages(&mut self, listing: Listing) -> Result<WatchState, Closed> {
        let permit = self.list_permit().await?;
        let epoch = self.begin_list().await?;
        Ok(WatchState::Paging { page: Page::first(listing), epoch, permit: Some(permit) })
    }

    /// Reads one page of a list.
    pub(super) async fn read_page(
        &mut self,
        page: Page,
        epoch: u64,
        permit: Option<OwnedSemaphorePermit>,
    ) -> Result<WatchState, Closed> {
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
                    let handled = self.sink.listed(&object, &mut self.out);
                    self.flush().await?;
                    if let Err(failure) = handled {
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
                Ok(WatchState::Paging { page: page.followed_by(end.token), epoch, permit: Some(permit) })
            }
            Err(failure) => self.page_failed(page, epoch, &failure).await,
        }
    }

    async fn page_failed(&mut self, page: Page, epoch: u64, failure: &Failure) -> Result<WatchState, Closed> {
        if failure.cause == Cause::Gone && page.is_continued() {
            // A new epoch replaces the objects listed so far.
            return Ok(WatchState::Unlisted(page.after_expiry()));
        }
        // Reads the same page again: otherwise a large list would never end on a poor connection. Gives the permit
        // back, so that a kind whose list fails does not delay others.
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
        self.sink.ended(epoch, &version, &mut self.out);
        self.flush().await?;
        self.report_recovered().await?;
        self.reporter.listed();
        Ok(match stream {
            _ if self.once => WatchState::Done,
            Some(stream) => WatchState::Following { stream, version, proven_at: None },
            None => WatchState::Disconnected { version, refused: 0 },
        })
    }

    async fn list_permit(&self) -> Result<OwnedSemaphorePermit, Closed> {
        Arc::clone(&self.shared.lists).acquire_owned().await.map_err(|_| Closed)
    }
}

/// Whether a paged list might succeed after this failure: it cannot without a connection, permissions or the kind.
fn blames_the_stream(failure: &Failure) -> bool {
    match failure.cause {
        Cause::ServerError | Cause::Undecodable | Cause::TooLarge | Cause::Invalid | Cause::Other => true,
        Cause::Timeout => failure.status.is_some(),
        _ => false,
    }
}

/// Whether the API server does not support streamed lists, at least for this kind.
fn refuses_streamed_lists(failure: &Failure) -> bool {
    matches!(failure.status, Some(400 | 406 | 415 | 422))
}
