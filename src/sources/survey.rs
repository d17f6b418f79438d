//! Reads a cluster once, for one command: the ownership graph for `what-if`, and one object with
//! its family for `explain`.

mod graph;
mod listing;
mod closeup;
mod installation;
mod kind_names;
#[cfg(test)]
mod tests;

pub(crate) use self::closeup::{CloseUp, LimitedLookups, object_names};
pub(crate) use self::graph::{ListProgress, OwnershipGraph, find_object};
pub(crate) use self::installation::Installation;
pub(crate) use self::kind_names::{kind_name, kind_named};
