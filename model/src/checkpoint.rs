//! What outlives a restart: what was learnt and what was found, never objects (the API server has those).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// The first line of every recording segment, and the content of `--state-dir`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Checkpoint {
    /// Learned convergence times per `group/Kind`.
    pub learned: BTreeMap<String, Vec<u64>>,
    /// Since when each open finding holds, by its id.
    pub findings: BTreeMap<String, Timestamp>,
}
