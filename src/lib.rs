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

pub mod export;
pub mod sources;
pub mod telemetry;
