//! URLs of HTTP servers.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use http::Uri;
use http::uri::{Authority, PathAndQuery, Scheme};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// The URL of an HTTP server. Its path or its query may be secret, so its text form has neither.
#[derive(Clone, PartialEq, Eq)]
pub struct HttpUrl(Uri);

/// Why a text is not such a URL. The error does not quote the text, which may contain a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InvalidUrl {
    /// The text is not an HTTP URL with a host.
    #[error("expected http:// or https:// with a host, for example http://127.0.0.1:8080")]
    NotHttp,
    /// The text contains other characters than those of URLs, as RFC 3986 lists them.
    #[error("a URL consists of ASCII characters; percent-encode all others")]
    NotAscii,
    /// The text contains a user or a password.
    #[error("a URL must not contain a user or a password")]
    Credentials,
    /// The text after the host is not a port.
    #[error("the port must be a number from 1 to 65535")]
    Port,
}

/// All characters except the unreserved ones of RFC 3986.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

impl HttpUrl {
    /// Parses a URL. One without a path gets `default_path`.
    pub(crate) fn parse(text: &str, default_path: &str) -> Result<Self, InvalidUrl> {
        if !text.is_ascii() {
            return Err(InvalidUrl::NotAscii);
        }

        let uri: Uri = text.parse().map_err(|_| InvalidUrl::NotHttp)?;
        let mut parts = uri.into_parts();
        let is_http = parts
            .scheme
            .as_ref()
            .is_some_and(|scheme| [Scheme::HTTP, Scheme::HTTPS].contains(scheme));
        let has_host = |authority: &&Authority| !without_brackets(authority.host()).is_empty();
        let authority = parts.authority.as_ref().filter(|_| is_http).filter(has_host);
        let authority = authority.ok_or(InvalidUrl::NotHttp)?;

        if authority.as_str().contains('@') {
            return Err(InvalidUrl::Credentials);
        }

        // The text after the host is a port, and only a valid one is a number.
        let has_port = authority.as_str() != authority.host();
        if has_port && authority.port_u16().is_none_or(|port| port == 0) {
            return Err(InvalidUrl::Port);
        }

        let path = parts.path_and_query.as_ref().map_or("/", PathAndQuery::as_str);
        let query = path.strip_prefix('/').unwrap_or(path);
        if query.is_empty() || query.starts_with('?') {
            let path = format!("{default_path}{query}");
            parts.path_and_query = Some(path.parse().map_err(|_| InvalidUrl::NotHttp)?);
        }

        Uri::from_parts(parts).map(Self).map_err(|_| InvalidUrl::NotHttp)
    }

    /// The URL of a path at a numeric address.
    pub(crate) fn at(scheme: &Scheme, address: SocketAddr, path: &'static str) -> Self {
        let mut parts = http::uri::Parts::default();
        parts.scheme = Some(scheme.clone());
        parts.authority = Authority::try_from(address.to_string()).ok();
        parts.path_and_query = Some(PathAndQuery::from_static(path));

        Self(Uri::from_parts(parts).unwrap_or_default())
    }

    /// The same server with another path, without a query.
    pub(crate) fn with_path(&self, path: &str) -> Option<Self> {
        let mut parts = self.0.clone().into_parts();
        parts.path_and_query = Some(path.parse().ok()?);
        Uri::from_parts(parts).ok().map(Self)
    }

    /// The same path of another server, `HOST:PORT` or `HOST`.
    pub(crate) fn with_authority(&self, authority: &str) -> Option<Self> {
        let mut parts = self.0.clone().into_parts();
        parts.authority = Some(authority.parse().ok()?);
        Uri::from_parts(parts).ok().map(Self)
    }

    /// The whole URL, for a request.
    pub(crate) fn uri(&self) -> &Uri {
        &self.0
    }

    pub(crate) fn is_https(&self) -> bool {
        self.0.scheme() == Some(&Scheme::HTTPS)
    }

    /// The host, and the port if the URL names one.
    pub(crate) fn authority(&self) -> &str {
        self.0.authority().map_or("", Authority::as_str)
    }

    /// The name or the IP address of the host, without brackets.
    pub(crate) fn host(&self) -> &str {
        without_brackets(self.0.host().unwrap_or_default())
    }

    pub(crate) fn port(&self) -> u16 {
        self.0.port_u16().unwrap_or(if self.is_https() { 443 } else { 80 })
    }

    pub(crate) fn path(&self) -> &str {
        self.0.path()
    }

    pub(crate) fn query(&self) -> Option<&str> {
        self.0.query()
    }

    /// The IP address of the host, if it is not a name.
    pub(crate) fn ip(&self) -> Option<IpAddr> {
        self.host().parse().ok()
    }

    /// Where to connect, unless a name must be looked up.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        let ip = match self.host() {
            "localhost" => Ipv4Addr::LOCALHOST.into(),
            host => host.parse().ok()?,
        };

        Some(SocketAddr::new(ip, self.port()))
    }

    /// The host and the port, even if the URL omits the port.
    pub(crate) fn host_and_port(&self) -> String {
        format!("{}:{}", self.0.host().unwrap_or_default(), self.port())
    }

    /// A warning if requests to this URL would send a secret unencrypted over a network. `from`
    /// says where the secret comes from.
    pub(crate) fn in_the_clear(&self, from: &str) -> Option<String> {
        let authority = self.authority();
        (!self.is_https() && !is_loopback(self.host())).then(|| {
            format!("{from}: requests to http://{authority} are not encrypted, so others may read it on the network; use https://")
        })
    }
}

impl fmt::Display for HttpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.0.scheme_str().unwrap_or_default(), self.authority())
    }
}

impl fmt::Debug for HttpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl InvalidUrl {
    /// Describes the problem. `file_flag` is the flag for a file with credentials.
    pub(crate) fn with_flag(self, file_flag: &str) -> String {
        match self {
            Self::Credentials => format!("{self}; use {file_flag}"),
            Self::NotHttp | Self::NotAscii | Self::Port => self.to_string(),
        }
    }
}

/// The host of a URL without the brackets of an IPv6 address.
fn without_brackets(host: &str) -> &str {
    host.trim_matches(['[', ']'])
}

pub(crate) fn is_loopback(host: &str) -> bool {
    let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    host.eq_ignore_ascii_case("localhost")
        || address.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Percent-encodes a name or token for a path or query.
pub(crate) fn percent_encode(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_form_shows_neither_path_nor_query() {
        let url = HttpUrl::parse("https://collector:4318/S3CRET?key=S3CRET", "/").expect("a URL");
        assert_eq!(format!("{url} {url:?}"), ["https://collector:4318"; 2].join(" "));
        assert_eq!(url.uri().to_string(), "https://collector:4318/S3CRET?key=S3CRET");
    }

    #[test]
    fn an_address_needs_no_lookup() {
        for (text, address, shown) in [
            ("http://127.0.0.1:8080", Some("127.0.0.1:8080"), "127.0.0.1:8080"),
            ("https://[fd00::1]/x", Some("[fd00::1]:443"), "[fd00::1]:443"),
            ("http://localhost", Some("127.0.0.1:80"), "localhost:80"),
            ("https://operator.team-a.svc", None, "operator.team-a.svc:443"),
        ] {
            let url = HttpUrl::parse(text, "/").unwrap_or_else(|error| panic!("{text}: {error}"));
            let expected = address.map(|address| address.parse().expect("an address"));

            assert_eq!((url.address(), url.host_and_port()), (expected, shown.to_owned()));
        }
    }

    #[test]
    fn a_url_needs_a_host() {
        for text in ["http://", "http://:80", "http://[]", "http://[]:80/x"] {
            assert_eq!(HttpUrl::parse(text, "/"), Err(InvalidUrl::NotHttp), "{text}");
        }
    }

    #[test]
    fn a_url_has_no_characters_beyond_ascii() {
        for text in ["http://host/\u{80}", "http://host/?q=\u{202e}", "http://höst/"] {
            assert_eq!(HttpUrl::parse(text, "/"), Err(InvalidUrl::NotAscii), "{text}");
        }
    }

    #[test]
    fn names_are_encoded_for_a_path() {
        assert_eq!(percent_encode("a-b_c.d~e"), "a-b_c.d~e");
        assert_eq!(percent_encode("a b/ü&="), "a%20b%2F%C3%BC%26%3D");
    }
}
