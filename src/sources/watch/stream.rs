//! Reads a watch stream.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use kube::client::Body;
use loopwatch_model::observation::{Cause, MAX_OBJECT_BYTES};
use tokio::time::Instant;

use super::frames::{Frame, LineSplitter};
use super::{SILENT_FOR, STREAM_GRACE, WatchTarget};
use crate::sources::cluster::{Cluster, JSON, METADATA, chunk_at_hand, encode, next_chunk};
use crate::sources::failure::Failure;

/// An open watch stream, read line by line.
pub(crate) struct WatchStream {
    body: Body,
    lines: LineSplitter,
    opened: Instant,
    /// Time of the last line.
    last_line_at: Instant,
    /// Time of the last chunk that the stream waited for.
    last_chunk_at: Instant,
    /// The bytes that arrived since the beginning of the last wait, and its time.
    bytes: usize,
    waited_at: Instant,
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

/// Number of polls for data that the connection has already read, before sleeping.
const POLLS_BEFORE_SLEEP: usize = 2;

/// Bytes that may arrive while the stream gathers them: the connection buffers about as much. If it is full, the API
/// server must wait, and it closes the streams of slow clients.
const GATHERED_BYTES: usize = 128 << 10;

// === impl WatchStream ===

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
            Some(version) => format!("resourceVersion={}", encode(version)),
            // Without a resourceVersion the list is consistent: at least as recent as this request.
            None => "sendInitialEvents=true&resourceVersionMatch=NotOlderThan".to_owned(),
        };
        let request = target.request(&format!("watch=true&allowWatchBookmarks=true&timeoutSeconds={seconds}&{begin}"));
        let body = cluster.open(&request, if target.metadata_only { METADATA } else { JSON }).await?;
        let opened = Instant::now();
        Ok(Self {
            body,
            lines: LineSplitter::new(MAX_OBJECT_BYTES),
            opened,
            last_line_at: opened,
            last_chunk_at: opened,
            bytes: 0,
            waited_at: opened,
            lasts,
        })
    }

    /// Reads the next line, or reports silence at `silent_at`. Waits up to `gather` after each chunk, to read several
    /// lines at once: waking up costs several times as much as reading a line.
    pub(crate) async fn next(&mut self, silent_at: Instant, gather: Duration) -> Result<StreamItem, Failure> {
        loop {
            if let Some(frame) = self.lines.next() {
                self.last_line_at = Instant::now();
                return Ok(match frame {
                    Frame::Document(line) => StreamItem::Line(line),
                    Frame::Oversized => StreamItem::Oversized,
                });
            }
            match self.chunk(silent_at, gather).await {
                Ok(Some(chunk)) => self.lines.push(&chunk),
                Ok(None) if self.lines.is_mid_line() => {
                    return Err(Failure::new(Cause::Connection, "the stream ended in the middle of a line"));
                }
                Ok(None) => return Ok(StreamItem::End),
                Err(failure) if failure.cause == Cause::Timeout && failure.status.is_none() => {
                    return Ok(StreamItem::Silence);
                }
                Err(failure) => return Err(failure),
            }
        }
    }

    async fn chunk(&mut self, silent_at: Instant, gather: Duration) -> Result<Option<Bytes>, Failure> {
        for _ in 0..POLLS_BEFORE_SLEEP {
            if let Some(chunk) = chunk_at_hand(&mut self.body) {
                return self.counted(chunk);
            }
            yield_to_other_tasks().await;
        }
        let gather = gathers_for(gather, self.bytes, self.waited_at.elapsed());
        (self.waited_at, self.bytes) = (Instant::now(), 0);
        tokio::time::sleep_until((self.last_chunk_at + gather).min(silent_at)).await;
        let within = silent_at.saturating_duration_since(Instant::now());
        let chunk = next_chunk(&mut self.body, within).await;
        self.last_chunk_at = Instant::now();
        self.counted(chunk)
    }

    fn counted(&mut self, chunk: Result<Option<Bytes>, Failure>) -> Result<Option<Bytes>, Failure> {
        self.bytes += chunk.as_ref().ok().and_then(Option::as_ref).map_or(0, Bytes::len);
        chunk
    }

    /// The time of the last line, or at which the stream was opened.
    pub(crate) fn quiet_since(&self) -> Instant {
        self.last_line_at
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

/// The time to gather changes, given the bytes that arrived within the time before. A fast stream gathers for a
/// shorter time.
fn gathers_for(gather: Duration, bytes: usize, within: Duration) -> Duration {
    let within = within.max(Duration::from_millis(1));
    gather.min(within.mul_f64(GATHERED_BYTES as f64 / bytes.max(1) as f64))
}

/// Lets every other task run once. Unlike Tokio's own `yield_now`, does not poll the kernel, which costs more.
async fn yield_to_other_tasks() {
    let mut waited = false;
    poll_fn(|context| {
        if waited {
            return Poll::Ready(());
        }
        waited = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fast_stream_gathers_for_a_shorter_time() {
        let (gather, second) = (Duration::from_millis(100), Duration::from_secs(1));
        assert_eq!(gathers_for(gather, 0, second), gather);
        assert_eq!(gathers_for(gather, 430_000, second), gather, "100 changes of 4.3 KB per second");
        let fast = gathers_for(gather, 60_000_000, second);
        assert!(fast > Duration::from_millis(1) && fast < Duration::from_millis(4), "60 MB per second: {fast:?}");
        assert!(gathers_for(gather, 6_000_000, Duration::ZERO) < Duration::from_millis(1));
    }
}
