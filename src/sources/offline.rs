//! Sources without a cluster: dumps, and the objects in the observations of any file.

mod dump;
mod graph;

pub(crate) use self::dump::{Dump, fuzzing as dump_fuzzing};
pub(crate) use self::graph::ObservedObjects;
