//! A hand-made snapshot for tests and for viewing the page: a small database operator with many
//! problems.

#![expect(clippy::needless_update, reason = "a new field needs no edit here")]

mod explanation;
mod findings;
mod kinds;
mod operator;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use loopwatch_model::finding::FindingCode;
use loopwatch_model::observation::{LeaseView, ObjectAddress, Permission};
use loopwatch_model::snapshot::{
    Cursor, ExplainedObject, Explanation, FindingTimes, Health, LeaseRow, ObjectRef, ObjectRow,
    ObjectState, ProfileSummary, RecentPast, Snapshot, SourceSummary, TrendSignal, TrendSummary,
};
use loopwatch_model::time::{Span, Timestamp};
use loopwatch_model::trend::{TrendState, TrendVerdict};

pub(crate) use self::explanation::explanation;
use self::findings::{deletions, findings};
use self::kinds::{backups, databases, namespace, pods, ready};
use super::view::View;

/// A view with fixed content.
pub(crate) struct Sample {
    pub(crate) snapshot: Snapshot,
    pub(crate) rows: Vec<ObjectRow>,
}

/// The API group of the sample's primary kinds.
const GROUP: &str = "db.example.io";

/// The time of the sample.
pub(crate) fn now() -> Timestamp {
    Timestamp::parse("2026-03-14T09:26:53Z").expect("a valid time")
}

/// The finding about a stuck deletion has opened twice and closed once.
fn finding_times() -> BTreeMap<FindingCode, FindingTimes> {
    let mut times = FindingTimes::default();
    times.found.observe(Span::mins(15));
    times.found.observe(Span::mins(16));
    times.lasted.observe(Span::hours(2));
    BTreeMap::from([(FindingCode::FinalizerStuck, times)])
}

fn ago(span: Span) -> Timestamp {
    Timestamp(now().0 - span.0)
}

/// A snapshot with every kind of problem.
pub(crate) fn sample() -> Sample {
    let rows = rows();
    let unhealthy =
        rows.iter().filter(|row| row.state != ObjectState::Converged).cloned().collect();
    let snapshot = Snapshot {
        at: now(),
        kinds: vec![databases(), backups(), pods()],
        findings: findings(),
        unhealthy,
        deletions: deletions(),
        health: BTreeMap::from([
            ("team-a".to_owned(), Health::Failing),
            ("team-b".to_owned(), Health::Degraded),
            ("team-c".to_owned(), Health::Healthy),
        ]),
        teams: BTreeMap::from([("team-a".to_owned(), "storage".to_owned())]),
        finding_times: finding_times(),
        sources: sources(),
        permissions_missing: vec![(
            "team-b".to_owned(),
            Permission {
                verb: "list".to_owned(),
                resource: "events".to_owned(),
                ..Permission::default()
            },
        )],
        left_out: Vec::new(),
        leases: vec![LeaseRow {
            lease: LeaseView {
                namespace: "db-system".to_owned(),
                name: "db-operator".to_owned(),
                holder: "db-operator-7c9d_1f".to_owned(),
                renewed: Some(ago(Span::mins(4))), // the operator's clock is slow
                transitions: 3,
                ..LeaseView::default()
            },
            seen_renewed_at: Some(ago(Span::secs(4))),
        }],
        operator: operator::operator(),
        trends: trends(),
        profiles: vec![ProfileSummary {
            instance: "db-system/db-operator-7c9d5f6b8d-x2x4v".to_owned(),
            growth: vec![9 << 20, 2 << 20],
        }],
        dropped: BTreeMap::from([("phases", 2)]),
        observations: BTreeMap::from([("discovery", 12), ("lease", 900), ("watch", 48_211)]),
        ..Snapshot::default()
    };

    Sample { snapshot, rows }
}

/// The operator leaks 4 MiB per hour, while the number of its tasks is steady.
fn trends() -> Vec<TrendSummary> {
    let row = |signal, verdict| TrendSummary {
        instance: "db-system/db-operator-7c9d5f6b8d-x2x4v".to_owned(),
        signal,
        verdict,
    };
    let steady = TrendVerdict {
        state: TrendState::Steady,
        slope: Some(0.5),
        window: Span::hours(24),
        ..TrendVerdict::default()
    };

    let leak = TrendVerdict {
        state: TrendState::Confirmed,
        slope: Some(4_194_304.0),
        window: Span::hours(6),
        rise: 18_874_368.0,
        since: Some(ago(Span::hours(9))),
        exhaustion: Some(Span::hours(30)),
        ..TrendVerdict::default()
    };

    vec![row(TrendSignal::LiveHeap, leak), row(TrendSignal::Tasks, steady)]
}

/// A snapshot without findings and blind spots.
pub(crate) fn healthy() -> Sample {
    let mut sample = sample();
    let snapshot = &mut sample.snapshot;
    snapshot.kinds.truncate(1);
    snapshot.kinds[0].watches.truncate(1);
    snapshot.kinds[0].oldest_unconverged = None;
    snapshot.kinds[0].dangling.clear();
    snapshot.kinds[0].soft_deleted.clear();
    snapshot.deletions.clear();

    snapshot.kinds[0].namespaces =
        BTreeMap::from([namespace("team-c", [41, 0, 0, 0, 0, 0, 0, 0, 0])]);
    snapshot.findings.clear();
    snapshot.unhealthy.clear();
    snapshot.permissions_missing.clear();
    snapshot.dropped.clear();
    snapshot.health = BTreeMap::from([("team-c".to_owned(), Health::Healthy)]);
    snapshot.sources.truncate(2);

    sample
}

/// A snapshot before the first list.
pub(crate) fn empty() -> Sample {
    Sample { snapshot: Snapshot { at: now(), ..Snapshot::default() }, rows: Vec::new() }
}

fn sources() -> Vec<SourceSummary> {
    let source = |name: &str, up, held| SourceSummary {
        source: name.to_owned(),
        up,
        since: ago(held),
        last_success: Some(ago(Span::secs(2))),
        ..SourceSummary::default()
    };

    let mut broken = source("watch/backups.db.example.io/team-b", false, Span::hours(2));
    broken.last_success = None;
    broken.failures = BTreeMap::from([("forbidden", 3), ("timeout", 1)]);
    broken.latest = Some((
        "forbidden",
        "backups.db.example.io is forbidden: User \"system:serviceaccount:db-system:db-operator\" cannot list"
            .to_owned(),
    ));

    vec![
        source("discovery", true, Span::hours(30)),
        source("lease", true, Span::hours(30)),
        broken,
        source("watch/backups.db.example.io/team-a", true, Span::hours(30)),
        source("watch/databases.db.example.io", true, Span::mins(33)),
        source("watch/pods", true, Span::secs(12)),
    ]
}

fn rows() -> Vec<ObjectRow> {
    let row =
        |kind: &str, namespace: &str, name: &str, state, reason, signal: &str, held| ObjectRow {
            group: GROUP.to_owned(),
            kind: kind.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            uid: "8f14e45f-ceea-467f-a8f8-8b1f3c1b2d3e".to_owned(),
            state,
            reason,
            signal: signal.to_owned(),
            since: ago(held),
            unconverged_since: (state != ObjectState::Converged).then(|| ago(held)),
            generation: 7,
            observed_generation: Some(7),
            created: Some(ago(Span::hours(2000))),
            terminating_since: (state == ObjectState::Terminating).then(|| ago(held)),
            phase: "Provisioning".to_owned(),
            conditions: [ready("false"), ready("true")].into(),
            finalizers: ["db.example.io/volume-cleanup".into()].into(),
            owners: vec!["Fleet/eu".to_owned()],
            ..ObjectRow::default()
        };

    use ObjectState as S;

    vec![
        row("Database", "team-a", "orders-legacy", S::Terminating, "deletion", "", Span::hours(76)),
        row(
            "Database",
            "team-a",
            "checkout",
            S::Overdue,
            "ready_false",
            "Ready=False",
            Span::mins(47),
        ),
        row(
            "Backup",
            "team-a",
            "nightly-42",
            S::Failed,
            "failed_condition",
            "BucketUnreachable",
            Span::mins(18),
        ),
        row(
            "Database",
            "team-b",
            "ledger",
            S::Progressing,
            "ready_false",
            "Ready=False",
            Span::mins(6),
        ),
        row(
            "Database",
            "team-c",
            "good",
            S::Converged,
            "ready_true",
            "Ready=True",
            Span::hours(400),
        ),
    ]
}

impl View for Sample {
    fn snapshot(&self) -> Snapshot {
        self.snapshot.clone()
    }

    fn pending(&self) -> Vec<String> {
        if self.snapshot.kinds.is_empty() {
            return vec!["discovery".to_owned()];
        }

        let watches = self.snapshot.kinds.iter().flat_map(|kind| &kind.watches);
        let pending = watches.filter(|watch| !watch.synced && watch.missing.is_empty());
        pending
            .filter(|watch| !crate::export::view::is_watch_down(&self.snapshot, &watch.watch))
            .map(|w| w.watch.to_string())
            .collect()
    }

    fn visit(
        &self,
        cursor: Cursor,
        limit: usize,
        show: &mut dyn FnMut(ObjectRef<'_>),
    ) -> Option<Cursor> {
        let from = (cursor.0 as usize).min(self.rows.len());
        let to = (from + limit).min(self.rows.len());
        self.rows[from..to].iter().for_each(|row| show(borrowed(row)));
        (to < self.rows.len()).then_some(Cursor(to as u32))
    }

    fn select(
        &self,
        cursor: Cursor,
        visits: usize,
        room: usize,
        is_wanted: &dyn Fn(&ObjectRef<'_>) -> bool,
    ) -> (Vec<ObjectRow>, Option<Cursor>) {
        let (mut rows, mut at) = (Vec::new(), cursor.0 as usize);
        let end = (at + visits).min(self.rows.len());
        while at < end && rows.len() < room {
            let row = &self.rows[at];
            if is_wanted(&borrowed(row)) {
                rows.push(row.clone());
            }

            at += 1;
        }

        (rows, (at < self.rows.len()).then_some(Cursor(at as u32)))
    }

    fn explain(&self, object: &ObjectAddress) -> Option<Explanation> {
        let explanation = explanation();
        let ExplainedObject { group, kind, namespace, name, .. } = explanation.object.clone();
        (*object == ObjectAddress { group, kind, namespace, name }).then_some(explanation)
    }

    fn recent_past(&self) -> RecentPast {
        RecentPast { at: self.snapshot.at, ..RecentPast::default() }
    }
}

fn borrowed(row: &ObjectRow) -> ObjectRef<'_> {
    ObjectRef {
        group: &row.group,
        kind: &row.kind,
        namespace: &row.namespace,
        name: &row.name,
        state: row.state,
        since: row.since,
        generation: row.generation,
        observed_generation: row.observed_generation,
        created: row.created,
        terminating_since: row.terminating_since,
        phase: &row.phase,
        conditions: &row.conditions,
        finalizers: &row.finalizers,
        ..ObjectRef::default()
    }
}

/// A view without objects.
#[derive(Debug)]
pub(super) struct NoObjects {
    /// The watches that it waits for.
    pub(super) pending: Vec<String>,
    /// Whether a test expects snapshots. Otherwise, taking one panics: a snapshot of a million
    /// objects takes time.
    pub(super) snapshots: AtomicBool,
}

impl View for NoObjects {
    fn snapshot(&self) -> Snapshot {
        assert!(self.snapshots.swap(true, Ordering::Relaxed), "nobody needs a snapshot");

        Snapshot::default()
    }

    fn pending(&self) -> Vec<String> {
        self.pending.clone()
    }

    fn visit(&self, _: Cursor, _: usize, _: &mut dyn FnMut(ObjectRef<'_>)) -> Option<Cursor> {
        None
    }

    fn select(
        &self,
        _: Cursor,
        _: usize,
        _: usize,
        _: &dyn Fn(&ObjectRef<'_>) -> bool,
    ) -> (Vec<ObjectRow>, Option<Cursor>) {
        (Vec::new(), None)
    }

    fn explain(&self, _: &ObjectAddress) -> Option<Explanation> {
        None
    }

    fn recent_past(&self) -> RecentPast {
        RecentPast::default()
    }
}
