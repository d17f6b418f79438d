//! The JSON about what loopwatch sees: kinds, sources, and blind spots.

use std::collections::BTreeMap;

use loopwatch_model::observation::{Role, WatchId};
use loopwatch_model::snapshot::{
    DeadlineSource, Health, KindSummary, ObjectState, Snapshot, SourceSummary, WatchSummary,
};
use loopwatch_model::time::{Span, Timestamp};
use serde::Serialize;

use crate::export::view::{
    BlindSpot, DumpInput, Input, OverallHealth, RecordingInput, quantile, scope_in_words,
};
use crate::telemetry::{REVISION, VERSION};

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

pub(super) fn states(kind: &KindSummary) -> BTreeMap<&'static str, u64> {
    named_states(kind.states())
}

/// The number of objects in each state, by its name.
pub(super) fn named_states(states: [u64; ObjectState::ALL.len()]) -> BTreeMap<&'static str, u64> {
    ObjectState::ALL.iter().map(|state| state.as_str()).zip(states).collect()
}

impl<'a> StatusView<'a> {
    pub(super) fn of(snapshot: &'a Snapshot, input: &'a Input) -> Self {
        Self {
            at: snapshot.at,
            loopwatch: BuildView { version: VERSION, revision: REVISION },
            health: OverallHealth::of(snapshot, input).as_str(),
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
    pub(super) fn of(kind: &'a KindSummary) -> Self {
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
    pub(super) fn of(watch: &'a WatchSummary) -> Self {
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
    pub(super) fn of(source: &'a SourceSummary) -> Self {
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
