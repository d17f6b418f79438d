//! Reference events: references between namespaces that appear or disappear.
//!
//! The model reports each one once, with
//! [`Model::reference_events`](crate::model::Model::reference_events). They are not findings: such
//! a reference may be intended, but an operator that isolates tenants may want to check it at once.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::finding::fnv;
use crate::time::Timestamp;

/// A reference between namespaces that appeared or disappeared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReferenceEvent {
    /// The ID, which is the same on every replica.
    pub id: ReferenceEventId,
    /// When loopwatch saw the change.
    pub at: Timestamp,
    /// Whether the reference appeared or disappeared.
    pub change: ReferenceChange,
    /// The kind of reference.
    pub form: ReferenceForm,
    /// The object that holds the reference.
    pub source: ObjectName,
    /// Path of the field, with `[]` for lists: `spec.tls[].secretRef`; `metadata.ownerReferences[]`
    /// for an owner.
    pub path: String,
    /// The object that the reference names. Its name is empty if loopwatch keeps only a fingerprint
    /// of it.
    pub target: ObjectName,
}

/// Whether a reference appeared or disappeared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReferenceChange {
    /// The object did not hold the reference before.
    Appeared,
    /// The object no longer holds the reference, or was deleted.
    Disappeared,
}

/// The kind of a reference between namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReferenceForm {
    /// A field of the spec names an object in another namespace.
    CrossNamespaceReference,
    /// An owner reference names an object that exists only in another namespace.
    CrossNamespaceOwner,
}

/// The group, kind, namespace and name of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct ObjectName {
    /// Empty for the core group, and if unknown.
    pub group: String,
    /// Empty if unknown.
    pub kind: String,
    /// Empty for cluster-scoped objects.
    pub namespace: String,
    /// Empty if unknown.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
}

/// Identifies a reference event: 64 bits, written as hexadecimal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReferenceEventId(pub u64);

impl ReferenceEvent {
    /// Returns the event's name: `cross_namespace_reference_appeared`, for example.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match (self.form, self.change) {
            (ReferenceForm::CrossNamespaceReference, ReferenceChange::Appeared) => {
                "cross_namespace_reference_appeared"
            }
            (ReferenceForm::CrossNamespaceReference, ReferenceChange::Disappeared) => {
                "cross_namespace_reference_disappeared"
            }
            (ReferenceForm::CrossNamespaceOwner, ReferenceChange::Appeared) => {
                "cross_namespace_owner_appeared"
            }
            (ReferenceForm::CrossNamespaceOwner, ReferenceChange::Disappeared) => {
                "cross_namespace_owner_disappeared"
            }
        }
    }

    /// Sets the ID: the 64-bit FNV-1a hash of everything but the time, and of the UID and the
    /// version of the source object. Every replica sees the same version, even after a restart, but
    /// at a different time.
    #[must_use]
    pub(crate) fn identified(mut self, uid: &str, version: u64) -> Self {
        let (source, target) = (self.source.parts(), self.target.parts());
        let parts = [self.name(), &self.path, uid].into_iter().chain(source).chain(target);
        self.id = ReferenceEventId(fnv(parts.chain([version.to_string().as_str()])));
        self
    }
}

impl ObjectName {
    fn parts(&self) -> [&str; 4] {
        [&self.group, &self.kind, &self.namespace, &self.name]
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = |text: &'_ str| if text.is_empty() { "?".to_owned() } else { text.to_owned() };
        let dot = if self.group.is_empty() { "" } else { "." };
        write!(
            f,
            "{}{dot}{} {}/{}",
            known(&self.kind),
            self.group,
            known(&self.namespace),
            known(&self.name)
        )
    }
}

impl fmt::Display for ReferenceEventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl Serialize for ReferenceEventId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
