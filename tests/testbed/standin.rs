//! The stand-in for an API server: a [`World`] of kinds, permissions and objects. Tests of single
//! parts connect to it in process, in virtual time, or script its responses one by one; programs
//! connect to it over HTTP.

mod script;
mod server;
mod world;

pub use self::script::{Broken, InProcessResponse, Piece, Reply, Script, answer, client};
pub use self::server::{GROUP, Standin, StreamedLists, Traits};
pub use self::world::{
    CONFIG_MAP, DEPLOYMENT, EVENT, GADGET, INGRESS, LEASE, NAMESPACE, NEW_EVENT, POD, REPLICA_SET,
    ServedKind, THING, WIDGET, World, WorldState, definition, object,
};
