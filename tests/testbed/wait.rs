//! Waiting for conditions.

use std::time::{Duration, Instant};

/// The interval at which a condition is checked.
const INTERVAL: Duration = Duration::from_millis(100);

/// Calls `poll` until it succeeds. Returns its result and the time that it took, or the last error.
pub fn until<T>(
    within: Duration,
    mut poll: impl FnMut() -> Result<T, String>,
) -> Result<(T, Duration), String> {
    let began = Instant::now();
    loop {
        match poll() {
            Ok(found) => return Ok((found, began.elapsed())),
            Err(seen) if began.elapsed() >= within => return Err(seen),
            Err(_) => pause(INTERVAL),
        }
    }
}

/// Like [`until`], but panics with the last error.
pub fn eventually<T>(within: Duration, what: &str, poll: impl FnMut() -> Result<T, String>) -> T {
    match until(within, poll) {
        Ok((found, _)) => found,
        Err(seen) => panic!("not within {within:?}: {what}; last seen: {seen}"),
    }
}

/// Sleeps. Tests and helpers run on threads of their own, never on those of a runtime.
#[expect(clippy::disallowed_methods, reason = "this blocks no worker of a runtime")]
pub fn pause(span: Duration) {
    std::thread::sleep(span);
}
