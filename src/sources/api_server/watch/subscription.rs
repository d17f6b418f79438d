//! A stream that several watches follow: its latest lines, and what each follower has yet to read.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use serde::Deserialize;
use tokio::sync::broadcast;
use tokio::time::Instant;

use crate::lock::lock;

/// What the followers of a stream share.
pub(super) struct Channel {
    pub(super) opened: Instant,
    /// The requested duration.
    pub(super) lasts: Duration,
    lines: broadcast::Sender<Line>,
    recent: Mutex<Recent>,
}

/// The latest lines.
struct Recent {
    lines: VecDeque<Bytes>,
    bytes: usize,
    /// The version after which no line is missing.
    after: u64,
    /// Whether the stream has ended, although some followers have yet to notice.
    has_ended: bool,
}

/// A line, or something in its place.
#[derive(Clone, Debug)]
pub(super) enum Line {
    Text(Bytes),
    Oversized,
    /// The stream has ended or failed. Each follower continues from its own version.
    End,
}

/// One follower of a shared stream.
pub(super) struct Subscription {
    /// Keeps the stream open.
    _channel: Arc<Channel>,
    /// The recent lines that the follower does not know yet.
    backlog: VecDeque<Bytes>,
    lines: broadcast::Receiver<Line>,
    /// The version that the follower knows, until a later line has come.
    known: Option<u64>,
}

/// Lines that a slow follower may be behind. Beyond it, it opens a stream of its own.
const BEHIND: usize = 512;

/// Recent lines, and their bytes, that stay for those who join.
const RECENT: (usize, usize) = (64, 256 << 10);

impl Channel {
    /// A stream that has reached the version `after`.
    pub(super) fn new(opened: Instant, lasts: Duration, after: u64) -> Arc<Self> {
        let recent = Recent { lines: VecDeque::new(), bytes: 0, after, has_ended: false };
        let (lines, recent) = (broadcast::Sender::new(BEHIND), Mutex::new(recent));
        Arc::new(Self { opened, lasts, lines, recent })
    }

    /// The first follower, which knows this version.
    pub(super) fn first(self: &Arc<Self>, known: u64) -> Subscription {
        let after = lock(&self.recent).after;
        self.subscribe(VecDeque::new(), Some(known).filter(|_| after < known))
    }

    pub(super) fn has_ended(&self) -> bool {
        lock(&self.recent).has_ended
    }

    /// The version up to which the followers know everything.
    pub(super) fn position(&self) -> u64 {
        let recent = lock(&self.recent);
        let versions = recent.lines.iter().rev().filter_map(|line| version_of(line));
        let after = Some(recent.after).filter(|after| *after < u64::MAX).unwrap_or_default();
        versions.take(1).fold(after, u64::max)
    }

    pub(super) fn pass_on(&self, line: Line) {
        let mut recent = lock(&self.recent);
        match &line {
            Line::Text(line) => recent.push(line.clone()),
            // Nobody knows its version, so nobody can tell whether the stream still has all lines.
            Line::Oversized => recent.after = u64::MAX,
            Line::End => recent.has_ended = true,
        }

        // Under the lock, so that who joins gets each line once. Nobody may follow any more.
        let _ = self.lines.send(line);
    }

    /// Joins from a version; `None` if lines after it may be missing.
    pub(super) fn join(self: &Arc<Self>, version: &str) -> Option<Subscription> {
        let version: u64 = version.parse().ok()?;
        let recent = lock(&self.recent);
        if version < recent.after || recent.has_ended {
            return None;
        }

        let is_new = |line: &&Bytes| version_of(line).is_none_or(|of_line| of_line > version);
        let backlog = recent.lines.iter().filter(is_new).cloned().collect();
        Some(self.subscribe(backlog, Some(version)))
    }

    fn subscribe(self: &Arc<Self>, backlog: VecDeque<Bytes>, known: Option<u64>) -> Subscription {
        Subscription { _channel: Arc::clone(self), backlog, lines: self.lines.subscribe(), known }
    }
}

impl Recent {
    fn push(&mut self, line: Bytes) {
        self.bytes += line.len();
        self.lines.push_back(line);
        while self.lines.len() > RECENT.0 || self.bytes > RECENT.1 {
            let Some(oldest) = self.lines.pop_front() else { return };
            self.bytes -= oldest.len();
            self.after = version_of(&oldest).unwrap_or(self.after).max(self.after);
        }
    }
}

impl Subscription {
    /// The next line that the follower does not know.
    pub(super) async fn next(&mut self) -> Line {
        if let Some(line) = self.backlog.pop_front() {
            return Line::Text(line);
        }

        loop {
            let line = match self.lines.recv().await {
                Ok(line) => line,
                // The follower continues from its version, with a stream of its own.
                Err(_) => return Line::End,
            };
            match (&line, self.known) {
                (Line::Text(text), Some(known)) => match version_of(text) {
                    Some(version) if version <= known => {}
                    _ => {
                        self.known = None;
                        return line;
                    }
                },
                _ => return line,
            }
        }
    }
}

/// The version in a line; `None` for an error.
fn version_of(line: &[u8]) -> Option<u64> {
    #[derive(Deserialize)]
    struct Event {
        object: Object,
    }

    #[derive(Deserialize)]
    struct Object {
        metadata: Metadata,
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Metadata {
        resource_version: String,
    }

    let event: Event = serde_json::from_slice(line).ok()?;
    event.object.metadata.resource_version.parse().ok()
}
