//! Convergence: whether each object reaches the state that its spec asks for, and does so in time.

pub(crate) mod object_context; // one object, with the data for judging it
pub(crate) mod compare; // what a version changed
pub(crate) mod silent_status; // a status that says nothing
pub(crate) mod obligations; // what a spec change obliges the operator to
mod traced; // what the traces record about an object
pub(crate) mod transitions; // of conditions and phases
pub(crate) mod judge; // the state at one instant
pub(crate) mod detectors; // the problems at one instant
pub(crate) mod workloads; // that objects own and wait for
pub(crate) mod broken_workloads; // that have no Pod that works
mod ready_but_broken; // objects that say Ready nevertheless
