//! The JSON that is promised to scripts. Version 1 is permanent: fields are only ever added.
//!
//! The API and `check -o json` write the same shapes. Keys of kinds are `group/Kind`; the core group is empty, so that a
//! Pod's key is `/Pod`. Times are RFC 3339 in UTC, spans are seconds.

use std::collections::BTreeMap;

use loopwatch_model::finding::{Evidence, Finding, Value};
use loopwatch_model::observation::Role;
use loopwatch_model::snapshot::{KindSummary, ObjectRow, ObjectState, Snapshot, SourceSummary, WatchSummary};
use loopwatch_model::time::Timestamp;
use serde::Serialize;

use super::summary::{self, BlindSpot};

/// The version of every shape here.
pub const VERSION: u32 = 1;

/// `/api/v1/findings`.
#[derive(Debug, Serialize)]
pub struct Findings<'a> {
    version: u32,
    findings: Vec<FindingView<'a>>,
}

/// `/api/v1/objects`.
#[derive(Debug, Serialize)]
pub struct Objects<'a> {
    version: u32,
    objects: Vec<ObjectView<'a>>,
    /// Where the next page begins; null on the last one.
    r#continue: Option<String>,
}

/// `/api/v1/status`.
#[derive(Debug, Serialize)]
pub struct VersionedStatus<'a> {
    version: u32,
    #[serde(flatten)]
    status: Status<'a>,
}

/// `check -o json`.
#[derive(Debug, Serialize)]
pub struct Check<'a> {
    version: u32,
    status: Status<'a>,
    objects: BTreeMap<String, BTreeMap<&'static str, u64>>,
    findings: Vec<FindingView<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    items: Option<Vec<ItemView<'a>>>,
}

/// One finding.
#[derive(Debug, Serialize)]
pub struct FindingView<'a> {
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

/// On whom a finding is.
#[derive(Debug, Serialize)]
pub struct SubjectView<'a> {
    group: &'a str,
    kind: &'a str,
    namespace: &'a str,
    name: &'a str,
}

/// One object.
#[derive(Debug, Serialize)]
pub struct ObjectView<'a> {
    group: &'a str,
    kind: &'a str,
    namespace: &'a str,
    name: &'a str,
    uid: &'a str,
    state: &'static str,
    reason: &'static str,
    signal: &'a str,
    since: Timestamp,
    unconverged_since: Option<Timestamp>,
    generation: i64,
    observed_generation: Option<i64>,
    created: Option<Timestamp>,
    terminating_since: Option<Timestamp>,
    phase: &'a str,
    conditions: Vec<ConditionView<'a>>,
    finalizers: &'a [String],
    owners: &'a [String],
}

/// One condition.
#[derive(Debug, Serialize)]
struct ConditionView<'a> {
    r#type: &'a str,
    status: &'static str,
}

/// One object of `check --all`.
#[derive(Debug, Serialize)]
pub struct ItemView<'a> {
    group: &'a str,
    kind: &'a str,
    namespace: &'a str,
    name: &'a str,
    state: &'static str,
    reason: &'static str,
    signal: &'a str,
}

/// What is seen, what is not and why, and who says so.
#[derive(Debug, Serialize)]
pub struct Status<'a> {
    at: Timestamp,
    loopwatch: Build,
    health: &'static str,
    namespaces: BTreeMap<&'a str, &'static str>,
    kinds: Vec<KindView<'a>>,
    sources: Vec<SourceView<'a>>,
    not_visible: Vec<BlindSpot>,
}

#[derive(Debug, Serialize)]
struct Build {
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
    deadline_source: &'static str,
    oldest_unconverged: Option<Timestamp>,
    convergence: Latency,
    watches: Vec<WatchView<'a>>,
}

#[derive(Debug, Serialize)]
struct Latency {
    count: u64,
    median_seconds: Option<f64>,
    p90_seconds: Option<f64>,
}

#[derive(Debug, Serialize)]
struct WatchView<'a> {
    watch: &'a str,
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
    failures: &'a BTreeMap<&'static str, u64>,
}

// === shapes ===

/// `/api/v1/findings`.
#[must_use]
pub fn findings(snapshot: &Snapshot) -> Findings<'_> {
    Findings { version: VERSION, findings: finding_views(snapshot) }
}

/// `/api/v1/objects`: `rows`, and where the next page begins.
#[must_use]
pub fn objects(rows: &[ObjectRow], next: Option<String>) -> Objects<'_> {
    Objects { version: VERSION, objects: rows.iter().map(ObjectView::of).collect(), r#continue: next }
}

/// `/api/v1/status`.
#[must_use]
pub fn status(snapshot: &Snapshot) -> VersionedStatus<'_> {
    VersionedStatus { version: VERSION, status: Status::of(snapshot) }
}

/// `check -o json`; `rows` are all objects, with `--all`.
#[must_use]
pub fn check<'a>(snapshot: &'a Snapshot, rows: Option<&'a [ObjectRow]>) -> Check<'a> {
    let key = |kind: &KindSummary| format!("{}/{}", kind.group, kind.kind);
    Check {
        version: VERSION,
        status: Status::of(snapshot),
        objects: snapshot.kinds.iter().map(|kind| (key(kind), states(kind))).collect(),
        findings: finding_views(snapshot),
        items: rows.map(|rows| rows.iter().map(ItemView::of).collect()),
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
        let Finding { id, code: _, subject, since, found, confidence, evidence, explained_by } = finding;
        let (info, Evidence(evidence)) = (finding.info(), evidence);
        Self {
            id: id.to_string(),
            code: info.name,
            severity: info.severity.as_str(),
            confidence: confidence.as_str(),
            since: *since,
            found: *found,
            subject: SubjectView {
                group: subject.group(),
                kind: subject.kind(),
                namespace: subject.namespace(),
                name: subject.name(),
            },
            explained_by: explained_by.map(|root| root.to_string()),
            evidence: evidence.iter().map(|(key, value)| (*key, value)).collect(),
            summary: finding.summary(),
            advice: info.advice,
            command: finding.command(),
            runbook: summary::runbook(info.name),
        }
    }
}

impl<'a> ObjectView<'a> {
    fn of(row: &'a ObjectRow) -> Self {
        let conditions = row.conditions.iter();
        Self {
            group: &row.group,
            kind: &row.kind,
            namespace: &row.namespace,
            name: &row.name,
            uid: &row.uid,
            state: row.state.as_str(),
            reason: row.reason,
            signal: &row.signal,
            since: row.since,
            unconverged_since: row.unconverged_since,
            generation: row.generation,
            observed_generation: row.observed_generation,
            created: row.created,
            terminating_since: row.terminating_since,
            phase: &row.phase,
            conditions: conditions.map(|(name, status)| ConditionView { r#type: name, status }).collect(),
            finalizers: &row.finalizers,
            owners: &row.owners,
        }
    }
}

impl<'a> ItemView<'a> {
    fn of(row: &'a ObjectRow) -> Self {
        let ObjectRow { group, kind, namespace, name, state, reason, signal, .. } = row;
        Self { group, kind, namespace, name, state: state.as_str(), reason, signal }
    }
}

impl<'a> Status<'a> {
    fn of(snapshot: &'a Snapshot) -> Self {
        Self {
            at: snapshot.at,
            loopwatch: Build { version: crate::telemetry::VERSION, revision: crate::telemetry::REVISION },
            health: summary::overall(snapshot),
            namespaces: snapshot.health.iter().map(|(name, health)| (name.as_str(), health.as_str())).collect(),
            kinds: snapshot.kinds.iter().map(KindView::of).collect(),
            sources: snapshot.sources.iter().map(SourceView::of).collect(),
            not_visible: summary::blind_spots(snapshot),
        }
    }
}

impl<'a> KindView<'a> {
    fn of(kind: &'a KindSummary) -> Self {
        let seconds = |q| summary::quantile(&kind.convergence, q).map(|span| span.seconds());
        Self {
            group: &kind.group,
            kind: &kind.kind,
            version: &kind.version,
            resource: &kind.resource,
            role: kind.role,
            states: states(kind),
            deadline_seconds: kind.deadline.seconds(),
            deadline_source: kind.deadline_source.as_str(),
            oldest_unconverged: kind.oldest_unconverged,
            convergence: Latency {
                count: kind.convergence.count(),
                median_seconds: seconds(0.5),
                p90_seconds: seconds(0.9),
            },
            watches: kind.watches.iter().map(WatchView::of).collect(),
        }
    }
}

impl<'a> WatchView<'a> {
    fn of(watch: &'a WatchSummary) -> Self {
        let WatchSummary { watch, scope, objects, synced, missing, audit_difference, lag: _ } = watch;
        Self {
            watch: &watch.0,
            scope: summary::scope(scope),
            objects: *objects,
            synced: *synced,
            missing,
            audit_difference: *audit_difference,
        }
    }
}

impl<'a> SourceView<'a> {
    fn of(source: &'a SourceSummary) -> Self {
        let SourceSummary { source, up, since, last_success, failures, latest } = source;
        let latest = latest.as_ref().filter(|_| !up);
        Self {
            source,
            up: *up,
            since: *since,
            last_success: *last_success,
            cause: latest.map(|(cause, _)| *cause),
            detail: latest.map(|(_, detail)| detail.as_str()),
            failures,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::golden;
    use crate::export::sample::sample;

    #[test]
    fn the_shapes_are_as_promised() {
        let sample = sample();
        let check_all = check(&sample.snapshot, Some(&sample.rows));
        for (path, value) in [
            ("tests/golden/findings.json", serde_json::to_string_pretty(&findings(&sample.snapshot))),
            (
                "tests/golden/objects.json",
                serde_json::to_string_pretty(&objects(&sample.rows[..2], Some("2".to_owned()))),
            ),
            ("tests/golden/status.json", serde_json::to_string_pretty(&status(&sample.snapshot))),
            ("tests/golden/check.json", serde_json::to_string_pretty(&check_all)),
        ] {
            golden::check(path, &(value.expect("plain data") + "\n"));
        }
    }

    #[test]
    fn without_all_there_are_no_items() {
        let sample = sample();
        let text = serde_json::to_value(check(&sample.snapshot, None)).expect("plain data");
        assert!(text.get("items").is_none());
        assert_eq!(text["objects"]["/Pod"]["converged"], 1211);
    }
}
