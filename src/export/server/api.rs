//! Handles requests to the JSON API.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use loopwatch_model::observation::Role;
use loopwatch_model::snapshot::{Cursor, Explanation, ObjectRow, ObjectState};
use serde::Deserialize;
use serde_json::json;

use super::exporter::Exporter;
use crate::export::presentation::json;
use crate::export::view::{
    Filter, ListPosition, LookupError, ObjectQuestion, PageEdge, SortOrder, SortedPage, Word,
    explain_object, sorted_page,
};

/// Query parameters of `/api/v1/findings`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct FindingQuery {
    /// The default is the largest limit.
    limit: Option<usize>,
    /// The continue token of the previous page.
    r#continue: String,
}

/// Query parameters of `/api/v1/objects`. An empty parameter does not filter. `core` stands for the
/// empty group name, and `kind` may also be `group/Kind`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct ObjectQuery {
    group: String,
    kind: String,
    namespace: String,
    name: String,
    state: String,
    /// `primary` or `child`: the role of the kind.
    role: String,
    /// Words that must each be part of the group, the kind, the namespace or the name.
    search: String,
    /// `state`, `age` or `name`, with `-` before it to reverse the order. Without it, the order has
    /// no meaning, and the response needs fewer visits.
    sort: String,
    limit: Option<usize>,
    /// The continue token of the previous page.
    r#continue: String,
    /// The token for the page before a place; only with `sort`.
    before: String,
}

/// Query parameters of `/api/v1/explain`. Without `namespace`, the name must be unique.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct ExplainQuery {
    pub(super) group: String,
    pub(super) kind: String,
    pub(super) namespace: String,
    pub(super) name: String,
}

/// One page of a sorted list.
pub(super) struct SortedList {
    pub(super) filter: Filter,
    pub(super) order: SortOrder,
    pub(super) page: SortedPage,
}

/// Maximum number of objects in a response if the request sets no `limit`.
const DEFAULT_LIMIT: usize = 100;
/// Largest `limit` that a request can set.
const MAX_LIMIT: usize = 1000;

/// Maximum number of objects visited under one lock of the model.
const BATCH: usize = 1024;

/// Maximum number of objects visited for one response, so that a filter without matches does not
/// visit a million objects. A response that reaches the maximum has fewer objects than `limit`, and
/// a continue token.
const MAX_VISITED: usize = 100 * BATCH;

/// Longest search text. loopwatch compares each of its words with many names.
const LONGEST_SEARCH: usize = 256;

/// Longest parameter of `/api/v1/explain`: a kind with its version and group. loopwatch compares
/// each with many names.
const LONGEST_NAME: usize = 512;

pub(super) async fn status(State(exporter): State<Arc<Exporter>>) -> Response {
    let snapshot = exporter.view.snapshot();
    let scrapes = exporter.scrapes(snapshot.at);
    Json(json::status(&snapshot, &exporter.input(), &scrapes)).into_response()
}

pub(super) async fn findings(
    State(exporter): State<Arc<Exporter>>,
    query: Result<Query<FindingQuery>, QueryRejection>,
) -> Response {
    let FindingQuery { limit, r#continue: token } = match query {
        Ok(Query(query)) => query,
        Err(rejection) => return error(StatusCode::BAD_REQUEST, &rejection.body_text()),
    };
    let mut snapshot = exporter.view.snapshot();
    let total = snapshot.findings.len();

    if !token.is_empty() {
        let Some((since, id)) =
            token.split_once('/').and_then(|(since, id)| Some((since.parse().ok()?, id)))
        else {
            return error(StatusCode::BAD_REQUEST, &invalid_token(&token));
        };

        // The newest come last, so that findings that open in the meantime are on a later page.
        snapshot
            .findings
            .retain(|finding| (finding.since.0, finding.id.to_string().as_str()) > (since, id));
    }

    snapshot.findings.sort_by_cached_key(|finding| (finding.since, finding.id.to_string()));
    let room = limit.unwrap_or(MAX_LIMIT).clamp(1, MAX_LIMIT);
    let has_more = snapshot.findings.len() > room;
    snapshot.findings.truncate(room);

    let last = snapshot.findings.last().filter(|_| has_more);
    let next = last.map(|finding| format!("{}/{}", finding.since.0, finding.id));
    Json(json::findings(&snapshot, total, next)).into_response()
}

pub(super) async fn operator(State(exporter): State<Arc<Exporter>>) -> Response {
    Json(json::operator(&exporter.view.snapshot().operator)).into_response()
}

pub(super) async fn timeline(State(exporter): State<Arc<Exporter>>) -> Response {
    Json(json::timeline(&exporter.view.recent_past())).into_response()
}

pub(super) async fn objects(
    State(exporter): State<Arc<Exporter>>,
    query: Result<Query<ObjectQuery>, QueryRejection>,
) -> Response {
    match listed(&exporter, query).await {
        Ok((rows, next)) => Json(json::objects(&rows, next)).into_response(),
        Err(problem) => error(StatusCode::BAD_REQUEST, &problem),
    }
}

/// Lists the objects that the query selects, with the start of the next page.
async fn listed(
    exporter: &Exporter,
    query: Result<Query<ObjectQuery>, QueryRejection>,
) -> Result<(Vec<ObjectRow>, Option<String>), String> {
    let Query(query) = query.map_err(|rejection| rejection.body_text())?;
    if !query.sort.is_empty() {
        let SortedList { page, .. } = sorted(exporter, query).await?;
        let next =
            page.rows.last().filter(|_| page.has_next).map(|row| ListPosition::of(row).to_string());
        return Ok((page.rows, next));
    }

    if !query.before.is_empty() {
        return Err("the parameter before needs the parameter sort".to_owned());
    }

    let (filter, cursor) = (query.filter()?, query.cursor()?);
    let (rows, next) = gather(exporter, &filter, cursor, query.limit()).await;
    Ok((rows, next.map(|cursor| cursor.0.to_string())))
}

/// Lists the objects that the query selects, the worst first by default.
///
/// # Errors
/// If the query is not valid.
pub(super) async fn sorted(exporter: &Exporter, query: ObjectQuery) -> Result<SortedList, String> {
    let order = match query.sort.as_str() {
        "" => SortOrder::default(),
        sort => SortOrder::parse(sort)?,
    };
    let (filter, edge) = (query.filter()?, query.edge()?);
    let page = sorted_page(&*exporter.view, &filter, order, &edge, query.limit()).await;

    Ok(SortedList { filter, order, page })
}

pub(super) async fn explain(
    State(exporter): State<Arc<Exporter>>,
    query: Result<Query<ExplainQuery>, QueryRejection>,
) -> Response {
    let explanation = match explained(&exporter, query).await {
        Ok(explanation) => explanation,
        Err((status, problem)) => return error(status, &problem),
    };
    let not_visible = exporter.input().blind_spots_of_one_object(&exporter.view.snapshot());

    Json(json::explain(&explanation, exporter.trace_id(&explanation), &not_visible)).into_response()
}

/// Explains one object, or says why that is impossible.
pub(super) async fn explained(
    exporter: &Exporter,
    query: Result<Query<ExplainQuery>, QueryRejection>,
) -> Result<Explanation, (StatusCode, String)> {
    let refuse = |problem: &str| Err((StatusCode::BAD_REQUEST, problem.to_owned()));
    let ExplainQuery { group, kind, namespace, name } = match query {
        Ok(Query(query)) => query,
        Err(rejection) => return refuse(&rejection.body_text()),
    };
    if kind.is_empty() || name.is_empty() {
        return refuse("the parameters kind and name are necessary");
    }

    if [&group, &kind, &namespace, &name].into_iter().any(|text| text.len() > LONGEST_NAME) {
        return refuse("a parameter is longer than any name");
    }

    let namespace = (!namespace.is_empty()).then_some(namespace);
    let question = ObjectQuestion { group, kind, namespace, name };
    explain_object(&*exporter.view, &question).await.map_err(|problem| {
        let status = match problem {
            LookupError::SeveralKinds { .. } | LookupError::SeveralObjects { .. } => {
                StatusCode::BAD_REQUEST
            }
            LookupError::NoKind { .. }
            | LookupError::NotInFile { .. }
            | LookupError::NoObject { .. } => StatusCode::NOT_FOUND,
        };
        (status, problem.to_string())
    })
}

/// Collects up to `limit` matching rows, starting at the cursor. The returned cursor is `None`
/// after the last object.
async fn gather(
    exporter: &Exporter,
    filter: &Filter,
    from: Cursor,
    limit: usize,
) -> (Vec<ObjectRow>, Option<Cursor>) {
    let (mut rows, mut next, mut visited) = (Vec::new(), Some(from), 0);
    while let Some(cursor) = next
        && rows.len() < limit
        && visited < MAX_VISITED
    {
        let (found, after) = exporter
            .view
            .select(cursor, BATCH, limit - rows.len(), &|object| filter.selects(object));
        rows.extend(found);
        next = after;
        visited += BATCH;
        tokio::task::yield_now().await;
    }

    (rows, next)
}

/// Counts and a checksum, for comparing instances: instances with the same observations return the
/// same values.
pub(super) async fn debug(State(exporter): State<Arc<Exporter>>) -> Response {
    let snapshot = exporter.view.snapshot();
    let (mut objects, mut checksum, mut next) = (0_u64, 0_u64, Some(Cursor::default()));
    while let Some(cursor) = next {
        next = exporter.view.visit(cursor, BATCH, &mut |object| {
            objects += 1;
            // The order of the objects does not affect a sum.
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
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn error(status: StatusCode, problem: &str) -> Response {
    (status, Json(json!({ "version": json::VERSION, "error": problem }))).into_response()
}

impl ObjectQuery {
    fn filter(&self) -> Result<Filter, String> {
        let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let group =
            given(&self.group).map(|group| if group == "core" { String::new() } else { group });
        let (group, kind) = match self.kind.split_once('/') {
            Some((group, kind)) => (Some(group.to_owned()), kind),
            None => (group, self.kind.as_str()),
        };

        if self.search.len() > LONGEST_SEARCH {
            return Err(format!("the search is longer than {LONGEST_SEARCH} bytes"));
        }

        Ok(Filter {
            role: given(&self.role).map(|role| parse_role(&role)).transpose()?,
            group,
            kind: given(kind),
            namespace: given(&self.namespace),
            name: given(&self.name),
            state: given(&self.state).map(|state| parse_state(&state)).transpose()?,
            words: self.search.split_whitespace().map(Word::new).collect(),
        })
    }

    fn limit(&self) -> usize {
        self.limit.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT)
    }

    fn cursor(&self) -> Result<Cursor, String> {
        match self.r#continue.as_str() {
            "" => Ok(Cursor::default()),
            token => token.parse().map(Cursor).map_err(|_| invalid_token(token)),
        }
    }

    fn edge(&self) -> Result<PageEdge, String> {
        let place = |token: &str| ListPosition::parse(token).ok_or_else(|| invalid_token(token));
        match (self.r#continue.as_str(), self.before.as_str()) {
            ("", "") => Ok(PageEdge::Start),
            (after, "") => place(after).map(PageEdge::After),
            ("", before) => place(before).map(PageEdge::Before),
            _ => Err("a page is either before or after another one, not both".to_owned()),
        }
    }
}

fn invalid_token(token: &str) -> String {
    format!("{token:?} is not a valid continue token")
}

fn parse_role(text: &str) -> Result<Role, String> {
    match text {
        "primary" => Ok(Role::Primary),
        "child" => Ok(Role::Child),
        _ => Err(format!("{text:?} is not a valid role; expected primary or child")),
    }
}

fn parse_state(text: &str) -> Result<ObjectState, String> {
    let names = ObjectState::ALL.iter().map(|state| state.as_str());
    ObjectState::ALL.iter().copied().find(|state| state.as_str() == text).ok_or_else(|| {
        format!(
            "{text:?} is not a valid state; expected one of {}",
            names.collect::<Vec<_>>().join(", ")
        )
    })
}
