//! The slim view of one object: what the model may know of it, never its body.

use serde::{Deserialize, Serialize};

use crate::time::{Span, Timestamp};

/// Namespace and name; the namespace is empty for cluster-scoped objects.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ObjectKey {
    /// Empty for cluster-scoped objects.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The object's name.
    pub name: String,
}

/// One object, decoded in one pass over its JSON. Any shape decodes: a field of the wrong type is absent and adds a
/// word to `lints`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ObjectView {
    /// Which object.
    #[serde(flatten)]
    pub key: ObjectKey,
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.resourceVersion`, opaque; compared only where both sides are numbers.
    pub version: String,
    /// `metadata.generation`; 0 when the kind has none.
    #[serde(skip_serializing_if = "is_zero")]
    pub generation: i64,
    /// `metadata.creationTimestamp`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<Timestamp>,
    /// `metadata.deletionTimestamp`: the instant from which the object should be gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deleted: Option<Timestamp>,
    /// `metadata.deletionGracePeriodSeconds`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grace: Option<Span>,
    /// `metadata.finalizers`, in their order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub finalizers: Vec<String>,
    /// `metadata.ownerReferences`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub owners: Vec<OwnerReference>,
    /// `metadata.managedFields`, one entry per manager, the field tree reduced to what it owns.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub managers: Vec<Manager>,
    /// The switch by which a person paused this object, when there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<Pause>,
    /// What kind of thing `.status` is.
    pub status: StatusShape,
    /// `.status.observedGeneration`, also from a numeric string; absent when never set (absent, 0 or below).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Conditions wherever they stand in the status, in document order, top level first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Other scalar leaves of spec and status that say how far the object is: phases, states, replica counts, verdict
    /// flags, error texts. Chosen by their names, bounded.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub facts: Vec<Fact>,
    /// Fingerprints by which two versions are told apart.
    pub hashes: Hashes,
    /// Size of the JSON document, in bytes.
    #[serde(skip_serializing_if = "is_zero_u32")]
    pub bytes: u32,
    /// What was malformed, as words from a closed list, sorted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lints: Vec<String>,
}

/// One owner reference.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OwnerReference {
    /// `group/version` of the owner.
    pub api_version: String,
    /// Kind of the owner.
    pub kind: String,
    /// Name of the owner.
    pub name: String,
    /// UID of the owner.
    pub uid: String,
    /// Whether this owner is the managing controller.
    #[serde(skip_serializing_if = "is_false")]
    pub controller: bool,
    /// `blockOwnerDeletion`.
    #[serde(skip_serializing_if = "is_false")]
    pub blocks_deletion: bool,
}

/// One entry of `managedFields`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Manager {
    /// Name of the field manager; by default the first part of the user agent, so equal names are not equal actors.
    pub name: String,
    /// Apply or Update.
    pub operation: ManagerOperation,
    /// `status`, `scale` or empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub subresource: String,
    /// When the entry last changed, with a resolution of one second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<Timestamp>,
    /// Which parts of the object it owns.
    pub owns: Owned,
    /// The single finalizers that it wrote.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub finalizers: Vec<String>,
}

/// How a manager wrote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ManagerOperation {
    /// Server-side apply.
    Apply,
    /// Anything else.
    #[default]
    Update,
}

/// Which parts of an object a manager owns fields in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Owned {
    /// Something under `.spec`, or under any other top-level field that is neither metadata nor status.
    #[serde(skip_serializing_if = "is_false")]
    pub spec: bool,
    /// Something under `.status`.
    #[serde(skip_serializing_if = "is_false")]
    pub status: bool,
    /// At least one finalizer.
    #[serde(skip_serializing_if = "is_false")]
    pub finalizers: bool,
}

/// By which switch an object is paused.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    /// Where the switch is: `spec.suspend`, `annotation example.io/paused`, `label …`.
    pub by: String,
}

/// What kind of thing `.status` is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StatusShape {
    /// No `.status` at all, or null.
    #[default]
    Absent,
    /// An empty object.
    Empty,
    /// An object with something in it.
    Filled,
    /// Not an object.
    Malformed,
}

/// One condition, in whatever form the operator writes them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Condition {
    /// Where it stands when not in `.status.conditions`: `parents[0]`, `listeners[2]`, `conditionStatus`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub at: String,
    /// The condition's type.
    pub r#type: String,
    /// Its status.
    pub status: ConditionStatus,
    /// Its reason, cut to 128 bytes.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Its message, cut to 256 bytes: evidence for people, judged only for well-known words.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// `severity`, where the operator writes one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub severity: String,
    /// The generation the condition is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// When it last changed, as the operator claims.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changed: Option<Timestamp>,
}

/// The status of a condition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ConditionStatus {
    /// `"True"`, `"true"` or `true`.
    True,
    /// `"False"`, `"false"` or `false`.
    False,
    /// `"Unknown"`.
    Unknown,
    /// No status, or one that is none of the three (which is a lint).
    #[default]
    Absent,
}

/// One scalar leaf of spec or status.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fact {
    /// Path with dots, list positions in brackets: `status.health.status`, `spec.replicas`.
    pub path: String,
    /// What stands there.
    pub value: FactValue,
}

/// A scalar.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum FactValue {
    /// A boolean.
    Flag(bool),
    /// A whole number.
    Number(i64),
    /// A text, cut to 128 bytes.
    Text(String),
}

/// 64-bit fingerprints, keyed per recording, so that nobody can guess values from them. Written as hexadecimal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Hashes {
    /// Of everything outside metadata and status.
    #[serde(with = "hex", skip_serializing_if = "is_zero_u64")]
    pub spec: u64,
    /// Of the status as it is.
    #[serde(with = "hex", skip_serializing_if = "is_zero_u64")]
    pub status: u64,
    /// Of the status without timestamps and heartbeats, so that only a change of meaning changes it.
    #[serde(with = "hex", skip_serializing_if = "is_zero_u64")]
    pub settled: u64,
}

// === impl ConditionStatus ===

impl ConditionStatus {
    /// As a label value: `true`, `false`, `unknown`, `absent`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::True => "true",
            Self::False => "false",
            Self::Unknown => "unknown",
            Self::Absent => "absent",
        }
    }
}

// === impl ObjectView ===

impl ObjectView {
    /// The first fact at `path`.
    #[must_use]
    pub fn fact(&self, path: &str) -> Option<&FactValue> {
        self.facts.iter().find(|fact| fact.path == path).map(|fact| &fact.value)
    }
}

mod hex {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(value: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{value:016x}"))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        u64::from_str_radix(&text, 16).map_err(D::Error::custom)
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
fn is_false(value: &bool) -> bool {
    !*value
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
fn is_zero(value: &i64) -> bool {
    *value == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
fn is_zero_u32(value: &u32) -> bool {
    *value == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
fn is_zero_u64(value: &u64) -> bool {
    *value == 0
}
