//! The channel from the sources to the model, bounded by the number of observations and by their
//! weight. Each observation gets its timestamp as it enters.

use std::sync::Arc;

use loopwatch_model::observation::{Cause, MAX_DETAIL, Observation, SourceId};
use loopwatch_model::time::Timestamp;
use tokio::sync::{Semaphore, mpsc};

mod clock;
mod weight; // of observations with long texts

pub(crate) use self::clock::{Clock, ServerClock, SystemClock};
use crate::net::Failure;

/// The sending end, for sources. If the reader is slow, the sources wait, and so does the API
/// server.
#[derive(Clone)]
pub(crate) struct Feed {
    sender: mpsc::Sender<(Timestamp, Observation)>,
    /// The weight that still fits into the channel.
    room: Arc<Semaphore>,
    clock: ServerClock,
}

/// The receiving end of a [`Feed`], with the same clock.
pub(crate) struct Observations {
    receiver: mpsc::Receiver<(Timestamp, Observation)>,
    room: Arc<Semaphore>,
    clock: ServerClock,
}

/// The receiver is gone, because the program is ending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the receiver of observations is gone")]
pub(crate) struct Closed;

impl Feed {
    /// A feed of up to `capacity` observations, with timestamps from this clock.
    #[must_use]
    pub(crate) fn new(capacity: usize, clock: ServerClock) -> (Self, Observations) {
        let (sender, receiver) = mpsc::channel(capacity.max(1));
        let room = Arc::new(Semaphore::new(weight::MAX as usize));
        let feed = Self { sender, room: room.clone(), clock: clock.clone() };
        (feed, Observations { receiver, room, clock })
    }

    /// The clock of the timestamps.
    pub(crate) fn clock(&self) -> &ServerClock {
        &self.clock
    }

    /// Sends one observation; waits while the channel is full.
    ///
    /// # Errors
    /// [`Closed`] if the receiver is gone.
    pub(crate) async fn send(&self, observation: Observation) -> Result<(), Closed> {
        let weight = weight::of(&observation);
        if weight == 0 {
            return self.send_latest(|| Some(observation)).await;
        }

        let room = self.room.acquire_many(weight).await.map_err(|_| Closed)?;
        self.send_latest(|| Some(observation)).await?;
        room.forget(); // the receiver gives it back
        Ok(())
    }

    /// Waits for room, then sends what `latest` returns, if anything: what was true before the wait
    /// may no longer be true.
    ///
    /// # Errors
    /// [`Closed`] if the receiver is gone.
    pub(crate) async fn send_latest(
        &self,
        latest: impl FnOnce() -> Option<Observation>,
    ) -> Result<(), Closed> {
        loop {
            // Reserves a place before it reads the clock, so that timestamps in the channel are in
            // order even if several senders have waited for a full channel.
            let place = self.sender.reserve().await.map_err(|_| Closed)?;
            let (now, step) = self.clock.read();
            let Some(by_ms) = step else {
                if let Some(observation) = latest() {
                    place.send((now, observation));
                }
                return Ok(());
            };

            place.send((now, Observation::ClockStepped { by_ms }));
        }
    }

    /// Whether the receiver has taken all observations.
    pub(crate) fn is_empty(&self) -> bool {
        self.sender.capacity() == self.sender.max_capacity()
    }

    /// Waits until the receiver is gone.
    pub(crate) async fn closed(&self) {
        self.sender.closed().await;
    }

    /// Reports that a source failed.
    ///
    /// # Errors
    /// [`Closed`] if the receiver is gone.
    pub(crate) async fn failed(&self, source: SourceId, failure: &Failure) -> Result<(), Closed> {
        let (cause, detail) = (failure.cause, cut(&failure.detail));
        self.send(Observation::SourceFailed { source, cause, detail }).await
    }

    /// Reports that a scrape of an instance failed.
    ///
    /// # Errors
    /// [`Closed`] if the receiver is gone.
    pub(crate) async fn scrape_failed(
        &self,
        instance: &str,
        failure: &Failure,
    ) -> Result<(), Closed> {
        let (cause, detail) = (failure.cause, cut(&failure.detail));
        self.send(Observation::ScrapeFailed { instance: instance.to_owned(), cause, detail }).await
    }

    /// Reports that a source works.
    ///
    /// # Errors
    /// [`Closed`] if the receiver is gone.
    pub(crate) async fn recovered(&self, source: SourceId) -> Result<(), Closed> {
        self.send(Observation::SourceRecovered { source }).await
    }

    /// Reports that a source cannot use its configuration.
    ///
    /// # Errors
    /// [`Closed`] if the receiver is gone.
    pub(crate) async fn invalid(&self, source: SourceId, detail: String) -> Result<(), Closed> {
        self.failed(source, &Failure::new(Cause::Invalid, detail)).await
    }
}

impl Observations {
    /// Waits for observations, appends up to `limit` of them, and returns their number: 0 once all
    /// senders are gone.
    pub(crate) async fn recv_many(
        &mut self,
        buffer: &mut Vec<(Timestamp, Observation)>,
        limit: usize,
    ) -> usize {
        let before = buffer.len();
        let received = self.receiver.recv_many(buffer, limit).await;
        let weights = buffer.iter().skip(before).map(|(_, observation)| weight::of(observation));
        self.room.add_permits(weights.map(|weight| weight as usize).sum());
        received
    }

    pub(crate) fn try_recv(&mut self) -> Option<(Timestamp, Observation)> {
        let received = self.receiver.try_recv().ok()?;
        self.room.add_permits(weight::of(&received.1) as usize);
        Some(received)
    }

    pub(crate) fn len(&self) -> usize {
        self.receiver.len()
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(crate) fn ticks(&self) -> impl Iterator<Item = (Timestamp, Observation)> + use<> {
        self.clock.ticks()
    }
}

impl Drop for Observations {
    /// Lets the senders that wait for room end.
    fn drop(&mut self) {
        self.room.close();
    }
}

/// The beginning of a detail that is too long, in bytes. Go wraps errors from the outside, so the cause is
/// at the end.
const BEGINNING: usize = 128;

/// Cuts a detail that exceeds its limit: what remains is its beginning and its end.
fn cut(detail: &str) -> String {
    const LEFT_OUT: &str = "…";
    if detail.len() <= MAX_DETAIL {
        return detail.to_owned();
    }

    let end = detail.len() - (MAX_DETAIL - BEGINNING - LEFT_OUT.len());
    let beginning = &detail[..detail.floor_char_boundary(BEGINNING)];
    [beginning, LEFT_OUT, &detail[detail.ceil_char_boundary(end)..]].concat()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI64, Ordering};
    use std::time::Duration;

    use http::{HeaderMap, StatusCode, header};
    use loopwatch_model::observation::{CallFailure, FailedCall, ObjectView, WatchId};

    use super::clock::Clock;
    use super::*;

    /// A node at the beginning of 1970, with a monotonic clock that the test sets.
    #[derive(Default)]
    struct Node(AtomicI64);

    impl Clock for Node {
        fn wall(&self) -> Timestamp {
            Timestamp(0)
        }
        fn steady(&self) -> Duration {
            Duration::from_millis(self.0.load(Ordering::Relaxed).unsigned_abs())
        }
    }

    #[tokio::test]
    async fn a_jump_of_the_clock_precedes_the_observations_after_it() {
        let node = Arc::new(Node::default());
        let clock = ServerClock::of(node.clone());
        let (feed, mut observations) = Feed::new(10, clock.clone());
        let source = SourceId::Config;

        feed.recovered(source.clone()).await.expect("the receiver exists");
        node.0.store(1_000, Ordering::Relaxed);

        let date = HeaderMap::from_iter([(
            header::DATE,
            "Thu, 01 Jan 1970 01:00:00 GMT".parse().expect("a value"),
        )]);

        clock.hear(StatusCode::OK, &date, clock.steady());
        feed.recovered(source.clone()).await.expect("the receiver exists");

        let stamped = |at, observation| Some((Timestamp(at), observation));
        assert_eq!(
            observations.try_recv(),
            stamped(0, Observation::SourceRecovered { source: source.clone() })
        );
        assert_eq!(
            observations.try_recv(),
            stamped(3_600_500, Observation::ClockStepped { by_ms: 3_599_500 })
        );

        assert_eq!(
            observations.try_recv(),
            stamped(3_600_500, Observation::SourceRecovered { source })
        );
        assert_eq!(
            observations.ticks().next(),
            stamped(3_600_500, Observation::Tick),
            "announced once"
        );

        drop(observations);
        assert_eq!(feed.recovered(SourceId::Config).await, Err(Closed));
    }

    #[test]
    fn long_details_keep_their_beginning_and_their_end() {
        let fits = "x".repeat(MAX_DETAIL);
        assert_eq!(cut(&fits), fits);

        for text in ["ä".repeat(MAX_DETAIL), format!("x{}", "ä".repeat(MAX_DETAIL))] {
            let cut = cut(&text);
            assert!((MAX_DETAIL - 2..=MAX_DETAIL).contains(&cut.len()), "{}", cut.len());
            assert!(cut.starts_with(&text[..text.floor_char_boundary(64)]));
            assert!(cut.ends_with(&text[text.len() - 64..]));
        }
    }

    /// Kubernetes 1.37 wraps the failure of a conversion in the state of its cache.
    #[test]
    fn a_failed_conversion_in_a_long_detail_keeps_its_cause() {
        let wrapped = "HTTP 429: storage is (re)initializing: failed to list <unspecified>: failed to read one or more \
             things.converting.example.com from the storage: StorageError: corrupt object, Code: 7, Key: \
             /registry/converting.example.com/things/webhooks-converting/first, ResourceVersion: 0, AdditionalErrorMsg: object \
             not decodable revision=67096: conversion webhook for converting.example.com/v1, Kind=Thing failed: Post \
             \"https://hook.webhooks-converting.svc:29511/convert?timeout=30s\": dial tcp 127.0.0.1:29511: connect: connection \
             refused";
        let call = FailedCall::read(&cut(wrapped)).expect("a failed call");

        assert!(wrapped.len() > MAX_DETAIL);
        assert_eq!(
            (call.service.as_str(), call.cause),
            ("webhooks-converting/hook", CallFailure::Connection)
        );
    }

    /// An object with as many finalizers as a view has, each as long as allowed.
    fn fat() -> Observation {
        let finalizers = vec!["f".repeat(250); 64];
        let object = Box::new(ObjectView { finalizers, ..ObjectView::default() });
        Observation::Applied { watch: WatchId("widgets.example.io".into()), object }
    }

    #[tokio::test]
    async fn fat_objects_fill_the_channel_before_their_number_does() {
        let (feed, mut observations) = Feed::new(10_000, ServerClock::new());
        let sender = tokio::spawn(async move {
            for _ in 0..1_000 {
                feed.send(fat()).await.expect("the receiver exists");
            }
        });
        while observations.room.available_permits() > 21 {
            tokio::task::yield_now().await;
        }

        let mut buffer = Vec::new();
        let waiting = observations.len();
        assert!(waiting < 200, "{waiting} of 21 KiB each");

        while buffer.len() < 1_000 {
            observations.recv_many(&mut buffer, 128).await;
        }
        sender.await.expect("no panic");
        assert_eq!(observations.room.available_permits(), weight::MAX as usize, "all given back");
    }

    #[tokio::test]
    async fn a_sender_that_waits_for_room_ends_with_the_receiver() {
        let (feed, observations) = Feed::new(10_000, ServerClock::new());
        let sender = tokio::spawn(async move { while feed.send(fat()).await.is_ok() {} });
        while observations.room.available_permits() > 21 {
            tokio::task::yield_now().await;
        }

        drop(observations);
        sender.await.expect("it ends");
    }
}
