//! What will be due when: the only way in which time passing changes anything.

use std::collections::BTreeSet;

use crate::time::Timestamp;

/// What a timer is for. At equal times they fire in this order, then by number, so that replays agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    /// An object, by its slot in the store.
    Object(u32),
    /// A kind, by its number.
    Kind(u16),
    /// A source that fails, by its number.
    Source(u16),
    /// The next audit of a watch, by its number.
    Audit(u16),
    /// Whether limits are still reached.
    Limits,
}

/// Timers in the order in which they fire.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    queue: BTreeSet<(Timestamp, Timer)>,
}

// === impl Timers ===

impl Timers {
    /// Moves a timer from `old` to `new`; `None` stands for not set.
    pub(crate) fn set(&mut self, timer: Timer, old: Option<Timestamp>, new: Option<Timestamp>) {
        if old == new {
            return;
        }
        if let Some(old) = old {
            self.queue.remove(&(old, timer));
        }
        if let Some(new) = new {
            self.queue.insert((new, timer));
        }
    }

    /// Takes the first timer that is due at or before `now`.
    pub(crate) fn pop(&mut self, now: Timestamp) -> Option<(Timestamp, Timer)> {
        let first = *self.queue.first().filter(|(due, _)| *due <= now)?;
        self.queue.remove(&first);
        Some(first)
    }

    pub(crate) fn next(&self) -> Option<Timestamp> {
        self.queue.first().map(|(due, _)| *due)
    }
}
