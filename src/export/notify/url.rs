//! The URL of the webhook.

use std::fmt;
use std::str::FromStr;

use http::Uri;
use http::uri::{PathAndQuery, Scheme};

/// The URL of the webhook. Its path or its query may be secret, so its text form has neither.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct WebhookUrl(Uri);

/// The path if the URL has none.
const DEFAULT_PATH: &str = "/health/crossns";

// === impl WebhookUrl ===

impl WebhookUrl {
    pub(super) fn uri(&self) -> &Uri {
        &self.0
    }

    pub(super) fn is_https(&self) -> bool {
        self.0.scheme() == Some(&Scheme::HTTPS)
    }
}

impl FromStr for WebhookUrl {
    type Err = String;

    /// The error does not quote the URL, which may hold a secret.
    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || "expected http:// or https:// with a host, for example http://127.0.0.1:8080".to_owned();
        let mut parts = text.parse::<Uri>().map_err(|_| expected())?.into_parts();
        let is_http = parts.scheme.as_ref().is_some_and(|scheme| [Scheme::HTTP, Scheme::HTTPS].contains(scheme));
        let authority = parts.authority.as_ref().filter(|authority| is_http && !authority.host().is_empty());
        let authority = authority.ok_or_else(expected)?;
        if authority.as_str().contains('@') {
            return Err("a URL must not contain a user or a password; use --notify-token-file".to_owned());
        }
        // The text behind the host is a port, and only a valid one is a number.
        if authority.as_str() != authority.host() && authority.port_u16().is_none_or(|port| port == 0) {
            return Err("the port must be a number from 1 to 65535".to_owned());
        }
        let path = parts.path_and_query.as_ref().map_or("/", PathAndQuery::as_str);
        let query = path.strip_prefix('/').unwrap_or(path);
        if query.is_empty() || query.starts_with('?') {
            parts.path_and_query = Some(format!("{DEFAULT_PATH}{query}").parse().map_err(|_| expected())?);
        }
        Uri::from_parts(parts).map(Self).map_err(|_| expected())
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
            assert!(error.contains(expected) && !error.contains("S3CRET") && !error.contains('\n'), "{text}: {error}");
        }
    }
}
