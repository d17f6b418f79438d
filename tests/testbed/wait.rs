//! Waiting for what comes in its own time.

use std::time::{Duration, Instant};

/// How often a condition is looked at.
const POLL: Duration = Duration::from_millis(100);

/// Looks until `look` answers, and says how long that took. `Err` is what it saw last.
pub fn until<T>(within: Duration, mut look: impl FnMut() -> Result<T, String>) -> Result<(T, Duration), String> {
    let began = Instant::now();
    loop {
        match look() {
            Ok(found) => return Ok((found, began.elapsed())),
            Err(seen) if began.elapsed() >= within => return Err(seen),
            Err(_) => pause(POLL),
        }
    }
}

/// As [`until`], for what must come.
pub fn eventually<T>(within: Duration, what: &str, look: impl FnMut() -> Result<T, String>) -> T {
    match until(within, look) {
        Ok((found, _)) => found,
        Err(seen) => panic!("not within {within:?}: {what}; last seen: {seen}"),
    }
}

/// Lets time pass. Tests and helpers run on threads of their own, never on a runtime's.
#[expect(clippy::disallowed_methods, reason = "there is no worker to hold up")]
pub fn pause(span: Duration) {
    std::thread::sleep(span);
}
