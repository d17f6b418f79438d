//! Whether an API server streams lists. The watches of a cluster share what each has learnt.

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use tokio::time::Instant;

use crate::lock::lock;

/// The shared knowledge. It expires, because API servers are upgraded and proxies reconfigured.
#[derive(Debug, Default)]
pub(crate) struct StreamingSupport(Mutex<Learnt>);

#[derive(Debug, Default)]
struct Learnt {
    /// Whether a streamed list was ever completed.
    proven: bool,
    /// Streamed lists that were refused or ignored since the last complete one.
    refusals: u32,
    /// The time of the next attempt, while all watches list in pages.
    retry_at: Option<Instant>,
}

/// How long watches list in pages before one of them tries a streamed list again.
pub(crate) const RETRY_STREAMS_AFTER: Duration = Duration::from_secs(600);

/// Refusals in a row that refute an earlier success. A single one may come from an aggregated API,
/// which has its own server.
const REFUTED_BY: u32 = 3;

impl StreamingSupport {
    /// Whether a watch should try a streamed list. When a new attempt is due, only the first caller
    /// makes it.
    pub(crate) fn allows(&self) -> bool {
        let mut learnt = self.lock();
        match learnt.retry_at {
            Some(at) if Instant::now() < at => false,
            Some(_) => {
                learnt.retry_at = Some(Instant::now() + RETRY_STREAMS_AFTER);
                true
            }
            None => true,
        }
    }

    /// Notes that a streamed list is complete.
    pub(crate) fn worked(&self) {
        *self.lock() = Learnt { proven: true, ..Learnt::default() };
    }

    /// Notes that a streamed list was refused or ignored.
    pub(crate) fn refused(&self) {
        let mut learnt = self.lock();
        learnt.refusals = learnt.refusals.saturating_add(1);
        if !learnt.proven || learnt.refusals >= REFUTED_BY {
            learnt.retry_at = Some(Instant::now() + RETRY_STREAMS_AFTER);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Learnt> {
        lock(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_watch_tries_again_after_a_while() {
        let support = StreamingSupport::default();
        assert!(support.allows() && support.allows(), "nothing is known");

        support.refused();
        assert!(!support.allows());

        tokio::time::advance(RETRY_STREAMS_AFTER).await;
        assert!(support.allows());
        assert!(!support.allows(), "the others wait for the result");

        support.worked();
        assert!(support.allows() && support.allows());
    }

    #[tokio::test(start_paused = true)]
    async fn a_single_refusal_does_not_refute_a_success() {
        let support = StreamingSupport::default();
        support.worked();
        support.refused();
        support.refused();

        assert!(support.allows(), "an aggregated API");

        support.refused();
        assert!(!support.allows(), "another API server");
    }
}
