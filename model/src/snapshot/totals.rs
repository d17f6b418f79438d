//! Totals: the model updates them as objects change, and a snapshot contains copies. To add a
//! total, add a field here and the code that counts it.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;

use super::words::{FinalizerOutcome, ObjectState, Outcome, OwnerHazard};
use crate::histogram::{Histogram, LAG_BOUNDS};
use crate::time::Span;

/// Totals of one kind over all namespaces.
#[derive(Clone, Debug, Default)]
pub struct KindTotals {
    /// Time from a spec change to its acknowledgement, in seconds: until `observedGeneration` has
    /// caught up or, without one, until a status write.
    pub acknowledge: Histogram,
    /// Time from a spec change to converged, in seconds.
    pub convergence: Histogram,
    /// Objects per condition type and status.
    pub conditions: BTreeMap<ConditionState, u64>,
    /// Transitions without a spec change, per condition type.
    pub flaps: BTreeMap<Arc<str>, u64>,
    /// Versions that loopwatch has watched, by the field manager that wrote them.
    pub writes: BTreeMap<Arc<str>, WriteCounts>,
    /// Objects per phase.
    pub phases: BTreeMap<Arc<str>, u64>,
    /// Kubernetes Events so far, by type and reason.
    pub events: BTreeMap<EventReason, u64>,
    /// Bad owner references seen, by [`OwnerHazard`] in its order.
    pub hazards: [u64; OwnerHazard::ALL.len()],
    /// References to objects in other namespaces now.
    pub cross_references: u64,
    /// The number of these references that have appeared, and the number that have disappeared.
    pub cross_reference_changes: [u64; 2],
}

/// The owner references of the objects of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnerReferenceCounts {
    /// All of them.
    pub all: u64,
    /// The unverified ones: loopwatch knows none of the child's owners.
    pub unknown: u64,
    /// The bad ones, by [`OwnerHazard`] in its order.
    pub bad: [u64; OwnerHazard::ALL.len()],
}

/// The type and status of a condition.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct ConditionState {
    /// The condition's type.
    pub r#type: Arc<str>,
    /// Its status: `true`, `false`, `unknown` or `absent`.
    pub status: &'static str,
}

/// The type and reason of a Kubernetes Event.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EventReason {
    /// `Normal`, `Warning` or `_other`.
    pub r#type: &'static str,
    /// The reason, or `_other`.
    pub reason: Arc<str>,
}

/// Totals of one kind in one namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamespaceTotals {
    /// Number of objects now, by [`ObjectState`] in its order.
    pub states: [u64; ObjectState::ALL.len()],
    /// Milliseconds that objects spent in each state since loopwatch started, by [`ObjectState`] in
    /// its order.
    pub state_ms: [u64; ObjectState::ALL.len()],
    /// Number of ended obligations, by [`Outcome`] in its order.
    pub obligations: [u64; Outcome::ALL.len()],
    /// The part of [`KindTotals::convergence`], without its buckets.
    pub convergences: Durations,
}

/// The number and the sum of durations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Durations {
    /// The number.
    pub count: u64,
    /// The sum, in milliseconds.
    pub ms: u64,
}

/// The part of a kind's totals that was counted under given revisions of the operator.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RevisionTotals {
    /// The part of [`KindTotals::acknowledge`].
    pub acknowledge: Histogram,
    /// The part of [`KindTotals::convergence`].
    pub convergence: Histogram,
    /// The part of [`NamespaceTotals::obligations`].
    pub obligations: BTreeMap<Arc<str>, [u64; Outcome::ALL.len()]>,
    /// The part of [`NamespaceTotals::convergences`].
    pub convergences: BTreeMap<Arc<str>, Durations>,
}

/// The part of a kind's totals that was counted under earlier revisions of the operator.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EarlierRevisions {
    /// Under all revisions but the current one.
    pub all: RevisionTotals,
    /// Of these, under the revision just before the current one.
    pub previous: RevisionTotals,
}

/// Totals of the deletions of one kind that waited for one finalizer.
#[derive(Clone, Debug, Default)]
pub struct FinalizerTotals {
    /// Time from deletion to removal, in seconds.
    pub removal: Histogram,
    /// Number of ended waits, by [`FinalizerOutcome`] in its order.
    pub outcomes: [u64; FinalizerOutcome::ALL.len()],
}

/// Totals of one watch.
#[derive(Clone, Debug)]
pub struct WatchTotals {
    /// Objects held.
    pub objects: u64,
    /// Objects held minus objects counted by the API server, from the last audit that compared both
    /// at the same resource version; absent before the first.
    pub audit_difference: Option<i64>,
    /// Delivery lag of watch events, measured by audits, in seconds.
    pub lag: Histogram,
}

impl NamespaceTotals {
    /// Adds the totals of the same kind and namespace from another watch.
    pub fn add(&mut self, other: &Self) {
        // The pattern has no `..`, so a new field does not compile until it is added here.
        let Self { states, state_ms, obligations, convergences } = other;
        add_each(&mut self.states, states);
        add_each(&mut self.state_ms, state_ms);
        add_each(&mut self.obligations, obligations);
        self.convergences.add(*convergences);
    }
}

impl Durations {
    /// Counts one duration. A negative one counts as zero.
    pub fn observe(&mut self, took: Span) {
        self.add(Self { count: 1, ms: u64::try_from(took.0).unwrap_or(0) });
    }

    /// Returns the sum in seconds.
    #[must_use]
    pub fn seconds(self) -> f64 {
        self.ms as f64 / 1000.0
    }

    /// Returns these durations without others, which they contain.
    #[must_use]
    pub fn less(self, others: Self) -> Self {
        let Self { count, ms } = others;
        Self { count: self.count.saturating_sub(count), ms: self.ms.saturating_sub(ms) }
    }

    fn add(&mut self, others: Self) {
        self.count = self.count.saturating_add(others.count);
        self.ms = self.ms.saturating_add(others.ms);
    }
}

/// Adds counts position by position.
pub(super) fn add_each(sums: &mut [u64], counts: &[u64]) {
    for (sum, count) in sums.iter_mut().zip(counts) {
        *sum = sum.saturating_add(*count);
    }
}

impl RevisionTotals {
    /// Returns these totals without those of other revisions.
    #[must_use]
    pub fn less(&self, others: &Self) -> Self {
        let obligations = self.obligations.iter().map(|(namespace, counts)| {
            let others = others.obligations.get(namespace).copied().unwrap_or_default();
            (
                namespace.clone(),
                std::array::from_fn(|outcome| counts[outcome].saturating_sub(others[outcome])),
            )
        });
        let convergences = self.convergences.iter().map(|(namespace, durations)| {
            let others = others.convergences.get(namespace).copied().unwrap_or_default();
            (namespace.clone(), durations.less(others))
        });
        Self {
            acknowledge: self.acknowledge.less(&others.acknowledge),
            convergence: self.convergence.less(&others.convergence),
            obligations: obligations.collect(),
            convergences: convergences.collect(),
        }
    }
}

impl FinalizerTotals {
    /// Adds the totals of another finalizer.
    pub fn add(&mut self, other: &Self) {
        let Self { removal, outcomes } = other;
        self.removal.add(removal);
        add_each(&mut self.outcomes, outcomes);
    }
}

impl Default for WatchTotals {
    fn default() -> Self {
        Self { objects: 0, audit_difference: None, lag: Histogram::new(LAG_BOUNDS) }
    }
}

/// The versions of objects that a field manager has written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteCounts {
    /// All of them.
    pub versions: u64,
    /// Those that changed nothing but times and metadata that loopwatch does not read.
    pub wasted: u64,
}
