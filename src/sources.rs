//! Sources turn a cluster or a dump into observations. A source may fail; its failure is an
//! observation, too.
//!
//! ```text
//!              ┌─ discovery ── kinds, scopes, permissions ─┐
//!  API server ─┼─ definitions, lease, namespaces, pods ────┼─▶ Feed ─▶ (time, Observation) ─▶ model
//!              ├─ watch and events, one per kind and scope ┤
//!              ├─ audit, reads ◀── probes of the model ────┤
//!  operator ───┼─ metrics, profiles ◀── probes ────────────┤
//!  /proc ──────┴─ process ─────────────────────────────────┘
//! ```
//!
//! A `Supervisor` owns the tasks, `Cluster` is the connection, and `SourceOptions` select what to
//! watch. All observations of a cluster leave through the `Feed`, which gives each its timestamp. A
//! dump has no tasks: `Dump::observations` returns all of its observations at once.

pub(crate) mod clock;
pub(crate) mod cluster;
pub mod decode;
pub(crate) mod failure;
pub(crate) mod feed;
pub(crate) mod options;
pub(crate) mod dump;
pub(crate) mod supervisor;
pub(crate) mod sync;
pub(crate) mod wakeups;

mod address;
mod audit;
mod children;
mod conditions;
mod definitions;
mod discovery;
mod events;
#[cfg(test)]
pub(crate) mod fake;
mod lease;
pub(crate) mod lookup;
mod metadata;
mod namespaces;
pub(crate) mod ownership;
pub(crate) mod peer;
mod pods;
mod process;
pub(crate) mod profiles;
mod reads;
pub mod scrape;
mod watch;

pub(crate) use self::cluster::{Access, Cluster, ConnectError};
pub(crate) use self::failure::Failure;
pub(crate) use self::feed::{Feed, Observations};
pub(crate) use self::options::{LeaseSelection, Selection, SourceOptions};
pub(crate) use self::supervisor::{Handle, Supervisor, panic_message};
pub(crate) use self::watch::backoff::Backoff;
