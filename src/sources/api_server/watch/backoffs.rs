//! Waits after the failures of a watch: longer each time, and different for each watch.

use std::time::Duration;

use loopwatch_model::observation::Cause;

use crate::net::{Backoff, Failure};

/// The backoffs of one watch, one per class of failure: an outage does not lengthen the wait after
/// a later failure of another class, such as an expired version.
#[derive(Clone, Debug)]
pub(crate) struct Backoffs {
    /// For an API server that does not respond.
    connection: Backoff,
    /// For an API server that refuses the watch.
    access: Backoff,
    /// For a response that the watch cannot use.
    content: Backoff,
}

impl Backoffs {
    pub(crate) fn new() -> Self {
        Self { connection: Backoff::new(), access: Backoff::new(), content: Backoff::new() }
    }

    /// Returns the wait after this failure.
    pub(crate) fn wait(&mut self, failure: &Failure) -> Duration {
        let backoff = match failure.cause {
            Cause::Connection
            | Cause::Refused
            | Cause::Timeout
            | Cause::Tls
            | Cause::ServerError
            | Cause::Throttled => &mut self.connection,
            Cause::Forbidden | Cause::Unauthorized | Cause::NotFound => {
                self.connection.reset();
                &mut self.access
            }
            Cause::Gone | Cause::Undecodable | Cause::TooLarge | Cause::Invalid | Cause::Other => {
                self.connection.reset();
                &mut self.content
            }
        };
        backoff.wait(failure.retry_after)
    }

    /// Returns to short waits.
    pub(crate) fn reset(&mut self) {
        [&mut self.connection, &mut self.access, &mut self.content]
            .into_iter()
            .for_each(Backoff::reset);
    }

    /// Returns a random time below `most`.
    pub(crate) fn below(&mut self, most: Duration) -> Duration {
        self.connection.below(most)
    }

    /// Returns a random time between 75 % and 125 % of `base`.
    pub(crate) fn jitter(&mut self, base: Duration) -> Duration {
        self.connection.jitter(base)
    }
}
