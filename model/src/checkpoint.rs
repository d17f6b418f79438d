//! What survives a restart: learned convergence times and the start times of open findings. Objects are not kept,
//! because the API server has them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// The content of `--state-dir`, and the first observation of every recording segment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Checkpoint {
    /// Learned convergence times by `group/Kind`: the bucket counts of the estimator in `model/learned.rs`.
    pub learned: BTreeMap<String, Vec<u64>>,
    /// When the problem behind each open finding began, by finding ID.
    pub findings: BTreeMap<String, Timestamp>,
}
