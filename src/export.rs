//! Presents a [`Snapshot`](loopwatch_model::snapshot::Snapshot) to the outside. Exporters show the
//! conclusions of the model and draw none themselves.
//!
//! ```text
//!               ┌─ prometheus ─▶ /metrics        exactly the series that `catalog` lists
//!  Model ─View──┼─ json ───────▶ /api/v1/…       the same shapes as `check -o json`
//!               ├─ page ───────▶ /               for people, over `kubectl port-forward`
//!               ├─ report ─────▶ the terminal    `check` and `replay`
//!               └─ alertmanager ▶ Alertmanager   alerts, for clusters without Prometheus
//!
//!  Model::reference_events ── notify ─▶ a webhook
//!  Model::traces ──────────── traces ─▶ an OpenTelemetry collector
//! ```
//!
//! Read the modules in this order:

pub(crate) mod metric; // the types that describe a metric
pub mod catalog; // start here: the table of all metrics, each with the function that writes it
pub mod view; // how exporters read the model
pub mod prometheus; // the two text formats
pub(crate) mod input; // the recording or dump behind a report
pub(crate) mod summary; // shared by page, report and API
pub(crate) mod json; // the stable JSON shapes
pub(crate) mod page; // the web page
pub(crate) mod links; // links in alerts
mod order; // sorted lists of objects
pub(crate) mod report; // the output of `check` and `replay`
#[cfg(test)]
mod docs; // documentation generated from the table of findings
#[cfg(test)]
mod rules; // alert rules generated from the table of findings
mod post; // requests to receivers
mod problems; // each problem of a receiver once in the log
pub(crate) mod leadership; // whether this replica sends what all replicas see
pub(crate) mod notify; // events for a webhook
pub(crate) mod alertmanager; // alerts for Alertmanager
pub mod traces; // spans for a collector
pub(crate) mod explain; // finds the object that somebody asks about
mod exporter; // state shared by all HTTP handlers
pub(crate) mod http; // the server

pub(crate) use self::exporter::{ExportOptions, Exporter};
pub use self::prometheus::ObjectSeries;

#[cfg(test)]
pub(crate) mod golden; // comparison with expected output files
#[cfg(test)]
mod sample;
