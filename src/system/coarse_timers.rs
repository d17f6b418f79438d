//! Timers that fire at common instants, so that the process wakes up less often.
//!
//! Waking an idle process costs more CPU time than most of its work: the kernel has to schedule it,
//! and the caches hold the data of other processes. Timers that need no precise instant therefore
//! fire together.
//!
//! The common instants are those at which a slot of Tokio's timer wheel begins, counted from the
//! start of the runtime. A timer for any other instant needs two wake-ups, because at the beginning
//! of its slot Tokio only sorts it into a finer wheel.

use std::sync::OnceLock;
use std::time::Duration;

use tokio::time::Instant;

/// Time between two common instants.
const INTERVAL: Duration = Duration::from_millis(64);

/// The start of the runtime on the system's clock, even if a test has paused Tokio's.
static STARTED: OnceLock<std::time::Instant> = OnceLock::new();

/// Notes that the runtime starts now.
pub(crate) fn start() {
    STARTED.get_or_init(std::time::Instant::now);
}

/// The first common instant after `wait`, which is at most 64 ms later. Waits shorter than that are
/// exact.
pub(crate) fn after(wait: Duration) -> Instant {
    let now = Instant::now();
    if wait < INTERVAL {
        return now + wait;
    }

    let started = Instant::from_std(*STARTED.get_or_init(std::time::Instant::now));
    round_up(started, now + wait)
}

fn round_up(started: Instant, at: Instant) -> Instant {
    let intervals = at.saturating_duration_since(started).as_nanos().div_ceil(INTERVAL.as_nanos());
    u32::try_from(intervals).map_or(at, |intervals| started + INTERVAL * intervals)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_rounded_up_to_multiples_of_the_interval() {
        let started = Instant::now();
        let ms = |ms| started + Duration::from_millis(ms);
        for (at, rounded) in
            [(0, 0), (1, 64), (63, 64), (64, 64), (65, 128), (6_400_001, 6_400_064)]
        {
            assert_eq!(round_up(started, ms(at)), ms(rounded), "{at}");
        }

        let (late, century) =
            (started + Duration::from_secs(60), Duration::from_secs(3_200_000_000));

        assert_eq!(round_up(late, started), late, "a clock that was paused before the start");
        assert_eq!(round_up(started, started + century), started + century);
    }

    #[tokio::test]
    async fn long_waits_end_together_and_short_ones_exactly() {
        start();
        let waits: Vec<Instant> =
            (65..=127).step_by(10).map(|ms| after(Duration::from_millis(ms))).collect();

        assert!(waits.windows(2).filter(|pair| pair[0] != pair[1]).count() <= 2, "{waits:?}");

        let now = Instant::now();
        assert!(after(Duration::from_millis(5)) - now < Duration::from_millis(50), "not rounded");
    }
}
