//! Sources without a cluster: dumps, and the objects in the observations of any file.

mod dump;
mod graph;

pub(crate) use self::dump::Dump;
pub(crate) use self::graph::ObservedObjects;
