//! The HTTP server: one port for scrapers, probes and people.
//!
//! `/metrics`, `/livez` and `/readyz` answer everyone. The rest names objects of tenants, so it answers this host only
//! (`kubectl port-forward` arrives from it) unless the user exposes it.

mod accept; // connections: bounded in number, in time and at shutdown
mod api; // JSON
mod guard; // who may see what
mod scrape; // /metrics, streamed

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use loopwatch_model::snapshot::Snapshot;

pub use self::accept::{Limits, bind, serve, serve_with};
use super::exporter::Exporter;
use crate::telemetry::RequestLabels;

/// What is served, with a line of explanation.
const PATHS: &[(&str, &str)] = &[
    ("/", "the page, for people"),
    ("/metrics", "for Prometheus: text 0.0.4 or OpenMetrics 1.0"),
    ("/livez", "200 while loopwatch runs"),
    ("/readyz", "200 once everything that can be listed has been listed"),
    ("/api/v1/status", "what is seen, what is not and why, as JSON"),
    ("/api/v1/findings", "what is wrong, as JSON"),
    ("/api/v1/objects", "objects, by group, kind, namespace, name, state, as JSON"),
    ("/debug/model", "sizes and checksums, as JSON"),
];

/// Everything that is served.
pub fn router(exporter: Arc<Exporter>) -> Router {
    let local = Router::new()
        .route("/", get(api::page))
        .route("/page.css", get(api::css))
        .route("/page.js", get(api::js))
        .route("/api/v1/status", get(api::status))
        .route("/api/v1/findings", get(api::findings))
        .route("/api/v1/objects", get(api::objects))
        .route("/debug/model", get(api::debug))
        .route_layer(from_fn_with_state(exporter.clone(), guard::local_only));
    Router::new()
        .route("/metrics", get(scrape::metrics))
        .route("/livez", get(livez))
        .route("/readyz", get(readyz))
        .merge(local)
        .fallback(unknown)
        .layer(from_fn(hardened))
        .layer(from_fn_with_state(exporter.clone(), counted))
        .with_state(exporter)
}

/// Answers as long as the server runs; a restart would help against nothing else.
async fn livez() -> &'static str {
    "ok\n"
}

/// For tests and scripts that wait. It must not become the readiness probe of a sidecar: that would hold back the
/// operator's own Pod.
async fn readyz(State(exporter): State<Arc<Exporter>>) -> Response {
    let pending = pending(&exporter.view.snapshot());
    if pending.is_empty() {
        return "ok\n".into_response();
    }
    (StatusCode::SERVICE_UNAVAILABLE, format!("not yet: {}\n", pending.join(", "))).into_response()
}

/// What has neither been listed nor given up.
fn pending(snapshot: &Snapshot) -> Vec<String> {
    let failing = |name: &str| snapshot.sources.iter().any(|source| source.source == name && !source.up);
    if snapshot.kinds.is_empty() && !snapshot.sources.iter().any(|source| source.source == "discovery") {
        return vec!["discovery".to_owned()];
    }
    let watches = snapshot.kinds.iter().flat_map(|kind| &kind.watches);
    watches
        .filter(|watch| !watch.synced && watch.missing.is_empty() && !failing(&format!("watch/{}", watch.watch)))
        .map(|watch| watch.watch.to_string())
        .collect()
}

async fn unknown() -> Response {
    let width = PATHS.iter().map(|(path, _)| path.len()).max().unwrap_or(0);
    let lines: String = PATHS.iter().map(|(path, what)| format!("  {path:width$}  {what}\n")).collect();
    (StatusCode::NOT_FOUND, format!("There is nothing here. loopwatch serves:\n{lines}")).into_response()
}

/// Headers that cost nothing and close doors.
async fn hardened(request: Request, next: Next) -> Response {
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

async fn counted(State(exporter): State<Arc<Exporter>>, request: Request, next: Next) -> Response {
    let asked = request.uri().path();
    let path = PATHS.iter().map(|(path, _)| *path).find(|path| *path == asked).unwrap_or("other");
    let response = next.run(request).await;
    let labels = RequestLabels { path, code: response.status().as_u16() };
    exporter.metrics.requests.get_or_create_owned(&labels).inc();
    response
}

#[cfg(test)]
mod tests;
