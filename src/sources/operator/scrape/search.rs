//! Searches the candidates for the endpoint of an operator's metrics.

use std::net::SocketAddr;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{StreamExt as _, stream};
use http::uri::Scheme;
use loopwatch_model::observation::Cause;
use tracing::warn;

use super::candidates::PortCandidate;
use super::content::{Content, Sniffer};
use super::fetch::{MetricsClient, Reach, RequestLimits};
use crate::net::{Failure, HttpUrl};

/// The result of a search.
pub(super) enum SearchResult {
    /// Metrics of the operator.
    Metrics(MetricsClient, Content),
    /// Only an endpoint that refuses to show its metrics.
    Refusal(MetricsClient),
    /// Nothing, after these attempts.
    Nothing(Vec<String>),
}

/// The result for one candidate.
struct Probed {
    order: usize,
    client: MetricsClient,
    result: Result<Content, Failure>,
}

/// What to try after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NextAttempt {
    Path,
    Address,
    Scheme,
    Candidate,
}

/// The usual path, and those of Spring Boot and Quarkus.
const PATHS: [&str; 3] = ["/metrics", "/actuator/prometheus", "/q/metrics"];
/// Limits of a request that only determines what an endpoint serves.
const LIMITS: RequestLimits = RequestLimits {
    connect: Duration::from_secs(1),
    head: Duration::from_secs(20),
    whole: Duration::from_secs(30),
    bytes: 16 << 20,
};
/// Number of candidates to try at the same time.
const AT_ONCE: usize = 4;
/// Limit on the attempts that a report names.
const MAX_NAMED: usize = 6;

/// Tries candidates until one of them serves the metrics of a control loop. If none does, those
/// that have requested credentials get the token. The metrics of a process are the next best.
pub(super) async fn search(candidates: &[PortCandidate], reach: &Reach) -> SearchResult {
    let mut probed: Vec<Probed> = Vec::new();
    let mut waiting: Vec<BoxFuture<'static, Option<Probed>>> = Vec::new();
    for (order, candidate) in candidates.iter().enumerate() {
        waiting.push(Box::pin(probe(order, candidate.clone(), reach.clone())));
    }

    let mut probes = stream::iter(waiting).buffer_unordered(AT_ONCE);
    while let Some(one) = probes.next().await {
        let done = one.as_ref().is_some_and(|one| matches!(one.result, Ok(Content::ControlLoop)));
        probed.extend(one);
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

fn choose(mut probed: Vec<Probed>) -> SearchResult {
    let tried = probed.iter().map(Probed::describe).take(MAX_NAMED).collect();
    let content = |probed: &Probed| {
        probed.result.as_ref().ok().copied().filter(|content| *content >= Content::Process)
    };

    // Take the first of the best ones.
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

        return SearchResult::Metrics(probed.swap_remove(at).client, content);
    }

    match probed.into_iter().find(|probed| probed.result.as_ref().is_err_and(is_refusal)) {
        Some(probed) => SearchResult::Refusal(probed.client),
        None => SearchResult::Nothing(tried),
    }
}

/// Determines what one candidate serves, without credentials.
async fn probe(order: usize, candidate: PortCandidate, reach: Reach) -> Option<Probed> {
    let schemes = match candidate.tls_first {
        true => [Scheme::HTTPS, Scheme::HTTP],
        false => [Scheme::HTTP, Scheme::HTTPS],
    };
    let mut last: Option<Probed> = None;
    for scheme in schemes {
        let mut speaks_otherwise = false;
        for address in &candidate.addresses {
            let address = SocketAddr::new(*address, candidate.port);
            let probed = probe_address(order, &scheme, address, &reach).await;
            let (next, is_lost) = match &probed.result {
                Ok(_) => (NextAttempt::Candidate, false),
                Err(failure) => (next(failure), failure.cause == Cause::Connection),
            };
            match next {
                NextAttempt::Candidate | NextAttempt::Path => return Some(probed),
                NextAttempt::Address | NextAttempt::Scheme => {
                    // The first failure is the most informative: the second scheme is only a guess.
                    last.get_or_insert(probed);
                }
            }

            speaks_otherwise |= next == NextAttempt::Scheme;

            // A lost connection may also mean that this host lacks the address, for example ::1
            // without IPv6.
            if next == NextAttempt::Scheme && !is_lost {
                break;
            }
        }

        if !speaks_otherwise {
            break;
        }
    }

    last
}

/// Tries the paths of one address, until one of them serves something.
async fn probe_address(
    order: usize,
    scheme: &Scheme,
    address: SocketAddr,
    reach: &Reach,
) -> Probed {
    let [usual, others @ ..] = PATHS;
    let first = probe_path(order, HttpUrl::at(scheme, address, usual), reach).await;
    if !first.has_other_paths() {
        return first;
    }

    for path in others {
        let probed = probe_path(order, HttpUrl::at(scheme, address, path), reach).await;
        if !probed.has_other_paths() {
            return probed;
        }
    }

    first
}

async fn probe_path(order: usize, url: HttpUrl, reach: &Reach) -> Probed {
    let mut client = reach.client(url).anonymous();
    let result = sniff(&mut client).await;
    Probed { order, client, result }
}

async fn sniff(client: &mut MetricsClient) -> Result<Content, Failure> {
    let sniffed = client.get(LIMITS, |_| Sniffer::default()).await.result;
    sniffed.map(|sniffer| sniffer.content())
}

/// Repeats a request that an endpoint has refused without credentials.
async fn ask_with_token(probed: &mut Probed, reach: &Reach) {
    let mut client = reach.client(probed.client.url().clone());
    if client.may_get_token() {
        probed.result = sniff(&mut client).await;
    }

    probed.client = client;
}

fn next(failure: &Failure) -> NextAttempt {
    match (failure.status, failure.cause) {
        (Some(404 | 405), _) | (None, Cause::Undecodable) => NextAttempt::Path,
        // A server with TLS answers 400 to a plain request, or closes the connection. One without
        // TLS may wait for the rest of a handshake.
        (Some(400), _) | (None, Cause::Tls | Cause::Connection | Cause::Timeout) => {
            NextAttempt::Scheme
        }
        (None, Cause::Refused) => NextAttempt::Address,
        _ => NextAttempt::Candidate,
    }
}

/// Whether an endpoint requests credentials, or rejects them.
fn is_refusal(failure: &Failure) -> bool {
    matches!(failure.status, Some(401 | 403))
}

impl Probed {
    /// Whether another path of the same address may serve metrics.
    fn has_other_paths(&self) -> bool {
        match &self.result {
            Ok(content) => *content == Content::NotMetrics,
            Err(failure) => next(failure) == NextAttempt::Path,
        }
    }

    /// Describes the attempt.
    fn describe(&self) -> String {
        let shown = self.client.shown();
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
