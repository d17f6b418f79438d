//! The bounded channel from the sources to the model. Each observation gets its timestamp as it enters.

use std::sync::{Arc, Mutex, PoisonError};

use loopwatch_model::observation::{Cause, MAX_DETAIL, Observation, SourceId};
use loopwatch_model::time::Timestamp;
use tokio::sync::mpsc;

use super::clock::{Clock, StepDetector, SystemClock};
use super::failure::Failure;

/// The sending end, for sources. If the reader is slow, the sources wait, and so does the API server.
#[derive(Clone)]
pub(crate) struct Feed {
    sender: mpsc::Sender<(Timestamp, Observation)>,
    clock: Arc<dyn Clock>,
    steps: Arc<Mutex<StepDetector>>,
}

/// The receiving end of a [`Feed`].
pub(crate) type Observations = mpsc::Receiver<(Timestamp, Observation)>;

/// The receiver is gone: the program is ending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the receiver of observations is gone")]
pub(crate) struct Closed;

// === impl Feed ===

impl Feed {
    /// A feed of up to `capacity` observations, with timestamps from the system clock.
    #[must_use]
    pub(crate) fn new(capacity: usize) -> (Self, Observations) {
        Self::with_clock(capacity, Arc::new(SystemClock::new()))
    }

    /// A feed with its own clock.
    #[must_use]
    pub(crate) fn with_clock(capacity: usize, clock: Arc<dyn Clock>) -> (Self, Observations) {
        let (sender, receiver) = mpsc::channel(capacity.max(1));
        (Self { sender, clock, steps: Arc::default() }, receiver)
    }

    /// Sends one observation; waits while the channel is full.
    ///
    /// # Errors
    /// [`Closed`] if the receiver is gone.
    pub(crate) async fn send(&self, observation: Observation) -> Result<(), Closed> {
        // Reserves a place before it reads the clock, so that timestamps in the channel are in order even if several
        // senders have waited for a full channel.
        let place = self.sender.reserve().await.map_err(|_| Closed)?;
        let (now, step) = self.now();
        let Some(by_ms) = step else {
            place.send((now, observation));
            return Ok(());
        };
        place.send((now, Observation::ClockStepped { by_ms }));
        let place = self.sender.reserve().await.map_err(|_| Closed)?;
        place.send((self.now().0, observation));
        Ok(())
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

    fn now(&self) -> (Timestamp, Option<i64>) {
        self.steps.lock().unwrap_or_else(PoisonError::into_inner).read(&*self.clock)
    }
}

/// Cuts the detail to its limit, between characters.
fn cut(detail: &str) -> String {
    detail[..detail.floor_char_boundary(MAX_DETAIL)].to_owned()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI64, Ordering};
    use std::time::Duration;

    use super::*;

    /// A wall clock that a test sets, beside a steady one that stands still.
    #[derive(Default)]
    struct Set(AtomicI64);

    impl Clock for Set {
        fn wall(&self) -> Timestamp {
            Timestamp(self.0.load(Ordering::Relaxed))
        }
        fn steady(&self) -> Duration {
            Duration::ZERO
        }
    }

    #[tokio::test]
    async fn a_clock_step_precedes_the_observations_after_it() {
        let clock = Arc::new(Set::default());
        let (feed, mut observations) = Feed::with_clock(10, clock.clone());
        let source = SourceId::Config;
        feed.recovered(source.clone()).await.expect("the receiver exists");
        clock.0.store(3_600_000, Ordering::Relaxed);
        feed.recovered(source.clone()).await.expect("the receiver exists");
        let stamped = |at, observation| Some((Timestamp(at), observation));
        assert_eq!(observations.recv().await, stamped(0, Observation::SourceRecovered { source: source.clone() }));
        assert_eq!(observations.recv().await, stamped(3_600_000, Observation::ClockStepped { by_ms: 3_600_000 }));
        assert_eq!(observations.recv().await, stamped(3_600_000, Observation::SourceRecovered { source }));
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
