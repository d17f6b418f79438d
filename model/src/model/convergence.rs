//! Whether each object reaches what its spec asks for, and in time.

pub(crate) mod object_context; // one object, with the data that judging it reads and changes
pub(crate) mod compare; // what a version changed
pub(crate) mod silent_status; // a status that says nothing
pub(crate) mod obligations; // what a spec change obliges the operator to
mod traced; // what traces show of an object
pub(crate) mod transitions; // of conditions and phases
pub(crate) mod judge; // the state at one instant
pub(crate) mod detectors; // the problems at one instant
pub(crate) mod workloads; // that objects own and wait for
