//! loopwatch times every custom resource from spec change to Ready and alerts when one gets stuck.
//!
//! `sources`, `recording` and `export` do I/O and can fail. The model, package `loopwatch-model`,
//! only computes: it reads no clock, does no I/O, and returns the same result for the same
//! observations, live or replayed. `ARCHITECTURE.md` shows how the observations flow through these
//! modules, and defines the terms.
//!
//! The library is not a public API. It exports the parts that the program, the tests and the
//! benchmarks use, so that the compiler reports every other unused item. Read the modules in this
//! order:

#![allow(missing_docs, reason = "not a public API: names say what comments would repeat")]

pub mod sources; // turn a cluster or a dump into observations
pub mod recording; // read and write observations in files
pub mod export; // show snapshots
pub mod telemetry; // loopwatch's own logs and metrics
pub mod published; // the names under which loopwatch is published
pub mod needs; // the requests to the API server, and why
mod net; // HTTP, for sources and export
mod system; // the machine and the Pod of this process
mod lock; // locks without poisoning
mod config; // flags, environment and file
mod app; // the wiring
pub mod cli; // one file per command
pub mod fuzzing; // entry points of the fuzz targets

#[cfg(test)]
mod golden; // comparison with expected output files
