//! Handles requests for the web pages.

use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, RawQuery, State};
use axum::http::{StatusCode, header};
use axum::response::{Html, IntoResponse, Redirect, Response};
use loopwatch_model::finding::Subject;
use loopwatch_model::snapshot::Snapshot;
use serde::Deserialize;

use super::api::{self, ExplainQuery, ObjectQuery, SortedList};
use super::exporter::Exporter;
use super::fleet;
use crate::export::presentation::page;
use crate::export::view;

/// Query parameters of the overview. Unknown ones have no effect, because other programs may add
/// some to a link.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct OverviewQuery {
    /// Words of the filter. Links in alerts contain them.
    filter: String,
    /// `all` for charts of all that is known of the past.
    range: String,
}

/// Longest text about a problem.
const LONGEST_TEXT: usize = 16 * 1024;

pub(super) async fn overview(
    State(exporter): State<Arc<Exporter>>,
    query: Result<Query<OverviewQuery>, QueryRejection>,
) -> Response {
    if let Some(fleet) = exporter.fleet() {
        return fleet::overview(fleet, &exporter).await;
    }

    let query = query.map(|Query(query)| query).unwrap_or_default();
    let wish = page::Wish { words: &query.filter, whole_past: query.range == "all" };
    let (snapshot, past) = (exporter.view.snapshot(), exporter.view.recent_past());
    html(StatusCode::OK, page::render(&snapshot, &past, &exporter.input(), wish))
}

pub(super) async fn object(
    State(exporter): State<Arc<Exporter>>,
    query: Result<Query<ExplainQuery>, QueryRejection>,
) -> Response {
    let asked = query.as_ref().ok().map(|Query(asked)| asked.clone());
    let explained = api::explained(&exporter, query).await;
    let snapshot = exporter.view.snapshot();
    let explanation = match explained {
        Ok(explanation) => explanation,
        Err((StatusCode::NOT_FOUND, problem)) => {
            return match asked.and_then(|asked| finding_about(&snapshot, &asked)) {
                Some(list) => Redirect::to(&list).into_response(),
                None => problem_page(&exporter, StatusCode::NOT_FOUND, &problem),
            };
        }
        Err((status, problem)) => return problem_page(&exporter, status, &problem),
    };
    let trace_id = exporter.trace_id(&explanation);

    html(StatusCode::OK, page::render_object(&snapshot, &explanation, &trace_id, &exporter.input()))
}

/// Returns the path of the list with the first finding about an object. A finding may outlast its object, which
/// the garbage collector may delete within seconds.
fn finding_about(snapshot: &Snapshot, asked: &ExplainQuery) -> Option<String> {
    let finding = snapshot.findings.iter().find(|finding| {
        let subject = &finding.subject;
        let ExplainQuery { group, kind, namespace, name } = asked;
        matches!(subject, Subject::Object { .. })
            && (group.is_empty() || group == view::group_parameter(subject.group()))
            && (kind.as_str(), namespace.as_str(), name.as_str())
                == (subject.kind(), subject.namespace(), subject.name())
    })?;

    let words = [finding.code.name(), asked.namespace.as_str(), asked.name.as_str()].join(" ");
    Some(format!("./?filter={}#findings", view::encoded(&words)))
}

pub(super) async fn objects(
    State(exporter): State<Arc<Exporter>>,
    RawQuery(raw): RawQuery,
    query: Result<Query<ObjectQuery>, QueryRejection>,
) -> Response {
    let snapshot = exporter.view.snapshot();
    let query = match query {
        Ok(Query(query)) => query,
        Err(rejection) => {
            return problem_page(&exporter, StatusCode::BAD_REQUEST, &rejection.body_text());
        }
    };
    match api::sorted(&exporter, query).await {
        Ok(SortedList { filter, order, page: objects }) => {
            let search = raw.unwrap_or_default();
            let table =
                page::ObjectTable { filter: &filter, query: &search, order, objects: &objects };
            html(StatusCode::OK, page::render_objects(&snapshot, &table, &exporter.input()))
        }
        Err(problem) => problem_page(&exporter, StatusCode::BAD_REQUEST, &problem),
    }
}

pub(super) async fn runbooks(State(exporter): State<Arc<Exporter>>) -> Response {
    html(StatusCode::OK, page::render_runbooks(&exporter.input()))
}

pub(super) async fn runbook(
    State(exporter): State<Arc<Exporter>>,
    Path(name): Path<String>,
) -> Response {
    match view::runbook(&name) {
        Some(runbook) => html(StatusCode::OK, page::render_runbook(runbook, &exporter.input())),
        None => (StatusCode::NOT_FOUND, "no such runbook; see /runbooks\n").into_response(),
    }
}

pub(super) async fn css() -> Response {
    ([(header::CONTENT_TYPE, "text/css; charset=utf-8")], page::CSS).into_response()
}

pub(super) async fn js() -> Response {
    ([(header::CONTENT_TYPE, "text/javascript; charset=utf-8")], page::JS).into_response()
}

/// The page in place of a response with a plain text.
pub(super) async fn readable(response: Response, depth: usize) -> Response {
    let (mut parts, body) = response.into_parts();
    let Ok(text) = axum::body::to_bytes(body, LONGEST_TEXT).await else {
        return parts.status.into_response();
    };
    let title = match parts.status {
        StatusCode::BAD_REQUEST => "Invalid request",
        StatusCode::UNAUTHORIZED => "Credentials required",
        StatusCode::FORBIDDEN => "Not allowed",
        StatusCode::NOT_FOUND => "Not found",
        StatusCode::SERVICE_UNAVAILABLE => "Not available now",
        status => status.canonical_reason().unwrap_or("Problem"),
    };
    let page = page::render_refusal(title, &String::from_utf8_lossy(&text), depth);

    parts.headers.remove(header::CONTENT_LENGTH);
    parts.headers.remove(header::CONTENT_TYPE);
    let mut readable = html(parts.status, page);
    for (name, value) in parts.headers.iter() {
        readable.headers_mut().append(name, value.clone());
    }
    readable
}

fn problem_page(exporter: &Exporter, status: StatusCode, problem: &str) -> Response {
    let title = if status == StatusCode::NOT_FOUND { "Not found" } else { "Invalid request" };
    html(status, page::render_problem(title, problem, &exporter.input()))
}

fn html(status: StatusCode, page: String) -> Response {
    (status, [(header::CONTENT_SECURITY_POLICY, page::CONTENT_SECURITY_POLICY)], Html(page))
        .into_response()
}
