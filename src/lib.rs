//! loopwatch watches what a Kubernetes operator promises and measures whether it keeps it.
//!
//! ```text
//!  apiserver ──watch──▶                                      ┌─▶ /metrics ─▶ Prometheus ─▶ alerts/ dashboards/
//!  recording ──replay─▶ sources ─Observation─▶ model ─Snapshot─▶ export ─┼─▶ page, JSON API
//!  dump ───────read───▶      ▲                   │                       └─▶ terminal report
//!                            └───────Probe───────┘  (what the model wants to know next)
//! ```
//!
//! Only `sources` and `export` touch the world and may fail. The model, package `loopwatch-model`, is arithmetic: it
//! reads no clock, does no I/O, and gives the same answer for the same observations, live or replayed.
//!
//! Read the modules in this order:

pub mod sources; // where observations come from
pub mod recording; // observations in files
pub mod export; // where snapshots go
pub mod telemetry; // our own logs and metrics
pub mod config; // flags, environment and file
pub mod app; // the wiring
pub mod cli; // one file per command
