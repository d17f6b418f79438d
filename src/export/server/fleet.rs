//! Many operators on one port: the overview of all of them, and the paths of each below
//! `/operators/NAMESPACE/NAME/`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::extract::{Path, Request, State};
use axum::http::uri::PathAndQuery;
use axum::http::{StatusCode, Uri, header};
use axum::response::{Html, IntoResponse, Redirect, Response};
use axum::{Extension, Json};
use tower::ServiceExt as _;

use super::client::Client;
use super::exporter::Exporter;
use super::routes::{AllTurns, routes};
use crate::export::presentation::{json, page};
use crate::export::view::{OperatorSummary, Operators, SkippedOperator};
use crate::lock::lock;

/// The exporters of all operators of a cluster.
#[derive(Default)]
pub(crate) struct Fleet {
    state: Mutex<FleetState>,
}

#[derive(Default)]
struct FleetState {
    members: BTreeMap<String, Arc<Exporter>>,
    skipped: Vec<SkippedOperator>,
    unclaimed: Vec<String>,
    is_complete: bool,
}

impl Fleet {
    /// Adds the exporter of an operator, `NAMESPACE/NAME`.
    pub(crate) fn add(&self, operator: &str, exporter: Arc<Exporter>) {
        lock(&self.state).members.insert(operator.to_owned(), exporter);
    }

    pub(crate) fn remove(&self, operator: &str) {
        lock(&self.state).members.remove(operator);
    }

    /// Sets what loopwatch does not judge: workloads, and kinds that no operator claims.
    pub(crate) fn set_rest(&self, skipped: Vec<SkippedOperator>, unclaimed: Vec<String>) {
        let mut state = lock(&self.state);
        (state.skipped, state.unclaimed, state.is_complete) = (skipped, unclaimed, true);
    }

    pub(super) fn all(&self) -> Vec<(String, Arc<Exporter>)> {
        let state = lock(&self.state);
        state.members.iter().map(|(name, exporter)| (name.clone(), exporter.clone())).collect()
    }

    fn get(&self, operator: &str) -> Option<Arc<Exporter>> {
        lock(&self.state).members.get(operator).cloned()
    }

    /// What is not ready yet: the search for operators, and the first lists of each.
    pub(super) fn pending(&self) -> Vec<String> {
        if !lock(&self.state).is_complete {
            return vec!["the operators of the cluster".to_owned()];
        }

        // Everybody may ask, so this names no operator.
        let all = self.all();
        let waiting = all.iter().filter(|(_, exporter)| !exporter.view.pending().is_empty());
        match waiting.count() {
            0 => Vec::new(),
            waiting => vec![format!("the first lists of {waiting} of {} operators", all.len())],
        }
    }

    /// All operators, in a few numbers.
    pub(super) async fn operators(&self) -> Operators {
        let mut operators = Vec::new();
        for (name, exporter) in self.all() {
            operators.push(OperatorSummary::of(name, &exporter.view.snapshot(), &exporter.input()));

            // A snapshot takes up to a millisecond.
            tokio::task::yield_now().await;
        }

        let state = lock(&self.state);
        let (skipped, unclaimed) = (state.skipped.clone(), state.unclaimed.clone());
        Operators { operators, skipped, unclaimed, is_complete: state.is_complete }.sorted()
    }
}

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
    Extension(turns): Extension<AllTurns>,
    request: Request,
) -> Response {
    below(&exporter, &namespace, &name, "", turns, request).await
}

/// Any other path of one operator.
pub(super) async fn below_operator(
    Path((namespace, name, rest)): Path<(String, String, String)>,
    State(exporter): State<Arc<Exporter>>,
    Extension(turns): Extension<AllTurns>,
    request: Request,
) -> Response {
    below(&exporter, &namespace, &name, &rest, turns, request).await
}

/// Lets the routes of an operator's exporter, each with its policy, answer a request.
async fn below(
    exporter: &Exporter,
    namespace: &str,
    name: &str,
    rest: &str,
    turns: AllTurns,
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
    request.extensions_mut().insert(turns.clone());

    let answered = routes(member.clone(), &turns).with_state(member).oneshot(request).await;
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
