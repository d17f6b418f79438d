//! Checkpoints: the state that survives a restart, which is what loopwatch has learned and the start times of open
//! findings. Objects are not stored, because the API server lists them again.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// The content of `--state-dir`, and the first observation of every recording segment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Checkpoint {
    /// Learned convergence times by `group/Kind` (`Kind` alone for the core group): the bucket counts of the estimator
    /// in `model/learned.rs`, first of converged spec changes, then of censored ones.
    pub learned: BTreeMap<String, Vec<u64>>,
    /// The start of the problem behind each open finding, by finding ID.
    pub findings: BTreeMap<String, Timestamp>,
    /// The fields that name objects which the operator creates, as `group/Kind path`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub outputs: Vec<String>,
}
