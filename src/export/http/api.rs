//! JSON and the page.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::{StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use loopwatch_model::snapshot::{Cursor, ObjectRow, ObjectState};
use serde::Deserialize;
use serde_json::json;

use crate::export::exporter::Exporter;
use crate::export::view::Filter;
use crate::export::{json, page};

/// Objects in an answer, unless the request says otherwise …
const USUAL_LIMIT: usize = 100;
/// … and at most.
const MOST: usize = 1000;

/// Objects looked at under one lock.
const PAGE: usize = 1024;

/// Objects looked at for one answer: a question that matches nothing must not walk a million objects at once. The
/// answer then has fewer objects than asked for, and says where to go on.
const LOOKED_AT: usize = 100 * PAGE;

pub(super) async fn status(State(exporter): State<Arc<Exporter>>) -> Response {
    Json(json::status(&exporter.view.snapshot())).into_response()
}

pub(super) async fn findings(State(exporter): State<Arc<Exporter>>) -> Response {
    Json(json::findings(&exporter.view.snapshot())).into_response()
}

/// An empty parameter asks for nothing, as in a form that was not filled in; `core` is the group without a name.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Question {
    group: String,
    kind: String,
    namespace: String,
    name: String,
    state: String,
    limit: Option<usize>,
    r#continue: String,
}

pub(super) async fn objects(
    State(exporter): State<Arc<Exporter>>,
    question: Result<Query<Question>, QueryRejection>,
) -> Response {
    let question = match question {
        Ok(Query(question)) => question,
        Err(rejection) => return bad_request(&rejection.body_text()),
    };
    let (filter, cursor) = match (question.filter(), question.cursor()) {
        (Ok(filter), Ok(cursor)) => (filter, cursor),
        (Err(problem), _) | (_, Err(problem)) => return bad_request(&problem),
    };
    let limit = question.limit.unwrap_or(USUAL_LIMIT).clamp(1, MOST);
    let (rows, next) = gather(&exporter, &filter, cursor, limit).await;
    Json(json::objects(&rows, next.map(|cursor| cursor.0.to_string()))).into_response()
}

async fn gather(exporter: &Exporter, filter: &Filter, from: Cursor, limit: usize) -> (Vec<ObjectRow>, Option<Cursor>) {
    let (mut rows, mut next, mut looked_at) = (Vec::new(), Some(from), 0);
    while let Some(cursor) = next
        && rows.len() < limit
        && looked_at < LOOKED_AT
    {
        // Never more than still fit, so that an answer always ends where the next one begins.
        let page = PAGE.min(limit - rows.len());
        let (found, after) = exporter.view.select(cursor, page, filter);
        rows.extend(found);
        next = after;
        looked_at += page;
        tokio::task::yield_now().await;
    }
    (rows, next)
}

/// Counts and a checksum: two loopwatches that saw the same show the same.
pub(super) async fn debug(State(exporter): State<Arc<Exporter>>) -> Response {
    let snapshot = exporter.view.snapshot();
    let (mut objects, mut checksum, mut next) = (0_u64, 0_u64, Some(Cursor::default()));
    while let Some(cursor) = next {
        next = exporter.view.visit(cursor, PAGE, &mut |object| {
            objects += 1;
            // A sum does not depend on the order in which objects came.
            checksum = checksum.wrapping_add(fingerprint(&[
                object.group,
                object.kind,
                object.namespace,
                object.name,
                object.state.as_str(),
                &object.generation.to_string(),
            ]));
        });
        tokio::task::yield_now().await;
    }
    Json(json!({
        "version": json::VERSION,
        "at": snapshot.at,
        "objects": objects,
        "objects_checksum": format!("{checksum:016x}"),
        "kinds": snapshot.kinds.len(),
        "findings": snapshot.findings.len(),
        "unhealthy": snapshot.unhealthy.len() as u64 + snapshot.unhealthy_dropped,
        "observations": snapshot.observations,
        "dropped": snapshot.dropped,
    }))
    .into_response()
}

/// FNV-1a over `parts`.
fn fingerprint(parts: &[&str]) -> u64 {
    let bytes = parts.iter().flat_map(|part| part.bytes().chain([0xff]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

fn bad_request(problem: &str) -> Response {
    (StatusCode::BAD_REQUEST, Json(json!({ "version": json::VERSION, "error": problem }))).into_response()
}

pub(super) async fn page(State(exporter): State<Arc<Exporter>>) -> Response {
    let page = page::render(&exporter.view.snapshot());
    ([(header::CONTENT_SECURITY_POLICY, page::CONTENT_SECURITY_POLICY)], Html(page)).into_response()
}

pub(super) async fn css() -> Response {
    ([(header::CONTENT_TYPE, "text/css; charset=utf-8")], page::CSS).into_response()
}

pub(super) async fn js() -> Response {
    ([(header::CONTENT_TYPE, "text/javascript; charset=utf-8")], page::JS).into_response()
}

// === impl Question ===

impl Question {
    fn filter(&self) -> Result<Filter, String> {
        let asked = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        Ok(Filter {
            group: asked(&self.group).map(|group| if group == "core" { String::new() } else { group }),
            kind: asked(&self.kind),
            namespace: asked(&self.namespace),
            name: asked(&self.name),
            state: asked(&self.state).map(|state| read_state(&state)).transpose()?,
        })
    }

    fn cursor(&self) -> Result<Cursor, String> {
        match self.r#continue.as_str() {
            "" => Ok(Cursor::default()),
            token => token.parse().map(Cursor).map_err(|_| format!("{token:?} is not a place to continue at")),
        }
    }
}

fn read_state(text: &str) -> Result<ObjectState, String> {
    let words = ObjectState::ALL.iter().map(|state| state.as_str());
    ObjectState::ALL
        .iter()
        .copied()
        .find(|state| state.as_str() == text)
        .ok_or_else(|| format!("{text:?} is not a state; there are {}", words.collect::<Vec<_>>().join(", ")))
}
