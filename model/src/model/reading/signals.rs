//! What the parts of a status say, and how they add up.

use super::Reason;

/// What one part of a status says, the worst last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Says {
    /// As the spec asks.
    Good,
    /// Ran to its end.
    Done,
    /// Under way.
    Motion,
    /// At rest because somebody wants it so.
    Rest,
    /// The operator cannot, or something is broken.
    Bad,
}

/// What one part of a status says, by which rule, on which words.
#[derive(Clone, Debug)]
pub(super) struct Signal {
    pub(super) says: Says,
    pub(super) reason: Reason,
    pub(super) words: String,
}

// === impl Signal ===

impl Signal {
    pub(super) fn new(says: Says, reason: Reason, words: impl Into<String>) -> Self {
        Self { says, reason, words: words.into() }
    }

    /// The worse of two; the first when they say the same.
    pub(super) fn worse(self, other: Self) -> Self {
        if other.says > self.says { other } else { self }
    }
}

/// The worse of what there is.
pub(super) fn worst(signals: impl IntoIterator<Item = Option<Signal>>) -> Option<Signal> {
    signals.into_iter().flatten().reduce(Signal::worse)
}
