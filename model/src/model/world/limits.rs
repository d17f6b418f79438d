//! The limits on what the model keeps, and the counts of what it drops.
//!
//! A part counts what it drops where that happens. The finding about the limit opens before the
//! next finding, or at the end of the step.

use std::collections::BTreeMap;

use crate::observation::{MAX_EVENTS, MAX_OBJECT_BYTES, MAX_PODS, MAX_WEBHOOKS};
use crate::settings;

/// A limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Limit {
    /// Objects of watches.
    Objects,
    /// The memory of the objects of watches, in bytes.
    ObjectMemory,
    /// The names in one list of one object, in bytes.
    ObjectNames,
    /// Objects with a history.
    Histories,
    Findings,
    Watches,
    Phases,
    ConditionTypes,
    /// Conditions of one object.
    Conditions,
    Finalizers,
    Namespaces,
    Leases,
    /// Pods in a view of the operator.
    OperatorPods,
    /// Kubernetes Events of one object that a source could not count.
    Events,
    EventReasons,
    /// References between namespaces.
    CrossReferences,
    /// References whose targets may be missing.
    References,
    /// Fields that name objects which the operator creates.
    Outputs,
    SoftDeleted,
    /// Workloads whose configuration is followed.
    Configuration,
    ReferenceEvents,
    FindingEvents,
    /// Objects that are written again and again without a change.
    WriteHistories,
    /// Deleted children that may come back.
    Recreated,
    /// Workloads that have no Pod that works.
    BrokenWorkloads,
    /// Objects whose status reports failed calls of webhooks.
    FailedCalls,
    /// Webhooks of one kind of configuration.
    Webhooks,
    /// Namespaces and definitions that are being deleted.
    TerminatingScopes,
    /// Bad owner references.
    BadOwners,
    /// Owner references that nothing has verified yet.
    UnverifiedOwners,
    OrphanCandidates,
    /// Lookups of single objects.
    Lookups,
    /// Traces, in bytes.
    Traces,
    /// Steps of one trace.
    TraceSteps,
    /// Distinct texts.
    Texts,
    /// Distinct sets of conditions.
    ConditionSets,
    /// Distinct sets of finalizers.
    FinalizerSets,
    /// The size of one object.
    ObjectBytes,
    /// Other objects that a source could not read.
    UnreadableObjects,
}

/// The items that were dropped because of a limit.
#[derive(Debug, Default)]
pub(crate) struct Dropped {
    /// How many items exceeded each limit.
    counts: BTreeMap<Limit, u64>,
    /// The limits that were exceeded since the findings about them were updated, in this order.
    exceeded: Vec<Limit>,
}

/// The maximum length of all names in one list of one object, in bytes: its finalizers, its owners,
/// its references. The longest lists of real objects need half of it.
pub(crate) const MAX_OBJECT_NAMES: usize = 4096;

/// The maximum number of top-level conditions of one object that are kept.
pub(crate) const MAX_CONDITIONS: usize = 32;

/// The maximum number of leases. An operator usually has one per controller, but the watched
/// namespaces may contain others.
pub(crate) const MAX_LEASES: usize = 1_000;

/// The maximum number of references between namespaces that are kept.
pub(crate) const MAX_CROSS_REFERENCES: usize = 20_000;

/// The maximum number of references that are kept.
pub(crate) const MAX_REFERENCES: usize = 50_000;

/// The maximum number of kinds and fields that are known to name what the operator creates.
pub(crate) const MAX_OUTPUTS: usize = 1_000;

/// The maximum number of objects whose soft-deletion marks are kept.
pub(crate) const MAX_SOFT_DELETED: usize = 20_000;

/// The maximum number of workloads whose configuration is followed.
pub(crate) const MAX_CONSUMERS: usize = 20_000;

/// The maximum number of reference events that are kept. Beyond it, the oldest are dropped.
pub(crate) const MAX_REFERENCE_EVENTS: usize = 10_000;

/// The maximum number of finding events that are kept. Beyond it, the oldest are dropped.
pub(crate) const MAX_FINDING_EVENTS: usize = 10_000;

/// The maximum number of objects whose last writes are kept. A loop needs one to be found.
pub(crate) const MAX_SUSPECTS: usize = 512;

/// The maximum number of deleted children that may come back.
pub(crate) const MAX_RECREATED: usize = 512;

/// The maximum number of broken workloads. An object that says Ready nevertheless needs one to be found.
pub(crate) const MAX_BROKEN_WORKLOADS: usize = 2_000;

/// The maximum number of objects whose status reports failed calls of webhooks.
pub(crate) const MAX_FAILED_CALLS: usize = 1_000;

/// The maximum number of namespaces and definitions that are being deleted at once.
pub(crate) const MAX_TERMINATING_SCOPES: usize = 1_000;

/// The maximum number of bad owners. Beyond it, one of the namespace with most of them makes room.
pub(crate) const MAX_BAD_OWNERS: usize = 5_000;

/// The maximum number of children with unverified owners.
pub(crate) const MAX_UNVERIFIED_OWNERS: usize = 200_000;

/// The maximum number of orphan candidates.
pub(crate) const MAX_CANDIDATES: usize = 20_000;

/// The maximum number of lookups, with or without an answer.
pub(crate) const MAX_LOOKUPS: usize = 20_000;

/// The maximum number of steps of one trace.
pub(crate) const MAX_STEPS: usize = 128;

/// The maximum number of distinct texts, of condition sets and of finalizer sets. Clusters have far
/// fewer.
pub(crate) const MAX_INTERNED: usize = 50_000;

impl Limit {
    /// Returns the name in `loopwatch_dropped_total`.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Objects => "objects",
            Self::ObjectMemory => "object_memory",
            Self::ObjectNames => "object_names",
            Self::Histories => "histories",
            Self::Findings => "findings",
            Self::Watches => "watches",
            Self::Phases => "phases",
            Self::ConditionTypes => "condition_types",
            Self::Conditions => "conditions",
            Self::Finalizers => "finalizers",
            Self::Namespaces => "namespaces",
            Self::Leases => "leases",
            Self::OperatorPods => "operator_pods",
            Self::Events => "events",
            Self::EventReasons => "event_reasons",
            Self::CrossReferences => "cross_references",
            Self::References => "references",
            Self::Outputs => "outputs",
            Self::SoftDeleted => "soft_deleted",
            Self::Configuration => "configurations",
            Self::ReferenceEvents => "reference_events",
            Self::FindingEvents => "finding_events",
            Self::WriteHistories => "write_histories",
            Self::Recreated => "recreated",
            Self::BrokenWorkloads => "broken_workloads",
            Self::FailedCalls => "failed_calls",
            Self::Webhooks => "webhooks",
            Self::TerminatingScopes => "containers",
            Self::BadOwners => "owner_hazards",
            Self::UnverifiedOwners => "owner_doubts",
            Self::OrphanCandidates => "orphan_candidates",
            Self::Lookups => "reads",
            Self::Traces => "traces",
            Self::TraceSteps => "trace_steps",
            Self::Texts => "texts",
            Self::ConditionSets => "condition_shapes",
            Self::FinalizerSets => "finalizer_sets",
            Self::ObjectBytes => "object_bytes",
            Self::UnreadableObjects => "unreadable_objects",
        }
    }

    /// Returns the maximum: a number of items, or of bytes.
    pub(crate) const fn max(self, settings: &settings::Limits) -> usize {
        match self {
            Self::Objects => settings.objects,
            Self::ObjectMemory => settings.object_memory(),
            Self::ObjectNames => MAX_OBJECT_NAMES,
            Self::Histories => settings.histories,
            Self::Findings => settings.findings,
            Self::Watches => settings.watches,
            Self::Phases => settings.phases,
            Self::ConditionTypes => settings.condition_types,
            Self::Conditions => MAX_CONDITIONS,
            Self::Finalizers => settings.finalizers,
            Self::Namespaces => settings.namespaces,
            Self::Leases => MAX_LEASES,
            Self::OperatorPods => MAX_PODS,
            Self::Events => MAX_EVENTS,
            Self::EventReasons => settings.event_reasons,
            Self::CrossReferences => MAX_CROSS_REFERENCES,
            Self::References => MAX_REFERENCES,
            Self::Outputs => MAX_OUTPUTS,
            Self::SoftDeleted => MAX_SOFT_DELETED,
            Self::Configuration => MAX_CONSUMERS,
            Self::ReferenceEvents => MAX_REFERENCE_EVENTS,
            Self::FindingEvents => MAX_FINDING_EVENTS,
            Self::WriteHistories => MAX_SUSPECTS,
            Self::Recreated => MAX_RECREATED,
            Self::BrokenWorkloads => MAX_BROKEN_WORKLOADS,
            Self::FailedCalls => MAX_FAILED_CALLS,
            Self::Webhooks => MAX_WEBHOOKS,
            Self::TerminatingScopes => MAX_TERMINATING_SCOPES,
            Self::BadOwners => MAX_BAD_OWNERS,
            Self::UnverifiedOwners => MAX_UNVERIFIED_OWNERS,
            Self::OrphanCandidates => MAX_CANDIDATES,
            Self::Lookups => MAX_LOOKUPS,
            Self::Traces => settings.trace_bytes,
            Self::TraceSteps => MAX_STEPS,
            Self::Texts => MAX_INTERNED,
            Self::ConditionSets => MAX_INTERNED,
            Self::FinalizerSets => MAX_INTERNED,
            Self::ObjectBytes => MAX_OBJECT_BYTES,
            Self::UnreadableObjects => 0,
        }
    }
}

impl Dropped {
    pub(super) fn count(&mut self, limit: Limit) {
        *self.counts.entry(limit).or_default() += 1;
        if !self.exceeded.contains(&limit) {
            self.exceeded.push(limit);
        }
    }

    /// Removes and returns the limits that were exceeded since the last call, in this order.
    pub(crate) fn take_exceeded(&mut self) -> Vec<Limit> {
        std::mem::take(&mut self.exceeded)
    }

    /// Returns how many items have exceeded a limit.
    pub(crate) fn by(&self, limit: Limit) -> u64 {
        self.counts.get(&limit).copied().unwrap_or_default()
    }

    /// Returns how many items have exceeded each limit, by its name.
    pub(crate) fn by_name(&self) -> BTreeMap<&'static str, u64> {
        self.counts.iter().map(|(limit, count)| (limit.as_str(), *count)).collect()
    }
}
