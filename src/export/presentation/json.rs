//! The JSON for scripts. Version 1 is permanent: fields are only ever added.
//!
//! The API and `check -o json` write the same shapes. Keys of kinds are `group/Kind`; the core
//! group is empty, so that a Pod's key is `/Pod`. Times are RFC 3339 in UTC, spans are seconds. An
//! object is a serialised [`ObjectRow`].

mod explain; // one object
mod operator; // the operator itself
mod timeline; // the last hours

use std::collections::BTreeMap;

use loopwatch_model::finding::{Change, Evidence, Finding, FindingEvent, Subject, Value};
use loopwatch_model::observation::{Role, WatchId};
use loopwatch_model::snapshot::{
    DeadlineSource, Health, KindSummary, ObjectRow, ObjectState, Snapshot, SourceSummary,
    WatchSummary,
};
use loopwatch_model::time::{Span, Timestamp};
use serde::Serialize;

pub(crate) use self::explain::{Explained, FindingText, explain};
pub(crate) use self::operator::operator;
pub(crate) use self::timeline::timeline;
use crate::export::view::{
    BlindSpot, DumpInput, Input, OverallHealth, RecordingInput, quantile, runbook, scope_in_words,
};

/// The version of all shapes.
pub(crate) const VERSION: u32 = 1;

/// `/api/v1/findings`.
#[derive(Debug, Serialize)]
pub(crate) struct FindingsResponse<'a> {
    version: u32,
    findings: Vec<FindingView<'a>>,
    /// The number of all open findings.
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

/// `/api/v1/status`.
#[derive(Debug, Serialize)]
pub(crate) struct StatusResponse<'a> {
    version: u32,
    #[serde(flatten)]
    status: StatusView<'a>,
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

/// The opening or closing of a finding in a replay, with the finding at that time.
#[derive(Debug, Serialize)]
pub(crate) struct EventView<'a> {
    at: Timestamp,
    change: &'static str,
    id: String,
    code: &'static str,
    severity: &'static str,
    confidence: &'static str,
    since: Timestamp,
    subject: SubjectView<'a>,
    explained_by: Option<String>,
    evidence: BTreeMap<&'static str, &'a Value>,
}

/// One finding.
#[derive(Debug, Serialize)]
pub(crate) struct FindingView<'a> {
    id: String,
    code: &'static str,
    severity: &'static str,
    confidence: &'static str,
    since: Timestamp,
    found: Timestamp,
    subject: SubjectView<'a>,
    explained_by: Option<String>,
    evidence: BTreeMap<&'static str, &'a Value>,
    summary: String,
    advice: &'static str,
    command: String,
    runbook: String,
}

/// The subject of a finding.
#[derive(Debug, Serialize)]
pub(crate) struct SubjectView<'a> {
    group: &'a str,
    kind: &'a str,
    namespace: &'a str,
    name: &'a str,
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

/// Kinds, sources, and blind spots with their reasons.
#[derive(Debug, Serialize)]
pub(crate) struct StatusView<'a> {
    at: Timestamp,
    loopwatch: BuildView,
    health: &'static str,
    namespaces: &'a BTreeMap<String, Health>,
    kinds: Vec<KindView<'a>>,
    sources: Vec<SourceView<'a>>,
    not_visible: Vec<BlindSpot>,
    #[serde(skip_serializing_if = "Option::is_none")]
    recording: Option<&'a RecordingInput>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dump: Option<&'a DumpInput>,
}

#[derive(Debug, Serialize)]
struct BuildView {
    version: &'static str,
    revision: &'static str,
}

#[derive(Debug, Serialize)]
struct KindView<'a> {
    group: &'a str,
    kind: &'a str,
    version: &'a str,
    resource: &'a str,
    role: Role,
    states: BTreeMap<&'static str, u64>,
    deadline_seconds: f64,
    deadline_source: DeadlineSource,
    oldest_unconverged: Option<Timestamp>,
    convergence: LatencyView,
    watches: Vec<WatchView<'a>>,
}

#[derive(Debug, Serialize)]
struct LatencyView {
    count: u64,
    median_seconds: Option<f64>,
    p90_seconds: Option<f64>,
}

#[derive(Debug, Serialize)]
struct WatchView<'a> {
    watch: &'a WatchId,
    scope: String,
    objects: u64,
    synced: bool,
    missing: &'a [String],
    audit_difference: Option<i64>,
}

#[derive(Debug, Serialize)]
struct SourceView<'a> {
    source: &'a str,
    up: bool,
    since: Timestamp,
    last_success: Option<Timestamp>,
    cause: Option<&'static str>,
    detail: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    off: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    interval_seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    restricted: Option<&'a str>,
    failures: &'a BTreeMap<&'static str, u64>,
}

// === shapes ===

/// `/api/v1/findings`: those of one page, of `total`, and `next`, the start of the next page.
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

/// `/api/v1/objects`: `rows`, and `next`, the start of the next page.
#[must_use]
pub(crate) fn objects(rows: &[ObjectRow], next: Option<String>) -> ObjectsResponse<'_> {
    ObjectsResponse { version: VERSION, objects: rows, r#continue: next }
}

/// `/api/v1/status`.
#[must_use]
pub(crate) fn status<'a>(snapshot: &'a Snapshot, input: &'a Input) -> StatusResponse<'a> {
    StatusResponse { version: VERSION, status: StatusView::of(snapshot, input) }
}

/// `check -o json` and `replay -o json`; `rows` holds all objects if the user gave `--all`, and
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

fn states(kind: &KindSummary) -> BTreeMap<&'static str, u64> {
    ObjectState::ALL.iter().map(|state| state.as_str()).zip(kind.states()).collect()
}

impl<'a> FindingView<'a> {
    fn of(finding: &'a Finding) -> Self {
        let Finding {
            id,
            code: _,
            subject,
            since,
            found,
            severity,
            confidence,
            evidence,
            explained_by,
            alerts_from: _,
        } = finding;

        let (info, Evidence(evidence)) = (finding.info(), evidence);
        Self {
            id: id.to_string(),
            code: info.name,
            severity: severity.as_str(),
            confidence: confidence.as_str(),
            since: *since,
            found: *found,
            subject: SubjectView::of(subject),
            explained_by: explained_by.map(|root| root.to_string()),
            evidence: evidence.iter().map(|(key, value)| (*key, value)).collect(),
            summary: finding.summary(),
            advice: info.advice,
            command: finding.command(),
            runbook: runbook(info.name),
        }
    }
}

impl<'a> EventView<'a> {
    fn of(event: &'a FindingEvent) -> Self {
        let FindingEvent { at, change, finding } = event;
        Self {
            at: *at,
            change: match change {
                Change::Opened => "opened",
                Change::Closed => "closed",
                Change::Explained => "explained",
            },
            id: finding.id.to_string(),
            code: finding.code.name(),
            severity: finding.severity.as_str(),
            confidence: finding.confidence.as_str(),
            since: finding.since,
            subject: SubjectView::of(&finding.subject),
            explained_by: finding.explained_by.map(|root| root.to_string()),
            evidence: finding.evidence.0.iter().map(|(key, value)| (*key, value)).collect(),
        }
    }
}

impl<'a> SubjectView<'a> {
    fn of(subject: &'a Subject) -> Self {
        let (group, kind) = (subject.group(), subject.kind());
        Self { group, kind, namespace: subject.namespace(), name: subject.name() }
    }
}

impl<'a> ItemView<'a> {
    fn of(row: &'a ObjectRow) -> Self {
        let ObjectRow { group, kind, namespace, name, state, reason, signal, .. } = row;
        Self { group, kind, namespace, name, state: state.as_str(), reason, signal }
    }
}

impl<'a> StatusView<'a> {
    fn of(snapshot: &'a Snapshot, input: &'a Input) -> Self {
        Self {
            at: snapshot.at,
            loopwatch: BuildView {
                version: crate::telemetry::VERSION,
                revision: crate::telemetry::REVISION,
            },
            health: OverallHealth::of(snapshot).as_str(),
            namespaces: &snapshot.health,
            kinds: snapshot.kinds.iter().map(KindView::of).collect(),
            sources: snapshot.sources.iter().map(SourceView::of).collect(),
            not_visible: input.all_blind_spots(snapshot),
            recording: input.recording.as_ref(),
            dump: input.dump.as_ref(),
        }
    }
}

impl<'a> KindView<'a> {
    fn of(kind: &'a KindSummary) -> Self {
        let seconds = |q| quantile(&kind.totals.convergence, q).map(|span| span.seconds());
        Self {
            group: &kind.group,
            kind: &kind.kind,
            version: &kind.version,
            resource: &kind.resource,
            role: kind.role,
            states: states(kind),
            deadline_seconds: kind.deadline.seconds(),
            deadline_source: kind.deadline_source,
            oldest_unconverged: kind.oldest_unconverged,
            convergence: LatencyView {
                count: kind.totals.convergence.count(),
                median_seconds: seconds(0.5),
                p90_seconds: seconds(0.9),
            },
            watches: kind.watches.iter().map(WatchView::of).collect(),
        }
    }
}

impl<'a> WatchView<'a> {
    fn of(watch: &'a WatchSummary) -> Self {
        let WatchSummary { watch, scope, synced, missing, totals } = watch;
        Self {
            watch,
            scope: scope_in_words(scope),
            objects: totals.objects,
            synced: *synced,
            missing,
            audit_difference: totals.audit_difference,
        }
    }
}

impl<'a> SourceView<'a> {
    fn of(source: &'a SourceSummary) -> Self {
        let SourceSummary {
            source,
            up,
            since,
            last_success,
            failures,
            latest,
            off,
            interval,
            restricted,
        } = source;

        let latest = latest.as_ref().filter(|_| !up);
        Self {
            source,
            up: *up,
            since: *since,
            last_success: *last_success,
            cause: latest.map(|(cause, _)| *cause),
            detail: latest.map(|(_, detail)| detail.as_str()),
            off: off.as_deref(),
            interval_seconds: interval.map(Span::seconds),
            restricted: restricted.as_deref(),
            failures,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::sample::sample;
    use crate::golden;

    #[test]
    fn the_shapes_match_their_golden_files() {
        let sample = sample();
        let input = Input::default();
        let check_all = check(&sample.snapshot, Some(&sample.rows), &input, None);

        for (path, value) in [
            (
                "tests/golden/findings.json",
                serde_json::to_string_pretty(&findings(
                    &sample.snapshot,
                    sample.snapshot.findings.len(),
                    None,
                )),
            ),
            (
                "tests/golden/objects.json",
                serde_json::to_string_pretty(&objects(&sample.rows[..2], Some("2".to_owned()))),
            ),
            (
                "tests/golden/status.json",
                serde_json::to_string_pretty(&status(&sample.snapshot, &input)),
            ),
            ("tests/golden/check.json", serde_json::to_string_pretty(&check_all)),
        ] {
            golden::check(path, &(value.expect("plain data") + "\n"));
        }
    }

    #[test]
    fn items_are_absent_unless_all_objects_are_requested() {
        let sample = sample();
        let text = serde_json::to_value(check(&sample.snapshot, None, &Input::default(), None))
            .expect("plain data");

        assert!(text.get("items").is_none());
        assert_eq!(text["objects"]["/Pod"]["converged"], 1211);
    }
}
