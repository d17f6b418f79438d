//! Encodes text 0.0.4 and OpenMetrics 1.0 with one encoder.
//!
//! `prometheus-client` writes OpenMetrics only and keeps every series in memory. This encoder
//! writes samples straight from the snapshot: it keeps no series, need not remove any when an
//! object is deleted, and is several times as fast.

mod encode; // headings and samples, as text
pub mod negotiate; // the format that the scraper wants
mod own; // samples of loopwatch's own metrics, by prometheus-client
pub(crate) mod series; // the functions that write samples
pub mod render; // the whole exposition, in chunks

pub use self::encode::TextFormat;
pub use self::render::{ObjectSeries, Render};

#[cfg(test)]
mod tests;
