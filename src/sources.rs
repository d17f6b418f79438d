//! Sources turn a cluster or a dump into observations. A source may fail; its failure is an
//! observation, too.
//!
//! ```text
//!              ┌─ discovery ── kinds, scopes, permissions ─┐
//!  API server ─┼─ definitions, lease, namespaces, pods ────┼─▶ Feed ─▶ (time, Observation) ─▶ model
//!              ├─ watch and events, one per kind and scope ┤
//!              ├─ counts, lookups ◀── probes of the model ─┤
//!  operator ───┼─ metrics, profiles ◀── probes ────────────┤
//!  /proc ──────┴─ process ─────────────────────────────────┘
//! ```
//!
//! Each module builds only on those before it in this list:

pub(crate) mod feed; // the channel to the model, and the clock that stamps observations
pub mod decoding; // reduces the JSON of objects to views
pub(crate) mod api_server; // the connection, the watches and discovery
pub mod operator; // the operator's Pods, metrics, processes and profiles
pub(crate) mod census; // which operators a cluster runs
pub(crate) mod probes; // answers to the model's questions
pub(crate) mod survey; // reads a cluster once, for a command
pub(crate) mod offline; // dumps
pub(crate) mod supervisor; // starts, restarts and stops the tasks

#[cfg(test)]
pub(crate) mod testing;
