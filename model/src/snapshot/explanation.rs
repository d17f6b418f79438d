//! Explanations: one object with all that is known about it, such as its status, finalizers, owners
//! and children.
//!
//! The shapes are part of version 1 of the JSON API, so fields may be added but not removed or
//! renamed. They also implement `Deserialize`, because `loopwatch explain --server` shows the
//! explanation of another process. Closed sets are strings here, so that an older reader accepts
//! new values.

use serde::{Deserialize, Serialize};

use crate::finding::Finding;
use crate::time::Timestamp;
use crate::trace::TraceKey;

/// One object and its surroundings at one instant.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Explanation {
    /// The instant.
    pub at: Timestamp,
    /// The object, as in the tree.
    pub object: ExplainedObject,
    /// Role of the kind: `primary` or `child`.
    pub role: String,
    /// Generation; 0 if the kind has none.
    pub generation: i64,
    /// Observed generation, if the status has one.
    pub observed_generation: Option<i64>,
    /// The key of the trace of its deletion or of its current generation, if traces are collected.
    #[serde(skip)]
    pub trace: Option<TraceKey>,
    /// The message of the status that decided the state; may be empty.
    pub message: String,
    /// Phase; empty if it has none.
    pub phase: String,
    /// Since when it is in this phase, if that is known.
    pub phase_since: Option<Timestamp>,
    /// How long its last convergence took, in seconds, if loopwatch knows that.
    pub last_convergence_seconds: Option<u32>,
    /// What the operator is expected to do; absent if nothing.
    pub obligation: Option<ExplainedObligation>,
    /// Conditions, in the order of the status.
    pub conditions: Vec<ExplainedCondition>,
    /// Field managers that wrote the object, the latest first; empty if they are not known.
    pub writers: Vec<ExplainedWriter>,
    /// The last progress of its deletion that loopwatch saw.
    pub deletion_progress: Option<Timestamp>,
    /// Owners, each with its own owners below it.
    pub owners: Vec<ExplainedNode>,
    /// Children, each with its own children below it.
    pub children: Vec<ExplainedNode>,
    /// The number of direct children that do not fit in `children`.
    pub more_children: u64,
    /// Recent changes of its spec, phase, conditions and finalizers that loopwatch saw, in order. The
    /// last spec change is among them even if only times in the object show it.
    pub changes: Vec<ExplainedChange>,
    /// The latest openings and closings of findings about it or its kind, and Kubernetes Events
    /// about it, in order.
    pub timeline: Vec<ExplainedEvent>,
    /// The open findings about it and its kind, and those that explain them. Exporters write them
    /// like all findings.
    #[serde(skip)]
    pub findings: Vec<Finding>,
}

/// One object of the tree.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ExplainedObject {
    /// API group.
    pub group: String,
    /// Kind.
    pub kind: String,
    /// Empty for cluster-scoped objects, and if it is not known.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// UID.
    pub uid: String,
    /// State: a value of [`ObjectState`](crate::snapshot::ObjectState), `absent` for an owner that
    /// no longer exists, or `not_visible` for one that loopwatch cannot see.
    pub state: String,
    /// The rule that decided the state.
    pub reason: String,
    /// The part of the status that decided the state; may be empty.
    pub signal: String,
    /// When it entered this state.
    pub since: Option<Timestamp>,
    /// Creation timestamp.
    pub created: Option<Timestamp>,
    /// Deletion timestamp.
    pub terminating_since: Option<Timestamp>,
    /// Finalizers, in the order of `metadata.finalizers`.
    pub finalizers: Vec<ExplainedFinalizer>,
    /// The codes of the open findings about it.
    pub findings: Vec<String>,
}

/// An owner or a child, with its own owners or children below it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ExplainedNode {
    /// The object.
    #[serde(flatten)]
    pub object: ExplainedObject,
    /// Whether the deletion of the owner waits for the child in the foreground
    /// (`blockOwnerDeletion`).
    pub blocks_owner_deletion: bool,
    /// The object is already in the tree, because it has several owners or is in a cycle, so
    /// nothing is below it here.
    pub repeated: bool,
    /// The objects below it.
    pub nodes: Vec<ExplainedNode>,
    /// The number of objects directly below it that do not fit.
    pub more: u64,
}

/// One finalizer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ExplainedFinalizer {
    /// Its name.
    pub name: String,
    /// The actor that should remove it, in words.
    pub actor: String,
    /// How that is known: `built_in`, `removed_before`, `operator`, `added`, `domain` or `unknown`.
    pub known_by: String,
    /// Whether the actor is `alive` or `absent`; `unknown` if nothing shows it.
    pub liveness: String,
    /// When the actor was last seen alive.
    pub last_seen: Option<Timestamp>,
    /// A value of [`DeletionVerdict`](crate::snapshot::DeletionVerdict); empty unless the object is
    /// being deleted.
    pub verdict: String,
}

/// What the operator is expected to do.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ExplainedObligation {
    /// When the object became unconverged.
    pub since: Timestamp,
    /// When the current spec change opened the obligation; absent for an object that regressed
    /// without one.
    pub opened: Option<Timestamp>,
    /// When a finding about a missed deadline opens.
    pub deadline: Option<Timestamp>,
    /// Where the deadline comes from.
    pub deadline_source: String,
    /// When the operator acknowledged the spec.
    pub acknowledged: Option<Timestamp>,
    /// The first spec change that the operator has not acknowledged.
    pub unacknowledged_since: Option<Timestamp>,
    /// When the object stopped being converged without a spec change.
    pub regressed_since: Option<Timestamp>,
}

/// One condition.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ExplainedCondition {
    /// The condition's type.
    pub r#type: String,
    /// Its status: `true`, `false`, `unknown` or `absent`.
    pub status: String,
    /// Its reason; empty if it is not known.
    pub reason: String,
    /// Its message; empty if it is not known.
    pub message: String,
    /// When it took this status, if that is known.
    pub changed: Option<Timestamp>,
}

/// A field manager that wrote the object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ExplainedWriter {
    /// Its name.
    pub manager: String,
    /// The parts that it owns: `spec`, `status`, `finalizers`.
    pub parts: Vec<String>,
    /// When it last wrote.
    pub at: Option<Timestamp>,
}

/// A change that loopwatch saw.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ExplainedChange {
    /// When it saw the change.
    pub at: Timestamp,
    /// `spec`, `acknowledgement`, `phase`, `condition` or `finalizer`.
    pub part: String,
    /// The phase, the condition or the finalizer; `created` or `changed` for the spec.
    pub name: String,
    /// The old value, if it is known.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub was: String,
    /// The new value, if it is known: of the spec, its generation.
    pub value: String,
    /// The reason of the condition.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The field manager that changed the spec, if it is known.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub by: String,
}

/// The opening or closing of a finding, or a Kubernetes Event.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ExplainedEvent {
    /// The time of the event.
    pub at: Timestamp,
    /// `opened`, `closed`, `explained` by another finding, or `no_longer_explained`; `event` for a
    /// Kubernetes Event.
    pub change: String,
    /// The code of the finding, or the reason of the Event.
    pub code: String,
    /// The severity of the finding; `normal`, `warning` or `_other` for an Event.
    pub severity: String,
    /// The count of the Event; 0 for a finding.
    #[serde(skip_serializing_if = "is_zero")]
    pub count: u64,
    /// The message of the Event; may be cut.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The controller that wrote the Event; may be empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reporter: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}
