//! Snapshots: the output of the model as plain data in a fixed order. It depends only on
//! observations and settings.

mod explanation; // of one object
mod operator; // the operator itself
mod recent; // the last hours
mod rights; // of the operator's account
mod trends; // of the operator's processes
mod totals; // counted by the model, copied by a snapshot
mod words; // states, outcomes and other closed sets

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;

pub use self::explanation::{
    ExplainedChange, ExplainedCondition, ExplainedEvent, ExplainedFinalizer, ExplainedNode,
    ExplainedObject, ExplainedObligation, ExplainedWriter, Explanation,
};
pub use self::operator::{
    InstanceSummary, OperatorHealth, OperatorSummary, RECENT_POINTS, RecentPoint,
};
pub use self::recent::{Happening, PAST_POINTS, PastEvent, PastPoint, RecentPast};
pub use self::rights::{Right, Rights};
use self::totals::add_each;
pub use self::totals::{
    ConditionState, Durations, EarlierRevisions, EventReason, FinalizerTotals, KindTotals,
    NamespaceTotals, OwnerReferenceCounts, RevisionTotals, WatchTotals, WriteCounts,
};
pub use self::trends::{ProfileSummary, TrendSignal, TrendSummary};
pub use self::words::{
    DeadlineSource, DeletionVerdict, DownSign, FinalizerOutcome, Health, ObjectState, Outcome,
    OwnerHazard, RightUse, SoftDeletePhase,
};
use crate::finding::{Finding, FindingCode};
use crate::histogram::{FINDING_BOUNDS, Histogram};
use crate::observation::{LeaseView, LeftOut, Permission, Role, Scope, WatchId};
use crate::time::{Span, Timestamp};

/// The model at one instant. Its size is proportional to the number of unhealthy objects, findings,
/// kinds and namespaces, not to the number of objects.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// The instant.
    pub at: Timestamp,
    /// Watched kinds, ordered by group and kind.
    pub kinds: Vec<KindSummary>,
    /// Open findings, most severe first, then oldest.
    pub findings: Vec<Finding>,
    /// Unhealthy objects, worst first, at most `limits.object_series`.
    pub unhealthy: Vec<ObjectRow>,
    /// The number of unhealthy objects beyond that limit.
    pub unhealthy_dropped: u64,
    /// Objects whose deletion waits for finalizers, oldest first, at most [`MAX_DELETIONS`].
    pub deletions: Vec<DeletionRow>,
    /// Health per target namespace ("" holds cluster-scoped objects).
    pub health: BTreeMap<String, Health>,
    /// The teams of the target namespaces that have one.
    pub teams: BTreeMap<String, String>,
    /// Sources, ordered by name.
    pub sources: Vec<SourceSummary>,
    /// Missing permissions, per namespace ("" for the cluster).
    pub permissions_missing: Vec<(String, Permission)>,
    /// Parts of the cluster that the sources leave out.
    pub left_out: Vec<LeftOut>,
    /// The names in the settings that have a deadline but are of no watched kind. Empty until the kinds
    /// are known.
    pub unused_deadlines: Vec<String>,
    /// The names of kinds in rules about findings that are of no watched kind, although a watched kind of
    /// another group has this name.
    pub mistaken_rules: Vec<String>,
    /// Leader election leases, ordered by namespace and name.
    pub leases: Vec<LeaseRow>,
    /// The operator itself.
    pub operator: OperatorSummary,
    /// The trends of the operator's processes, ordered by instance.
    pub trends: Vec<TrendSummary>,
    /// The growth between the last two heap profiles of each instance that has any.
    pub profiles: Vec<ProfileSummary>,
    /// How soon findings have opened and how long they have lasted, by code; only of codes that have
    /// opened since the start.
    pub finding_times: BTreeMap<FindingCode, FindingTimes>,
    /// The number of items dropped, by the name of the limit.
    pub dropped: BTreeMap<&'static str, u64>,
    /// The number of observations applied, by the `source` label of `loopwatch_observations_total`.
    pub observations: BTreeMap<&'static str, u64>,
}

/// How soon the findings of one code have opened, and how long they have lasted.
#[derive(Clone, Debug, PartialEq)]
pub struct FindingTimes {
    /// The times from the beginning of the problem to the opening of the finding.
    pub found: Histogram,
    /// The times from the beginning of the problem to its end.
    pub lasted: Histogram,
}

impl Default for FindingTimes {
    fn default() -> Self {
        Self { found: Histogram::new(FINDING_BOUNDS), lasted: Histogram::new(FINDING_BOUNDS) }
    }
}

/// The maximum number of deletions in a snapshot. People read them; totals count all.
pub const MAX_DELETIONS: usize = 100;

/// One object whose deletion waits for finalizers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeletionRow {
    /// API group.
    pub group: String,
    /// Kind.
    pub kind: String,
    /// Empty for cluster-scoped objects.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// The deletion timestamp.
    pub since: Timestamp,
    /// Whether the deletion makes progress.
    pub verdict: DeletionVerdict,
    /// The finalizers, each with the actor that should remove it.
    pub finalizers: Vec<(Arc<str>, String)>,
}

/// One leader election lease.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaseRow {
    /// The lease as it is now.
    pub lease: LeaseView,
    /// When loopwatch saw `renewTime` change or, at the first observation, when the API server
    /// recorded the change, if known. Absent if the lease has no `renewTime`.
    pub seen_renewed_at: Option<Timestamp>,
}

/// One kind.
#[derive(Clone, Debug, Default)]
pub struct KindSummary {
    /// API group; empty for the core group.
    pub group: String,
    /// Kind.
    pub kind: String,
    /// Plural resource name.
    pub resource: String,
    /// Version that loopwatch reads.
    pub version: String,
    /// Primary or child.
    pub role: Role,
    /// Whether nothing shows that this operator serves it.
    pub suspected: bool,
    /// Its watches.
    pub watches: Vec<WatchSummary>,
    /// The deadline in force.
    pub deadline: Span,
    /// Where that deadline comes from.
    pub deadline_source: DeadlineSource,
    /// When the object that has been unconverged for longest became so, not counting failed
    /// objects; absent if there is none.
    pub oldest_unconverged: Option<Timestamp>,
    /// Totals over all namespaces.
    pub totals: KindTotals,
    /// What its totals counted under earlier revisions of the operator; absent before the first
    /// change of revision.
    pub earlier: Option<Box<EarlierRevisions>>,
    /// Its owner references now.
    pub owner_references: OwnerReferenceCounts,
    /// Totals per target namespace.
    pub namespaces: BTreeMap<Arc<str>, NamespaceTotals>,
    /// Deletions, per finalizer.
    pub finalizers: BTreeMap<Arc<str>, FinalizerSummary>,
    /// The number of references to missing objects, by the kind of the missing object.
    pub dangling: BTreeMap<String, u64>,
    /// Objects that annotations mark as deleted, by phase.
    pub soft_deleted: BTreeMap<SoftDeletePhase, SoftDeleteSummary>,
    /// The number of workloads with Pods that are older than the configuration that they read at
    /// their start.
    pub stale_configuration: u64,
}

/// Soft-deleted objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SoftDeleteSummary {
    /// Number of objects.
    pub objects: u64,
    /// When the first of them was deleted.
    pub oldest: Option<Timestamp>,
}

/// One watch of a kind.
#[derive(Clone, Debug, Default)]
pub struct WatchSummary {
    /// Its name.
    pub watch: WatchId,
    /// Its scope.
    pub scope: Scope,
    /// Whether its first list is complete.
    pub synced: bool,
    /// Missing verbs; if there are any, loopwatch does not watch this scope.
    pub missing: Vec<String>,
    /// Its totals.
    pub totals: WatchTotals,
}

/// Deletions that wait, or have waited, for one finalizer.
#[derive(Clone, Debug, Default)]
pub struct FinalizerSummary {
    /// Objects waiting, by [`DeletionVerdict`] in its order.
    pub waiting: [u64; DeletionVerdict::ALL.len()],
    /// The deletion timestamp of the object that has waited longest.
    pub oldest: Option<Timestamp>,
    /// Totals of ended waits.
    pub totals: FinalizerTotals,
}

/// One object, for listings. It is serialised as part of version 1 of the JSON API, so fields may
/// be added but not removed or renamed.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ObjectRow {
    /// API group.
    pub group: String,
    /// Kind.
    pub kind: String,
    /// Empty for cluster-scoped objects.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// UID.
    pub uid: String,
    /// State.
    pub state: ObjectState,
    /// The rule that decided the verdict: a label value of
    /// [`Reason`](crate::model::reading::Reason).
    pub reason: &'static str,
    /// The part of the status that decided the verdict, such as `Ready=False (InvalidSpec)`; may be
    /// empty.
    pub signal: String,
    /// When it entered this state.
    pub since: Timestamp,
    /// When it became unconverged; absent if it is not expected to converge, or has converged.
    pub unconverged_since: Option<Timestamp>,
    /// The operator has rejected its current spec: the object failed after a spec change.
    #[serde(skip)]
    pub rejected: bool,
    /// Generation.
    pub generation: i64,
    /// Observed generation, if the status has one.
    pub observed_generation: Option<i64>,
    /// Creation timestamp.
    pub created: Option<Timestamp>,
    /// Deletion timestamp.
    pub terminating_since: Option<Timestamp>,
    /// Phase; empty if it has none.
    pub phase: String,
    /// Conditions, in the order of the status.
    pub conditions: Arc<[ConditionState]>,
    /// Finalizers.
    pub finalizers: Arc<[Arc<str>]>,
    /// The actor that should remove each finalizer, in the order of `finalizers`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub actors: Vec<String>,
    /// Owners, as `Kind/name`.
    pub owners: Vec<String>,
}

/// One object, borrowed from the store under a lock, for walks over all objects.
#[derive(Clone, Copy, Debug, Default)]
pub struct ObjectRef<'a> {
    /// Role of the kind.
    pub role: Role,
    /// API group.
    pub group: &'a str,
    /// Kind.
    pub kind: &'a str,
    /// Empty for cluster-scoped objects.
    pub namespace: &'a str,
    /// Name.
    pub name: &'a str,
    /// State.
    pub state: ObjectState,
    /// When it entered this state.
    pub since: Timestamp,
    /// Generation.
    pub generation: i64,
    /// Observed generation, if the status has one.
    pub observed_generation: Option<i64>,
    /// Creation timestamp.
    pub created: Option<Timestamp>,
    /// Deletion timestamp.
    pub terminating_since: Option<Timestamp>,
    /// Phase; empty if it has none.
    pub phase: &'a str,
    /// Conditions, in the order of the status.
    pub conditions: &'a [ConditionState],
    /// Finalizers.
    pub finalizers: &'a [Arc<str>],
}

/// The position in a walk over all objects. It stays valid while the store changes, but the walk
/// may miss objects that are added or removed during it, or show them twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cursor(pub u32);

/// A source of observations.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SourceSummary {
    /// Its name: the `source` label.
    pub source: String,
    /// Whether it is up.
    pub up: bool,
    /// When it came up or began to fail.
    pub since: Timestamp,
    /// When its last observation arrived.
    pub last_success: Option<Timestamp>,
    /// Failures so far, by cause.
    pub failures: BTreeMap<&'static str, u64>,
    /// The latest failure: its cause and its error message.
    pub latest: Option<(&'static str, String)>,
    /// Why the source is off, if it is.
    pub off: Option<String>,
    /// The time between two observations, if the source adapts it.
    pub interval: Option<Span>,
    /// What the source cannot read although it is up, and why.
    pub restricted: Option<String>,
}

impl KindSummary {
    /// Objects of this kind in each state, over all namespaces.
    #[must_use]
    pub fn states(&self) -> [u64; ObjectState::ALL.len()] {
        let mut sum = [0; ObjectState::ALL.len()];
        for namespace in self.namespaces.values() {
            add_each(&mut sum, &namespace.states);
        }

        sum
    }
}
