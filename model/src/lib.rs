//! What loopwatch concludes from what it has seen: pure, total, deterministic.
//!
//! ```text
//!   (Timestamp, Observation) ──▶ Model::apply ──▶ Model::snapshot ──▶ Snapshot { kinds, findings, sources … }
//!                                   │  ▲
//!                                   ▼  │ Answered
//!                              Model::probes   what it wants to know next
//! ```
//!
//! Nothing here reads a clock, does I/O or can fail. The same observations give the same snapshot, live or replayed.
//! Read the modules in this order:

pub mod checkpoint; // what outlives a restart
pub mod finding; // what is wrong, one table
pub mod histogram; // how latencies are counted
pub mod model; // what we make of it
pub mod observation; // start here: everything we can ever know
pub mod settings; // every number that decides something
pub mod snapshot;
pub mod time; // instants and spans // what we show
