//! The collector, and how to reach it.

use std::path::PathBuf;
use std::time::Duration;

use super::sampling::Sampling;
use crate::net::HttpUrl;

/// The collector, how to reach it, and what to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collector {
    pub url: HttpUrl,
    /// A file with the bearer token.
    pub token_file: Option<PathBuf>,
    /// A file with the certificate authorities to trust instead of those of the system.
    pub ca_file: Option<PathBuf>,
    /// For one request, with the connection and the response.
    pub within: Duration,
    pub sampling: Sampling,
    /// Where secrets may go by mistake, for the log.
    pub warnings: Vec<String>,
}
