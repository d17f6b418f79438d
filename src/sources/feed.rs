//! The bounded channel from the sources to the model. Each observation gets its timestamp as it
//! enters.

use loopwatch_model::observation::{Cause, MAX_DETAIL, Observation, SourceId};
use loopwatch_model::time::Timestamp;
use tokio::sync::mpsc;

mod clock;

pub(crate) use self::clock::{Clock, ServerClock, SystemClock};
use crate::net::Failure;

/// The sending end, for sources. If the reader is slow, the sources wait, and so does the API
/// server.
#[derive(Clone)]
pub(crate) struct Feed {
    sender: mpsc::Sender<(Timestamp, Observation)>,
    clock: ServerClock,
}

/// The receiving end of a [`Feed`], with the same clock.
pub(crate) struct Observations {
    receiver: mpsc::Receiver<(Timestamp, Observation)>,
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
        (Self { sender, clock: clock.clone() }, Observations { receiver, clock })
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
        self.send_latest(|| Some(observation)).await
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
        self.receiver.recv_many(buffer, limit).await
    }

    pub(crate) fn try_recv(&mut self) -> Option<(Timestamp, Observation)> {
        self.receiver.try_recv().ok()
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

/// Cuts the detail at its limit, between characters.
fn cut(detail: &str) -> String {
    detail[..detail.floor_char_boundary(MAX_DETAIL)].to_owned()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicI64, Ordering};
    use std::time::Duration;

    use http::{HeaderMap, StatusCode, header};

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
    fn long_details_are_cut_between_characters() {
        let detail = "ä".repeat(MAX_DETAIL);
        assert_eq!(cut(&detail).len(), MAX_DETAIL);
        assert!(cut(&format!("x{detail}")).len() < MAX_DETAIL);
    }
}
