//! Reads what any operator's status says about the current generation, by general rules.

use crate::observation::ObjectView;

/// What a status says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The verdict.
    pub verdict: Verdict,
    /// Whether the operator has seen the current generation.
    pub acknowledged: Acknowledged,
    /// The rule that decided.
    pub reason: Reason,
    /// The words it decided on, for people: `Ready=False (InvalidSpec)`, `status.phase=Failed`.
    pub signal: String,
}

/// What a status says about the current generation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// The world is as the spec asks.
    Converged,
    /// Work is under way, or has not begun.
    Progressing,
    /// The operator answered: it cannot, or something is broken.
    Failed,
    /// A person paused it.
    Suspended,
    /// It ran to its end and owes nothing more.
    Finished,
    /// Nothing that can be judged.
    #[default]
    Unknown,
}

/// Whether the operator says it has seen the current generation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Acknowledged {
    /// `observedGeneration` has caught up.
    Yes,
    /// It lags behind.
    No,
    /// This object says nothing about it.
    #[default]
    Unsaid,
}

/// The rule that decided, as a closed list fit for a label.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// No rule applied.
    #[default]
    NothingToJudge,
}

impl Reason {
    /// As a label value.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        "NothingToJudge"
    }
}

/// Reads the status of one object.
#[must_use]
pub fn read(_group: &str, _kind: &str, _object: &ObjectView) -> Reading {
    Reading {
        verdict: Verdict::Unknown,
        acknowledged: Acknowledged::Unsaid,
        reason: Reason::NothingToJudge,
        signal: String::new(),
    }
}
