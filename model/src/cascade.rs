//! Predicts what a deletion takes with it, based on the ownership graph and the rules of the
//! garbage collector.
//!
//! ```text
//!   Node, KindFacts ──▶ Graph::new ──▶ Graph::predict(Request) ──▶ Prediction { taken, kept, lingering, blockers, stranded, steps }
//!                                          │
//!                                          └─ Collector: the garbage collector, as a simulation
//! ```
//!
//! The prediction runs the simulation three times: without the deletion, with it, and with it while
//! controllers remove their finalizers. The first run shows what the garbage collector deletes
//! anyway, the second what disappears at once, and the third what disappears later. Like the model,
//! this module does no I/O and cannot fail. Its cost grows with the number of objects and owner
//! references, whatever the shape of the graph: cycles and objects with thousands of owners are
//! safe.

mod collector;
mod graph;
mod operator;
mod prediction;

use crate::observation::OwnerReference;

pub use self::graph::{Graph, Standing};
pub use self::operator::{Claim, Stranded};
pub use self::prediction::{Blocker, Expected, Fate, Kept, Prediction, Reason, Step, Taken};

/// The metadata of one object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// API group; empty for the core group.
    pub group: String,
    /// Kind, for example `Widget`.
    pub kind: String,
    /// Namespace; empty for a cluster-scoped object.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// UID. If several nodes have the same UID, the graph keeps the first.
    pub uid: String,
    /// Owner references.
    pub owners: Vec<OwnerReference>,
    /// Finalizers.
    pub finalizers: Vec<String>,
    /// Whether the object is being deleted.
    pub deleting: bool,
    /// Reasons other than finalizers and contents for which the object stays in deletion, in words:
    /// a namespace stays while the API server of a group does not respond.
    pub kept_by: Vec<String>,
}

/// What is known about one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KindFacts {
    /// API group; empty for the core group.
    pub group: String,
    /// Kind, for example `Widget`.
    pub kind: String,
    /// Plural resource name.
    pub resource: String,
    /// The versions that the API server serves.
    pub versions: Vec<String>,
    /// Whether the kind is namespaced.
    pub namespaced: bool,
    /// Whether the nodes contain all objects of the kind. Otherwise an owner that is not among the
    /// nodes may exist.
    pub complete: bool,
    /// Whether the garbage collector watches the kind, which the API server must be able to list,
    /// watch and delete.
    pub collected: bool,
}

/// The position of an object in the graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

/// How a deletion treats the dependents: the propagation policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cascade {
    /// The object is removed at once, and the garbage collector deletes its dependents afterwards.
    #[default]
    Background,
    /// The object stays until its blocking dependents are gone.
    Foreground,
    /// The dependents stay and lose their reference to the object.
    Orphan,
}

/// A deletion to predict.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// The objects to delete, in this order.
    pub targets: Vec<NodeId>,
    /// How each deletion treats the dependents.
    pub cascade: Cascade,
    /// The operator that the deletion uninstalls, if any.
    pub operator: Option<Operator>,
}

/// An operator, as far as its kinds and finalizers show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Operator {
    /// Group and kind of the objects whose status it writes.
    pub primaries: Vec<(String, String)>,
    /// Whether the request also deletes the definitions of these kinds.
    pub definitions: bool,
}

/// The group and kind of namespaces. Deleting one also deletes the objects inside.
pub(crate) const NAMESPACE: (&str, &str) = ("", "Namespace");
/// The group and kind of definitions. Deleting one also deletes all instances.
pub(crate) const DEFINITION: (&str, &str) = ("apiextensions.k8s.io", "CustomResourceDefinition");

/// The component of Kubernetes that removes a finalizer, and when; `None` if another controller does.
#[must_use]
pub fn built_in_actor(finalizer: &str) -> Option<&'static str> {
    crate::model::world::finalizer_actors::built_in(finalizer)
}

impl NodeId {
    /// The position as an index.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl Cascade {
    /// The value for `kubectl delete --cascade`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Background => "background",
            Self::Foreground => "foreground",
            Self::Orphan => "orphan",
        }
    }
}
