//! The HTTP server: one port for scrapers, probes and people.
//!
//! `/metrics`, `/livez` and `/readyz` are open to all clients. The other paths show names of
//! tenants' objects, so without `--expose-ui` the server limits them to clients on its own host,
//! which includes `kubectl port-forward`. Profiles show the internals of the operator's program, so
//! they are never open to other hosts.

mod exporter; // what all handlers share
mod accept; // connections, limited in duration
mod api; // the JSON API
mod connections; // open connections, limited in number
mod guard; // access control
mod listen; // the port
mod pages; // the web pages
mod profiles; // profiles of the operator
mod scrape; // /metrics, streamed
mod turns; // large responses, limited in number and duration
mod routes; // which handler serves which path

pub(crate) use self::accept::serve;
#[cfg(test)]
use self::accept::{ServerLimits, serve_with};
pub(crate) use self::exporter::{ExportOptions, Exporter};
pub(crate) use self::listen::bind;

#[cfg(test)]
mod tests;
