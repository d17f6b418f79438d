//! The table of paths: which handler serves each of them, and to whom.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get};
use axum::{Extension, Router};

use super::exporter::Exporter;
use super::policy::Policy;
use super::turns::{TurnLimits, Turns, take_turn};
use super::{api, fleet, guard, pages, profiles, scrape};
use crate::telemetry::RequestLabels;

/// A path.
pub(super) struct Route {
    pub(super) path: &'static str,
    pub(super) policy: Policy,
    /// The response to an unknown path shows this.
    description: &'static str,
    handler: fn() -> MethodRouter<Arc<Exporter>>,
}

/// All paths, each with its policy. The router has no others.
pub(super) const ROUTES: &[Route] = &[
    Route {
        path: "/",
        policy: Policy::Page,
        description: "web page",
        handler: || get(pages::overview),
    },
    Route {
        path: "/objects",
        policy: Policy::Page,
        description: "web page with a table of objects; the same filters as /api/v1/objects",
        handler: || get(pages::objects),
    },
    Route {
        path: "/object",
        policy: Policy::Page,
        description: "web page of one object; kind and name, also group and namespace",
        handler: || get(pages::object),
    },
    Route {
        path: "/runbooks",
        policy: Policy::Page,
        description: "web page with a list of the runbooks",
        handler: || get(pages::runbooks),
    },
    Route {
        path: RUNBOOK,
        policy: Policy::Page,
        description: "one of them",
        handler: || get(pages::runbook),
    },
    Route {
        path: "/page.css",
        policy: Policy::Page,
        description: "style sheet of the web pages",
        handler: || get(pages::css),
    },
    Route {
        path: "/page.js",
        policy: Policy::Page,
        description: "script of the web pages",
        handler: || get(pages::js),
    },
    Route {
        path: "/metrics",
        policy: Policy::Metrics,
        description: "metrics for Prometheus, as text 0.0.4 or OpenMetrics 1.0",
        handler: || get(scrape::metrics),
    },
    Route {
        path: "/livez",
        policy: Policy::Public,
        description: "200 unless loopwatch has failed three times to recover from a panic",
        handler: || get(livez),
    },
    Route {
        path: "/readyz",
        policy: Policy::Public,
        description: "200 once every watch has completed its first list, is failing, or lacks permissions",
        handler: || get(readyz),
    },
    Route {
        path: "/api/v1/status",
        policy: Policy::Page,
        description: "kinds, sources, and blind spots, as JSON",
        handler: || get(api::status),
    },
    Route {
        path: "/api/v1/findings",
        policy: Policy::Page,
        description: "open findings, as JSON",
        handler: || get(api::findings),
    },
    Route {
        path: "/api/v1/objects",
        policy: Policy::Page,
        description: "objects, as JSON; filters: group, kind, namespace, name, state, role, search",
        handler: || get(api::objects),
    },
    Route {
        path: "/api/v1/explain",
        policy: Policy::Page,
        description: "one object with its owners, children and findings, as JSON; kind and name, also group and namespace",
        handler: || get(api::explain),
    },
    Route {
        path: "/api/v1/timeline",
        policy: Policy::Page,
        description: "the last hours: findings and objects over time, and what happened, as JSON",
        handler: || get(api::timeline),
    },
    Route {
        path: "/api/v1/operator",
        policy: Policy::Page,
        description: "the operator: its Pods, instances, controllers and processes, as JSON",
        handler: || get(api::operator),
    },
    Route {
        path: "/api/v1/profiles",
        policy: Policy::Profiles,
        description: "the last profiles of the operator, as JSON; on loopback only",
        handler: || get(profiles::list),
    },
    Route {
        path: PROFILE,
        policy: Policy::Profiles,
        description: "one of them, for `go tool pprof`; on loopback only",
        handler: || get(profiles::download),
    },
    Route {
        path: "/api/v1/operators",
        policy: Policy::Page,
        description: "all operators, worst first, as JSON; with --all-operators",
        handler: || get(fleet::list),
    },
    Route {
        path: OPERATOR,
        policy: Policy::Page,
        description: "one of them; with --all-operators",
        handler: || get(fleet::with_slash),
    },
    Route {
        path: OVERVIEW_OF_OPERATOR,
        policy: Policy::Page,
        description: "its web page",
        handler: || get(fleet::operator),
    },
    Route {
        path: BELOW_OPERATOR,
        policy: Policy::Page,
        description: "any of these paths for it alone",
        handler: || get(fleet::below_operator),
    },
    Route {
        path: "/debug/model",
        policy: Policy::Page,
        description: "object counts and a checksum, as JSON",
        handler: || get(api::debug),
    },
];

/// The path of one runbook.
const RUNBOOK: &str = "/runbooks/{name}";

/// The paths of one of many operators.
const OPERATOR: &str = "/operators/{namespace}/{name}";
const OVERVIEW_OF_OPERATOR: &str = "/operators/{namespace}/{name}/";
const BELOW_OPERATOR: &str = "/operators/{namespace}/{name}/{*rest}";

/// The maximum number of folders in a path for which a page about a problem finds its style sheet.
const MAX_DEPTH: usize = 8;

/// The path of one profile.
const PROFILE: &str = "/api/v1/profiles/{name}";

/// Scrapes in progress. Two replicas of Prometheus need not wait for each other. All 32 connections
/// that one peer may have, none of which reads, have had their turns before `queue` ends.
const SCRAPES: TurnLimits = TurnLimits {
    total: 6,
    per_peer: 3,
    queue: Duration::from_secs(8),
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

/// The turns of all paths of a port.
#[derive(Clone, Debug)]
struct AllTurns {
    scrapes: Turns,
    documents: Turns,
}

impl AllTurns {
    fn new() -> Self {
        Self { scrapes: Turns::new(SCRAPES), documents: Turns::new(DOCUMENTS) }
    }
}

/// Builds the router from the table of paths.
pub(super) fn router(exporter: Arc<Exporter>) -> Router {
    let turns = AllTurns::new();
    let of_operator = turns.clone();
    let routes_of = fleet::RoutesOf(Arc::new(move |exporter: Arc<Exporter>| {
        routes(exporter.clone(), &of_operator).with_state(exporter)
    }));

    routes(exporter.clone(), &turns)
        .fallback(not_found)
        .layer(Extension(routes_of))
        .layer(from_fn(readable_problems))
        .layer(from_fn_with_state(exporter.clone(), security_headers))
        .layer(from_fn_with_state(exporter.clone(), count_requests))
        .with_state(exporter)
}

/// Builds the routes, each with its policy and its turns.
fn routes(exporter: Arc<Exporter>, all_turns: &AllTurns) -> Router<Arc<Exporter>> {
    let mut router = Router::new();
    for Route { path, policy, handler, .. } in ROUTES {
        let turns = match policy {
            // The path that follows takes the turn.
            _ if *path == OVERVIEW_OF_OPERATOR || *path == BELOW_OPERATOR => None,
            Policy::Public => None,
            Policy::Metrics => Some(&all_turns.scrapes),
            Policy::Page | Policy::Profiles => Some(&all_turns.documents),
        };
        let handler = match turns {
            Some(turns) => handler().route_layer(from_fn_with_state(turns.clone(), take_turn)),
            None => handler(),
        };

        let admit = from_fn_with_state((exporter.clone(), *policy), guard::admit);
        router = router.route(path, handler.route_layer(admit));
    }

    router
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
    let pending = match exporter.fleet() {
        Some(fleet) => fleet.pending(),
        None => exporter.view.pending(),
    };
    if pending.is_empty() {
        return "ok\n".into_response();
    }

    (StatusCode::SERVICE_UNAVAILABLE, format!("waiting for: {}\n", pending.join(", ")))
        .into_response()
}

async fn not_found() -> Response {
    let width = ROUTES.iter().map(|route| route.path.len()).max().unwrap_or(0);
    let line = |route: &Route| format!("  {:width$}  {}\n", route.path, route.description);
    let lines: String = ROUTES.iter().map(line).collect();

    (StatusCode::NOT_FOUND, format!("Not found. loopwatch serves:\n{lines}")).into_response()
}

/// Turns plain texts about problems into pages, for clients that ask for pages.
async fn readable_problems(request: Request, next: Next) -> Response {
    let accepted = request.headers().get(header::ACCEPT).and_then(|value| value.to_str().ok());
    let wants_page = accepted.is_some_and(|accepted| accepted.contains("text/html"));
    let depth = request.uri().path().matches('/').count().saturating_sub(1).min(MAX_DEPTH);
    let response = next.run(request).await;

    let is_text = response
        .headers()
        .get(header::CONTENT_TYPE)
        .is_some_and(|content| content.as_bytes().starts_with(b"text/plain"));
    let failed = response.status().is_client_error() || response.status().is_server_error();
    if wants_page && failed && is_text { pages::readable(response, depth).await } else { response }
}

/// Adds security headers to every response, and those of the web configuration file.
async fn security_headers(
    State(exporter): State<Arc<Exporter>>,
    request: Request,
    next: Next,
) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    for (name, value) in exporter.access().headers().iter().flatten() {
        headers.entry(name).or_insert_with(|| value.clone());
    }
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
        path if path.starts_with("/runbooks/") => RUNBOOK,
        path if path.starts_with("/operators/") => BELOW_OPERATOR,
        path => path,
    };
    let path =
        ROUTES.iter().map(|route| route.path).find(|path| *path == requested).unwrap_or("other");
    let response = next.run(request).await;
    let labels = RequestLabels { path, code: response.status().as_u16() };

    exporter.metrics.requests.get_or_create_owned(&labels).inc();
    response
}
