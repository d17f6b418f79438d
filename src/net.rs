//! HTTP below both the sources and the export: URLs, clients, lookups of names, failures, and waits
//! after them.

mod backoff;
mod failure;
mod name_lookup;
mod peer;

pub(crate) use self::backoff::Backoff;
pub(crate) use self::failure::{ApiStatus, Failure, first_line, layers};
pub(crate) use self::name_lookup::Lookups;
pub(crate) use self::peer::{
    Peer, PeerClient, Trust, authorization, http_url, in_the_clear, is_loopback, retry_after, send,
};
