//! What the model shows: plain, ordered, ready to be written out. Everything in it follows from observations alone.

use std::collections::BTreeMap;

use crate::finding::Finding;
use crate::histogram::Histogram;
use crate::observation::{Permission, Role, Scope, WatchId};
use crate::time::{Span, Timestamp};

/// The model at one instant. Its size follows what is unhealthy and how many kinds and namespaces there are, not how
/// many objects exist.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// The instant.
    pub at: Timestamp,
    /// Every kind that is watched, ordered by group and kind.
    pub kinds: Vec<KindSummary>,
    /// Open findings, most severe first, then oldest.
    pub findings: Vec<Finding>,
    /// Objects that have something wrong, worst first, bounded by `limits.object_series`.
    pub unhealthy: Vec<ObjectRow>,
    /// How many more there are.
    pub unhealthy_dropped: u64,
    /// 0 healthy, 1 degraded, 2 failing, per target namespace ("" holds cluster-scoped objects).
    pub health: BTreeMap<String, Health>,
    /// Sources, ordered by name.
    pub sources: Vec<SourceSummary>,
    /// Rights that are missing, per namespace ("" for the cluster).
    pub permissions_missing: Vec<(String, Permission)>,
    /// Leases seen.
    pub leases: Vec<LeaseSummary>,
    /// What did not fit, by limit.
    pub dropped: BTreeMap<&'static str, u64>,
    /// Observations taken in, by kind of source.
    pub observations: BTreeMap<&'static str, u64>,
}

/// One kind.
#[derive(Clone, Debug)]
pub struct KindSummary {
    /// API group; empty for the core group.
    pub group: String,
    /// Kind.
    pub kind: String,
    /// Plural resource name.
    pub resource: String,
    /// Version that is read.
    pub version: String,
    /// Why it matters.
    pub role: Role,
    /// Its watches.
    pub watches: Vec<WatchSummary>,
    /// The deadline in force.
    pub deadline: Span,
    /// Where that deadline comes from.
    pub deadline_source: DeadlineSource,
    /// Numbers per target namespace.
    pub namespaces: BTreeMap<String, NamespaceSummary>,
    /// From spec change to observedGeneration, in seconds.
    pub acknowledge: Histogram,
    /// From spec change to converged, in seconds.
    pub convergence: Histogram,
    /// Since when the object waits that waits longest.
    pub oldest_unconverged: Option<Timestamp>,
    /// Objects per condition type and status.
    pub conditions: BTreeMap<(String, &'static str), u64>,
    /// Transitions without a spec change, per condition type.
    pub flaps: BTreeMap<String, u64>,
    /// Objects per phase.
    pub phases: BTreeMap<String, u64>,
    /// Deletion, per finalizer.
    pub finalizers: BTreeMap<String, FinalizerSummary>,
}

/// One watch of a kind.
#[derive(Clone, Debug)]
pub struct WatchSummary {
    /// Its name.
    pub watch: WatchId,
    /// Where it looks.
    pub scope: Scope,
    /// Objects held.
    pub objects: u64,
    /// Whether the first list is complete.
    pub synced: bool,
    /// Verbs that are missing; not empty means it is not watched.
    pub missing: Vec<String>,
    /// Objects here less objects there, at the last audit in which both were at the same version.
    pub audit_difference: Option<i64>,
    /// Delivery lag that audits found.
    pub lag: Histogram,
}

/// Numbers of one kind in one namespace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NamespaceSummary {
    /// Objects now, by [`ObjectState`] in its order.
    pub states: [u64; ObjectState::ALL.len()],
    /// Object-seconds since loopwatch began, by [`ObjectState`] in its order.
    pub state_seconds: [f64; ObjectState::ALL.len()],
    /// Closed obligations, by [`Outcome`] in its order.
    pub obligations: [u64; Outcome::ALL.len()],
}

/// Deletions that wait for one finalizer.
#[derive(Clone, Debug, Default)]
pub struct FinalizerSummary {
    /// Objects waiting, by [`DeletionVerdict`] in its order.
    pub waiting: [u64; DeletionVerdict::ALL.len()],
    /// The earliest deletion still waiting for it.
    pub oldest: Option<Timestamp>,
    /// From deletion to removal, in seconds.
    pub removal: Histogram,
    /// How waits ended, by [`FinalizerOutcome`] in its order.
    pub outcomes: [u64; FinalizerOutcome::ALL.len()],
}

/// One object, for listings.
#[derive(Clone, Debug, PartialEq)]
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
    /// The rule that decided, from a closed list.
    pub reason: &'static str,
    /// The words it decided on.
    pub signal: String,
    /// Since when it is in this state.
    pub since: Timestamp,
    /// Since when it has not been converged; absent when it is, or owes nothing.
    pub unconverged_since: Option<Timestamp>,
    /// Generation.
    pub generation: i64,
    /// Observed generation, where it says one.
    pub observed_generation: Option<i64>,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// Deletion timestamp.
    pub terminating_since: Option<Timestamp>,
    /// Finalizers.
    pub finalizers: Vec<String>,
    /// Owners, as `Kind/name`.
    pub owners: Vec<String>,
    /// Phase.
    pub phase: String,
    /// Conditions: type and status.
    pub conditions: Vec<(String, &'static str)>,
}

/// One object, borrowed from the store while a lock is held: for the pages of all objects.
#[derive(Clone, Copy, Debug)]
pub struct ObjectRef<'a> {
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
    /// The rule that decided.
    pub reason: &'static str,
    /// Since when it is in this state.
    pub since: Timestamp,
    /// Generation.
    pub generation: i64,
    /// Observed generation, where it says one.
    pub observed_generation: Option<i64>,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// Deletion timestamp.
    pub terminating_since: Option<Timestamp>,
    /// Phase; empty when it has none.
    pub phase: &'a str,
    /// Conditions: type and status.
    pub conditions: &'a [(std::sync::Arc<str>, &'static str)],
    /// How many finalizers it has.
    pub finalizers: usize,
}

/// Where a walk over all objects goes on; valid across changes of the store, though objects that come or go meanwhile
/// may be missed or seen once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cursor(pub u32);

/// A source of observations.
#[derive(Clone, Debug, PartialEq)]
pub struct SourceSummary {
    /// As in the `source` label.
    pub source: String,
    /// Whether it works now.
    pub up: bool,
    /// Since when it is as it is.
    pub since: Timestamp,
    /// When something last came from it.
    pub last_success: Option<Timestamp>,
    /// Failures so far, by cause.
    pub failures: BTreeMap<&'static str, u64>,
    /// The latest failure: cause and what the failing part said.
    pub latest: Option<(&'static str, String)>,
}

/// A leader election lease.
#[derive(Clone, Debug, PartialEq)]
pub struct LeaseSummary {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Who holds it.
    pub holder: String,
    /// When it was last renewed.
    pub renewed: Option<Timestamp>,
    /// Changes of holder.
    pub transitions: i64,
}

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$variant_doc])* $variant,)* }

        impl $name {
            /// All of them, in order.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// As a label value.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }
        }
    };
}

words! {
    /// The state of an object; together they make up all objects.
    ObjectState {
        /// The world is as the spec asks.
        Converged = "converged",
        /// Under way, within its deadline.
        Progressing = "progressing",
        /// Under way, past its deadline.
        Overdue = "overdue",
        /// The operator answered for this generation: it cannot.
        Failed = "failed",
        /// Being deleted.
        Terminating = "terminating",
        /// Paused by a person.
        Suspended = "suspended",
        /// Ran to its end.
        Finished = "finished",
        /// Cannot be judged, or cannot be seen.
        Unknown = "unknown",
    }
}

words! {
    /// How an obligation ended.
    Outcome {
        /// Within the deadline.
        Converged = "converged",
        /// The operator answered that it cannot.
        Rejected = "rejected",
        /// The deadline passed.
        Late = "late",
        /// A newer spec came first.
        Superseded = "superseded",
        /// The object was deleted first.
        Deleted = "deleted",
        /// A person paused it first.
        Suspended = "suspended",
        /// We could not see.
        Unknown = "unknown",
    }
}

words! {
    /// How a deletion stands.
    DeletionVerdict {
        /// Within its time, or still moving.
        Progressing = "progressing",
        /// Nobody removes the finalizer.
        Stuck = "stuck",
    }
}

words! {
    /// How the wait for a finalizer ended.
    FinalizerOutcome {
        /// Removed before the threshold.
        Removed = "removed",
        /// Removed after the threshold.
        RemovedLate = "removed_late",
    }
}

words! {
    /// Where a deadline comes from.
    DeadlineSource {
        /// Flag or file.
        Configured = "configured",
        /// The default for all kinds.
        Default = "default",
        /// Learned from this kind's own convergence times.
        Learned = "learned",
    }
}

words! {
    /// One word for a namespace.
    Health {
        /// No finding and nothing overdue.
        Healthy = "healthy",
        /// A warning, or something overdue.
        Degraded = "degraded",
        /// A critical finding.
        Failing = "failing",
    }
}

impl KindSummary {
    /// Objects of this kind in each state, over all namespaces.
    #[must_use]
    pub fn states(&self) -> [u64; ObjectState::ALL.len()] {
        let mut sum = [0; ObjectState::ALL.len()];
        for namespace in self.namespaces.values() {
            for (total, count) in sum.iter_mut().zip(namespace.states) {
                *total += count;
            }
        }
        sum
    }
}
