//! The metrics: exactly the series in the catalog, as text 0.0.4 and OpenMetrics 1.0.
//!
//! `prometheus-client` writes only OpenMetrics and keeps every series in memory. This encoder
//! writes samples straight from the snapshot: it keeps no series, need not remove any when an
//! object is deleted, and is several times faster.

mod metric; // the types that describe a metric
mod catalog; // start here: the table of all metrics, each with the function that writes it
mod series; // the functions that write samples
mod encode; // headings and samples, as text
mod own; // samples of loopwatch's own metrics, from prometheus-client
mod render; // the whole exposition, in chunks
mod negotiate; // the format that the scraper requests

pub use self::catalog::{CATALOG, CatalogRow};
pub use self::encode::TextFormat;
pub use self::metric::{Metric, MetricType, Stability};
pub(crate) use self::negotiate::{wanted_format, wants_gzip};
pub use self::render::{ObjectSeries, Render};

#[cfg(test)]
mod tests;
