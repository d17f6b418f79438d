//! Admits or refuses each request, by the policy of its path and the place of its client.
//! `access.rs` then checks credentials.
//!
//! A sidecar shares the network of its Pod, so a loopback peer is a container of the same Pod or a
//! user who may port-forward to it. A container of the Pod may also forward requests of other hosts,
//! for example the proxy of a service mesh or a program that adds TLS to `/metrics`, and over plain
//! TCP it looks like any other loopback peer. In a Pod, the paths for people therefore have a port
//! of their own, which listens on loopback only: such a proxy forwards to the port of the metrics or
//! to the address of the Pod, and reaches neither. See ADR 25.
//!
//! The port for people still checks its clients: a proxy that forwards to all ports connects from
//! another address of the loopback network, such as 127.0.0.6, or adds headers. Any web page can
//! make a browser on that host send requests here (DNS rebinding), so the `Host` header must also
//! name a loopback address. A Pod on the network of its node shares loopback with strangers, so
//! there it gives no access.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::client::Client;
use super::exporter::Exporter;
use super::policy::{Policy, Port};
use super::refusal::Refusal;

/// Headers that proxies add.
const FORWARDING: &[&str] = &[
    "forwarded",
    "via",
    "x-forwarded",
    "x-real-ip",
    "x-client-ip",
    "x-cluster-client-ip",
    "true-client-ip",
    "cf-connecting-ip",
];

/// Prefixes of headers that proxies add: in general, Envoy (Istio, Consul, Kuma) and Linkerd.
const FORWARDING_PREFIXES: &[&str] = &["x-forwarded-", "x-original-forwarded-", "x-envoy-", "l5d-"];

/// Refuses a request unless the policy of its path admits the client.
pub(super) async fn admit(
    State((exporter, policy)): State<(Arc<Exporter>, Policy)>,
    request: Request,
    next: Next,
) -> Response {
    let client = request.extensions().get::<Client>().cloned().unwrap_or_default();
    if let Err(refusal) = check(&exporter, policy, &client, &request) {
        return refusal.into_response();
    }

    // Only loopback reaches the port for people: the containers of the Pod, and users whom the API
    // server has authorized to forward to it.
    if policy != Policy::Public && client.port() != Port::Ui {
        let admitted = exporter.access().authenticate(policy, &client, request.headers()).await;
        if let Err(refusal) = admitted {
            return refusal.into_response();
        }
    }

    next.run(request).await
}

/// Whether the policy admits a client at this place.
fn check(
    exporter: &Exporter,
    policy: Policy,
    client: &Client,
    request: &Request,
) -> Result<(), Refusal> {
    let is_exposed = match policy {
        Policy::Public => return Ok(()),
        Policy::Metrics => true,
        Policy::Page => exporter.options().expose_ui,
        Policy::Profiles => false,
    };
    match client.port() {
        Port::Metrics | Port::Both if is_exposed => Ok(()),
        Port::Metrics => Err(elsewhere(exporter, policy)),
        Port::Ui | Port::Both => on_loopback(exporter, policy, client, request),
    }
}

/// Admits a client on loopback that requests a loopback host.
fn on_loopback(
    exporter: &Exporter,
    policy: Policy,
    client: &Client,
    request: &Request,
) -> Result<(), Refusal> {
    let is_local = is_loopback(client.peer()) && !exporter.loopback_is_shared();
    if !is_local || is_forwarded(request) {
        return Err(elsewhere(exporter, policy));
    }

    if !requests_loopback(request) {
        return Err(Refusal::Host);
    }

    Ok(())
}

/// The refusal of a path that other hosts cannot open.
fn elsewhere(exporter: &Exporter, policy: Policy) -> Refusal {
    match policy {
        _ if exporter.loopback_is_shared() => Refusal::LoopbackIsShared,
        Policy::Profiles => Refusal::ProfilesElsewhere,
        Policy::Public | Policy::Metrics | Policy::Page => Refusal::PageElsewhere,
    }
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
    let split = match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']'),
        None => Some(host.split_at(host.find(':').unwrap_or(host.len()))),
    };
    let Some((name, _)) = split.filter(|(_, port)| is_port(port)) else { return false };
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok_and(is_loopback)
}

/// Whether the end of a host is nothing, or a colon and a port.
fn is_port(end: &str) -> bool {
    match end.strip_prefix(':') {
        Some(port) => port.bytes().all(|byte| byte.is_ascii_digit()),
        None => end.is_empty(),
    }
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
            "localhost:80@evil.example",
            "[::1]:80@evil.example",
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
