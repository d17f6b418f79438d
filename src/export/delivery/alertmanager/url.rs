//! The URL of an Alertmanager.

use crate::net::HttpUrl;

/// The path of the API.
const API: &str = "/api/v2/alerts";

/// Parses the URL to which loopwatch posts alerts. An Alertmanager behind a proxy may have a prefix
/// before its API. The error does not quote the URL, which may contain a secret.
pub(crate) fn alertmanager_url(text: &str) -> Result<HttpUrl, String> {
    let url = HttpUrl::parse(text, "/");
    let url = url.map_err(|error| error.with_flag("--alertmanager-token-file"))?;
    if url.query().is_some() {
        return Err("the URL of an Alertmanager has no query".to_owned());
    }

    let prefix = url.path().trim_end_matches('/');
    let path = format!("{}{API}", prefix.strip_suffix(API).unwrap_or(prefix));
    url.with_path(&path).ok_or_else(|| "the path is invalid".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_api_is_below_the_prefix() {
        for (text, uri) in [
            ("http://alertmanager:9093", "http://alertmanager:9093/api/v2/alerts"),
            ("http://alertmanager:9093/", "http://alertmanager:9093/api/v2/alerts"),
            ("https://monitoring/alertmanager", "https://monitoring/alertmanager/api/v2/alerts"),
            ("https://monitoring/alertmanager/", "https://monitoring/alertmanager/api/v2/alerts"),
            ("http://[::1]:9093/api/v2/alerts", "http://[::1]:9093/api/v2/alerts"),
        ] {
            let url = alertmanager_url(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(url.uri().to_string(), uri);
        }
    }

    #[test]
    fn a_wrong_url_is_explained() {
        for (text, expected) in [
            ("alertmanager:9093", "expected http:// or https://"),
            ("https://user:S3CRET@alertmanager", "--alertmanager-token-file"),
            ("http://alertmanager:9093/?x=S3CRET", "no query"),
        ] {
            let error = alertmanager_url(text).expect_err(text);
            assert!(error.contains(expected) && !error.contains("S3CRET"), "{text}: {error}");
        }
    }
}
