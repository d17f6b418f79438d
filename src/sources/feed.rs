//! The way from the sources into the model: a bounded channel, each observation stamped as it enters.

use std::sync::{Arc, Mutex, PoisonError};

use loopwatch_model::observation::{Cause, MAX_DETAIL, Observation, SourceId};
use loopwatch_model::time::Timestamp;
use tokio::sync::mpsc;

use super::clock::{Clock, StepDetector, SystemClock};
use super::failure::Failure;

/// Where sources put what they learn. When the reader is slow, sources wait, and so does the API server.
#[derive(Clone)]
pub struct Feed {
    sender: mpsc::Sender<(Timestamp, Observation)>,
    clock: Arc<dyn Clock>,
    steps: Arc<Mutex<StepDetector>>,
}

/// What a [`Feed`] delivers.
pub type Observations = mpsc::Receiver<(Timestamp, Observation)>;

/// Nobody reads any more: the program is ending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("nobody reads observations any more")]
pub struct Closed;

// === impl Feed ===

impl Feed {
    /// A feed that holds up to `capacity` observations, stamped by the clock of the machine.
    #[must_use]
    pub fn new(capacity: usize) -> (Self, Observations) {
        Self::with_clock(capacity, Arc::new(SystemClock::new()))
    }

    /// A feed with a clock of the caller's.
    #[must_use]
    pub fn with_clock(capacity: usize, clock: Arc<dyn Clock>) -> (Self, Observations) {
        let (sender, receiver) = mpsc::channel(capacity.max(1));
        (Self { sender, clock, steps: Arc::default() }, receiver)
    }

    /// Tells one fact, waiting while the channel is full.
    ///
    /// # Errors
    /// [`Closed`] when the receiver is gone.
    pub async fn tell(&self, observation: Observation) -> Result<(), Closed> {
        // The place comes first, the instant after it: what waited in front of a full channel is stamped when it
        // enters, so that instants in the channel do not go back.
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

    /// Waits until nobody reads any more.
    pub(crate) async fn closed(&self) {
        self.sender.closed().await;
    }

    /// Tells that a source failed.
    ///
    /// # Errors
    /// [`Closed`] when the receiver is gone.
    pub async fn failed(&self, source: SourceId, failure: &Failure) -> Result<(), Closed> {
        let (cause, detail) = (failure.cause, cut(&failure.detail));
        self.tell(Observation::SourceFailed { source, cause, detail }).await
    }

    /// Tells that a source works.
    ///
    /// # Errors
    /// [`Closed`] when the receiver is gone.
    pub async fn recovered(&self, source: SourceId) -> Result<(), Closed> {
        self.tell(Observation::SourceRecovered { source }).await
    }

    /// Tells that a source cannot do what was asked, for a reason of the user's making.
    ///
    /// # Errors
    /// [`Closed`] when the receiver is gone.
    pub async fn invalid(&self, source: SourceId, detail: String) -> Result<(), Closed> {
        self.failed(source, &Failure::new(Cause::Invalid, detail)).await
    }

    fn now(&self) -> (Timestamp, Option<i64>) {
        self.steps.lock().unwrap_or_else(PoisonError::into_inner).read(&*self.clock)
    }
}

/// Cuts to what an observation may carry, between characters.
fn cut(detail: &str) -> String {
    let mut end = detail.len().min(MAX_DETAIL);
    while !detail.is_char_boundary(end) {
        end -= 1;
    }
    detail[..end].to_owned()
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
    async fn a_clock_that_was_set_is_told_before_anything_that_it_stamps() {
        let clock = Arc::new(Set::default());
        let (feed, mut observations) = Feed::with_clock(10, clock.clone());
        let source = SourceId::Config;
        feed.recovered(source.clone()).await.expect("somebody listens");
        clock.0.store(3_600_000, Ordering::Relaxed);
        feed.recovered(source.clone()).await.expect("somebody listens");
        let told = |at, observation| Some((Timestamp(at), observation));
        assert_eq!(observations.recv().await, told(0, Observation::SourceRecovered { source: source.clone() }));
        assert_eq!(observations.recv().await, told(3_600_000, Observation::ClockStepped { by_ms: 3_600_000 }));
        assert_eq!(observations.recv().await, told(3_600_000, Observation::SourceRecovered { source }));
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
