//! The URL of the collector.

use std::fmt;
use std::str::FromStr;

use http::Uri;

use crate::sources::peer::http_url;

/// The URL to which traces go. Its path or its query may be secret, so its text form has neither.
#[derive(Clone, PartialEq, Eq)]
pub struct CollectorUrl(Uri);

/// The path if the URL has none.
const DEFAULT_PATH: &str = "/v1/traces";

impl CollectorUrl {
    pub(crate) fn uri(&self) -> &Uri {
        &self.0
    }

    /// Reads the URL of a collector for all signals, below which traces have a path of their own.
    ///
    /// # Errors
    /// Like [`str::parse`].
    pub(crate) fn of_base(text: &str) -> Result<Self, String> {
        format!("{}{DEFAULT_PATH}", text.strip_suffix('/').unwrap_or(text)).parse()
    }
}

impl FromStr for CollectorUrl {
    type Err = String;

    /// The error does not quote the URL, which may hold a secret.
    fn from_str(text: &str) -> Result<Self, String> {
        http_url(text, DEFAULT_PATH, "; use --otlp-token-file").map(Self)
    }
}

impl fmt::Display for CollectorUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, authority) = (self.0.scheme_str().unwrap_or_default(), self.0.authority());
        write!(f, "{scheme}://{}", authority.map_or("", |authority| authority.as_str()))
    }
}

impl fmt::Debug for CollectorUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}
