//! The meaning of one part of a status, and the rule that chooses between several.

use crate::model::status::reading::{Reason, Verdict};

/// The meaning of one part of a status.
#[derive(Clone, Debug)]
pub(super) struct Signal {
    pub(super) verdict: Verdict,
    /// The rule that decided the verdict.
    pub(super) reason: Reason,
    /// The part itself, as text for people, such as `Ready=False (InvalidSpec)`.
    pub(super) text: String,
}

impl Signal {
    pub(super) fn new(verdict: Verdict, reason: Reason, text: impl Into<String>) -> Self {
        Self { verdict, reason, text: text.into() }
    }

    /// Returns the worse of two signals, or `self` if both have the same verdict.
    pub(super) fn worse(self, other: Self) -> Self {
        if rank(other.verdict) > rank(self.verdict) { other } else { self }
    }

    /// Returns whether the object is converged or has finished.
    pub(super) fn is_good(&self) -> bool {
        matches!(self.verdict, Verdict::Converged | Verdict::Finished)
    }

    /// Returns whether a false condition of a good type, such as `Ready`, decided the verdict.
    pub(super) fn is_summary_false(&self) -> bool {
        matches!(self.reason, Reason::ReadyFalse | Reason::ReadyPending)
    }
}

/// Returns the worst of the signals that are present; if several are equally bad, the first.
pub(super) fn worst(signals: impl IntoIterator<Item = Option<Signal>>) -> Option<Signal> {
    signals.into_iter().flatten().reduce(Signal::worse)
}

/// Ranks verdicts: the part of a status with the highest rank decides.
const fn rank(verdict: Verdict) -> u8 {
    match verdict {
        Verdict::Unknown => 0,
        Verdict::Converged => 1,
        Verdict::Finished => 2,
        Verdict::Progressing => 3,
        Verdict::Suspended => 4,
        Verdict::Failed => 5,
    }
}
