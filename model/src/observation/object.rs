//! The view of one object: the fields that the model reads or that later versions may need, never
//! the whole body.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::failed_call::FailedCall;
use super::omission::is_default;
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

/// The fields of one object that the model reads. Recordings also keep some that it does not read
/// yet: `grace`, `bytes`, `labels`, `name_hash`, `hashes.status`.
///
/// Any JSON object decodes: a field of the wrong type counts as absent and adds a word to `lints`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ObjectView {
    /// Namespace and name.
    #[serde(flatten)]
    pub key: ObjectKey,
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.resourceVersion`. The model orders versions that are numbers and treats all others
    /// as opaque.
    pub version: String,
    /// `metadata.generation`; 0 if the kind has none.
    #[serde(skip_serializing_if = "is_default")]
    pub generation: i64,
    /// `metadata.creationTimestamp`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<Timestamp>,
    /// `metadata.deletionTimestamp`: the time of the delete request plus the grace period.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deleted: Option<Timestamp>,
    /// `metadata.deletionGracePeriodSeconds`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grace: Option<Span>,
    /// `metadata.finalizers`, in document order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub finalizers: Vec<String>,
    /// `metadata.ownerReferences`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub owners: Vec<OwnerReference>,
    /// The annotations that the model may need: settings for loopwatch, owners, trace contexts,
    /// soft deletion. The decoder selects them by name and cuts the values to 256 bytes.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// The labels that name an owner or a revision, selected by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Whether the object has no owner, but resembles objects of its kind that have one. Only set
    /// in dumps, because watches hide all other objects without an owner from the model.
    #[serde(skip_serializing_if = "is_default")]
    pub resembles_owned: bool,
    /// `metadata.managedFields`, each entry's field tree reduced to the parts of the object that it
    /// owns.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub managers: Vec<Manager>,
    /// The switch that pauses the object, if one is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<Pause>,
    /// Handlers of the operator that have failed for this object and have not succeeded since, as
    /// far as the framework notes it in the object.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub attempts: Vec<HandlerAttempts>,
    /// The shape of `.status`.
    pub status: StatusShape,
    /// `.status.observedGeneration`, as a number or numeric string; absent if it is not positive. A
    /// negative number is the fact `status.observedGeneration`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Conditions from anywhere in the status, in document order, those of `.status.conditions`
    /// first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Other scalars of spec and status that show the object's progress: phases, states, replica
    /// counts, flags such as `ready`, error texts. The decoder selects them by name and limits
    /// their number.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub facts: Vec<Fact>,
    /// Fingerprint of `metadata.name`. A [`Reference`] to this object has the same one.
    #[serde(with = "hex", skip_serializing_if = "is_default")]
    pub name_hash: u64,
    /// References to other objects, found in the spec by the names of their fields, in document
    /// order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub references: Vec<Reference>,
    /// The ConfigMaps and Secrets that the Pods of a workload read only when they start, in
    /// document order. The decoder reads them only for Deployments, StatefulSets and DaemonSets.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub startup: Vec<StartupRead>,
    /// Fingerprint of the metadata that a writer can change: labels, annotations, owners,
    /// finalizers. The decoder makes it only for ConfigMaps and Secrets, whose managed fields show
    /// when data or metadata was written.
    #[serde(with = "hex", skip_serializing_if = "is_default")]
    pub marks_hash: u64,
    /// Fingerprints that show whether two versions differ.
    pub hashes: Hashes,
    /// Size of the JSON document, in bytes.
    #[serde(skip_serializing_if = "is_default")]
    pub bytes: u32,
    /// Names of malformed fields, from a closed list, sorted.
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
    #[serde(skip_serializing_if = "is_default")]
    pub controller: bool,
    /// `blockOwnerDeletion`.
    #[serde(skip_serializing_if = "is_default")]
    pub blocks_deletion: bool,
}

/// One entry of `managedFields`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Manager {
    /// Name of the field manager. It defaults to the first part of the user agent, so different
    /// clients may share a name.
    pub name: String,
    /// `Apply` or `Update`.
    pub operation: ManagerOperation,
    /// `status`, `scale` or empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub subresource: String,
    /// When the entry last changed, with a resolution of one second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<Timestamp>,
    /// The parts of the object in which it owns fields.
    pub owns: Owned,
    /// The finalizers that it owns.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub finalizers: Vec<String>,
}

/// The operation of a field manager.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ManagerOperation {
    /// Server-side apply.
    Apply,
    /// Anything else.
    #[default]
    Update,
}

/// The parts of an object in which a manager owns fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Owned {
    /// Something under `.spec`, or under any other top-level field that is neither metadata nor
    /// status.
    #[serde(skip_serializing_if = "is_default")]
    pub spec: bool,
    /// Something under `.status`.
    #[serde(skip_serializing_if = "is_default")]
    pub status: bool,
    /// At least one finalizer.
    #[serde(skip_serializing_if = "is_default")]
    pub finalizers: bool,
    /// Only the data of a ConfigMap or a Secret, so the time of the entry is that of the data.
    #[serde(skip_serializing_if = "is_default")]
    pub only_data: bool,
}

/// The switch that pauses an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    /// The location of the switch: `spec.suspend`, `annotation example.io/paused`, `label …`.
    pub by: String,
}

/// The attempts of one handler of the operator, all of which have failed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HandlerAttempts {
    /// The name of the handler.
    pub handler: String,
    /// The number of failed attempts in a row.
    pub failed: u32,
    /// The last error, cut to 256 bytes.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub error: String,
}

/// The shape of `.status`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StatusShape {
    /// No `.status`, or null.
    #[default]
    Absent,
    /// An empty object, or one that holds only zero values, as a new Go struct does.
    Empty,
    /// An object with fields.
    Filled,
    /// Not an object.
    Malformed,
}

/// One condition. The decoder also reads forms that differ from the API conventions, such as a map
/// keyed by type.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Condition {
    /// The location below `.status` if it is not `conditions`: `parents[0]`, `listeners[2]`,
    /// `conditionStatus`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub at: String,
    /// The condition's type.
    pub r#type: String,
    /// Its status.
    pub status: ConditionStatus,
    /// Its reason, cut to 128 bytes.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Its message, cut to 256 bytes. It is evidence for people; the model interprets only
    /// well-known words in it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Its `severity`, or its `category` as one, if the operator writes any.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub severity: String,
    /// Its `observedGeneration`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Its `lastTransitionTime`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changed: Option<Timestamp>,
    /// The failed call of a webhook that the whole message reports. Recordings by older versions
    /// leave it out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_call: Option<Box<FailedCall>>,
}

/// The status of a condition.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub enum ConditionStatus {
    /// `"True"`, `"true"` or `true`.
    True,
    /// `"False"`, `"false"` or `false`.
    False,
    /// `"Unknown"`, or Gardener's `"Progressing"`.
    Unknown,
    /// No status, or any other value, which adds a lint.
    #[default]
    Absent,
}

/// One scalar of spec or status.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Fact {
    /// Path with dots, and list positions in brackets: `status.health.status`,
    /// `status.instances[0].replicas`.
    pub path: String,
    /// The value at the path.
    pub value: FactValue,
}

/// A scalar value.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum FactValue {
    /// A boolean.
    Flag(bool),
    /// A whole number.
    Number(i64),
    /// A text, cut to 128 bytes.
    Text(String),
}

/// A reference to another object. It always has the fingerprint of the object's name, but the name
/// itself only if the form of the field shows that it holds a name: other text of the spec may be
/// secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Reference {
    /// Path of the field, with `[]` for lists: `spec.issuerRef`, `spec.tls[].secretName`.
    pub slot: String,
    /// Group of the object; empty for the core group, or if the reference names none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// Kind of the object, from the reference or from the name of the field; empty if neither shows
    /// it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Namespace of the object, if the reference names one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Fingerprint of the object's name. It equals that object's [`ObjectView::name_hash`].
    #[serde(with = "hex")]
    pub name_hash: u64,
    /// The object's name; empty unless the form of the field shows that it holds the name of an
    /// object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Whether the spec says that the object may be absent.
    #[serde(skip_serializing_if = "is_default")]
    pub optional: bool,
}

/// A ConfigMap or a Secret that Pods read only when they start: as environment variables, or as a
/// volume that is mounted with a `subPath`. The kubelet updates all other volumes.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
pub struct StartupRead {
    /// Whether the object is a Secret, not a ConfigMap.
    #[serde(skip_serializing_if = "is_default")]
    pub secret: bool,
    /// Its name. It is in the namespace of the workload.
    pub name: String,
    /// Whether the Pods read all of its keys, not only some.
    #[serde(skip_serializing_if = "is_default")]
    pub whole: bool,
}

/// Keyed 64-bit fingerprints, serialized in hexadecimal. Each recording has its own key, so that
/// its readers cannot test guesses of the values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Hashes {
    /// Fingerprint of everything outside metadata and status.
    #[serde(with = "hex", skip_serializing_if = "is_default")]
    pub spec: u64,
    /// Fingerprint of the status.
    #[serde(with = "hex", skip_serializing_if = "is_default")]
    pub status: u64,
    /// Fingerprint of the status without timestamps and heartbeats: it changes only if the meaning
    /// of the status changes.
    #[serde(with = "hex", skip_serializing_if = "is_default")]
    pub settled: u64,
}

impl ConditionStatus {
    /// Returns the label value: `true`, `false`, `unknown` or `absent`.
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

impl Pause {
    /// Returns whether the switch is an annotation or a label, not a field of the spec.
    #[must_use]
    pub fn is_mark(&self) -> bool {
        self.by.starts_with("annotation ") || self.by.starts_with("label ")
    }
}

impl ObjectView {
    /// Returns the handler that has failed most often in a row.
    #[must_use]
    pub fn most_attempts(&self) -> Option<&HandlerAttempts> {
        self.attempts.iter().max_by_key(|attempts| attempts.failed)
    }

    /// Returns the value of the first fact at `path`.
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
