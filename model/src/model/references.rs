//! References: fields of specs that name other objects.

pub(crate) mod targets; // what a reference names
pub(crate) mod lookups; // when to look for each target
mod need; // whether an object waits for a target
pub(crate) mod dangling; // references whose target does not exist
pub(crate) mod cross_namespace; // references from one namespace to another
