//! A stream that several watches follow: its latest lines, and what each follower has yet to read.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use serde::Deserialize;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::lock::lock;

/// What the followers of a stream share.
pub(super) struct Channel {
    pub(super) opened: Instant,
    /// The requested duration.
    pub(super) lasts: Duration,
    state: Mutex<State>,
}

struct State {
    recent: Recent,
    followers: Vec<Follower>,
}

/// The queue of a follower. One that takes room for all of its lines from the start would cost more than the
/// rest of a quiet stream.
struct Follower {
    lines: mpsc::Sender<Line>,
    /// The bytes of the lines in the queue.
    behind: Arc<AtomicUsize>,
}

/// The latest lines, without bookmarks.
struct Recent {
    lines: VecDeque<RecentLine>,
    bytes: usize,
    /// The version after which no line is missing.
    after: u64,
    /// The version of the last line or bookmark, if it is known.
    position: u64,
    /// Whether the stream has ended, although some followers have yet to notice.
    has_ended: bool,
}

struct RecentLine {
    came: Instant,
    /// `None` if it is not known.
    version: Option<u64>,
    /// A copy: a part of a read buffer would keep the whole buffer.
    text: Bytes,
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
    lines: mpsc::Receiver<Line>,
    /// The bytes of the lines that it has yet to receive.
    behind: Arc<AtomicUsize>,
    /// The version that the follower knows, until a later line has come.
    known: Option<u64>,
}

/// Lines, and their bytes, that a slow follower may be behind. Beyond them, it opens a stream of its own.
const BEHIND: (usize, usize) = (512, 4 << 20);

/// Recent lines, and their bytes, that stay for those who join. There may be hundreds of streams.
const RECENT: (usize, usize) = (64, 64 << 10);

/// How long they stay: as long as a watch may take from its list to the stream.
const RECENT_FOR: Duration = Duration::from_secs(60);

impl Channel {
    /// A stream that has reached the version `after`.
    pub(super) fn new(opened: Instant, lasts: Duration, after: u64) -> Arc<Self> {
        let recent =
            Recent { lines: VecDeque::new(), bytes: 0, after, position: after, has_ended: false };
        let state = Mutex::new(State { recent, followers: Vec::new() });
        Arc::new(Self { opened, lasts, state })
    }

    /// The first follower, which knows this version.
    pub(super) fn first(self: &Arc<Self>, known: u64) -> Subscription {
        let mut state = lock(&self.state);
        let known = Some(known).filter(|known| state.recent.after < *known);
        self.subscribe(&mut state, VecDeque::new(), known)
    }

    pub(super) fn has_ended(&self) -> bool {
        lock(&self.state).recent.has_ended
    }

    /// The version up to which the followers know everything.
    pub(super) fn position(&self) -> u64 {
        lock(&self.state).recent.position
    }

    pub(super) fn pass_on(&self, line: Line) {
        let mut state = lock(&self.state);
        let State { recent, followers } = &mut *state;
        match &line {
            Line::Text(line) => recent.note(line),
            // Nobody knows its version, so nobody can tell whether the stream still has all lines.
            Line::Oversized => recent.after = u64::MAX,
            Line::End => recent.has_ended = true,
        }

        // Under the lock, so that who joins gets each line once. For one that is too far behind, the stream
        // ends here.
        followers.retain(|follower| follower.takes(&line));
    }

    /// Joins from a version; `None` if lines after it may be missing.
    pub(super) fn join(self: &Arc<Self>, version: &str) -> Option<Subscription> {
        let version: u64 = version.parse().ok()?;
        let mut state = lock(&self.state);
        let recent = &state.recent;
        if version < recent.after || recent.has_ended {
            return None;
        }

        let is_new = |line: &&RecentLine| line.version.is_none_or(|it| it > version);
        let backlog = recent.lines.iter().filter(is_new).map(|line| line.text.clone()).collect();
        Some(self.subscribe(&mut state, backlog, Some(version)))
    }

    fn subscribe(
        self: &Arc<Self>,
        state: &mut State,
        backlog: VecDeque<Bytes>,
        known: Option<u64>,
    ) -> Subscription {
        let (sender, lines) = mpsc::channel(BEHIND.0);
        let behind = Arc::<AtomicUsize>::default();
        state.followers.push(Follower { lines: sender, behind: Arc::clone(&behind) });
        Subscription { _channel: Arc::clone(self), backlog, lines, behind, known }
    }
}

impl Follower {
    /// Queues a line. Returns false if the follower is gone or too far behind. One that has received
    /// everything takes a line of any length.
    fn takes(&self, line: &Line) -> bool {
        let before = self.behind.fetch_add(line.bytes(), Ordering::Relaxed);
        let has_room = before == 0 || before.saturating_add(line.bytes()) <= BEHIND.1;
        has_room && self.lines.try_send(line.clone()).is_ok()
    }
}

impl Line {
    fn bytes(&self) -> usize {
        if let Self::Text(text) = self { text.len() } else { 0 }
    }
}

impl Recent {
    fn note(&mut self, line: &[u8]) {
        let (version, now) = (version_of(line), Instant::now());
        self.position = version.unwrap_or(self.position);
        if !is_bookmark(line) {
            self.bytes += line.len();
            let text = Bytes::copy_from_slice(line);
            self.lines.push_back(RecentLine { came: now, version, text });
        }

        while self.bytes > RECENT.1 || self.lines.len() > RECENT.0 || self.begins_before(now) {
            let Some(oldest) = self.lines.pop_front() else { break };
            self.bytes -= oldest.text.len();
            self.after = oldest.version.unwrap_or(self.after).max(self.after);
        }
        if self.lines.is_empty() {
            self.lines.shrink_to_fit();
        }
    }

    /// Whether the oldest line came too long before a time.
    fn begins_before(&self, now: Instant) -> bool {
        self.lines.front().is_some_and(|oldest| now.duration_since(oldest.came) > RECENT_FOR)
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
                Some(line) => line,
                // It was too far behind. It continues from its version, with a stream of its own.
                None => return Line::End,
            };
            self.behind.fetch_sub(line.bytes(), Ordering::Relaxed);

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

/// Whether a line is a bookmark.
pub(super) fn is_bookmark(line: &[u8]) -> bool {
    line.starts_with(br#"{"type":"BOOKMARK""#)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_bytes_that_a_slow_follower_is_behind_are_limited() {
        let channel = Channel::new(Instant::now(), Duration::from_secs(60), 1);
        let mut slow = channel.first(1);
        let line = Line::Text(Bytes::from(vec![b' '; BEHIND.1 / 4]));
        (0..6).for_each(|_| channel.pass_on(line.clone()));

        for _ in 0..4 {
            assert!(matches!(slow.next().await, Line::Text(_)));
        }
        assert!(matches!(slow.next().await, Line::End), "it continues with a stream of its own");

        let mut ready = channel.first(1);
        channel.pass_on(Line::Text(Bytes::from(vec![b' '; 2 * BEHIND.1])));
        assert!(matches!(ready.next().await, Line::Text(_)), "one line may be longer");
        channel.pass_on(line);
        assert!(matches!(ready.next().await, Line::Text(_)));
    }
}
