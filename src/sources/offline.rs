//! Dumps of a cluster.

mod dump;

pub(crate) use self::dump::Dump;
