//! Where the operator may serve pprof: only on loopback or an address of its own Pod.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use http::Uri;
use http::uri::{Authority, Scheme};
use loopwatch_model::observation::ProfileKind;

/// The URL of pprof as the user writes it, for example `http://localhost:6060`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PprofUrl {
    authority: Authority,
    /// An IP address, or `None` for `localhost`.
    address: Option<IpAddr>,
    port: u16,
    path: String,
}

/// One address to try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Endpoint {
    pub(super) address: SocketAddr,
    /// The `Host` header.
    pub(super) host: String,
    path: String,
}

/// The path of Go's `net/http/pprof`, which controller-runtime and others use as well.
const PATH: &str = "/debug/pprof";
/// The ports on which operators usually serve pprof: the one in Go's documentation, and those that
/// controller-runtime's documentation and many operators use for `--pprof-bind-address`.
pub(super) const PORTS: [u16; 3] = [6060, 8082, 8081];
/// The loopback addresses. Go binds `localhost` to the first one that resolves.
const LOOPBACK: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];

/// The usual addresses of pprof, next to these metrics.
pub(super) fn usual(metrics: Option<SocketAddr>) -> Vec<Endpoint> {
    let usual =
        PORTS.iter().flat_map(|port| LOOPBACK.map(|address| SocketAddr::new(address, *port)));
    let mut addresses: Vec<SocketAddr> = usual.collect();
    addresses.extend(metrics.filter(|metrics| !addresses.contains(metrics)));

    addresses.into_iter().map(beside).collect()
}

/// pprof at the usual path of the same port.
pub(super) fn beside(metrics: SocketAddr) -> Endpoint {
    Endpoint::new(metrics, metrics.to_string(), PATH)
}

impl PprofUrl {
    /// The addresses of the URL.
    pub(super) fn endpoints(&self) -> Vec<Endpoint> {
        let addresses = self.address.map_or(LOOPBACK.to_vec(), |address| vec![address]);
        let endpoint = |address| {
            Endpoint::new(
                SocketAddr::new(address, self.port),
                self.authority.to_string(),
                &self.path,
            )
        };

        addresses.into_iter().map(endpoint).collect()
    }
}

impl FromStr for PprofUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || {
            "expected http:// with localhost or an IP address, for example http://localhost:6060"
                .to_owned()
        };
        let parts = text.parse::<Uri>().map_err(|_| expected())?.into_parts();
        let authority =
            parts.authority.filter(|_| parts.scheme == Some(Scheme::HTTP)).ok_or_else(expected)?;

        if authority.as_str().contains('@') {
            return Err("a URL must not contain a user or a password".to_owned());
        }

        let host = authority.host();
        let address = host.trim_start_matches('[').trim_end_matches(']').parse().ok();
        if address.is_none() && !host.eq_ignore_ascii_case("localhost") {
            return Err(expected());
        }

        let port = match authority.port_u16() {
            Some(0) => None,
            None if authority.as_str() == host => Some(80),
            port => port,
        };
        let port = port.ok_or("the port must be a number from 1 to 65535")?;
        let path = parts.path_and_query.ok_or_else(expected)?;

        if path.query().is_some() {
            return Err("the URL must not contain a query".to_owned());
        }

        let path = path.path().trim_end_matches('/');
        let path = if path.is_empty() { PATH } else { path }.to_owned();
        Ok(Self { authority, address, port, path })
    }
}

impl fmt::Display for PprofUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}{}", self.authority, self.path)
    }
}

impl Endpoint {
    fn new(address: SocketAddr, host: String, path: &str) -> Self {
        Self { address, host, path: path.to_owned() }
    }

    /// The URL of a kind of profile.
    pub(super) fn uri(&self, kind: ProfileKind) -> Uri {
        let (address, path) = (self.address.to_string(), self.path(kind));
        Uri::builder()
            .scheme(Scheme::HTTP)
            .authority(address)
            .path_and_query(path)
            .build()
            .unwrap_or_default()
    }

    /// The path of a kind of profile. It never requests a garbage collection (`gc=1`), which would
    /// stop the operator, nor a CPU profile, which would use its CPU time.
    pub(super) fn path(&self, kind: ProfileKind) -> String {
        let name = match kind {
            ProfileKind::Heap => "heap",
            ProfileKind::Goroutines => "goroutine",
        };

        format!("{}/{name}", self.path)
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}{}", self.address, self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_name_loopback_or_an_ip_address() {
        for (text, shown, addresses) in [
            (
                "http://localhost:6060",
                "http://localhost:6060/debug/pprof",
                vec!["127.0.0.1:6060", "[::1]:6060"],
            ),
            ("http://127.0.0.1:8082/", "http://127.0.0.1:8082/debug/pprof", vec!["127.0.0.1:8082"]),
            ("http://[::1]:6060/ops/pprof/", "http://[::1]:6060/ops/pprof", vec!["[::1]:6060"]),
            ("http://10.1.2.3", "http://10.1.2.3/debug/pprof", vec!["10.1.2.3:80"]),
        ] {
            let url: PprofUrl = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(url.to_string(), shown);

            let found: Vec<_> =
                url.endpoints().iter().map(|endpoint| endpoint.address.to_string()).collect();

            assert_eq!(found, addresses, "{text}");
        }

        for (text, expected) in [
            ("", "expected http://"),
            ("localhost:6060", "expected http://"),
            ("https://localhost:6060", "expected http://"),
            ("http://operator.team-a.svc:6060", "expected http://"),
            ("http://user@localhost:6060", "user or a password"),
            ("http://localhost:0", "the port must be"),
            ("http://localhost:99999", "the port must be"),
            ("http://localhost:6060/debug/pprof?gc=1", "query"),
        ] {
            let error = text.parse::<PprofUrl>().expect_err(text);
            assert!(error.contains(expected) && !error.contains('\n'), "{text}: {error}");
        }
    }

    #[test]
    fn no_request_asks_for_a_collection_or_a_cpu_profile() {
        let endpoint = &usual(None)[0];
        assert_eq!(endpoint.path(ProfileKind::Heap), "/debug/pprof/heap");
        assert_eq!(endpoint.path(ProfileKind::Goroutines), "/debug/pprof/goroutine");
    }

    #[test]
    fn the_metrics_come_after_the_usual_ports_and_only_once() {
        let shown = |metrics: &str| -> Vec<String> {
            let endpoints = usual(metrics.parse().ok());
            endpoints
                .iter()
                .map(|endpoint| endpoint.address.to_string())
                .filter(|a| !a.starts_with("[::1]"))
                .collect()
        };

        let loopback = ["127.0.0.1:6060", "127.0.0.1:8082", "127.0.0.1:8081"];
        assert_eq!(shown(""), loopback);
        assert_eq!(shown("127.0.0.1:8081"), loopback);
        assert_eq!(shown("10.1.2.3:8080"), [&loopback[..], &["10.1.2.3:8080"]].concat());
    }
}
