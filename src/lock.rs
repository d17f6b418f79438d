//! Locks without poisoning.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks state that tasks share, such as the model. Ignores poisoning, so that a panic in one task
/// does not stop the others, too.
pub(crate) fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
