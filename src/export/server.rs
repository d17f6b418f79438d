//! The HTTP server: in a Pod, a port for scrapers and probes, and a port on loopback for people;
//! elsewhere, one port for both ([`Port`]).
//!
//! `/livez` and `/readyz` are open to all clients, and so is `/metrics` unless the user asks for
//! authentication. The other paths show names of tenants' objects, so without `--expose-ui` the
//! server shows them only to loopback, which includes `kubectl port-forward`, and in a Pod only on
//! the port for people. Profiles show the internals of the operator's program, so they are never
//! open to other hosts. The table in `routes.rs` has the policy of each path.

mod exporter; // what all handlers share, also for many operators
mod access; // what the port requires of its clients
mod accept; // connections, limited in duration
mod api; // the JSON API
mod backpressure; // whether a connection waits for its client
mod client; // of a connection
mod connections; // open connections, limited in number
mod fleet; // many operators on one port
pub(crate) mod fuzzing; // entry points of the fuzz targets
mod guard; // admits or refuses each request
mod policy; // who may open a path
mod listen; // a port
mod pages; // the web pages
mod profiles; // profiles of the operator
mod scrape; // /metrics, streamed
mod scrape_times; // when somebody scraped it
mod refusal; // the responses to refused requests
mod turns; // large responses, limited in number and duration
mod routes; // which handler serves which path

pub(crate) use self::accept::serve;
#[cfg(test)]
use self::accept::{ServerLimits, serve_with};
pub(crate) use self::access::{Access, Web, WebFile};
pub(crate) use self::exporter::{ExportOptions, Exporter, Fleet};
pub(crate) use self::listen::bind;
pub(crate) use self::policy::Port;

#[cfg(test)]
mod tests;
