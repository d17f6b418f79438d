//! Looks for the endpoint of an operator's metrics among candidates.

use std::net::IpAddr;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{StreamExt as _, stream};
use http::Uri;
use http::uri::{Authority, PathAndQuery, Scheme};
use loopwatch_model::observation::Cause;
use tracing::warn;

use super::candidates::Candidate;
use super::content::{Content, Sniffer};
use super::fetch::{Limits, Peer, Reach};
use crate::net::Failure;

/// The result of a search.
pub(super) enum Found {
    /// Metrics of the operator.
    Metrics(Peer, Content),
    /// No metrics of the operator, but an endpoint that refuses to show its metrics.
    Refusal(Peer),
    /// Nothing; this was tried.
    Nothing(Vec<String>),
}

/// The result for one candidate.
struct Probed {
    order: usize,
    peer: Peer,
    result: Result<Content, Failure>,
}

/// What to try after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Path,
    Address,
    Scheme,
    Candidate,
}

/// The usual path, and those of Spring Boot and Quarkus.
const PATHS: [&str; 3] = ["/metrics", "/actuator/prometheus", "/q/metrics"];
/// Limits of a request that only finds out what an endpoint serves.
const LIMITS: Limits = Limits {
    connect: Duration::from_secs(1),
    head: Duration::from_secs(20),
    whole: Duration::from_secs(30),
    bytes: 16 << 20,
};
/// Number of candidates that are tried at the same time.
const AT_ONCE: usize = 4;
/// Limit on attempts that a report names.
const MAX_NAMED: usize = 6;

/// Tries candidates until one of them serves the metrics of a control loop. Only if none does,
/// those that have asked for credentials get the token. The metrics of a process are the next best.
pub(super) async fn search(candidates: &[Candidate], reach: &Reach) -> Found {
    let mut probed: Vec<Probed> = Vec::new();
    let mut waiting: Vec<BoxFuture<'static, Probed>> = Vec::new();
    for (order, candidate) in candidates.iter().enumerate() {
        waiting.push(Box::pin(probe(order, candidate.clone(), reach.clone())));
    }

    let mut probes = stream::iter(waiting).buffer_unordered(AT_ONCE);
    while let Some(one) = probes.next().await {
        let done = matches!(one.result, Ok(Content::ControlLoop));
        probed.push(one);
        if done {
            break;
        }
    }

    drop(probes);
    probed.sort_by_key(|probed| probed.order);
    if probed.iter().all(|probed| !matches!(probed.result, Ok(Content::ControlLoop))) {
        for probed in
            probed.iter_mut().filter(|probed| probed.result.as_ref().is_err_and(is_refusal))
        {
            ask_with_token(probed, reach).await;
        }
    }

    choose(probed)
}

fn choose(mut probed: Vec<Probed>) -> Found {
    let tried = probed.iter().map(Probed::describe).take(MAX_NAMED).collect();
    let content = |probed: &Probed| {
        probed.result.as_ref().ok().copied().filter(|content| *content >= Content::Process)
    };

    // The first one of the best.
    let best = (0..probed.len()).rev().max_by_key(|at| content(&probed[*at]));
    if let Some(at) = best
        && let Some(content) = content(&probed[at])
    {
        let refusals = probed
            .iter()
            .filter_map(|probed| probed.result.as_ref().err())
            .filter(|_| content < Content::ControlLoop);
        for failure in refusals.filter(|failure| is_refusal(failure)) {
            warn!(problem = %failure, "an endpoint that may have more metrics of the operator does not show them");
        }

        return Found::Metrics(probed.swap_remove(at).peer, content);
    }

    match probed.into_iter().find(|probed| probed.result.as_ref().is_err_and(is_refusal)) {
        Some(probed) => Found::Refusal(probed.peer),
        None => Found::Nothing(tried),
    }
}

/// Finds out what one candidate serves, without credentials.
async fn probe(order: usize, candidate: Candidate, reach: Reach) -> Probed {
    let schemes = match candidate.tls_first {
        true => [Scheme::HTTPS, Scheme::HTTP],
        false => [Scheme::HTTP, Scheme::HTTPS],
    };
    let mut last: Option<Probed> = None;
    for scheme in schemes {
        let mut speaks_otherwise = false;
        for address in &candidate.addresses {
            let probed = probe_address(order, &scheme, *address, candidate.port, &reach).await;
            let (next, is_lost) = match &probed.result {
                Ok(_) => (Next::Candidate, false),
                Err(failure) => (next(failure), failure.cause == Cause::Connection),
            };
            match next {
                Next::Candidate | Next::Path => return probed,
                Next::Address | Next::Scheme => {
                    // The first failure says most: the second scheme is only a guess.
                    last.get_or_insert(probed);
                }
            }

            speaks_otherwise |= next == Next::Scheme;

            // A lost connection may also mean that this host lacks the address, such as ::1 without
            // IPv6.
            if next == Next::Scheme && !is_lost {
                break;
            }
        }

        if !speaks_otherwise {
            break;
        }
    }

    let nowhere = || Failure::new(Cause::NotFound, "no address");
    last.unwrap_or_else(|| Probed {
        order,
        peer: reach.peer(Uri::default()),
        result: Err(nowhere()),
    })
}

/// Tries the paths of one address.
async fn probe_address(
    order: usize,
    scheme: &Scheme,
    address: IpAddr,
    port: u16,
    reach: &Reach,
) -> Probed {
    let mut best: Option<Probed> = None;
    for path in PATHS {
        let mut peer = reach.peer(uri(scheme, address, port, path)).anonymous();
        let result =
            peer.get(LIMITS, |_| Sniffer::default()).await.result.map(|sniffer| sniffer.content());
        let go_on = match &result {
            Ok(content) => *content == Content::NotMetrics,
            Err(failure) => next(failure) == Next::Path,
        };
        let probed = Probed { order, peer, result };

        if !go_on {
            return probed;
        }

        best.get_or_insert(probed);
    }

    let nothing = || Err(Failure::new(Cause::NotFound, "no path"));
    best.unwrap_or_else(|| Probed { order, peer: reach.peer(Uri::default()), result: nothing() })
}

/// Asks an endpoint again that has refused a request without credentials.
async fn ask_with_token(probed: &mut Probed, reach: &Reach) {
    let mut peer = reach.peer(probed.peer.uri().clone());
    if peer.may_get_token() {
        probed.result =
            peer.get(LIMITS, |_| Sniffer::default()).await.result.map(|sniffer| sniffer.content());
    }

    probed.peer = peer;
}

fn next(failure: &Failure) -> Next {
    match (failure.status, failure.cause) {
        (Some(404 | 405), _) | (None, Cause::Undecodable) => Next::Path,
        // A server with TLS answers 400 to a plain request, or closes the connection. One without
        // TLS may wait for the rest of a handshake.
        (Some(400), _) | (None, Cause::Tls | Cause::Connection | Cause::Timeout) => Next::Scheme,
        (None, Cause::Refused) => Next::Address,
        _ => Next::Candidate,
    }
}

/// Whether an endpoint asks for credentials, or does not accept them.
fn is_refusal(failure: &Failure) -> bool {
    matches!(failure.status, Some(401 | 403))
}

fn uri(scheme: &Scheme, address: IpAddr, port: u16, path: &'static str) -> Uri {
    let authority = Authority::try_from(std::net::SocketAddr::from((address, port)).to_string());
    let mut parts = http::uri::Parts::default();
    (parts.scheme, parts.authority) = (Some(scheme.clone()), authority.ok());
    parts.path_and_query = Some(PathAndQuery::from_static(path));

    Uri::from_parts(parts).unwrap_or_default()
}

// === impl Probed ===

impl Probed {
    /// The attempt in words.
    fn describe(&self) -> String {
        let shown = self.peer.shown();
        match &self.result {
            Ok(Content::NotMetrics) => format!("{shown} (no metrics)"),
            Ok(Content::Foreign) => format!("{shown} (a service mesh)"),
            Ok(_) => format!("{shown} (metrics of something else)"),
            Err(failure) => match (failure.status, failure.cause) {
                (Some(status), _) => format!("{shown} (HTTP {status})"),
                (None, cause) => format!("{shown} ({})", cause.as_str().replace('_', " ")),
            },
        }
    }
}
