//! Decides how long to wait before the next build.

use std::time::Duration;

use tokio::time::Instant;

use crate::app::RETRY;

/// The current build, and the number of failed rebuilds in a row.
pub(super) struct Attempts {
    began: Instant,
    is_rebuild: bool,
    /// Rebuilds that failed in a row.
    pub(super) failed: u32,
}

/// Time after which a build counts as successful.
pub(super) const LASTING: Duration = Duration::from_secs(300);

impl Attempts {
    pub(super) fn new() -> Self {
        Self { began: Instant::now(), is_rebuild: false, failed: 0 }
    }

    /// When the current build counts as successful.
    pub(super) fn lasts_at(&self) -> Instant {
        self.began + LASTING
    }

    /// Notes that the current build has ended. Returns the wait until the next one; none after a
    /// build that lasted.
    pub(super) fn next(&mut self) -> Duration {
        let failed = self.is_rebuild && self.began.elapsed() < LASTING;
        self.failed = if failed { self.failed + 1 } else { 0 };

        let wait = match self.failed.checked_sub(1) {
            Some(earlier) => RETRY.0.saturating_mul(1 << earlier.min(6)).min(RETRY.1),
            None => Duration::ZERO,
        };

        (self.began, self.is_rebuild) = (Instant::now() + wait, true);
        wait
    }
}
