//! The only place that reads the wall clock: for the timestamps of the feed, and for the ticks between observations.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use loopwatch_model::time::Timestamp;

/// A wall clock and a steady clock. Comparing them reveals that somebody has set the wall clock.
pub(crate) trait Clock: Send + Sync {
    /// The wall clock time.
    fn wall(&self) -> Timestamp;
    /// Time since a fixed instant, by a monotonic clock.
    fn steady(&self) -> Duration;
}

/// The clock of the machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SystemClock {
    started: Instant,
}

/// Detects steps of the wall clock by comparing it with the steady clock.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StepDetector {
    last: Option<(Timestamp, Duration)>,
}

/// Smallest step to report, in milliseconds. A slewed clock drifts by less between two readings, and no verdict depends
/// on half a second.
const STEP_AT_LEAST_MS: i64 = 500;

// === impl SystemClock ===

impl SystemClock {
    /// Creates a clock whose steady time starts now.
    #[must_use]
    pub(crate) fn new() -> Self {
        Self { started: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the only place that reads the clock")]
    fn wall(&self) -> Timestamp {
        // A clock before 1970 reads as 1970. No measurement makes sense then.
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp(i64::try_from(since_1970.as_millis()).unwrap_or(i64::MAX))
    }

    fn steady(&self) -> Duration {
        self.started.elapsed()
    }
}

// === impl StepDetector ===

impl StepDetector {
    /// Reads both clocks. Also returns the step of the wall clock since the last reading, in milliseconds.
    pub(crate) fn read(&mut self, clock: &dyn Clock) -> (Timestamp, Option<i64>) {
        let (wall, steady) = (clock.wall(), clock.steady());
        let step = self.last.map(|(last_wall, last_steady)| {
            let passed = i64::try_from(steady.saturating_sub(last_steady).as_millis()).unwrap_or(i64::MAX);
            wall.0.saturating_sub(last_wall.0).saturating_sub(passed)
        });
        self.last = Some((wall, steady));
        (wall, step.filter(|by| by.abs() >= STEP_AT_LEAST_MS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fake(i64, u64);

    impl Clock for Fake {
        fn wall(&self) -> Timestamp {
            Timestamp(self.0)
        }
        fn steady(&self) -> Duration {
            Duration::from_millis(self.1)
        }
    }

    #[test]
    fn only_setting_the_wall_clock_counts_as_a_step() {
        let mut steps = StepDetector::default();
        assert_eq!(steps.read(&Fake(1_000, 0)), (Timestamp(1_000), None));
        assert_eq!(steps.read(&Fake(61_100, 60_000)), (Timestamp(61_100), None), "100 ms of slew in a minute");
        assert_eq!(steps.read(&Fake(3_661_100, 60_000)).1, Some(3_600_000));
        assert_eq!(steps.read(&Fake(1_000, 61_000)).1, Some(-3_661_100));
        assert_eq!(steps.read(&Fake(2_000, 62_000)).1, None);
    }
}
