//! The URL of the collector.

use crate::net::HttpUrl;

/// The path if the URL has none.
const DEFAULT_PATH: &str = "/v1/traces";

/// Reads the URL to which traces go.
///
/// # Errors
/// If it is no URL of HTTP. The error does not quote the URL, which may hold a secret.
pub fn collector_url(text: &str) -> Result<HttpUrl, String> {
    HttpUrl::parse(text, DEFAULT_PATH).map_err(|error| error.with_flag("--otlp-token-file"))
}

/// Reads the URL of a collector for all signals, below which traces have a path of their own.
///
/// # Errors
/// As for [`collector_url`].
pub(crate) fn collector_url_of_base(text: &str) -> Result<HttpUrl, String> {
    collector_url(&format!("{}{DEFAULT_PATH}", text.strip_suffix('/').unwrap_or(text)))
}
