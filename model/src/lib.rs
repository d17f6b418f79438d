//! The model of loopwatch: what it concludes from what its sources observed.
//!
//! ```text
//!   (Timestamp, Observation) ──▶ Model::apply ──▶ Model::snapshot ──▶ Snapshot { kinds, findings, sources … }
//!                                   │  ▲
//!                                   ▼  │ Observation::Answered
//!                              Model::probes   questions to the API server
//! ```
//!
//! The model reads no clock, does no I/O and cannot fail. The same observations give the same snapshot, whether they
//! come from a live cluster or from a recording.
//!
//! The modules are listed in the order in which a newcomer should read them.

pub mod observation; // the input: everything that loopwatch can know about a cluster
pub mod time; // instants and durations
pub mod settings; // thresholds and limits, each with its reason
pub mod snapshot; // the output
pub mod finding; // the part of the output that alerts: one table of findings
pub mod histogram; // how the output counts latencies
pub mod checkpoint; // what survives a restart
pub mod model; // how the input becomes the output
