//! Presents a [`Snapshot`](loopwatch_model::snapshot::Snapshot) to the outside. Exporters show the
//! conclusions of the model and draw none themselves.
//!
//! ```text
//!                 ┌─ metrics ──────────────┐
//!  Model ── view ─┼─ presentation ─────────┼─ server ─▶ scrapers, browsers, scripts
//!                 │   page, json, report ──│──────────▶ the terminal
//!                 └─ delivery ─────────────┘
//!                     ├─ alertmanager ─▶ Alertmanager, for clusters without Prometheus
//!  Model::reference_events ── notify ─▶ a webhook
//!  Model::traces ──── traces ─▶ an OpenTelemetry collector
//! ```
//!
//! Each room uses only those above it in this list:

pub mod view; // how exporters read the model, and what all of them say
pub mod metrics; // `/metrics`: the catalog and its encoder
pub(crate) mod presentation; // the page, the JSON, and the reports
pub mod delivery; // alerts, events and traces that loopwatch sends
pub(crate) mod server; // HTTP

#[cfg(test)]
mod generators; // documents and alert rules that are generated from tables
#[cfg(test)]
mod sample; // a snapshot for tests
