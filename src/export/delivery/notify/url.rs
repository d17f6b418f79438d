//! The URL of the webhook.

use crate::net::HttpUrl;

/// The path if the URL has none.
const DEFAULT_PATH: &str = "/health/crossns";

/// Parses the URL of the webhook. The error does not quote it, because it may contain a secret.
pub(crate) fn webhook_url(text: &str) -> Result<HttpUrl, String> {
    HttpUrl::parse(text, DEFAULT_PATH).map_err(|error| error.with_flag("--notify-token-file"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_without_a_path_gets_the_default_one() {
        for (text, uri) in [
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080/health/crossns"),
            ("https://operator.team-a.svc/", "https://operator.team-a.svc/health/crossns"),
            ("http://[::1]:80?key=S3CRET", "http://[::1]:80/health/crossns?key=S3CRET"),
            ("http://[::1]/", "http://[::1]/health/crossns"),
            ("HTTPS://operator/events?key=S3CRET", "https://operator/events?key=S3CRET"),
        ] {
            let url = webhook_url(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(url.uri().to_string(), uri);

            let shown = format!("{url} {url:?}");
            assert!(!shown.contains("S3CRET") && !shown.contains("events"), "{shown}");
        }
    }

    #[test]
    fn an_invalid_url_is_explained_in_one_line_that_does_not_quote_it() {
        for (text, expected) in [
            ("", "expected http:// or https://"),
            ("operator:8080", "expected http:// or https://"),
            ("/health/S3CRET", "expected http:// or https://"),
            ("ftp://operator/S3CRET", "expected http:// or https://"),
            ("unix:///run/S3CRET", "expected http:// or https://"),
            ("http://", "expected http:// or https://"),
            ("http:///S3CRET", "expected http:// or https://"),
            ("http://a b/S3CRET", "expected http:// or https://"),
            ("https://user:S3CRET@operator", "--notify-token-file"),
            ("http://operator:99999/S3CRET", "the port must be"),
            ("http://operator:/S3CRET", "the port must be"),
            ("http://operator:0/S3CRET", "the port must be"),
        ] {
            let error = webhook_url(text).expect_err(text);
            assert!(
                error.contains(expected) && !error.contains("S3CRET") && !error.contains('\n'),
                "{text}: {error}"
            );
        }
    }
}
