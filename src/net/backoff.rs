//! Waits after failures: longer each time, and different for each instance.

use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

/// A wait of 0.8 s that doubles up to 30 s, with a jitter of ±25 %.
#[derive(Clone, Debug)]
pub(crate) struct Backoff {
    failures: u32,
    noise: u64,
}

const FIRST: Duration = Duration::from_millis(800);
const LONGEST: Duration = Duration::from_secs(30);

impl Backoff {
    /// A backoff with its own jitter.
    pub(crate) fn new() -> Self {
        // The noise need not be secret, but must differ between instances and between processes.
        Self { failures: 0, noise: RandomState::new().hash_one(0_u8) | 1 }
    }

    /// Returns the next wait. It is not shorter than `at_least`, the wait that the API server
    /// requests.
    pub(crate) fn wait(&mut self, at_least: Option<Duration>) -> Duration {
        let base = FIRST.saturating_mul(1 << self.failures.min(6)).min(LONGEST);
        self.failures = self.failures.saturating_add(1);
        self.jitter(base).max(at_least.map_or(Duration::ZERO, |asked| self.above(asked)))
    }

    /// Returns to the first, short wait.
    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }

    /// Returns a random time between 75 % and 125 % of `base`.
    pub(crate) fn jitter(&mut self, base: Duration) -> Duration {
        base.mul_f64(0.75 + 0.5 * self.random())
    }

    /// Returns a random time below `most`.
    pub(crate) fn below(&mut self, most: Duration) -> Duration {
        most.mul_f64(self.random())
    }

    /// Returns a random time between 100 % and 125 % of `base`.
    fn above(&mut self, base: Duration) -> Duration {
        base.mul_f64(1.0 + 0.25 * self.random())
    }

    /// Returns a random number of at least 0 and less than 1 (xorshift64).
    fn random(&mut self) -> f64 {
        self.noise ^= self.noise << 13;
        self.noise ^= self.noise >> 7;
        self.noise ^= self.noise << 17;
        (self.noise >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_thirty_seconds_and_are_short_again_after_a_reset() {
        let mut backoff = Backoff::new();
        let waits: Vec<f64> = (0..12).map(|_| backoff.wait(None).as_secs_f64()).collect();

        assert!((0.6..=1.0).contains(&waits[0]), "{waits:?}");
        assert!(waits[3] > waits[0] && waits.iter().all(|wait| *wait <= 37.5), "{waits:?}");
        assert!(waits[11] >= 22.5, "{waits:?}");

        backoff.reset();
        assert!(backoff.wait(None) <= Duration::from_secs(1));
        assert!(backoff.wait(Some(Duration::from_secs(7))) >= Duration::from_secs(7));
    }
}
