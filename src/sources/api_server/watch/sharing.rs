//! Streams that the watches of several models follow together: one connection for all that request the
//! same objects.
//!
//! The first watch opens a stream, and hands it to a task that passes each line on. Another one joins if
//! the task still has all lines since the version that it knows:
//!
//! ```text
//!   API server ─lines─▶ relay ─┬─▶ watch A
//!                  recent ◀───┼─▶ watch B, joined later: first the recent lines after its version
//! ```
//!
//! Otherwise, it opens a stream of its own, and joins when that ends.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use bytes::Bytes;
use serde::Deserialize;
use tokio::sync::{Mutex as AsyncMutex, broadcast};
use tokio::time::{Instant, timeout};

use super::following::BATCH_TIME;
use super::stream::{StreamItem, WatchStream};
use super::target::WatchTarget;
use crate::lock::lock;

/// The shared streams of one connection.
#[derive(Default)]
pub(crate) struct SharedStreams {
    by_request: Mutex<HashMap<String, Slot>>,
}

/// Locked while a watch opens a stream, so that the others wait and join.
type Slot = Arc<AsyncMutex<SlotState>>;

/// The stream of one request.
#[derive(Default)]
struct SlotState {
    /// The open one, if any.
    channel: Weak<Channel>,
    /// When the last one ended, and at which version.
    ended: Option<(Instant, u64)>,
}

/// What the followers of a stream share.
struct Channel {
    opened: Instant,
    /// The requested duration.
    lasts: Duration,
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

/// How long a watch waits for another one to open the stream.
const JOINS_WITHIN: Duration = Duration::from_secs(5);

/// How long after its end a new stream begins where the last one ended.
const RESUMES_WITHIN: Duration = Duration::from_secs(15);

/// Recent lines, and their bytes, that stay for those who join.
const RECENT: (usize, usize) = (64, 256 << 10);

impl SharedStreams {
    /// The slot of a request.
    fn slot(&self, target: &WatchTarget) -> Slot {
        let request = format!("{} {}", target.metadata_only, target.request(""));
        let mut all = lock(&self.by_request);

        // An entry without a stream costs little, but kinds come and go.
        all.retain(|name, slot| *name == request || Arc::strong_count(slot) > 1 || is_open(slot));
        Arc::clone(all.entry(request).or_default())
    }

    /// Joins a stream from a version, or has `open` open one.
    pub(super) async fn join_or<E, F>(
        &self,
        target: &WatchTarget,
        version: &str,
        open: impl FnOnce(String) -> F,
    ) -> Result<WatchStream, E>
    where
        F: Future<Output = Result<WatchStream, E>>,
    {
        let slot = self.slot(target);
        let Ok(mut state) = timeout(JOINS_WITHIN, slot.lock()).await else {
            // Another watch waits for the answer of the API server. One after another would wait too long.
            return open(version.to_owned()).await;
        };
        if let Some(joined) = state.join(version) {
            return Ok(joined);
        }

        // The others may know less than this watch, so the new stream begins where the last one ended.
        let from = state.resumes_before(version).unwrap_or_else(|| version.to_owned());
        let own = open(from.clone()).await?;
        Ok(state.share(own, &from, version, &slot))
    }

    /// Shares a stream that a watch has opened for its list, which has reached a version.
    pub(super) async fn adopt(
        &self,
        target: &WatchTarget,
        version: &str,
        own: WatchStream,
    ) -> WatchStream {
        let slot = self.slot(target);
        let mut state = slot.lock().await;
        match state.join(version) {
            Some(joined) => joined,
            None => state.share(own, version, version, &slot),
        }
    }
}

impl SlotState {
    /// Joins the open stream, if there is one and it has all lines after this version.
    fn join(&self, version: &str) -> Option<WatchStream> {
        self.channel.upgrade()?.join(version)
    }

    /// The version at which the last stream has just ended, if that is before this one.
    fn resumes_before(&self, version: &str) -> Option<String> {
        let ((at, ended), version) = (self.ended?, version.parse::<u64>().ok()?);
        (at.elapsed() < RESUMES_WITHIN && ended > 0 && ended < version).then(|| ended.to_string())
    }

    /// Shares a stream that begins after `from`, unless another one is open for the same request, or the
    /// version is not a number. The watch that has opened it knows `version`.
    fn share(&mut self, own: WatchStream, from: &str, version: &str, slot: &Slot) -> WatchStream {
        let (Ok(after), Ok(known)) = (from.parse(), version.parse()) else { return own };
        if self.channel.upgrade().is_some_and(|channel| !lock(&channel.recent).has_ended) {
            return own;
        }

        let recent = Recent { lines: VecDeque::new(), bytes: 0, after, has_ended: false };
        let (opened, lasts) = (own.opened(), own.lasts());
        let (lines, recent) = (broadcast::Sender::new(BEHIND), Mutex::new(recent));
        let channel = Arc::new(Channel { opened, lasts, lines, recent });
        self.channel = Arc::downgrade(&channel);

        let first = channel.subscribe(VecDeque::new(), Some(known).filter(|_| after < known));
        tokio::spawn(relay(own, Arc::downgrade(&channel), Arc::clone(slot)));
        WatchStream::joined(first, opened, lasts)
    }
}

impl std::fmt::Debug for SharedStreams {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SharedStreams").finish_non_exhaustive()
    }
}

/// Whether a slot has an open stream. One that is locked will have one.
fn is_open(slot: &Slot) -> bool {
    slot.try_lock().is_ok_and(|state| {
        state.channel.strong_count() > 0
            || state.ended.is_some_and(|(at, _)| at.elapsed() < RESUMES_WITHIN)
    })
}

/// Passes on the lines of a stream until it ends, or until nobody follows it any more.
async fn relay(mut stream: WatchStream, channel: Weak<Channel>, slot: Slot) {
    let mut sends_bookmarks = false;
    loop {
        let silent_at = stream.overdue(sends_bookmarks);
        let line = match stream.next(silent_at, BATCH_TIME).await {
            Ok(StreamItem::Line(line)) => Line::Text(line),
            Ok(StreamItem::Oversized) => Line::Oversized,
            Ok(StreamItem::Silence | StreamItem::End) | Err(_) => Line::End,
        };
        sends_bookmarks |= matches!(&line, Line::Text(line) if is_bookmark(line));

        let Some(channel) = channel.upgrade() else { return };
        if matches!(line, Line::End) {
            slot.lock().await.ended = Some((Instant::now(), channel.position()));
            return channel.pass_on(line);
        }
        channel.pass_on(line);
    }
}

impl Channel {
    /// The version up to which the followers know everything.
    fn position(&self) -> u64 {
        let recent = lock(&self.recent);
        let versions = recent.lines.iter().rev().filter_map(|line| version_of(line));
        let after = Some(recent.after).filter(|after| *after < u64::MAX).unwrap_or_default();
        versions.take(1).fold(after, u64::max)
    }

    fn pass_on(&self, line: Line) {
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
    fn join(self: &Arc<Self>, version: &str) -> Option<WatchStream> {
        let version: u64 = version.parse().ok()?;
        let recent = lock(&self.recent);
        if version < recent.after || recent.has_ended {
            return None;
        }

        let is_new = |line: &&Bytes| version_of(line).is_none_or(|of_line| of_line > version);
        let backlog = recent.lines.iter().filter(is_new).cloned().collect();
        let subscription = self.subscribe(backlog, Some(version));
        Some(WatchStream::joined(subscription, self.opened, self.lasts))
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

/// Whether a line is a bookmark.
fn is_bookmark(line: &[u8]) -> bool {
    line.starts_with(br#"{"type":"BOOKMARK""#)
}
