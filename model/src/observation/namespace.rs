//! Namespaces.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::object::Condition;
use crate::time::Timestamp;

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
    /// The value of the label that names its team; empty if loopwatch reads no such label, or the
    /// namespace has none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub team: String,
    /// `metadata.deletionTimestamp`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deleted: Option<Timestamp>,
    /// The conditions of a namespace that is being deleted; they show what blocks it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}
