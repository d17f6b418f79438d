//! The steps between two lists: one stream after another, each from the last known version.

use std::time::Duration;

use loopwatch_model::observation::Cause;
use tokio::time::Instant;

use super::event::Event;
use super::stream::{StreamItem, WatchStream};
use super::{Listing, STREAM_FOR, Sink, WatchState, Watcher};
use crate::sources::failure::Failure;
use crate::sources::feed::Closed;

/// Silence after which a new stream counts as working: the API server sends refusals immediately, even in a stream.
const PROVEN_AFTER: Duration = Duration::from_secs(2);
/// Time during which a stream gathers changes: with the wait for the next common wake-up, up to 128 ms, a quarter of the
/// half second within which they must reach the model.
const GATHER: Duration = Duration::from_millis(64);
/// Age at which a stream counts as good, so that its end resets the backoffs.
const GOOD_STREAM: Duration = Duration::from_secs(60);
/// Refusals of a version after which the watch lists again. After a restored backup the API server waits for a version
/// that it will never reach.
const REFUSALS: u32 = 3;

// === impl Watcher ===

impl<S: Sink> Watcher<S> {
    /// Opens a stream from a version.
    pub(super) async fn open(&mut self, version: String, refused: u32) -> Result<WatchState, Closed> {
        let stay = self.backoffs.jitter(STREAM_FOR).min(STREAM_FOR);
        match WatchStream::open(&self.cluster, &self.target, Some(&version), stay).await {
            Ok(stream) => {
                let proven_at = Some(Instant::now() + PROVEN_AFTER);
                Ok(WatchState::Following { stream: Box::new(stream), version, proven_at })
            }
            Err(failure) => self.state_after_failure(&failure, version, refused).await,
        }
    }

    /// Reads one line of a stream.
    pub(super) async fn follow(
        &mut self,
        mut stream: Box<WatchStream>,
        mut version: String,
        proven_at: Option<Instant>,
    ) -> Result<WatchState, Closed> {
        let line = match stream.next(proven_at.unwrap_or_else(|| stream.overdue(self.bookmarks)), GATHER).await {
            Ok(StreamItem::Line(line)) => line,
            Ok(StreamItem::Silence) if proven_at.is_some() => {
                self.report_recovered().await?;
                return Ok(WatchState::Following { stream, version, proven_at: None });
            }
            Ok(StreamItem::Silence) => {
                let failure = Failure::new(Cause::Timeout, "the stream went silent: its connection is dead");
                return self.state_after_failure(&failure, version, 0).await;
            }
            Ok(StreamItem::End) => return self.ended(stream, version).await,
            Err(failure) => {
                self.reset_backoffs_after(&stream);
                return self.state_after_failure(&failure, version, 0).await;
            }
        };
        let handled = match Event::parse(&line) {
            Ok(Event::Added(object) | Event::Modified(object)) => self.sink.applied(object, &mut self.out),
            Ok(Event::Deleted(object)) => self.sink.deleted(object, &mut self.out),
            Ok(Event::Bookmark { version, .. }) => {
                self.bookmarks = true;
                self.sink.progressed(&version, &mut self.out);
                Ok(version)
            }
            Ok(Event::Error(failure)) => return self.state_after_failure(&failure, version, REFUSALS - 1).await,
            Err(failure) => Err(failure),
        };
        self.flush().await?;
        match handled {
            Ok(reached) => {
                if !reached.is_empty() {
                    version = reached;
                }
                if proven_at.is_some() {
                    self.report_recovered().await?;
                }
                Ok(WatchState::Following { stream, version, proven_at: None })
            }
            Err(failure) => self.state_after_failure(&failure, version, 0).await,
        }
    }

    /// Handles the regular end of a stream.
    async fn ended(&mut self, stream: Box<WatchStream>, version: String) -> Result<WatchState, Closed> {
        if self.reset_backoffs_after(&stream) {
            return Ok(WatchState::Disconnected { version, refused: 0 });
        }
        // Backs off, because some proxies end every stream immediately.
        let failure = Failure::new(Cause::Connection, "the stream ended soon after it began");
        self.state_after_failure(&failure, version, 0).await
    }

    /// Chooses the state after a failure, given that the watch knows everything up to `version`.
    async fn state_after_failure(
        &mut self,
        failure: &Failure,
        version: String,
        refused: u32,
    ) -> Result<WatchState, Closed> {
        let relist = match failure.cause {
            // If the version is too old or an event is unreadable, only a new list helps.
            // After a 404, a kind with the same name may have other objects.
            Cause::Gone | Cause::Undecodable | Cause::TooLarge | Cause::NotFound => true,
            Cause::ServerError | Cause::Timeout | Cause::Invalid | Cause::Other => {
                failure.status.is_some() && refused + 1 >= REFUSALS
            }
            _ => false,
        };
        let next = if relist {
            WatchState::Unlisted(Listing::Streamed)
        } else {
            WatchState::Disconnected { version, refused: if failure.status.is_some() { refused + 1 } else { refused } }
        };
        self.rest(failure, next).await
    }

    /// Resets the backoffs if the stream was good; returns whether it was.
    fn reset_backoffs_after(&mut self, stream: &WatchStream) -> bool {
        let good = stream.age() >= GOOD_STREAM;
        if good {
            self.backoffs.reset();
        }
        good
    }
}
