//! The steps of a list: streamed, or page by page.

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

/// So long after the last object, a streamed list that does not end is taken for a watch that ignored the request.
const LIST_IDLE: Duration = Duration::from_secs(10);
/// ObjectSink that are read together: a few dozen, which the connection can hold.
const GATHER: Duration = Duration::from_millis(5);
/// After so many failures in a row that are not the connection's, lists are read by pages.
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
        Ok(WatchState::Filling { stream, epoch, give_up: Instant::now() + LIST_IDLE, permit })
    }

    /// One line of a streamed list.
    pub(super) async fn fill(
        &mut self,
        mut stream: Box<WatchStream>,
        epoch: u64,
        mut give_up: Instant,
        permit: OwnedSemaphorePermit,
    ) -> Result<WatchState, Closed> {
        let line = match stream.next(give_up, GATHER).await {
            Ok(StreamItem::Line(line)) => line,
            // Ignored, or longer than one stream lasts: pages end in any case.
            Ok(StreamItem::Silence | StreamItem::End) => {
                self.streams = false;
                return Ok(WatchState::Unlisted(Listing::Paged { expired: 0 }));
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
        match told {
            Ok(()) => Ok(WatchState::Filling { stream, epoch, give_up, permit }),
            Err(failure) => self.stream_failed(&failure).await,
        }
    }

    async fn stream_failed(&mut self, failure: &Failure) -> Result<WatchState, Closed> {
        if blames_the_stream(failure) {
            self.stream_failures += 1;
            // Pages may work where streams do not: behind proxies, or when the watch cache cannot be filled.
            self.streams = self.stream_failures < STREAM_FAILURES;
        }
        self.rest(failure, WatchState::Unlisted(Listing::Streamed)).await
    }

    pub(super) async fn begin_pages(&mut self, listing: Listing) -> Result<WatchState, Closed> {
        let permit = self.list_permit().await?;
        let epoch = self.begin_list().await?;
        Ok(WatchState::Paging { page: Page::first(listing), epoch, permit: Some(permit) })
    }

    /// One page of a list.
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
                Ok(WatchState::Paging { page: page.followed_by(end.token), epoch, permit: Some(permit) })
            }
            Err(failure) => self.page_failed(page, epoch, &failure).await,
        }
    }

    async fn page_failed(&mut self, page: Page, epoch: u64, failure: &Failure) -> Result<WatchState, Closed> {
        if failure.cause == Cause::Gone && page.is_continued() {
            // What was listed so far is abandoned with its epoch.
            return Ok(WatchState::Unlisted(page.after_expiry()));
        }
        // The same page again: a large list over a poor connection would otherwise never end. The permit is given
        // back, so that kinds that cannot be listed do not hold up those that can.
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
        self.works().await?;
        self.reporter.listed();
        Ok(match stream {
            _ if self.once => WatchState::Done,
            Some(stream) => WatchState::Following { stream, version, proven: None },
            None => WatchState::Known { version, refused: 0 },
        })
    }

    async fn list_permit(&self) -> Result<OwnedSemaphorePermit, Closed> {
        Arc::clone(&self.shared.lists).acquire_owned().await.map_err(|_| Closed)
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
