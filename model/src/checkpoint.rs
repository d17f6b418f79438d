//! Checkpoints: the state that survives a restart, such as learned times, the start times of open
//! findings, and signs of life of controllers. Objects are not stored, because the API server lists
//! them again.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::permission::Permission;
use crate::time::{Span, Timestamp};
use crate::trend::Levels;

/// The content of `--state-dir`, and the first observation of every recording segment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Checkpoint {
    /// Learned convergence times by `group/Kind` (`Kind` alone for the core group): the bucket
    /// counts of the estimator in `model/world/kinds/durations.rs`, first of converged spec
    /// changes, then of censored ones.
    pub learned: BTreeMap<String, Vec<u64>>,
    /// How long objects usually stay in each phase, by `group/Kind` and by phase: the bucket counts
    /// as in `learned`. The name of a phase after a creation begins with `+`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub phases: BTreeMap<String, BTreeMap<String, Vec<u64>>>,
    /// The start of the problem behind each open finding, by finding ID.
    pub findings: BTreeMap<String, Timestamp>,
    /// By finding ID, the open findings that do not alert, because another one explains them
    /// (`null`) or because the operator has until the given time to catch up.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub silent: BTreeMap<String, Option<Timestamp>>,
    /// By finding ID, when the open findings opened that page once they have lasted.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub opened: BTreeMap<String, Timestamp>,
    /// The IDs in `findings` whose evidence loopwatch must collect anew: those about controllers, which
    /// take several scrapes, and those about writes.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub of_controllers: BTreeSet<String>,
    /// The fields that name objects that the operator creates, as `group/Kind path`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub outputs: Vec<String>,
    /// The leader election leases that have been seen renewed, by `namespace/name`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub leases: BTreeMap<String, SeenLease>,
    /// What has been learned about finalizers, by kind and finalizer name, separated by a space.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub finalizers: BTreeMap<String, FinalizerMemory>,
    /// The normal levels of the signals of the operator's processes, by the source of the signal.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub levels: BTreeMap<String, Levels>,
    /// The permissions that the account has or had, by namespace; the key is empty for the whole
    /// cluster.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub permissions: BTreeMap<String, Vec<Permission>>,
    /// How long the reconciles of each controller usually take, by its name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub reconciles: BTreeMap<String, ReconcileMemory>,
}

/// How long the reconciles of one controller usually take, in seconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReconcileMemory {
    /// The mean.
    pub mean: f64,
    /// The longest one that has succeeded since `since`.
    pub longest: f64,
    /// The longest one that had succeeded in the time before.
    pub before: f64,
    /// When that time ended.
    pub since: Timestamp,
}

/// A leader election lease that has been seen renewed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SeenLease {
    /// When its holder last renewed it.
    pub alive: Timestamp,
    /// The identity of its last holder.
    pub holder: String,
    /// Its duration, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration: Option<Span>,
}

/// What has been learned about one finalizer of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FinalizerMemory {
    /// The bucket counts of the times from deletion to removal, as in [`Checkpoint::learned`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub removals: Vec<u64>,
    /// How often each field manager has removed the finalizer.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub removers: BTreeMap<String, u32>,
}
