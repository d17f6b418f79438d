//! Streams that the watches of several models follow together: one connection for all that request the
//! same objects.
//!
//! The first watch opens a stream, and hands it to a task that passes each line on. Another one joins if
//! the task still has all lines since the version that it knows:
//!
//! ```text
//!   API server ─lines─▶ relay ─┬─▶ watch A
//!                   recent ◀───┼─▶ watch B, joined later: first the recent lines after its version
//! ```
//!
//! Otherwise, it opens a stream of its own, and joins when that ends.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use tokio::sync::Mutex as AsyncMutex;
use tokio::time::{Instant, timeout};

use super::stream::{BATCH_TIME, StreamItem, WatchStream};
use super::subscription::{Channel, Line, is_bookmark};
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

/// How long a watch waits for another one to open the stream.
const JOINS_WITHIN: Duration = Duration::from_secs(5);

/// How long after its end a new stream begins where the last one ended.
const RESUMES_WITHIN: Duration = Duration::from_secs(15);

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
        let channel = self.channel.upgrade()?;
        let subscription = channel.join(version)?;
        Some(WatchStream::joined(subscription, channel.opened, channel.lasts))
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
        if self.channel.upgrade().is_some_and(|channel| !channel.has_ended()) {
            return own;
        }

        let (opened, lasts) = (own.opened(), own.lasts());
        let channel = Channel::new(opened, lasts, after);
        self.channel = Arc::downgrade(&channel);

        let first = channel.first(known);
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
