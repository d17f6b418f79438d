//! HTTP for the sources and the export: URLs, clients, name lookups, failures and backoffs.
//! `sources::api_server` has its own client.

mod backoff;
mod failure;
pub(crate) mod fuzzing;
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
