//! What loopwatch can see: its sources, and the lists and audits of each watch.

pub(crate) mod definitions; // of custom resources
pub(crate) mod lists; // of watches, and their audits
pub(crate) mod sources; // that fail and recover
pub(crate) mod unreadable; // objects that a source could not read
