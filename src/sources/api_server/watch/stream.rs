//! Reads a watch stream line by line, and notices its silence.

use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use kube::client::Body;
use loopwatch_model::observation::{Cause, MAX_OBJECT_BYTES};
use tokio::time::{Instant, Sleep};

use super::frames::{Frame, LineSplitter};
use super::target::WatchTarget;
use crate::net::{Failure, percent_encode};
use crate::sources::api_server::connection::{BatchTime, Chunk, Cluster, JSON, METADATA, chunk};

/// An open watch stream, read line by line.
pub(crate) struct WatchStream {
    body: Body,
    /// The batch time that this stream has set. Set again only on a change, because another request
    /// may use the connection by then.
    waits: Duration,
    batch_time: BatchTime,
    lines: LineSplitter,
    opened: Instant,
    /// Time of the last line.
    last_line_at: Instant,
    /// Fires when the stream may have been silent for too long.
    silence: Pin<Box<Sleep>>,
    /// Requested duration.
    lasts: Duration,
}

/// The result of reading from a stream.
pub(crate) enum StreamItem {
    /// One line.
    Line(Bytes),
    /// A line that was skipped because it exceeds the limit.
    Oversized,
    /// Nothing until the given time.
    Silence,
    /// The API server ended the stream.
    End,
}

/// Time after the requested duration at which the watch gives up a stream that is still open: its
/// connection is half-open.
const STREAM_GRACE: Duration = Duration::from_secs(10);
/// Silence after which the watch gives up a stream if the API server sends bookmarks, which it does
/// approximately every minute (`bookmarkFrequency` in its cacher), but never promises.
pub(super) const SILENT_FOR: Duration = Duration::from_secs(110);

impl WatchStream {
    /// Opens a stream from a version, or one that begins with a list.
    pub(crate) async fn open(
        cluster: &Cluster,
        target: &WatchTarget,
        from: Option<&str>,
        lasts: Duration,
    ) -> Result<Self, Failure> {
        let seconds = lasts.as_secs();
        let begin = match from {
            Some(version) => format!("resourceVersion={}", percent_encode(version)),
            // Without a resourceVersion the list is consistent: at least as recent as this request.
            None => "sendInitialEvents=true&resourceVersionMatch=NotOlderThan".to_owned(),
        };
        let request = target.request(&format!(
            "watch=true&allowWatchBookmarks=true&timeoutSeconds={seconds}&{begin}"
        ));

        let (body, batch_time) = cluster
            .open_stream(&request, if target.metadata_only { METADATA } else { JSON })
            .await?;
        let opened = Instant::now();

        Ok(Self {
            body,
            waits: Duration::ZERO,
            batch_time,
            lines: LineSplitter::new(MAX_OBJECT_BYTES),
            opened,
            last_line_at: opened,
            silence: Box::pin(tokio::time::sleep_until(opened + lasts)),
            lasts,
        })
    }

    /// Whether the stream has not lasted as long as requested.
    pub(crate) fn ended_early(&self) -> bool {
        self.age() + STREAM_GRACE < self.lasts
    }

    /// Reads the next line, or reports silence at `silent_at`. The connection waits for `waits`
    /// before each read, to read several lines at once: a wake-up costs several times as much as a
    /// line.
    pub(crate) async fn next(
        &mut self,
        silent_at: Instant,
        waits: Duration,
    ) -> Result<StreamItem, Failure> {
        if self.waits != waits {
            self.waits = waits;
            self.batch_time.set(waits);
        }
        loop {
            if let Some(frame) = self.lines.next() {
                self.last_line_at = Instant::now();
                return Ok(match frame {
                    Frame::Document(line) => StreamItem::Line(line),
                    Frame::Oversized => StreamItem::Oversized,
                });
            }

            match self.chunk_before(silent_at).await {
                Some(Ok(Some(chunk))) => self.lines.push(&chunk),
                Some(Ok(None)) if self.lines.is_mid_line() => {
                    return Err(Failure::new(
                        Cause::Connection,
                        "the stream ended in the middle of a line",
                    ));
                }
                Some(Ok(None)) => return Ok(StreamItem::End),
                Some(Err(failure)) => return Err(failure),
                None => return Ok(StreamItem::Silence),
            }
        }
    }

    /// The next chunk; `None` if there is none before `silent_at`.
    async fn chunk_before(&mut self, silent_at: Instant) -> Option<Chunk> {
        if self.silence.deadline() > silent_at {
            self.silence.as_mut().reset(silent_at);
        }
        loop {
            tokio::select! {
                biased;
                chunk = chunk(&mut self.body) => return Some(chunk),
                () = &mut self.silence => {}
            }
            if self.silence.deadline() >= silent_at {
                return None;
            }

            // The timer was set for an earlier line. Moving it with each line would cost more.
            self.silence.as_mut().reset(silent_at);
        }
    }

    /// When the last line came, or the stream was opened.
    pub(crate) fn quiet_since(&self) -> Instant {
        self.last_line_at
    }

    /// When the watch gives up a silent stream: the API server should have ended it by then or, if
    /// it sends bookmarks, should have sent one.
    pub(crate) fn overdue(&self, sends_bookmarks: bool) -> Instant {
        let end = self.opened + self.lasts + STREAM_GRACE;
        if sends_bookmarks { end.min(self.last_line_at + SILENT_FOR) } else { end }
    }

    /// Time since the stream was opened.
    pub(crate) fn age(&self) -> Duration {
        self.opened.elapsed()
    }
}
