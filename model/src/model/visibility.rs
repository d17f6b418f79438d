//! What loopwatch can see: its sources, and the lists and audits of each watch.

pub(crate) mod lists; // lists and audits of watches
pub(crate) mod scrapes; // whether anybody scrapes loopwatch
pub(crate) mod sources; // failing sources and missing permissions
pub(crate) mod unreadable; // objects that a source could not read
