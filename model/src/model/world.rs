//! Everything that the model knows about the cluster, without any conclusion.

pub mod annotations; // of objects and namespaces, that tune findings
pub(crate) mod data_writes; // when the data of ConfigMaps and Secrets was written
pub(crate) mod finalizer_actors; // who removes finalizers
pub(crate) mod intern; // texts and lists that many objects share
pub(crate) mod kinds; // kinds, their watches and their totals
pub(crate) mod lookups; // reads of single objects that detectors ask for
pub(crate) mod owner_graph; // the owners and children of objects
pub(crate) mod shared_values; // the values that an object shares with others
pub(crate) mod store; // all objects
pub(crate) mod teams; // of namespaces
pub(crate) mod timers;
