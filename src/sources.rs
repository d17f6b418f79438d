//! Sources turn a cluster or a dump into observations. A source may fail; its failure is an observation, too.
//!
//! ```text
//!              ┌─ discovery ── kinds, scopes, permissions ─┐
//!  API server ─┼─ definitions, lease ──────────────────────┼─▶ Feed ─▶ (time, Observation) ─▶ model
//!              ├─ watch, one per kind and scope ───────────┤
//!              └─ audit ◀── probes of the model ───────────┘
//! ```
//!
//! A [`Supervisor`] owns the tasks, [`Cluster`] is the connection, and [`SourceOptions`] select what to watch. All
//! observations leave through the [`Feed`], which is also the only reader of the clock.

pub mod clock;
pub mod cluster;
pub mod decode;
pub mod failure;
pub mod feed;
pub mod options;
pub mod dump;
pub mod supervisor;
pub mod sync;

mod audit;
mod definitions;
mod discovery;
#[cfg(test)]
mod fake;
mod lease;
mod metadata;
mod watch;

pub use self::cluster::{Access, Cluster, ConnectError};
pub use self::failure::Failure;
pub use self::feed::{Feed, Observations};
pub use self::options::{LeaseSelection, Selection, SourceOptions};
pub use self::supervisor::{Handle, Supervisor};
