//! Sources without a cluster: dumps.

mod dump;

pub(crate) use self::dump::Dump;
