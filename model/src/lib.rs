//! The model of loopwatch. It derives object states, totals and findings from the observations of
//! its sources.
//!
//! ```text
//!   (Timestamp, Observation) ──▶ Model::apply ──▶ Model::snapshot ──▶ Snapshot { kinds, findings, sources … }
//!                                   │  ▲
//!                                   ▼  │ Observation::Answered
//!                              Model::probes   questions to the API server
//! ```
//!
//! The model reads no clock, does no I/O and cannot fail. The same observations give the same
//! snapshot, whether they come from a live cluster or from a recording.
//!
//! The modules are listed in the order in which a newcomer should read them.

pub mod observation; // the input: every fact that loopwatch can learn about a cluster
mod cut; // lists whose texts are too long together
mod group; // names with their API group; re-exported by `observation`
mod instance; // the names of the operator's processes; re-exported by `observation`
mod permission; // what an account may do; re-exported by `observation`
pub mod time; // instants and durations
pub mod settings; // thresholds and limits, each with its reason
pub mod snapshot; // the output
pub mod finding; // the table of findings, which drives the alerts
pub mod reference; // references between namespaces that appear or disappear
pub mod trace; // what happened between a spec change and its outcome
pub mod histogram; // latency histograms in the output
pub mod checkpoint; // the state that survives a restart
pub mod cascade; // what a deletion takes with it: the ownership graph and the garbage collector
pub mod trend; // whether a signal of a process grows without bound
pub mod model; // the model itself: applies observations, returns snapshots
