//! Many operators on one port: the overview of all of them, and the paths of each below
//! `/operators/NAMESPACE/NAME/`.

use std::sync::Arc;

use axum::extract::{Path, Request, State};
use axum::http::uri::PathAndQuery;
use axum::http::{StatusCode, Uri, header};
use axum::response::{Html, IntoResponse, Redirect, Response};
use axum::{Extension, Json, Router};
use tower::ServiceExt as _;

use super::client::Client;
use super::exporter::{Exporter, Fleet};
use crate::export::presentation::{json, page};

/// Builds the routes of an operator's exporter, with the turns of the port.
#[derive(Clone)]
pub(super) struct RoutesOf(pub(super) Arc<dyn Fn(Arc<Exporter>) -> Router + Send + Sync>);

/// The overview of all operators.
pub(super) async fn overview(fleet: &Fleet, exporter: &Exporter) -> Response {
    let (operators, snapshot) = (fleet.operators().await, exporter.view.snapshot());
    let text = page::render_operators(&operators, &snapshot, &exporter.input());
    ([(header::CONTENT_SECURITY_POLICY, page::CONTENT_SECURITY_POLICY)], Html(text)).into_response()
}

/// `/api/v1/operators`.
pub(super) async fn list(State(exporter): State<Arc<Exporter>>) -> Response {
    match exporter.fleet() {
        Some(fleet) => Json(json::operators(&fleet.operators().await)).into_response(),
        None => (StatusCode::NOT_FOUND, ONE).into_response(),
    }
}

/// The response of a loopwatch beside one operator.
const ONE: &str = "this loopwatch watches one operator; `run --all-operators` watches all\n";

/// Adds the slash, on which the links of the page rely.
pub(super) async fn with_slash(
    Path((namespace, name)): Path<(String, String)>,
    State(exporter): State<Arc<Exporter>>,
) -> Response {
    match find(&exporter, &namespace, &name) {
        Some(_) => Redirect::permanent(&format!("{name}/")).into_response(),
        None => unknown(&exporter),
    }
}

/// The overview of one operator.
pub(super) async fn operator(
    Path((namespace, name)): Path<(String, String)>,
    State(exporter): State<Arc<Exporter>>,
    Extension(routes): Extension<RoutesOf>,
    request: Request,
) -> Response {
    below(&exporter, &namespace, &name, "", routes, request).await
}

/// Any other path of one operator.
pub(super) async fn below_operator(
    Path((namespace, name, rest)): Path<(String, String, String)>,
    State(exporter): State<Arc<Exporter>>,
    Extension(routes): Extension<RoutesOf>,
    request: Request,
) -> Response {
    below(&exporter, &namespace, &name, &rest, routes, request).await
}

/// Lets the routes of an operator's exporter, each with its policy, answer a request.
async fn below(
    exporter: &Exporter,
    namespace: &str,
    name: &str,
    rest: &str,
    routes: RoutesOf,
    mut request: Request,
) -> Response {
    let Some(member) = find(exporter, namespace, name) else { return unknown(exporter) };

    let query = request.uri().query().map(|query| format!("?{query}")).unwrap_or_default();
    let Ok(path) = format!("/{rest}{query}").parse::<PathAndQuery>() else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    *request.uri_mut() = Uri::from(path);

    // The router left the parameters of its own path, which handlers would take for those of theirs.
    let client = request.extensions_mut().remove::<Client>();
    request.extensions_mut().clear();
    client.map(|client| request.extensions_mut().insert(client));
    request.extensions_mut().insert(routes.clone());

    let answered = (routes.0)(member).oneshot(request).await;
    answered.unwrap_or_else(|never| match never {})
}

fn find(exporter: &Exporter, namespace: &str, name: &str) -> Option<Arc<Exporter>> {
    exporter.fleet()?.get(&format!("{namespace}/{name}"))
}

/// The response if there is no operator of a name.
fn unknown(exporter: &Exporter) -> Response {
    let problem = match exporter.fleet() {
        Some(_) => "loopwatch knows no operator of this name; see /api/v1/operators\n",
        None => ONE,
    };
    (StatusCode::NOT_FOUND, problem).into_response()
}
