//! The steps between two lists: one stream after another, each from the last known version.

use std::time::Duration;

use loopwatch_model::observation::Cause;
use tokio::time::Instant;
use tracing::debug;

use super::event::WatchEvent;
use super::stream::{BATCH_TIME, SILENT_FOR, StreamItem, WatchStream};
use super::{Listing, STREAM_FOR, STREAM_WITH_BOOKMARKS_FOR, WatchSink, WatchState, Watcher};
use crate::net::Failure;
use crate::sources::feed::Closed;

/// Silence after which a new stream counts as working: the API server refuses immediately, even
/// within a stream.
const PROVEN_AFTER: Duration = Duration::from_secs(2);
/// A stream that lives this long counts as good, so its end resets the backoffs.
const GOOD_STREAM: Duration = Duration::from_secs(60);
/// The requested durations of streams differ by up to this part, so that the watches of many
/// loopwatches do not end together.
const STREAM_SPREAD: u32 = 5;
/// The longest pause after the API server has ended a good stream early. One that shuts down ends
/// the watches of all clients at once, and another one would get all of them back at once.
const REOPEN_WITHIN: Duration = Duration::from_secs(3);
/// Rejections of a version after which the watch lists again. Behind a load balancer, an API server
/// may lag behind the one that issued the version. After a restored backup, no API server reaches
/// it.
const REJECTIONS: u32 = 3;

impl<S: WatchSink> Watcher<S> {
    /// The duration to request for a stream.
    pub(super) fn stream_for(&mut self) -> Duration {
        let longest = match self.bookmarks {
            Some(true) => STREAM_WITH_BOOKMARKS_FOR,
            Some(false) | None => STREAM_FOR,
        };
        longest.saturating_sub(self.backoffs.below(longest / STREAM_SPREAD))
    }

    /// Opens a stream from a version.
    pub(super) async fn open(
        &mut self,
        version: String,
        rejected: u32,
    ) -> Result<WatchState, Closed> {
        let stay = self.stream_for();
        let (cluster, target) = (&self.cluster, &self.target);
        let open = async |from: String| WatchStream::open(cluster, target, Some(&from), stay).await;
        let opened = match &self.shared.streams {
            Some(shared) => shared.join_or(target, &version, open).await,
            None => open(version.clone()).await,
        };
        match opened {
            Ok(stream) => {
                let proven_at = Some(Instant::now() + PROVEN_AFTER);
                Ok(WatchState::Following { stream: Box::new(stream), version, proven_at })
            }
            Err(failure) => self.state_after_failure(&failure, version, rejected).await,
        }
    }

    /// Reads the next line of a stream, or handles its silence or its end.
    pub(super) async fn follow(
        &mut self,
        mut stream: Box<WatchStream>,
        version: String,
        proven_at: Option<Instant>,
    ) -> Result<WatchState, Closed> {
        let quiet_since = stream.quiet_since();
        let silent_at = proven_at.unwrap_or_else(|| stream.overdue(self.bookmarks == Some(true)));
        match stream.next(silent_at, BATCH_TIME).await {
            Ok(StreamItem::Line(line)) => {
                match self.handle(&line, &version, quiet_since, &stream) {
                    Ok(reached) => self.go_on(stream, reached.unwrap_or(version), proven_at).await,
                    Err(failure) => self.state_after_failure(&failure, version, 0).await,
                }
            }
            Ok(StreamItem::Oversized) => {
                self.skip(Cause::TooLarge);
                self.flush().await?;
                Ok(WatchState::Following { stream, version, proven_at })
            }
            Ok(StreamItem::Silence) if proven_at.is_some() => {
                self.report_recovered().await?;
                Ok(WatchState::Following { stream, version, proven_at: None })
            }
            Ok(StreamItem::Silence) => {
                // Perhaps the connection is dead, perhaps the API server is only late with its
                // bookmark or sends none. The next stream shows which. Expects bookmarks again only
                // after the next one.
                self.bookmarks = Some(false);
                debug!(source = %self.sink.source(), "the stream is silent: opening another one");
                self.ended(stream, version).await
            }
            Ok(StreamItem::End) => self.ended(stream, version).await,
            Err(failure) => {
                self.reset_backoffs_after(&stream);
                self.state_after_failure(&failure, version, 0).await
            }
        }
    }

    /// Handles one line of a stream, and skips an object that it cannot read. Returns the new
    /// version if the watch has reached one, or the failure that ends the stream.
    fn handle(
        &mut self,
        line: &[u8],
        version: &str,
        quiet_since: Instant,
        stream: &WatchStream,
    ) -> Result<Option<String>, Failure> {
        let handled = match WatchEvent::parse(line) {
            Ok(WatchEvent::Added(object) | WatchEvent::Modified(object)) => {
                self.sink.applied(object, &mut self.out)
            }
            Ok(WatchEvent::Deleted(object)) => self.sink.deleted(object, &mut self.out),
            Ok(WatchEvent::Bookmark { version, .. }) => {
                // A bookmark at the end of a stream does not show that others would have followed.
                if quiet_since.elapsed() < SILENT_FOR {
                    self.bookmarks = Some(true);
                }

                self.sink.progressed(&version, &mut self.out);
                Ok(version)
            }
            Ok(WatchEvent::Error(failure)) => {
                self.reset_backoffs_after(stream);
                return Err(failure);
            }
            Err(failure) if self.garbled_after.as_deref() != Some(version) => {
                self.garbled_after = Some(version.to_owned());
                return Err(failure);
            }
            Err(failure) => Err(failure),
        };
        match handled {
            // After a list without a version, an object's version may be older than the list.
            Ok(reached) => {
                Ok(Some(reached).filter(|reached| !version.is_empty() && !reached.is_empty()))
            }
            Err(failure) => {
                self.skip(failure.cause);
                Ok(None)
            }
        }
    }

    /// Continues with a stream that has sent a line.
    async fn go_on(
        &mut self,
        stream: Box<WatchStream>,
        version: String,
        proven_at: Option<Instant>,
    ) -> Result<WatchState, Closed> {
        self.flush().await?;
        if proven_at.is_some() {
            self.report_recovered().await?;
        }

        Ok(WatchState::Following { stream, version, proven_at: None })
    }

    /// Handles the regular end of a stream, or one that has been silent for so long that the watch
    /// gives it up.
    async fn ended(
        &mut self,
        stream: Box<WatchStream>,
        version: String,
    ) -> Result<WatchState, Closed> {
        if self.reset_backoffs_after(&stream) {
            let next = resume_from(version, 0);
            if !stream.ended_early() {
                return Ok(next);
            }

            let until = Instant::now() + self.backoffs.below(REOPEN_WITHIN);
            return Ok(WatchState::Resting { until, next: Box::new(next) });
        }

        // Backs off, because some proxies end every stream immediately.
        let failure = Failure::new(Cause::Connection, "the stream ended soon after it began");
        self.state_after_failure(&failure, version, 0).await
    }

    /// Chooses the state after a failure of a watch that has received everything up to `version`.
    /// It lists again only if the API server no longer has this version, or rejects it.
    async fn state_after_failure(
        &mut self,
        failure: &Failure,
        version: String,
        rejected: u32,
    ) -> Result<WatchState, Closed> {
        if failure.cause == Cause::Gone && self.version_grows_old() {
            debug!(source = %self.sink.source(), "nothing has happened for so long that the watch lists again");
            return Ok(WatchState::Unlisted(Listing::Streamed));
        }

        let rejected = if failure.rejects_version() { rejected + 1 } else { rejected };
        let next = if failure.cause == Cause::Gone || rejected >= REJECTIONS {
            WatchState::Unlisted(Listing::Streamed)
        } else {
            resume_from(version, rejected)
        };

        self.rest(failure, next).await
    }

    /// Whether the loss of the version is normal. Without a cache, the API server rarely sends
    /// bookmarks, so the version of a quiet watch becomes older than the versions that the API
    /// server keeps.
    fn version_grows_old(&self) -> bool {
        !self.target.cached && self.listed_at.is_some_and(|at| at.elapsed() >= GOOD_STREAM)
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

/// The state of a watch that has received everything up to `version`. Without a version, only a new
/// list shows what happened in the meantime.
fn resume_from(version: String, rejected: u32) -> WatchState {
    match version.is_empty() {
        true => WatchState::Unlisted(Listing::Streamed),
        false => WatchState::Disconnected { version, rejected },
    }
}
