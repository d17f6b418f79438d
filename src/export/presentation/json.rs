//! The JSON for scripts. Version 1 is permanent: later releases only add fields.
//!
//! The API and `check -o json` write the same shapes. Keys of kinds are `group/Kind`; the core
//! group is empty, so that a Pod's key is `/Pod`. Times are RFC 3339 in UTC, and durations are in
//! seconds. An object is a serialized [`ObjectRow`].

mod doctor; // the checks of an installation
mod explain; // one object
mod findings; // findings, and their openings and closings
mod operator; // the operator itself
mod operators; // many operators
mod status; // kinds, sources, and blind spots
mod timeline; // the last hours
mod version; // the version of all shapes

use std::collections::BTreeMap;

use loopwatch_model::finding::FindingEvent;
use loopwatch_model::snapshot::{KindSummary, ObjectRow, Rights, Snapshot};
use serde::Serialize;

pub(crate) use self::doctor::doctor;
pub(crate) use self::explain::{Explained, FindingText, explain};
use self::findings::EventView;
pub(crate) use self::findings::FindingView;
pub(crate) use self::operator::operator;
pub(crate) use self::operators::operators;
use self::status::{StatusView, named_states, states};
pub(crate) use self::timeline::timeline;
pub(crate) use self::version::VERSION;
use crate::export::view::{Input, Scrapes};

/// `/api/v1/findings`.
#[derive(Debug, Serialize)]
pub(crate) struct FindingsResponse<'a> {
    version: u32,
    findings: Vec<FindingView<'a>>,
    /// The number of all open findings, on all pages.
    total: usize,
    /// The start of the next page; absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    r#continue: Option<String>,
}

/// `/api/v1/objects`.
#[derive(Debug, Serialize)]
pub(crate) struct ObjectsResponse<'a> {
    version: u32,
    objects: &'a [ObjectRow],
    /// The start of the next page; null on the last one.
    r#continue: Option<String>,
}

/// `rights -o json`.
#[derive(Debug, Serialize)]
pub(crate) struct RightsResponse<'a> {
    version: u32,
    #[serde(flatten)]
    rights: &'a Rights,
}

/// `/api/v1/status`.
#[derive(Debug, Serialize)]
pub(crate) struct StatusResponse<'a> {
    version: u32,
    #[serde(flatten)]
    status: StatusView<'a>,
    scrapes: &'a Scrapes,
}

/// `check -o json`.
#[derive(Debug, Serialize)]
pub(crate) struct CheckResponse<'a> {
    version: u32,
    status: StatusView<'a>,
    objects: BTreeMap<String, BTreeMap<&'static str, u64>>,
    findings: Vec<FindingView<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    items: Option<Vec<ItemView<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timeline: Option<Vec<EventView<'a>>>,
}

/// One object of `check --all`.
#[derive(Debug, Serialize)]
pub(crate) struct ItemView<'a> {
    group: &'a str,
    kind: &'a str,
    namespace: &'a str,
    name: &'a str,
    state: &'static str,
    reason: &'static str,
    signal: &'a str,
}

/// `/api/v1/findings`: one page of `total` findings; `next` is the start of the next page.
#[must_use]
pub(crate) fn findings(
    snapshot: &Snapshot,
    total: usize,
    next: Option<String>,
) -> FindingsResponse<'_> {
    FindingsResponse {
        version: VERSION,
        findings: finding_views(snapshot),
        total,
        r#continue: next,
    }
}

/// `rights -o json`.
#[must_use]
pub(crate) fn rights(rights: &Rights) -> RightsResponse<'_> {
    RightsResponse { version: VERSION, rights }
}

/// `/api/v1/objects`: `next` is the start of the next page.
#[must_use]
pub(crate) fn objects(rows: &[ObjectRow], next: Option<String>) -> ObjectsResponse<'_> {
    ObjectsResponse { version: VERSION, objects: rows, r#continue: next }
}

/// `/api/v1/status`.
#[must_use]
pub(crate) fn status<'a>(
    snapshot: &'a Snapshot,
    input: &'a Input,
    scrapes: &'a Scrapes,
) -> StatusResponse<'a> {
    StatusResponse { version: VERSION, status: StatusView::of(snapshot, input), scrapes }
}

/// `check -o json` and `replay -o json`. `rows` holds all objects if the user sets `--all`, and
/// `timeline` the finding events of a replay.
#[must_use]
pub(crate) fn check<'a>(
    snapshot: &'a Snapshot,
    rows: Option<&'a [ObjectRow]>,
    input: &'a Input,
    timeline: Option<&'a [FindingEvent]>,
) -> CheckResponse<'a> {
    let key = |kind: &KindSummary| format!("{}/{}", kind.group, kind.kind);
    CheckResponse {
        version: VERSION,
        status: StatusView::of(snapshot, input),
        objects: snapshot.kinds.iter().map(|kind| (key(kind), states(kind))).collect(),
        findings: finding_views(snapshot),
        items: rows.map(|rows| rows.iter().map(ItemView::of).collect()),
        timeline: timeline.map(|events| events.iter().map(EventView::of).collect()),
    }
}

fn finding_views(snapshot: &Snapshot) -> Vec<FindingView<'_>> {
    snapshot.findings.iter().map(FindingView::of).collect()
}

impl<'a> ItemView<'a> {
    fn of(row: &'a ObjectRow) -> Self {
        let ObjectRow { group, kind, namespace, name, state, reason, signal, .. } = row;
        Self {
            group,
            kind,
            namespace,
            name,
            state: state.of_listed_object().as_str(),
            reason,
            signal,
        }
    }
}

#[cfg(test)]
mod tests;
