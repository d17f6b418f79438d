//! Timers. The passing of time changes the model only through them.

use std::collections::BTreeSet;

use crate::time::Timestamp;

/// The purpose of a timer. Timers that are due at the same instant fire in the order of the
/// variants, then by number, so that replays are deterministic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    /// The next review of an object, by its slot in the store.
    Object(u32),
    /// The next review of a kind, by its number.
    Kind(u16),
    /// The time at which a failing source becomes a finding, by the source's number.
    Source(u16),
    /// The next audit of a watch, by the watch's number.
    Audit(u16),
    /// The next closing of a held finding.
    Findings,
    /// The time at which the sources may make the next read of an object.
    Lookups,
    /// The timer of a part, by its place in the list of parts.
    Part(u8),
    /// The next review of the operator.
    Operator,
}

/// A queue of timers in the order in which they fire.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    queue: BTreeSet<(Timestamp, Timer)>,
}

impl Timers {
    /// Moves a timer from `old` to `new`; `None` means that the timer is not set.
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

    /// Removes and returns the first timer that is due at or before `now`.
    pub(crate) fn pop(&mut self, now: Timestamp) -> Option<(Timestamp, Timer)> {
        let first = *self.queue.first().filter(|(due, _)| *due <= now)?;
        self.queue.remove(&first);
        Some(first)
    }

    /// Moves all timers by `by_ms` milliseconds.
    pub(crate) fn rebase(&mut self, by_ms: i64) {
        let moved = std::mem::take(&mut self.queue).into_iter();
        self.queue = moved.map(|(due, timer)| (due.shifted(by_ms), timer)).collect();
    }

    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        self.queue.first().map(|(due, _)| *due)
    }
}
