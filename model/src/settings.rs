//! Every number that decides something, with its default and the reason for it.
//!
//! They are part of a recording's header, so that a replay judges as the recorder did. The configuration file sets
//! them under `settings:` by these names.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::time::Span;

/// The thresholds and limits in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// How long an object may take from a change of its spec to converged, unless its kind has another deadline. Ten
    /// minutes is the progress deadline of a Deployment (`progressDeadlineSeconds: 600`), which users know.
    pub deadline: Span,
    /// Deadlines of single kinds, by `group/Kind` (`Kind` alone for the core group).
    pub deadlines: BTreeMap<String, Span>,
    /// How long a state must hold before its obligation closes: the "stays so" half of eventually stable.
    pub settle: Span,
    /// How long a negative answer must stand, without further writes, before it counts as the operator's answer.
    pub reject_after: Span,
    /// How long a status that names no generation and that nobody touches may still be about the old spec.
    pub unsaid_after: Span,
    /// How long Ready may be lost without a change of the spec before it is a finding: longer than a Pod restart.
    pub regressed_after: Span,
    /// How many objects of a kind must fail at once before the kind is failing …
    pub failing_objects: u32,
    /// … and which part of the kind, in percent.
    pub failing_percent: u32,
    /// The window in which transitions of a condition are counted.
    pub flap_window: Span,
    /// So many transitions without a spec change are flapping: three round trips.
    pub flap_transitions: u32,
    /// The window in which returns to an earlier phase are counted.
    pub cycle_window: Span,
    /// So many returns to an earlier phase are cycling.
    pub cycle_returns: u32,
    /// How long a phase may last before it is stuck, when the kind has not taught us otherwise.
    pub phase_stuck_after: Span,
    /// How long a finalizer may stay after deletion was asked for. Cleanups that talk to a cloud take minutes; fifteen
    /// separates them from those that never end.
    pub finalizer_stuck_after: Span,
    /// A spec that converged before may take this many times as long again before it counts as not recovered …
    pub recover_factor: u32,
    /// … and at least this long.
    pub recover_at_least: Span,
    /// How long a source may fail before that is a finding: longer than the restart of an API server.
    pub source_failing_after: Span,
    /// How often the state is compared with the API server's.
    pub audit_every: Span,
    /// How many converged changes of a kind are needed before its deadline is learned.
    pub learn_after: u32,
    /// Bounds.
    pub limits: Limits,
}

/// Every collection is bounded; what does not fit is counted in `loopwatch_dropped_total{limit}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Objects kept at once. `run` derives it from its own memory limit.
    pub objects: usize,
    /// Objects with a history (conditions, phases, writers) kept at once.
    pub histories: usize,
    /// Findings kept at once.
    pub findings: usize,
    /// Kinds times scopes watched.
    pub watches: usize,
    /// Different phases of a kind; more is free text and ignored.
    pub phases: usize,
    /// Different condition types of a kind.
    pub condition_types: usize,
    /// Different finalizers of a kind.
    pub finalizers: usize,
    /// Namespaces that get label values of their own; the rest is `other`.
    pub namespaces: usize,
    /// Series of single objects per metric family.
    pub object_series: usize,
}

// === impl Settings ===

impl Default for Settings {
    fn default() -> Self {
        Self {
            deadline: Span::mins(10),
            deadlines: BTreeMap::new(),
            settle: Span::secs(10),
            reject_after: Span::secs(10),
            unsaid_after: Span::secs(30),
            regressed_after: Span::mins(5),
            failing_objects: 3,
            failing_percent: 50,
            flap_window: Span::mins(30),
            flap_transitions: 6,
            cycle_window: Span::mins(30),
            cycle_returns: 6,
            phase_stuck_after: Span::mins(30),
            finalizer_stuck_after: Span::mins(15),
            recover_factor: 10,
            recover_at_least: Span::mins(2),
            source_failing_after: Span::mins(2),
            audit_every: Span::mins(1),
            learn_after: 20,
            limits: Limits::default(),
        }
    }
}

// === impl Limits ===

impl Default for Limits {
    fn default() -> Self {
        Self {
            objects: 1_000_000,
            histories: 20_000,
            findings: 10_000,
            watches: 512,
            phases: 20,
            condition_types: 50,
            finalizers: 50,
            namespaces: 2_000,
            object_series: 500,
        }
    }
}
