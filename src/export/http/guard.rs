//! Who may see what.
//!
//! A sidecar shares the network of its Pod, so a loopback peer is a container of the same Pod or somebody with the right
//! to port-forward into it. A browser on such a host can be made to send requests by any web page, which is why the
//! `Host` it sends must be loopback too (DNS rebinding).

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::export::exporter::Exporter;

/// The other end of a connection; every request carries it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer(pub(super) SocketAddr);

/// Lets requests through that come from this host and ask for it.
pub(super) async fn local_only(State(exporter): State<Arc<Exporter>>, request: Request, next: Next) -> Response {
    if exporter.options.expose_ui {
        return next.run(request).await;
    }
    let peer = request.extensions().get::<Peer>().map(|peer| peer.0.ip());
    if !peer.is_some_and(is_loopback) {
        return refuse(
            "This names objects of tenants, so it answers its own host only. To look at it:\n\n  \
             kubectl port-forward -n <namespace> pod/<pod> 9917\n\n\
             and open http://localhost:9917/. `--expose-ui` opens it to everyone who can reach this port.\n",
        );
    }
    if !asks_for_loopback(&request) {
        return refuse(
            "This answers under the name localhost only, so that no web page can read it by DNS rebinding.\n",
        );
    }
    next.run(request).await
}

/// A request line may name the host as well as the header; then both must be ours.
fn asks_for_loopback(request: &Request) -> bool {
    let named = [
        request.headers().get(header::HOST).map(|host| host.to_str().unwrap_or_default()),
        request.uri().authority().map(|authority| authority.as_str()),
    ];
    let mut hosts = named.into_iter().flatten().peekable();
    hosts.peek().is_some() && hosts.all(names_loopback)
}

fn refuse(why: &'static str) -> Response {
    (StatusCode::FORBIDDEN, why).into_response()
}

fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback() // ::ffff:127.0.0.1 is one, too
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
    fn only_names_of_this_host_pass() {
        for host in ["localhost", "LOCALHOST:9917", "127.0.0.1", "127.0.0.1:80", "127.1.2.3", "[::1]", "[::1]:9917"] {
            assert!(names_loopback(host), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "10.0.0.1",
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
    fn mapped_addresses_are_what_they_map() {
        for (address, expected) in [
            ("127.0.0.1", true),
            ("::1", true),
            ("::ffff:127.0.0.1", true),
            ("::ffff:10.0.0.1", false),
            ("10.0.0.1", false),
        ] {
            assert_eq!(is_loopback(address.parse().expect("an address")), expected, "{address}");
        }
    }
}
