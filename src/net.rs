//! HTTP below both the sources and the export: URLs, clients, lookups of names, failures, and waits
//! after them. The client of the API server is `sources::api_server`'s own.

mod backoff;
mod failure;
mod url;
mod name_lookup;
mod credentials;
mod client;
mod transport;

pub(crate) use self::backoff::Backoff;
pub(crate) use self::client::{Client, Trust};
pub(crate) use self::credentials::authorization;
pub(crate) use self::failure::{ApiStatus, Failure, first_line};
pub(crate) use self::name_lookup::NameLookups;
pub(crate) use self::transport::{Destination, Transport, retry_after};
pub(crate) use self::url::{HttpUrl, is_loopback, percent_encode};
