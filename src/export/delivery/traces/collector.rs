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
    /// Time for one request, including the connection and the response.
    pub within: Duration,
    pub sampling: Sampling,
    /// Warnings for the log about secrets that may leak by mistake.
    pub warnings: Vec<String>,
}
