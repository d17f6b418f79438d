//! Objects, namespaces and definitions that are being deleted, and what they wait for.

pub(crate) mod finalizers; // which actor removes each, and how long that usually takes
pub(crate) mod waits; // for finalizers
pub(crate) mod lost_finalizers; // that disappear without a deletion
pub(crate) mod absence; // of the controllers that should remove them
pub(crate) mod blocking_chains; // of objects that wait for each other
pub(crate) mod stuck; // deletions that do not end
pub(crate) mod terminating_scopes; // namespaces and definitions
pub(crate) mod soft_deletion; // objects that annotations mark as deleted
