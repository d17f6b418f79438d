//! The only clock: every observation gets its instant here, and nowhere else is one read.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use loopwatch_model::time::Timestamp;

/// A wall clock that can be set, beside one that cannot: their difference shows when the first was set.
pub trait Clock: Send + Sync {
    /// What the wall clock shows.
    fn wall(&self) -> Timestamp;
    /// Time since some fixed instant, by a clock that nobody sets.
    fn steady(&self) -> Duration;
}

/// The clock of the machine.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    started: Instant,
}

/// Notices when the wall clock was set, by comparing it with the steady one.
#[derive(Clone, Copy, Debug, Default)]
pub struct StepDetector {
    last: Option<(Timestamp, Duration)>,
}

/// Smaller steps are left alone: a clock that is slewed drifts by less between two readings, and no verdict hangs on
/// half a second.
const STEP_AT_LEAST_MS: i64 = 500;

// === impl SystemClock ===

impl SystemClock {
    /// Starts reading the clock.
    #[must_use]
    pub fn new() -> Self {
        Self { started: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the place where time enters")]
    fn wall(&self) -> Timestamp {
        // A clock before 1970 reads as 1970: nothing sensible can be measured with it either way.
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp(i64::try_from(since_1970.as_millis()).unwrap_or(i64::MAX))
    }

    fn steady(&self) -> Duration {
        self.started.elapsed()
    }
}

// === impl StepDetector ===

impl StepDetector {
    /// Reads both clocks; also says by how many milliseconds the wall clock was set forward since the last reading.
    pub fn read(&mut self, clock: &dyn Clock) -> (Timestamp, Option<i64>) {
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
    fn a_clock_that_is_set_shows_a_step_and_one_that_runs_does_not() {
        let mut steps = StepDetector::default();
        assert_eq!(steps.read(&Fake(1_000, 0)), (Timestamp(1_000), None));
        assert_eq!(steps.read(&Fake(61_100, 60_000)), (Timestamp(61_100), None), "100 ms of slew in a minute");
        assert_eq!(steps.read(&Fake(3_661_100, 60_000)).1, Some(3_600_000));
        assert_eq!(steps.read(&Fake(1_000, 61_000)).1, Some(-3_661_100));
        assert_eq!(steps.read(&Fake(2_000, 62_000)).1, None);
    }
}
