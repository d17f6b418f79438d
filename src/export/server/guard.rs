//! Controls access to paths.
//!
//! A sidecar shares the network of its Pod, so a loopback peer is a container of the same Pod or a
//! user who may port-forward to it. The proxy of a service mesh is also such a container, but
//! forwards requests of other hosts: it connects from another address of the loopback network, such
//! as 127.0.0.6, or adds headers. Any web page can make a browser on that host send requests here
//! (DNS rebinding), so the `Host` header must also name a loopback address. A Pod on the network of
//! its node shares loopback with strangers, so there it gives no access.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tokio_util::sync::CancellationToken;

use super::exporter::Exporter;

/// The client of a connection; an extension of every request.
#[derive(Clone, Debug)]
pub(super) struct Client {
    address: SocketAddr,
    close: CancellationToken,
}

/// Headers that proxies add.
const FORWARDING: &[&str] =
    &["forwarded", "via", "x-real-ip", "x-client-ip", "x-cluster-client-ip", "true-client-ip"];

/// Prefixes of headers that proxies add: in general, Envoy (Istio, Consul, Kuma) and Linkerd.
const FORWARDING_PREFIXES: &[&str] = &["x-forwarded-", "x-original-forwarded-", "x-envoy-", "l5d-"];

impl Default for Client {
    /// A client whose address is unknown.
    fn default() -> Self {
        Self::new((Ipv6Addr::UNSPECIFIED, 0).into(), CancellationToken::new())
    }
}

impl Client {
    /// The client at this address. `close` closes the connection.
    pub(super) fn new(address: SocketAddr, close: CancellationToken) -> Self {
        Self { address, close }
    }

    pub(super) fn peer(&self) -> IpAddr {
        self.address.ip()
    }

    /// Closes the connection when it is cancelled.
    pub(super) fn close(&self) -> CancellationToken {
        self.close.clone()
    }
}

/// Refuses requests unless client and `Host` header are both loopback.
pub(super) async fn local_only(
    State(exporter): State<Arc<Exporter>>,
    request: Request,
    next: Next,
) -> Response {
    if exporter.options().expose_ui {
        return next.run(request).await;
    }
    on_loopback(
        &exporter,
        request,
        next,
        "This path shows the names of tenants' objects, so it is available on loopback only. To open it, run\n\n  \
         kubectl port-forward -n <namespace> pod/<pod> 9917\n\n\
         and go to http://localhost:9917/. With `--expose-ui`, all clients that reach this port can open it.\n",
    )
    .await
}

/// Does the same, regardless of `--expose-ui`.
pub(super) async fn loopback_only(
    State(exporter): State<Arc<Exporter>>,
    request: Request,
    next: Next,
) -> Response {
    on_loopback(
        &exporter,
        request,
        next,
        "This path shows the inside of the operator's program, so it is available on loopback only. To open it, run\n\n  \
         kubectl port-forward -n <namespace> pod/<pod> 9917\n",
    )
    .await
}

async fn on_loopback(
    exporter: &Exporter,
    request: Request,
    next: Next,
    advice: &'static str,
) -> Response {
    if exporter.loopback_is_shared() {
        return refuse(
            "This Pod uses the network of its node, where every process of the node can reach this port on loopback. \
             loopwatch therefore serves only metrics and health checks. With `--expose-ui`, it also serves the page and the \
             API, to all clients that reach this port.\n",
        );
    }

    let peer = request.extensions().get::<Client>().map(Client::peer);
    if !peer.is_some_and(is_loopback) || is_forwarded(&request) {
        return refuse(advice);
    }

    if !requests_loopback(&request) {
        return refuse(
            "This path requires a loopback host name such as localhost, to prevent DNS rebinding.\n",
        );
    }

    next.run(request).await
}

/// The request line and each `Host` header can name the host; all of them must be loopback.
fn requests_loopback(request: &Request) -> bool {
    let headers = request
        .headers()
        .get_all(header::HOST)
        .iter()
        .map(|host| host.to_str().unwrap_or_default());
    let mut hosts =
        headers.chain(request.uri().authority().map(|authority| authority.as_str())).peekable();

    hosts.peek().is_some() && hosts.all(names_loopback)
}

fn refuse(why: &'static str) -> Response {
    (StatusCode::FORBIDDEN, why).into_response()
}

/// Whether the address is exactly 127.0.0.1 (perhaps mapped to IPv6) or ::1.
fn is_loopback(address: IpAddr) -> bool {
    [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)]
        .contains(&address.to_canonical())
}

/// Whether a proxy has added headers that name another client.
fn is_forwarded(request: &Request) -> bool {
    let by_proxy = |name: &str| {
        FORWARDING.contains(&name)
            || FORWARDING_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
    };

    request.headers().keys().any(|name| by_proxy(name.as_str()))
}

/// Whether a `Host` header names this host: `localhost`, `127.0.0.1` or `[::1]`, with any port.
fn names_loopback(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((address, port)) if port.is_empty() || port.starts_with(':') => address,
            _ => return false,
        },
        None => host.split_once(':').map_or(host, |(name, _)| name),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok_and(is_loopback)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_hosts_pass() {
        for host in
            ["localhost", "LOCALHOST:9917", "127.0.0.1", "127.0.0.1:80", "[::1]", "[::1]:9917"]
        {
            assert!(names_loopback(host), "{host}");
        }

        for host in [
            "",
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "10.0.0.1",
            "127.1.2.3",
            "[::2]",
            "[::1",
            "[::1]x",
            "localhost@evil",
            "0.0.0.0",
            "::1",
        ] {
            assert!(!names_loopback(host), "{host}");
        }
    }

    #[test]
    fn only_two_addresses_are_loopback_and_mapped_ones_count_as_ipv4() {
        for (address, expected) in [
            ("127.0.0.1", true),
            ("::1", true),
            ("::ffff:127.0.0.1", true),
            ("::ffff:10.0.0.1", false),
            ("::ffff:127.0.0.6", false),
            ("10.0.0.1", false),
            ("127.0.0.6", false),
            ("127.0.0.2", false),
            ("::2", false),
        ] {
            assert_eq!(is_loopback(address.parse().expect("an address")), expected, "{address}");
        }
    }
}
