//! Reads a watch stream.

use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use kube::client::Body;
use loopwatch_model::observation::Cause;
use tokio::time::{Instant, Sleep};

use super::frames::LineSplitter;
use super::{SILENT_FOR, STREAM_GRACE, WatchTarget};
use crate::sources::cluster::{Chunk, Cluster, GatherTime, JSON, METADATA, chunk, encode};
use crate::sources::failure::Failure;

/// An open watch stream, read line by line.
pub(crate) struct WatchStream {
    body: Body,
    /// The gather time of the connection. Set only when it changes, because others may use the connection by the end.
    gather: Duration,
    gather_time: GatherTime,
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
    /// Nothing until the given time.
    Silence,
    /// The API server ended the stream.
    End,
}

/// Longest line, in bytes. By default etcd refuses requests over 1.5 MiB; no known API server allows more than 8 MiB.
const LARGEST_LINE: usize = 8 << 20;

// === impl WatchStream ===

impl WatchStream {
    /// Opens a stream from a version, or one that begins with a list.
    pub(crate) async fn open(
        cluster: &Cluster,
        target: &WatchTarget,
        from: Option<&str>,
        lasts: Duration,
    ) -> Result<Self, Failure> {
        let WatchTarget { path, metadata_only } = target;
        let seconds = lasts.as_secs();
        let begin = match from {
            Some(version) => format!("resourceVersion={}", encode(version)),
            // Without a resourceVersion the list is consistent: at least as recent as this request.
            None => "sendInitialEvents=true&resourceVersionMatch=NotOlderThan".to_owned(),
        };
        let request = format!("{path}?watch=true&allowWatchBookmarks=true&timeoutSeconds={seconds}&{begin}");
        let (body, gather_time) = cluster.open_stream(&request, if *metadata_only { METADATA } else { JSON }).await?;
        let opened = Instant::now();
        Ok(Self {
            body,
            gather: Duration::ZERO,
            gather_time,
            lines: LineSplitter::new(LARGEST_LINE),
            opened,
            last_line_at: opened,
            silence: Box::pin(tokio::time::sleep_until(opened + lasts)),
            lasts,
        })
    }

    /// Reads the next line, or reports silence at `silent_at`. The connection waits for `gather` before it reads, to
    /// read several lines at once: waking up costs several times as much as reading a line.
    pub(crate) async fn next(&mut self, silent_at: Instant, gather: Duration) -> Result<StreamItem, Failure> {
        if self.gather != gather {
            self.gather = gather;
            self.gather_time.set(gather);
        }
        loop {
            match self.lines.next() {
                Ok(Some(line)) => {
                    self.last_line_at = Instant::now();
                    return Ok(StreamItem::Line(line));
                }
                Ok(None) => {}
                Err(error) => return Err(Failure::new(Cause::TooLarge, error.to_string())),
            }
            match self.chunk_before(silent_at).await {
                Some(Ok(Some(chunk))) => self.lines.push(&chunk),
                Some(Ok(None)) if self.lines.is_mid_line() => {
                    return Err(Failure::new(Cause::Connection, "the stream ended in the middle of a line"));
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

    /// The time at which a silent stream counts as dead: the API server should have ended it by then or, if it sends
    /// bookmarks, should have sent one.
    pub(crate) fn overdue(&self, sends_bookmarks: bool) -> Instant {
        let end = self.opened + self.lasts + STREAM_GRACE;
        if sends_bookmarks { end.min(self.last_line_at + SILENT_FOR) } else { end }
    }

    /// Time since the stream was opened.
    pub(crate) fn age(&self) -> Duration {
        self.opened.elapsed()
    }
}
