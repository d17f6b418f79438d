//! Which handler serves which path.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use super::exporter::Exporter;
use super::turns::{TurnLimits, Turns, take_turn};
use super::{api, guard, pages, profiles, scrape};
use crate::telemetry::RequestLabels;

/// The documented paths, each with a description.
const PATHS: &[(&str, &str)] = &[
    ("/", "web page"),
    ("/objects", "web page with a table of objects; the same filters as /api/v1/objects"),
    ("/object", "web page of one object; kind and name, also group and namespace"),
    ("/metrics", "metrics for Prometheus, as text 0.0.4 or OpenMetrics 1.0"),
    ("/livez", "200 unless loopwatch has failed three times to recover from a panic"),
    (
        "/readyz",
        "200 once every watch has completed its first list, is failing, or lacks permissions",
    ),
    ("/api/v1/status", "kinds, sources, and blind spots, as JSON"),
    ("/api/v1/findings", "open findings, as JSON"),
    ("/api/v1/objects", "objects, as JSON; filters: group, kind, namespace, name, state, search"),
    (
        "/api/v1/explain",
        "one object with its owners, children and findings, as JSON; kind and name, also group and namespace",
    ),
    (
        "/api/v1/timeline",
        "the last hours: findings and objects over time, and what happened, as JSON",
    ),
    ("/api/v1/operator", "the operator: its Pods, instances, controllers and processes, as JSON"),
    ("/api/v1/profiles", "the last profiles of the operator, as JSON; on loopback only"),
    (PROFILE, "one of them, for `go tool pprof`; on loopback only"),
    ("/debug/model", "object counts and a checksum, as JSON"),
];

/// The path of one profile.
const PROFILE: &str = "/api/v1/profiles/{name}";

/// Scrapes in progress. Two replicas of Prometheus need not wait for each other. All 32 connections
/// that one peer may have, none of which reads, have had their turns before `queue` ends.
const SCRAPES: TurnLimits = TurnLimits {
    total: 6,
    per_peer: 3,
    queue: Duration::from_secs(3),
    slow: Duration::from_millis(250),
    whole: Duration::from_secs(15),
};

/// Pages and documents in progress. A browser opens six connections.
const DOCUMENTS: TurnLimits = TurnLimits {
    total: 8,
    per_peer: 6,
    queue: Duration::from_secs(3),
    slow: Duration::from_millis(500),
    whole: Duration::from_secs(30),
};

/// Builds the router for all paths.
pub(super) fn router(exporter: Arc<Exporter>) -> Router {
    let (scrapes, documents) = (Turns::new(SCRAPES), Turns::new(DOCUMENTS));
    let local = Router::new()
        .route("/", get(pages::overview))
        .route("/objects", get(pages::objects))
        .route("/object", get(pages::object))
        .route("/page.css", get(pages::css))
        .route("/page.js", get(pages::js))
        .route("/api/v1/status", get(api::status))
        .route("/api/v1/findings", get(api::findings))
        .route("/api/v1/objects", get(api::objects))
        .route("/api/v1/timeline", get(api::timeline))
        .route("/api/v1/explain", get(api::explain))
        .route("/api/v1/operator", get(api::operator))
        .route("/debug/model", get(api::debug))
        .route_layer(from_fn_with_state(documents.clone(), take_turn))
        .route_layer(from_fn_with_state(exporter.clone(), guard::local_only));

    let loopback = Router::new()
        .route("/api/v1/profiles", get(profiles::list))
        .route(PROFILE, get(profiles::download))
        .route_layer(from_fn_with_state(documents, take_turn))
        .route_layer(from_fn_with_state(exporter.clone(), guard::loopback_only));

    Router::new()
        .route("/metrics", get(scrape::metrics))
        .route_layer(from_fn_with_state(scrapes, take_turn))
        .route("/livez", get(livez))
        .route("/readyz", get(readyz))
        .merge(local)
        .merge(loopback)
        .fallback(not_found)
        .layer(from_fn(security_headers))
        .layer(from_fn_with_state(exporter.clone(), count_requests))
        .with_state(exporter)
}

/// Succeeds even if sources fail: a restart of loopwatch would fix neither its configuration nor
/// its sources. Fails only if loopwatch cannot rebuild a part that has panicked.
async fn livez(State(exporter): State<Arc<Exporter>>) -> Response {
    match exporter.is_alive() {
        true => "ok\n".into_response(),
        false => (
            StatusCode::SERVICE_UNAVAILABLE,
            "loopwatch cannot recover from a panic; see its log\n",
        )
            .into_response(),
    }
}

/// Readiness for tests and scripts. Do not use it as the readiness probe of a sidecar: that would
/// make the operator's own Pod unready.
async fn readyz(State(exporter): State<Arc<Exporter>>) -> Response {
    let pending = exporter.view.pending();
    if pending.is_empty() {
        return "ok\n".into_response();
    }

    (StatusCode::SERVICE_UNAVAILABLE, format!("waiting for: {}\n", pending.join(", ")))
        .into_response()
}

async fn not_found() -> Response {
    let width = PATHS.iter().map(|(path, _)| path.len()).max().unwrap_or(0);
    let lines: String = PATHS
        .iter()
        .map(|(path, description)| format!("  {path:width$}  {description}\n"))
        .collect();

    (StatusCode::NOT_FOUND, format!("Not found. loopwatch serves:\n{lines}")).into_response()
}

/// Adds security headers to every response.
async fn security_headers(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    for (name, value) in [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
    ] {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }

    response
}

/// Counts requests by path and status. All undocumented paths share one label value, so that
/// clients cannot create series.
async fn count_requests(
    State(exporter): State<Arc<Exporter>>,
    request: Request,
    next: Next,
) -> Response {
    let requested = match request.uri().path() {
        path if path.starts_with("/api/v1/profiles/") => PROFILE,
        path => path,
    };
    let path =
        PATHS.iter().map(|(path, _)| *path).find(|path| *path == requested).unwrap_or("other");
    let response = next.run(request).await;
    let labels = RequestLabels { path, code: response.status().as_u16() };

    exporter.metrics.requests.get_or_create_owned(&labels).inc();
    response
}
