//! Repeats a delivery until the receiver accepts it or the process stops.

use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::net::Backoff;

/// The attempts to deliver one item.
pub(super) struct Attempts<'a> {
    closing: &'a CancellationToken,
    since: Instant,
    patience: Duration,
    backoff: Backoff,
    /// Whether the next attempt is the last one, because the process stops.
    is_last: bool,
}

/// The receiver may accept the same request later.
#[derive(Debug)]
pub(super) struct TryLater {
    /// The wait that the receiver requests.
    pub(super) retry_after: Option<Duration>,
}

impl<'a> Attempts<'a> {
    /// The state before the first attempt. `patience` limits all attempts since `since`.
    pub(super) fn new(closing: &'a CancellationToken, since: Instant, patience: Duration) -> Self {
        let is_last = closing.is_cancelled();
        Self { closing, since, patience, backoff: Backoff::new(), is_last }
    }

    /// Waits for the next attempt. Returns `false` if there is none. A stop signal ends the wait,
    /// and leaves one attempt.
    pub(super) async fn wait(&mut self, TryLater { retry_after }: TryLater) -> bool {
        let wait = self.backoff.wait(retry_after);
        if self.is_last || self.since.elapsed() + wait > self.patience {
            return false;
        }

        let _ = self.closing.run_until_cancelled(sleep(wait)).await;
        self.is_last = self.closing.is_cancelled();
        true
    }
}

/// Waits for the end of a task, and aborts it if that takes longer than `within`.
pub(super) async fn end_within(within: Duration, task: &mut JoinHandle<()>) {
    match timeout(within, &mut *task).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => warn!(%error, "a task panicked; this is a bug in loopwatch"),
        Err(_) => task.abort(),
    }
}
