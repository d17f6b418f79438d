//! The URL of an Alertmanager.

use std::fmt;
use std::str::FromStr;

use http::Uri;
use http::uri::PathAndQuery;

use crate::sources::peer::http_url;

/// The URL to which alerts are posted. An Alertmanager behind a proxy may have a prefix before its
/// API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AlertmanagerUrl(Uri);

/// The path of the API.
const API: &str = "/api/v2/alerts";

impl AlertmanagerUrl {
    pub(super) fn uri(&self) -> &Uri {
        &self.0
    }
}

impl FromStr for AlertmanagerUrl {
    type Err = String;

    /// The error does not quote the URL, which may hold a secret.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = http_url(text, "/", "; use --alertmanager-token-file")?.into_parts();
        let path = parts.path_and_query.as_ref();
        if path.is_some_and(|path| path.query().is_some()) {
            return Err("the URL of an Alertmanager has no query".to_owned());
        }

        let prefix = path.map_or("", PathAndQuery::path).trim_end_matches('/');
        let path = format!("{}{API}", prefix.strip_suffix(API).unwrap_or(prefix));
        parts.path_and_query = Some(path.parse().map_err(|_| "the path is invalid".to_owned())?);
        Uri::from_parts(parts).map(Self).map_err(|error| error.to_string())
    }
}

impl fmt::Display for AlertmanagerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, authority) = (self.0.scheme_str().unwrap_or_default(), self.0.authority());
        write!(f, "{scheme}://{}", authority.map_or("", |authority| authority.as_str()))
    }
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
            let url: AlertmanagerUrl =
                text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));

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
            let error = text.parse::<AlertmanagerUrl>().expect_err(text);
            assert!(error.contains(expected) && !error.contains("S3CRET"), "{text}: {error}");
        }
    }
}
