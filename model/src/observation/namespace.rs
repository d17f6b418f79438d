//! Namespaces.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The part of a namespace that loopwatch reads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NamespaceView {
    /// The namespace's name.
    pub name: String,
    /// The annotations that loopwatch reads, [`IGNORE`](crate::model::annotated::IGNORE) and
    /// [`DEADLINE`](crate::model::annotated::DEADLINE).
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}
