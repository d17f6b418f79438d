//! The kinds of the sample.

use std::collections::BTreeMap;
use std::sync::Arc;

use loopwatch_model::histogram::Histogram;
use loopwatch_model::observation::{Role, Scope, WatchId};
use loopwatch_model::snapshot::{
    ConditionState, DeadlineSource, Durations, EarlierRevisions, FinalizerSummary, FinalizerTotals,
    KindSummary, NamespaceTotals, OwnerReferenceCounts, RevisionTotals, SoftDeletePhase,
    SoftDeleteSummary, WatchSummary, WatchTotals, WriteCounts,
};
use loopwatch_model::time::Span;

use super::{GROUP, ago};

pub(super) fn databases() -> KindSummary {
    let mut kind = kind("Database", "databases", Role::Primary);
    kind.namespaces = BTreeMap::from([
        namespace("team-a", [212, 3, 2, 1, 2, 1, 0, 0, 0]),
        namespace("team-b", [87, 0, 1, 0, 0, 0, 0, 0, 4]),
        namespace("team-c", [41, 0, 0, 0, 0, 0, 0, 0, 0]),
    ]);
    kind.watches = vec![watch("databases", Scope::AllNamespaces, 354)];
    kind.deadline = Span::mins(4);

    kind.deadline_source = DeadlineSource::Learned;
    kind.oldest_unconverged = Some(ago(Span::mins(47)));
    for seconds in [3, 8, 9, 14, 15, 22, 41, 44, 70, 95, 130, 240, 700] {
        kind.totals.acknowledge.observe(Span::secs(seconds / 8));
        kind.totals.convergence.observe(Span::secs(seconds));
    }

    let mut before = RevisionTotals {
        obligations: BTreeMap::from([
            ("team-a".into(), [60, 2, 0, 4, 0, 0, 0]),
            ("team-b".into(), [80, 0, 1, 0, 0, 0, 0]),
        ]),
        convergences: BTreeMap::from([
            ("team-a".into(), Durations { count: 60, ms: 912_000 }),
            ("team-b".into(), Durations { count: 80, ms: 1_404_250 }),
        ]),
        ..RevisionTotals::default()
    };

    for seconds in [3, 8, 9] {
        before.acknowledge.observe(Span::secs(seconds / 8));
        before.convergence.observe(Span::secs(seconds));
    }

    kind.earlier = Some(Box::new(EarlierRevisions { all: before.clone(), previous: before }));
    kind.totals.conditions =
        BTreeMap::from([(ready("false"), 4), (ready("true"), 340), (ready("unknown"), 10)]);
    kind.totals.flaps = BTreeMap::from([("Ready".into(), 17)]);
    kind.totals.writes =
        BTreeMap::from([("widget-operator".into(), WriteCounts { versions: 1_203, wasted: 31 })]);
    kind.totals.phases = BTreeMap::from([("Provisioning".into(), 5), ("Running".into(), 349)]);

    let mut removal = Histogram::default();
    removal.observe(Span::secs(12));
    removal.observe(Span::mins(21));

    let cleanup = FinalizerSummary {
        waiting: [1, 1, 0, 0, 0],
        oldest: Some(ago(Span::hours(76))),
        totals: FinalizerTotals {
            removal,
            outcomes: [1, 1, 0, 0, 0],
            ..FinalizerTotals::default()
        },
    };

    kind.finalizers = BTreeMap::from([("db.example.io/volume-cleanup".into(), cleanup)]);
    kind.dangling = BTreeMap::from([("ConfigMap".to_owned(), 1), ("Secret".to_owned(), 2)]);
    (kind.totals.cross_references, kind.totals.cross_reference_changes) = (3, [4, 1]);

    let lingering = SoftDeleteSummary { objects: 5, oldest: Some(ago(Span::hours(30))) };
    kind.soft_deleted = BTreeMap::from([(SoftDeletePhase::Canary, lingering)]);
    kind.stale_configuration = 2;
    kind
}

pub(super) fn backups() -> KindSummary {
    let mut kind = kind("Backup", "backups", Role::Primary);
    kind.namespaces = BTreeMap::from([namespace("team-a", [4, 1, 0, 9, 0, 0, 0, 120, 0])]);
    kind.watches = vec![watch("backups", Scope::Namespace("team-a".to_owned()), 134), {
        let mut unseen = watch("backups", Scope::Namespace("team-b".to_owned()), 0);
        (unseen.synced, unseen.missing) = (false, vec!["list".to_owned(), "watch".to_owned()]);
        unseen
    }];

    kind
}

pub(super) fn pods() -> KindSummary {
    let mut kind = kind("Pod", "pods", Role::Child);
    kind.group = String::new();
    kind.namespaces = BTreeMap::from([namespace("team-a", [1211, 2, 0, 0, 1, 0, 0, 14, 0])]);

    let mut pods = watch("pods", Scope::AllNamespaces, 1228);
    pods.watch = WatchId::new("", "pods", &Scope::AllNamespaces);
    (pods.totals.audit_difference, pods.synced) = (None, false);
    kind.watches = vec![pods];
    kind.owner_references =
        OwnerReferenceCounts { all: 1227, unknown: 2, bad: [0, 0, 1, 0, 0, 0, 0, 0] };
    kind.totals.hazards = [0, 0, 3, 0, 0, 0, 0, 0];

    kind
}

fn kind(name: &str, resource: &str, role: Role) -> KindSummary {
    KindSummary {
        group: GROUP.to_owned(),
        kind: name.to_owned(),
        resource: resource.to_owned(),
        version: "v1".to_owned(),
        role,
        deadline: Span::mins(10),
        ..KindSummary::default()
    }
}

pub(super) fn ready(status: &'static str) -> ConditionState {
    ConditionState { r#type: "Ready".into(), status }
}

fn watch(resource: &str, scope: Scope, objects: u64) -> WatchSummary {
    let mut totals = WatchTotals { objects, audit_difference: Some(0), ..WatchTotals::default() };
    totals.lag.observe(Span(31));
    WatchSummary {
        watch: WatchId::new(GROUP, resource, &scope),
        scope,
        synced: true,
        totals,
        ..WatchSummary::default()
    }
}

pub(super) fn namespace(name: &str, states: [u64; 9]) -> (Arc<str>, NamespaceTotals) {
    let state_ms = states.map(|count| count * 3_600_500);
    let (obligations, convergences) =
        ([90, 2, 1, 7, 3, 0, 0], Durations { count: 90, ms: 1_720_500 });
    (name.into(), NamespaceTotals { states, state_ms, obligations, convergences })
}
