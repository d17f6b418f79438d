//! Reads a watch stream line by line, and notices its silence.

use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use kube::client::Body;
use loopwatch_model::observation::{Cause, MAX_OBJECT_BYTES};
use tokio::time::{Instant, Sleep};

use super::frames::{Frame, LineSplitter};
use super::subscription::{Line, Subscription};
use super::target::WatchTarget;
use crate::net::{Failure, percent_encode};
use crate::sources::api_server::connection::{BatchTime, Cluster, JSON, METADATA, chunk};

/// An open watch stream, read line by line.
pub(crate) struct WatchStream {
    source: Source,
    opened: Instant,
    /// Time of the last line.
    last_line_at: Instant,
    /// Fires when the stream may have been silent for too long.
    silence: Pin<Box<Sleep>>,
    /// Requested duration.
    lasts: Duration,
}

/// Where the lines come from.
enum Source {
    Own(Box<OwnSource>),
    /// From a stream that other watches follow, too.
    Shared(Box<Subscription>),
}

/// The response to a request.
struct OwnSource {
    body: Body,
    /// The batch time that this stream has set. Set again only on a change, because another request
    /// may use the connection by then.
    waits: Duration,
    batch_time: BatchTime,
    lines: LineSplitter,
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

/// Time between two reads of a stream. With the wait for the next coarse timer, it is up to 128 ms,
/// a quarter of the half second in which changes must reach the model.
pub(super) const BATCH_TIME: Duration = Duration::from_millis(64);
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
        let lines = LineSplitter::new(MAX_OBJECT_BYTES);
        let own = OwnSource { body, waits: Duration::ZERO, batch_time, lines };
        Ok(Self::new(Source::Own(Box::new(own)), Instant::now(), lasts))
    }

    /// A stream that another watch has opened, and that lasts for this time from then on.
    pub(super) fn joined(subscription: Subscription, opened: Instant, lasts: Duration) -> Self {
        Self::new(Source::Shared(Box::new(subscription)), opened, lasts)
    }

    fn new(source: Source, opened: Instant, lasts: Duration) -> Self {
        let silence = Box::pin(tokio::time::sleep_until(opened + lasts));
        Self { source, opened, last_line_at: Instant::now(), silence, lasts }
    }

    /// When the stream was opened.
    pub(super) fn opened(&self) -> Instant {
        self.opened
    }

    /// The requested duration.
    pub(super) fn lasts(&self) -> Duration {
        self.lasts
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
        if let Source::Own(own) = &mut self.source {
            own.wait_before_reads(waits);
        }
        if self.silence.deadline() > silent_at {
            self.silence.as_mut().reset(silent_at);
        }

        loop {
            tokio::select! {
                biased;
                item = self.source.next() => {
                    if matches!(item, Ok(StreamItem::Line(_) | StreamItem::Oversized)) {
                        self.last_line_at = Instant::now();
                    }
                    return item;
                }
                () = &mut self.silence => {}
            }
            if self.silence.deadline() >= silent_at {
                return Ok(StreamItem::Silence);
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

impl Source {
    /// The next item. The future can be dropped at any await.
    async fn next(&mut self) -> Result<StreamItem, Failure> {
        match self {
            Self::Own(own) => own.next().await,
            Self::Shared(shared) => Ok(match shared.next().await {
                Line::Text(line) => StreamItem::Line(line),
                Line::Oversized => StreamItem::Oversized,
                Line::End => StreamItem::End,
            }),
        }
    }
}

impl OwnSource {
    /// Sets how long the connection waits before each read.
    fn wait_before_reads(&mut self, waits: Duration) {
        if self.waits != waits {
            self.waits = waits;
            self.batch_time.set(waits);
        }
    }

    async fn next(&mut self) -> Result<StreamItem, Failure> {
        loop {
            if let Some(frame) = self.lines.next() {
                return Ok(match frame {
                    Frame::Document(line) => StreamItem::Line(line),
                    Frame::Oversized => StreamItem::Oversized,
                });
            }

            match chunk(&mut self.body).await {
                Ok(Some(chunk)) => self.lines.push(&chunk),
                Ok(None) if self.lines.is_mid_line() => {
                    return Err(Failure::new(
                        Cause::Connection,
                        "the stream ended in the middle of a line",
                    ));
                }
                Ok(None) => return Ok(StreamItem::End),
                Err(failure) => return Err(failure),
            }
        }
    }
}
