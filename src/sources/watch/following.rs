//! The steps between two lists: a stream from the version that is known, again and again.

use std::time::Duration;

use loopwatch_model::observation::Cause;
use tokio::time::Instant;

use super::event::Event;
use super::stream::{StreamItem, WatchStream};
use super::{Listing, STREAM_FOR, Sink, WatchState, Watcher};
use crate::sources::failure::Failure;
use crate::sources::feed::Closed;

/// A refusal comes at once, also inside a stream: after so long without one, the stream works.
const PROVEN_AFTER: Duration = Duration::from_secs(2);
/// Changes that are read together: a fifth of the half second within which all shall be known.
const GATHER: Duration = Duration::from_millis(100);
/// A stream that lasted so long was a good one: the next failure is a new one.
const GOOD_STREAM: Duration = Duration::from_secs(60);
/// So often the API server may refuse a version before everything is listed again: after a restored backup it waits
/// for a version that will never come.
const REFUSALS: u32 = 3;

// === impl Watcher ===

impl<S: Sink> Watcher<S> {
    /// Opens a stream from a version.
    pub(super) async fn open(&mut self, version: String, refused: u32) -> Result<WatchState, Closed> {
        let stay = self.backoffs.jitter(STREAM_FOR).min(STREAM_FOR);
        match WatchStream::open(&self.cluster, &self.target, Some(&version), stay).await {
            Ok(stream) => {
                let proven = Some(Instant::now() + PROVEN_AFTER);
                Ok(WatchState::Following { stream: Box::new(stream), version, proven })
            }
            Err(failure) => self.go_on_after(&failure, version, refused).await,
        }
    }

    /// One line of a stream.
    pub(super) async fn follow(
        &mut self,
        mut stream: Box<WatchStream>,
        mut version: String,
        proven: Option<Instant>,
    ) -> Result<WatchState, Closed> {
        let line = match stream.next(proven.unwrap_or_else(|| stream.overdue(self.bookmarks)), GATHER).await {
            Ok(StreamItem::Line(line)) => line,
            Ok(StreamItem::Silence) if proven.is_some() => {
                self.works().await?;
                return Ok(WatchState::Following { stream, version, proven: None });
            }
            Ok(StreamItem::Silence) => {
                let failure = Failure::new(Cause::Timeout, "the stream went silent: its connection is dead");
                return self.go_on_after(&failure, version, 0).await;
            }
            Ok(StreamItem::End) => return self.ended(stream, version).await,
            Err(failure) => {
                self.credit(&stream);
                return self.go_on_after(&failure, version, 0).await;
            }
        };
        let told = match Event::parse(&line) {
            Ok(Event::Added(object) | Event::Modified(object)) => self.sink.applied(object, &mut self.out),
            Ok(Event::Deleted(object)) => self.sink.deleted(object, &mut self.out),
            Ok(Event::Bookmark { version, .. }) => {
                self.bookmarks = true;
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
                Ok(WatchState::Following { stream, version, proven: None })
            }
            Err(failure) => self.go_on_after(&failure, version, 0).await,
        }
    }

    /// The API server ended the stream in good order.
    async fn ended(&mut self, stream: Box<WatchStream>, version: String) -> Result<WatchState, Closed> {
        if self.credit(&stream) {
            return Ok(WatchState::Known { version, refused: 0 });
        }
        // A proxy that ends every stream at once would otherwise be asked without a pause.
        let failure = Failure::new(Cause::Connection, "the stream ended soon after it began");
        self.go_on_after(&failure, version, 0).await
    }

    /// Where to go on after a failure when everything up to `version` is known.
    async fn go_on_after(&mut self, failure: &Failure, version: String, refused: u32) -> Result<WatchState, Closed> {
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
            WatchState::Unlisted(Listing::Streamed)
        } else {
            WatchState::Known { version, refused: if failure.status.is_some() { refused + 1 } else { refused } }
        };
        self.rest(failure, next).await
    }

    /// Whether this was a good stream, so that the next failure is the first of its kind.
    fn credit(&mut self, stream: &WatchStream) -> bool {
        let good = stream.age() >= GOOD_STREAM;
        if good {
            self.backoffs.reset();
        }
        good
    }
}
