//! From a [`Snapshot`](loopwatch_model::snapshot::Snapshot) to the outside. Exporters show what the model concluded;
//! none of them decides anything.
//!
//! ```text
//!               ┌─ prometheus ─▶ /metrics        every series that `catalog` lists, and no other
//!  Model ─View──┼─ json ───────▶ /api/v1/…       the same shapes as `check -o json`
//!               ├─ page ───────▶ /               for people, over `kubectl port-forward`
//!               └─ report ─────▶ the terminal    `check` and `replay`
//! ```
//!
//! Read the modules in this order:

pub mod metric; // the description of a metric
pub mod catalog; // start here: every metric, with the function that writes it
pub mod view; // how exporters look at the model
pub mod prometheus; // the two text formats
pub mod summary; // what page, report and API say alike
pub mod json; // what is promised to scripts
pub mod page; // what people look at
pub mod report; // what `check` and `replay` say
pub mod docs; // what is documented from the table of findings
mod exporter; // what they share
pub mod http; // the server

pub use self::exporter::{ExportOptions, Exporter};
pub use self::prometheus::ObjectSeries;

#[cfg(test)]
mod golden; // files that tests compare with
#[cfg(test)]
mod sample;
