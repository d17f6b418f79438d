//! The URL of the collector.

use crate::net::HttpUrl;

/// The path if the URL has none.
const DEFAULT_PATH: &str = "/v1/traces";

/// Parses the URL to which loopwatch sends traces.
///
/// # Errors
/// If it is not an HTTP URL. The error does not quote the URL, which may contain a secret.
pub fn collector_url(text: &str) -> Result<HttpUrl, String> {
    HttpUrl::parse(text, DEFAULT_PATH).map_err(|error| error.with_flag("--otlp-token-file"))
}

/// Parses the URL of a collector for all signals. The path of traces is below it.
///
/// # Errors
/// As for [`collector_url`].
pub(crate) fn collector_url_of_base(text: &str) -> Result<HttpUrl, String> {
    collector_url(&format!("{}{DEFAULT_PATH}", text.strip_suffix('/').unwrap_or(text)))
}
