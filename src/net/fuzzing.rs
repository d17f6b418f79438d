//! The parsers of URLs and of refusals, for the fuzz targets.

use std::net::SocketAddr;
use std::time::Duration;

use http::{HeaderMap, HeaderValue, StatusCode, header};

use super::{Failure, HttpUrl, retry_after};

/// The parts of a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UrlView {
    /// The whole URL, as requests use it.
    pub uri: String,
    /// The text form, which has no secrets.
    pub shown: String,
    pub host: String,
    pub port: u16,
    pub host_and_port: String,
    pub address: Option<SocketAddr>,
}

/// A response of a server that refuses a request.
#[derive(Debug, PartialEq, Eq)]
pub struct RefusalView {
    pub detail: String,
    pub absent_object: String,
    /// The waits that the response requests of the client of the API server and of other clients.
    pub waits: [Option<Duration>; 2],
}

/// Parses a URL. The error is for people.
///
/// # Errors
/// If the text is not the URL of an HTTP server.
pub fn url(text: &str, default_path: &str) -> Result<UrlView, String> {
    let url = HttpUrl::parse(text, default_path).map_err(|error| error.to_string())?;
    Ok(UrlView {
        uri: url.uri().to_string(),
        shown: url.to_string(),
        host: url.host().to_owned(),
        port: url.port(),
        host_and_port: url.host_and_port(),
        address: url.address(),
    })
}

/// Reads a refusal; `None` if HTTP has no such status or header.
#[must_use]
pub fn refusal(status: u16, wait: &[u8], body: &[u8]) -> Option<RefusalView> {
    let status = StatusCode::from_u16(status).ok()?;
    let mut headers = HeaderMap::new();
    headers.insert(header::RETRY_AFTER, HeaderValue::from_bytes(wait).ok()?);

    let waits = [Failure::http(status, &headers, body).retry_after, retry_after(&headers)];
    let Failure { detail, absent_object, .. } = Failure::http(status, &headers, body);
    Some(RefusalView { detail, absent_object, waits })
}
