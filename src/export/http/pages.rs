//! The web pages.

use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::{StatusCode, header};
use axum::response::{Html, IntoResponse, Response};

use super::api::{self, ExplainQuery};
use crate::export::exporter::Exporter;
use crate::export::{explain, page};

/// The overview.
pub(super) async fn overview(State(exporter): State<Arc<Exporter>>) -> Response {
    html(StatusCode::OK, page::render(&exporter.view.snapshot(), &exporter.input()))
}

/// One object.
pub(super) async fn object(
    State(exporter): State<Arc<Exporter>>,
    query: Result<Query<ExplainQuery>, QueryRejection>,
) -> Response {
    let explanation = match api::explained(&exporter, query).await {
        Ok(explanation) => explanation,
        Err((status, problem)) => return html(status, page::render_missing(&problem)),
    };
    let snapshot = exporter.view.snapshot();
    let not_visible = explain::blind_spots(&snapshot, &exporter.input());
    html(StatusCode::OK, page::render_object(&snapshot, &explanation, &not_visible))
}

pub(super) async fn css() -> Response {
    ([(header::CONTENT_TYPE, "text/css; charset=utf-8")], page::CSS).into_response()
}

pub(super) async fn js() -> Response {
    ([(header::CONTENT_TYPE, "text/javascript; charset=utf-8")], page::JS).into_response()
}

fn html(status: StatusCode, page: String) -> Response {
    (status, [(header::CONTENT_SECURITY_POLICY, page::CONTENT_SECURITY_POLICY)], Html(page)).into_response()
}
