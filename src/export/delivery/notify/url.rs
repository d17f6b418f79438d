//! The URL of the webhook.

use std::fmt;
use std::str::FromStr;

use http::Uri;

use crate::sources::peer::http_url;

/// The URL of the webhook. Its path or its query may be secret, so its text form has neither.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct WebhookUrl(Uri);

/// The path if the URL has none.
const DEFAULT_PATH: &str = "/health/crossns";

impl WebhookUrl {
    pub(super) fn uri(&self) -> &Uri {
        &self.0
    }
}

impl FromStr for WebhookUrl {
    type Err = String;

    /// The error does not quote the URL, which may hold a secret.
    fn from_str(text: &str) -> Result<Self, String> {
        http_url(text, DEFAULT_PATH, "; use --notify-token-file").map(Self)
    }
}

impl fmt::Display for WebhookUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, authority) = (self.0.scheme_str().unwrap_or_default(), self.0.authority());
        write!(f, "{scheme}://{}", authority.map_or("", |authority| authority.as_str()))
    }
}

impl fmt::Debug for WebhookUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
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
            let url: WebhookUrl = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
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
            let error = text.parse::<WebhookUrl>().expect_err(text);
            assert!(
                error.contains(expected) && !error.contains("S3CRET") && !error.contains('\n'),
                "{text}: {error}"
            );
        }
    }
}
