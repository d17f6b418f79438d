//! The two text formats, by one encoder: text 0.0.4 and OpenMetrics 1.0.
//!
//! `prometheus-client` writes OpenMetrics only and keeps every series in memory. Here series come straight from the
//! snapshot: nothing to keep, nothing to remove when an object goes, and several times as fast.

mod encode; // families and samples, as text
mod families; // which part of the snapshot feeds which family
pub mod negotiate; // which format the scraper wants
mod own; // loopwatch's own metrics, from their registry
pub mod render; // the whole exposition, in chunks

pub use self::encode::TextFormat;
pub use self::render::{ObjectSeries, Render};

#[cfg(test)]
mod tests;
