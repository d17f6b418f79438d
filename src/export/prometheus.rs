//! Text 0.0.4 and OpenMetrics 1.0, by one encoder.
//!
//! `prometheus-client` writes OpenMetrics only and keeps every series in memory. Here samples come straight from the
//! snapshot: there are no series to keep, none to remove when an object goes, and it is several times as fast.

mod encode; // headings and samples, as text
pub mod negotiate; // the format that the scraper wants
mod own; // samples of loopwatch's own metrics, by prometheus-client
pub(crate) mod series; // the functions that write samples
pub mod render; // the whole exposition, in chunks

pub use self::encode::TextFormat;
pub use self::render::{ObjectSeries, Render};

#[cfg(test)]
mod tests;
