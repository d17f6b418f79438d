//! Remembers whether reading the configuration succeeded.

use std::sync::{Mutex, PoisonError};

use loopwatch_model::time::Timestamp;

/// The results of reading the configuration, at the start and after each change of the file.
#[derive(Debug, Default)]
pub struct ConfigReads(Mutex<Results>);

#[derive(Clone, Copy, Debug, Default)]
struct Results {
    successful: Option<bool>,
    last_success: Option<Timestamp>,
}

impl ConfigReads {
    /// Notes when loopwatch read the configuration, and whether all of it was valid.
    pub fn note(&self, at: Timestamp, successful: bool) {
        let mut results = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        results.successful = Some(successful);
        if successful {
            results.last_success = Some(at);
        }
    }

    /// Whether the last read was successful; `None` before the first one.
    #[must_use]
    pub fn successful(&self) -> Option<bool> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).successful
    }

    /// The time of the last successful read.
    #[must_use]
    pub fn last_success(&self) -> Option<Timestamp> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).last_success
    }
}
