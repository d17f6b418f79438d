//! The trends of the operator's processes.

use crate::trend::TrendVerdict;

/// The trend of one signal of one process.
#[derive(Clone, Debug, PartialEq)]
pub struct TrendSummary {
    /// The instance.
    pub instance: String,
    /// The signal.
    pub signal: TrendSignal,
    /// The conclusion.
    pub verdict: TrendVerdict,
}

/// A signal of a process that may grow without bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TrendSignal {
    /// The live heap, in bytes.
    LiveHeap,
    /// Anonymous or resident memory, in bytes, if the live heap is not known.
    Memory,
    /// Goroutines, else threads.
    Tasks,
    /// Open file descriptors.
    Descriptors,
}

/// The growth of the stacks of an instance between two heap profiles.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProfileSummary {
    /// The instance.
    pub instance: String,
    /// The growth of each stack in bytes, fastest first.
    pub growth: Vec<u64>,
}

impl TrendSignal {
    /// Returns the value of the `signal` label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::LiveHeap => "live_heap",
            Self::Memory => "memory",
            Self::Tasks => "tasks",
            Self::Descriptors => "descriptors",
        }
    }

    /// Returns the value of the `resource` label: the limited resource that the signal uses up, if
    /// any.
    #[must_use]
    pub const fn resource(self) -> Option<&'static str> {
        match self {
            Self::LiveHeap | Self::Memory => Some("memory"),
            Self::Descriptors => Some("descriptors"),
            Self::Tasks => None,
        }
    }
}
