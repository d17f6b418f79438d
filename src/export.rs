//! Presents a [`Snapshot`](loopwatch_model::snapshot::Snapshot) to the outside world. Exporters
//! show the model's conclusions and draw none themselves.
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
//! Each module uses only those above it in this list:

pub mod view; // how exporters read the model, and the texts that they share
pub mod metrics; // `/metrics`: the catalog and its encoder
pub(crate) mod presentation; // the page, the JSON, and the reports
pub mod delivery; // alerts, events and traces that loopwatch sends
pub(crate) mod server; // HTTP

#[cfg(test)]
mod generators; // documents and alert rules generated from tables
#[cfg(test)]
mod sample; // a snapshot for tests
