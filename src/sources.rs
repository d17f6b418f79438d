//! Where observations come from. Sources may fail; a failure is an observation like any other.
//!
//! ```text
//!              ┌─ discovery ── which kinds, which scopes, which rights ─┐
//!  API server ─┼─ definitions, lease ───────────────────────────────────┼─▶ Feed ─▶ (instant, Observation) ─▶ model
//!              ├─ watch, one per kind and scope ────────────────────────┤
//!              └─ audit ◀── questions of the model ─────────────────────┘
//! ```
//!
//! A [`Supervisor`] owns the tasks. [`Cluster`] is the connection, [`SourceOptions`] say what is wanted, and [`Feed`] is the
//! one way out; the clock is read there and nowhere else.

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

pub use self::cluster::{Access, Cluster, ConnectError, OperatorName};
pub use self::failure::Failure;
pub use self::feed::{Closed, Feed, Observations};
pub use self::options::{KindSelector, LeaseSelection, Selection, SourceOptions};
pub use self::supervisor::{Handle, Supervisor};
pub use self::sync::{InitialSync, Progress};
