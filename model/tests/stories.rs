//! Stories of real operators in which several mechanisms meet, and the verdict that an engineer on
//! call expects.

mod lab;

use std::collections::BTreeMap;

use lab::steps::{forbidden, namespaced, other_kind, spec_writer, unlearned};
use lab::{Lab, Widget, kind, watch};
use loopwatch_model::finding::{Change, Severity};
use loopwatch_model::model::reading::{Verdict, read};
use loopwatch_model::observation::ConditionStatus::{self, False, True};
use loopwatch_model::observation::{
    Cause, Condition, Fact, FactValue, LeaseView, NamespaceView, ObjectView, Observation,
    OwnerReference, SourceId, StatusShape, WatchedKind,
};
use loopwatch_model::settings::{FindingRule, Limits, Settings};
use loopwatch_model::snapshot::{ObjectState, Outcome};
use loopwatch_model::time::{Span, Timestamp};

/// Replaces `replicas` replicas: `condition` is false for 40 seconds and true for 40 seconds.
fn roll(lab: &mut Lab, widget: &mut Widget, replicas: u32, condition: &str) {
    for _ in 0..replicas {
        lab.advance(Span::secs(40));
        lab.apply(widget.observe().condition(condition, False, "PodNotReady"));
        lab.advance(Span::secs(40));
        lab.apply(widget.observe().condition(condition, True, "AllPodsReady"));
    }
}

/// The operator writes the spec. The managed fields entry of the user stays as it was.
fn write_spec_as_operator(lab: &mut Lab, widget: &mut Widget, spec: u64) {
    widget.spec(spec, widget.spec_written);
    let mut view = lab.view(widget);
    view.managers.push(spec_writer("widget-operator", "", lab.now));
    lab.apply_view(view);
}

/// Creates objects that have converged, an hour ago.
fn fleet(lab: &mut Lab, names: &[&str]) -> Vec<Widget> {
    let widgets = names.iter().map(|name| lab.converged(name)).collect();
    lab.advance(Span::hours(1));
    widgets
}

/// Begins the deletion of a converged object that has these finalizers.
fn terminating(lab: &mut Lab, name: &str, finalizers: &[&str]) -> Widget {
    let mut widget = lab.converged(name);
    widget.finalizers = finalizers.iter().map(|finalizer| (*finalizer).to_owned()).collect();
    lab.apply(&widget);
    widget.deleted = Some(lab.now);
    lab.apply(&widget);

    widget
}

/// Reads a status that has a single condition.
fn verdict(
    kind: &str,
    r#type: &str,
    status: ConditionStatus,
    reason: &str,
    message: &str,
) -> Verdict {
    let condition = Condition {
        r#type: r#type.into(),
        status,
        reason: reason.into(),
        message: message.into(),
        ..Condition::default()
    };

    let object = ObjectView {
        status: StatusShape::Filled,
        generation: 3,
        observed_generation: Some(3),
        conditions: vec![condition],
        ..ObjectView::default()
    };

    read("example.io", kind, &object).verdict
}

fn text(path: &str, value: &str) -> Fact {
    Fact { path: path.into(), value: FactValue::Text(value.into()) }
}

fn rule(name: &str, rule: FindingRule) -> Settings {
    Settings { findings: [(name.to_owned(), vec![rule])].into(), ..unlearned() }
}

fn namespace(lab: &mut Lab, name: &str, key: &str, value: &str) {
    let annotations = BTreeMap::from([(format!("loopwatch.dev/{key}"), value.to_owned())]);
    lab.observe(Observation::NamespaceSeen(NamespaceView {
        name: name.into(),
        annotations,
        ..NamespaceView::default()
    }));
}

/// The changes of findings about objects and kinds, but not about sources and limits.
fn object_changes(lab: &mut Lab) -> Vec<String> {
    let about_loopwatch = |change: &String| {
        ["Source", "Limit", "Permission"].iter().any(|word| change.contains(word))
    };
    lab.changes().into_iter().filter(|change| !about_loopwatch(change)).collect()
}

// Blindness.

#[test]
fn cnpg_is_dead_while_two_watches_of_the_kind_break_in_turns() {
    let (mine, theirs) = (namespaced("team-a"), namespaced("team-b"));
    let mut lab = Lab::unsynced(unlearned());
    lab.discover(&[mine.clone(), theirs.clone()]);

    let mut pg = Widget::new("pg-main", lab.ago(Span::hours(50)));
    let view = lab.view(pg.ready());
    lab.list_in(&mine.watch, vec![view]);
    lab.list_in(&theirs.watch, Vec::new());
    lab.advance(Span::mins(5));

    let changed = lab.now;
    let view = lab.view(pg.spec(2, changed));
    lab.apply_to(&mine.watch, view);

    for _ in 0..40 {
        for broken in [&mine.watch, &theirs.watch] {
            lab.fail_watch(broken);
            lab.advance(Span::secs(13));
            lab.recover_watch(broken);
            lab.advance(Span::secs(9));
        }
    }

    assert_eq!(lab.findings(), ["Unacknowledged Widget team-a/pg-main"]);
    assert_eq!(lab.since("Unacknowledged"), changed);
}

#[test]
fn a_crossplane_bucket_deleted_in_an_outage_is_stuck_since_its_deletion_timestamp() {
    let mut lab = Lab::new();
    let mut bucket = lab.converged("logs");
    lab.advance(Span::hours(3));
    lab.fail();
    lab.advance(Span::mins(2));

    let deleted = lab.now;
    bucket.finalizers = vec!["finalizer.managedresource.crossplane.io".into()];
    bucket.deleted = Some(deleted);
    lab.advance(Span::mins(25));
    lab.list(std::slice::from_ref(&bucket));
    lab.recover();

    assert!(!lab.has("FinalizerStuck"), "the provider had no connection either");

    lab.advance(Span::mins(1));
    assert_eq!(lab.findings(), ["FinalizerStuck Widget team-a/logs"]);
    assert_eq!(lab.since("FinalizerStuck"), deleted);
}

#[test]
fn a_finalizer_removed_in_an_outage_is_not_removed_late_if_the_watch_resumes() {
    let mut lab = Lab::new();
    let volume = terminating(&mut lab, "pvc-7", &["external-attacher/csi"]);
    lab.advance(Span::mins(1));
    lab.fail();
    lab.advance(Span::mins(30));
    lab.recover(); // the watch goes on from its version, and the event of the outage follows
    lab.delete(&volume);

    let outcomes = lab.kind().finalizers["external-attacher/csi"].totals.outcomes;
    assert_eq!(outcomes[1], 0, "nobody knows when it was removed: {outcomes:?}");
}

#[test]
fn an_outage_of_leases_namespaces_and_discovery_freezes_no_object() {
    let mut lab = Lab::new();
    let mut gateway = lab.converged("gateway");
    lab.observe(Observation::LeaseSeen(LeaseView {
        namespace: "istio-system".into(),
        name: "istio-leader".into(),
        renewed: Some(lab.now),
        ..LeaseView::default()
    }));

    for source in [SourceId::Lease, SourceId::Namespaces, SourceId::Discovery, SourceId::Audit] {
        lab.observe(Observation::SourceFailed {
            source,
            cause: Cause::Forbidden,
            detail: String::new(),
        });
    }

    let changed = lab.now;
    lab.apply(gateway.spec(2, changed));
    lab.advance(Span::mins(10));

    assert!(lab.has("Unacknowledged"), "{:?}", lab.findings());
    assert_eq!(lab.since("Unacknowledged"), changed);
    assert_eq!((lab.outcomes(Outcome::Late), lab.outcomes(Outcome::Unknown)), (1, 0));
}

#[test]
fn a_finding_that_opened_a_second_before_an_outage_stays_open_through_three_outages() {
    let mut lab = Lab::new();
    let mut issuer = lab.converged("letsencrypt");
    lab.apply(issuer.spec(2, lab.now));
    lab.apply(issuer.waiting());
    lab.advance(Span::secs(601));

    assert_eq!(object_changes(&mut lab), ["Opened Overdue Widget team-a/letsencrypt"]);

    for minutes in [1, 20, 3] {
        lab.blind_for(Span::mins(minutes));
        lab.advance(Span::secs(5));
    }

    assert!(object_changes(&mut lab).is_empty());

    lab.apply(issuer.ready());
    lab.advance(Span::mins(1));

    assert_eq!(object_changes(&mut lab), ["Closed Overdue Widget team-a/letsencrypt"]);
    assert_eq!((lab.outcomes(Outcome::Late), lab.outcomes(Outcome::Unknown)), (1, 0));
}

#[test]
fn a_deadline_in_an_outage_is_unknown_and_one_right_after_it_is_late() {
    let mut lab = Lab::new();
    let mut soon = lab.converged("soon");
    let mut later = lab.converged("later");
    lab.apply(soon.spec(2, lab.now));
    lab.advance(Span::mins(3));
    lab.apply(later.spec(2, lab.now));
    lab.advance(Span::mins(6));
    lab.blind_for(Span::mins(2)); // the first deadline passes here

    lab.advance(Span::mins(5)); // the second one here
    assert_eq!((lab.outcomes(Outcome::Unknown), lab.outcomes(Outcome::Late)), (1, 1));
    assert_eq!(lab.findings().len(), 2, "{:?}", lab.findings());
}

#[test]
fn a_flapping_condition_stays_found_in_an_outage_that_is_longer_than_its_window() {
    let mut lab = Lab::new();
    let mut store = lab.converged("vault");
    lab.advance(Span::hours(1));

    for _ in 0..4 {
        lab.apply(store.waiting());
        lab.advance(Span::mins(1));
        lab.apply(store.ready());
        lab.advance(Span::mins(1));
    }

    assert!(lab.has("ConditionFlapping"), "{:?}", lab.findings());

    object_changes(&mut lab);
    lab.fail();
    lab.advance(Span::mins(50));

    assert!(object_changes(&mut lab).is_empty(), "frozen");

    lab.recover();
    lab.advance(Span::mins(2));

    assert_eq!(object_changes(&mut lab), ["Closed ConditionFlapping Widget team-a/vault"]);
}

#[test]
fn a_phase_gets_stuck_in_an_outage_and_is_found_after_the_grace() {
    let mut lab = Lab::with(Settings { deadline: Span::hours(2), ..unlearned() });
    let mut vm = lab.converged("vm");
    lab.apply(vm.spec(2, lab.now));
    lab.advance(Span::mins(1));
    lab.apply(vm.waiting());

    let entered = lab.now;
    lab.apply(vm.phase("Migrating"));
    lab.advance(Span::mins(118));
    lab.fail();
    lab.advance(Span::mins(3));

    assert!(object_changes(&mut lab).is_empty(), "{:?}", lab.findings());

    lab.recover();
    lab.advance(Span::mins(1));

    assert!(lab.has("PhaseStuck") && lab.has("Overdue"), "{:?}", lab.findings());
    assert_eq!(lab.since("PhaseStuck"), entered);
}

#[test]
fn an_object_mended_in_an_outage_opens_nothing_when_the_watch_resumes() {
    let mut lab = Lab::new();
    let mut cluster = lab.converged("rook");
    lab.advance(Span::hours(1));
    lab.apply(cluster.waiting());
    lab.advance(Span::mins(2));
    lab.changes();
    lab.fail();
    lab.advance(Span::mins(10));

    lab.recover();
    lab.apply(cluster.ready()); // the event of the outage
    lab.advance(Span::hours(1));

    assert!(object_changes(&mut lab).is_empty());
}

#[test]
fn a_kind_fails_in_one_namespace_while_the_watch_of_another_is_blind() {
    let (mine, theirs) = (namespaced("team-a"), namespaced("team-b"));
    let mut lab = Lab::unsynced(unlearned());
    lab.discover(&[mine.clone(), theirs.clone()]);

    let old = lab.ago(Span::hours(100));
    let mut widgets: Vec<Widget> = ["a", "b", "c", "d"].map(|name| Widget::new(name, old)).into();
    let views = widgets.iter_mut().map(|widget| lab.view(widget.ready())).collect();
    lab.list_in(&mine.watch, views);
    lab.list_in(&theirs.watch, Vec::new());
    lab.advance(Span::mins(5));
    lab.fail_watch(&theirs.watch);

    for widget in &mut widgets {
        let view = lab.view(widget.failed("CertificateAuthorityGone"));
        lab.apply_to(&mine.watch, view);
    }

    lab.advance(Span::mins(1));
    assert_eq!(lab.findings(), ["Failing Widget (all)"]);
}

#[test]
fn a_rolling_update_with_an_outage_in_the_middle_is_not_flapping() {
    let mut lab = Lab::new();
    let mut kafka = lab.converged("kafka");
    lab.advance(Span::hours(1));
    lab.apply(kafka.spec(2, lab.now));
    roll(&mut lab, &mut kafka, 2, "Ready");
    lab.blind_for(Span::secs(30));
    roll(&mut lab, &mut kafka, 2, "Ready");
    lab.fail();

    lab.advance(Span::secs(20));
    lab.list(std::slice::from_ref(&kafka));
    lab.recover();
    roll(&mut lab, &mut kafka, 1, "Ready");
    lab.advance(Span::mins(30));
    lab.assert_no_findings();
}

#[test]
fn an_object_that_was_ready_for_most_of_an_outage_has_not_been_lost_since_before_it() {
    let mut lab = Lab::new();
    let mut web = lab.converged("web");
    lab.advance(Span::hours(1));
    web.changed = Some(lab.now);
    lab.apply(web.waiting());
    lab.advance(Span::mins(2));
    lab.fail();
    lab.advance(Span::hours(1));

    let lost = lab.ago(Span::mins(1)); // mended early in the outage, and lost again a minute ago
    web.changed = Some(lost);
    lab.list(&[web.touch_status().clone()]);
    lab.recover();
    lab.advance(Span::mins(3));

    assert!(!lab.has("Regressed"), "four minutes: {:?}", lab.findings());

    lab.advance(Span::mins(2));
    assert_eq!(lab.since("Regressed"), lost);
}

#[test]
fn a_regression_among_the_events_of_an_outage_began_when_its_condition_says() {
    let mut lab = Lab::new();
    let mut web = lab.converged("web");
    lab.advance(Span::hours(1));
    web.changed = Some(lab.now);
    lab.apply(web.waiting());
    lab.advance(Span::mins(1));
    lab.fail();
    lab.advance(Span::mins(10));

    web.changed = Some(lab.now);
    let mended = lab.view(web.ready());
    lab.advance(Span::mins(10));

    let lost = lab.now;
    web.changed = Some(lost);

    let broken = lab.view(web.waiting());
    lab.advance(Span::mins(10));
    lab.recover(); // the watch goes on from its version, and delivers both events at once
    lab.apply_view(mended);
    lab.apply_view(broken);
    lab.advance(Span::mins(6));

    assert_eq!(lab.since("Regressed"), lost);
}

#[test]
fn a_regression_that_was_mended_before_a_spec_change_in_an_outage_is_over() {
    let mut lab = Lab::new();
    let mut web = lab.converged("web");
    lab.advance(Span::hours(1));
    web.changed = Some(lab.now);
    lab.apply(web.failed("DiskFull"));
    lab.advance(Span::mins(10));

    assert!(lab.has("Regressed"));

    lab.fail();
    lab.advance(Span::mins(5));
    web.changed = Some(lab.now);
    web.ready();
    lab.advance(Span::mins(5));
    web.spec(2, lab.now); // the status is Ready=True, about the spec before
    lab.advance(Span::mins(1));
    lab.list(std::slice::from_ref(&web));

    lab.recover();
    lab.advance(Span::mins(2));
    lab.assert_no_findings();
}

// Permissions and scopes that come and go.

#[test]
fn a_failing_kind_stays_found_when_its_permission_is_gone_for_a_minute() {
    let mut lab = Lab::new();
    let mut widgets = fleet(&mut lab, &["a", "b", "c", "d"]);
    widgets.iter_mut().for_each(|widget| lab.apply(widget.failed("LicenseExpired")));
    lab.advance(Span::mins(10));

    let before = lab.finding("Failing");
    lab.discover(&[forbidden(kind())]); // a pipeline replaces the ClusterRole
    lab.advance(Span::mins(1));
    lab.discover(&[kind()]);
    lab.list(&widgets);
    lab.advance(Span::mins(2));

    assert!(
        lab.has("Failing"),
        "all are still down: {:?} {:?}",
        lab.findings(),
        lab.kind().states()
    );
    assert_eq!(lab.since("Failing"), before.since);
}

#[test]
fn a_failed_object_stays_found_when_its_namespace_leaves_the_scope_and_returns() {
    let (mine, theirs) = (namespaced("team-a"), namespaced("team-b"));
    let mut lab = Lab::unsynced(unlearned());
    lab.discover(&[mine.clone(), theirs.clone()]);
    lab.list_in(&theirs.watch, Vec::new());

    let mut redis = Widget::new("redis", lab.ago(Span::hours(100)));
    let view = lab.view(redis.ready());
    lab.list_in(&mine.watch, vec![view]);
    lab.advance(Span::hours(1));

    let view = lab.view(redis.failed("AofCorrupt"));
    lab.apply_to(&mine.watch, view);
    lab.advance(Span::mins(10));

    let before = lab.finding("Regressed");
    lab.discover(std::slice::from_ref(&theirs));
    lab.advance(Span::mins(5));
    lab.discover(&[mine.clone(), theirs]);

    let view = lab.view(&redis);
    lab.list_in(&mine.watch, vec![view]);
    lab.advance(Span::mins(2));

    assert!(
        lab.has("Regressed"),
        "still down: {:?}, state {:?}",
        lab.findings(),
        lab.state("redis")
    );
    assert_eq!(lab.since("Regressed"), before.since);
}

#[test]
fn a_healthy_object_that_moves_when_the_scope_changes_is_not_overdue_since_its_creation() {
    let narrow = namespaced("team-a");
    let mut lab = Lab::new();
    let mut pool = lab.converged("pool");
    lab.advance(Span::hours(30));
    lab.discover(std::slice::from_ref(&narrow));

    let view = lab.view(pool.waiting()); // a node has just been drained
    lab.list_in(&narrow.watch, vec![view]);
    lab.advance(Span::mins(2));
    lab.assert_no_findings();

    let view = lab.view(pool.ready());
    lab.apply_to(&narrow.watch, view);
    lab.advance(Span::hours(1));
    lab.assert_no_findings();
}

#[test]
fn a_stuck_deletion_has_the_same_start_after_its_namespace_was_out_of_scope() {
    let (mine, theirs) = (namespaced("team-a"), namespaced("team-b"));
    let mut lab = Lab::unsynced(unlearned());
    lab.discover(&[mine.clone(), theirs.clone()]);
    lab.list_in(&theirs.watch, Vec::new());

    let mut restore = Widget::new("restore-1", lab.ago(Span::hours(2)));
    restore.ready().finalizers = vec!["restores.velero.io/external-resources-finalizer".into()];
    restore.deleted = Some(lab.ago(Span::mins(20)));

    let view = lab.view(&restore);
    lab.list_in(&mine.watch, vec![view.clone()]);
    lab.advance(Span::mins(1));

    let before = lab.finding("FinalizerStuck");
    lab.discover(std::slice::from_ref(&theirs));
    lab.advance(Span::hours(1));
    lab.assert_no_findings();
    lab.discover(&[mine.clone(), theirs]);
    lab.list_in(&mine.watch, vec![view]);
    lab.advance(Span::mins(1));

    let after = lab.finding("FinalizerStuck");
    assert_eq!((after.id, after.since), (before.id, before.since));
}

#[test]
fn outcomes_do_not_go_back_when_a_namespace_leaves_returns_and_loses_its_place() {
    let mut lab = Lab::with(Settings {
        limits: Limits { namespaces: 2, ..Limits::default() },
        ..unlearned()
    });
    let mut last = 0;
    for round in 0..12 {
        let mut view = lab.view(Widget::new("preview", lab.now).ready());
        view.key.namespace = format!("pr-{}", round % 5);
        view.uid = format!("uid-{round}");
        lab.apply_view(view.clone());
        lab.advance(Span::mins(1));

        let converged = lab.outcomes(Outcome::Converged);
        assert!(converged > last, "round {round}: {converged} after {last}");

        last = converged;
        lab.version += 1;

        let version = lab.version.to_string();
        lab.observe(Observation::Deleted { watch: watch(), key: view.key, version });
    }
}

#[test]
fn an_operator_that_got_its_permission_back_has_a_grace_too() {
    let mut lab = Lab::new();
    let mut web = lab.converged("web");
    lab.advance(Span::hours(1));
    // The account is that of the operator, which sees nothing either.
    lab.discover(&[forbidden(kind())]);
    lab.advance(Span::mins(2));
    web.spec(2, lab.now);
    lab.advance(Span::mins(15));
    lab.changes();

    lab.discover(&[kind()]);
    lab.list(std::slice::from_ref(&web));
    lab.advance(Span::secs(40));
    lab.apply(web.ready());
    lab.advance(Span::hours(1));

    let changes = object_changes(&mut lab);
    assert!(changes.is_empty(), "{changes:?}");
}

// Pauses and failures.

#[test]
fn something_that_was_stopped_is_a_failure_although_no_message_says_so() {
    let mut wrong = Vec::new();
    for (kind, r#type, reason) in [
        ("ExternalSecret", "Ready", "SecretStoreDisabled"),
        ("Grant", "Synced", "UserDeactivated"),
        ("Grant", "Ready", "UserDisabled"),
        ("Application", "Available", "ControllerStopped"),
        ("Broker", "Ready", "OperatorStopped"),
        ("Kafka", "Ready", "ZooKeeperStopped"),
        ("Bucket", "Synced", "SubscriptionInactive"),
        ("Certificate", "Ready", "IssuerDisabled"),
        ("VirtualMachine", "Ready", "NodeShutdown"),
        ("Elasticsearch", "Healthy", "LicenseDeactivated"),
        ("Cluster", "ReplicationHealthy", "PrimaryDetached"),
        ("Service", "Ready", "RevisionHalted"),
    ] {
        let verdict = verdict(kind, r#type, False, reason, "");
        if verdict != Verdict::Failed {
            wrong.push((kind, r#type, reason, verdict));
        }
    }

    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn what_somebody_paused_on_purpose_is_no_failure() {
    let mut wrong = Vec::new();
    for (kind, r#type, status, reason, message) in [
        ("Kafka", "ReconciliationPaused", True, "", ""),
        ("ScaledObject", "Paused", True, "ScaledObjectPaused", "ScaledObject is paused"),
        (
            "Bucket",
            "Synced",
            False,
            "ReconcilePaused",
            "Reconciliation is paused via the pause annotation",
        ),
        ("Rollout", "Paused", True, "CanaryPauseStep", "Rollout is paused"),
        ("Cluster", "Paused", True, "Paused", "Cluster.Spec.Paused is set to true"),
        ("HelmRelease", "Ready", False, "Suspended", "reconciliation is suspended"),
        ("Database", "Ready", False, "DatabaseStopped", "stopped by the user"),
        ("Deployment", "Progressing", False, "DeploymentPaused", "Deployment is paused"),
    ] {
        let verdict = verdict(kind, r#type, status, reason, message);
        if verdict == Verdict::Failed {
            wrong.push((kind, r#type, reason, verdict));
        }
    }

    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn databases_whose_login_user_was_disabled_are_found() {
    let mut lab = Lab::new();
    let mut databases = fleet(&mut lab, &["db-0", "db-1", "db-2", "db-3", "db-4"]);
    for database in &mut databases {
        lab.apply(database.observe().condition("Ready", False, "UserDeactivated"));
    }

    lab.advance(Span::hours(6));
    assert!(!lab.findings().is_empty(), "five databases are down, state {:?}", lab.state("db-1"));
}

#[test]
fn a_failed_database_that_was_paused_and_resumed_is_found_again() {
    let mut lab = Lab::new();
    let mut pg = lab.converged("pg");
    lab.advance(Span::hours(1));
    lab.apply(pg.failed("WALVolumeFull"));
    lab.advance(Span::mins(6));

    assert!(lab.has("Regressed"), "{:?}", lab.findings());

    pg.paused = true; // an engineer stops the reconciliation, to look at it
    lab.apply(&pg);
    lab.advance(Span::hours(1));
    lab.assert_no_findings();
    pg.paused = false; // an annotation is removed; the generation stays as it was
    lab.apply(pg.touch_status());
    lab.advance(Span::hours(24));

    assert!(!lab.findings().is_empty(), "down for a day, state {:?}", lab.state("pg"));
}

#[test]
fn a_failing_fleet_that_was_paused_and_resumed_is_found_again() {
    let mut lab = Lab::new();
    let mut fleet = fleet(&mut lab, &["a", "b", "c", "d"]);
    fleet.iter_mut().for_each(|widget| lab.apply(widget.failed("QuorumLost")));
    lab.advance(Span::mins(10));

    assert!(lab.has("Failing"));

    for widget in &mut fleet {
        widget.paused = true;
        lab.apply(widget);
    }

    lab.advance(Span::mins(30));
    lab.assert_no_findings();
    for widget in &mut fleet {
        widget.paused = false;
        lab.apply(widget);
    }

    lab.advance(Span::hours(2));
    assert!(!lab.findings().is_empty(), "all are down, {:?}", lab.kind().states());
}

#[test]
fn the_rolling_update_after_strimzi_is_unpaused_is_not_flapping() {
    let mut lab = Lab::new();
    let mut kafka = lab.converged("kafka");
    lab.advance(Span::hours(1));
    kafka.paused = true; // strimzi.io/pause-reconciliation
    lab.apply(&kafka);
    lab.advance(Span::mins(5));
    lab.apply(kafka.spec(2, lab.now));
    lab.advance(Span::mins(30));

    kafka.paused = false;
    lab.apply(&kafka);
    roll(&mut lab, &mut kafka, 4, "Ready");
    lab.advance(Span::mins(30));

    let changes = lab.changes();
    assert!(changes.is_empty(), "{changes:?}");
}

#[test]
fn the_rollout_of_a_spec_that_changed_in_a_pause_is_not_a_regression_without_observed_generation() {
    let mut lab = Lab::new();
    let mut vault = lab.converged("vault");
    vault.observed = None;
    lab.apply(vault.touch_status());
    lab.advance(Span::hours(1));
    vault.paused = true;
    lab.apply(&vault);
    lab.advance(Span::mins(5));

    lab.apply(vault.spec(2, lab.now));
    lab.advance(Span::mins(5));
    vault.paused = false;
    lab.apply(&vault);
    lab.advance(Span::secs(45)); // the operator polls every minute
    lab.apply(vault.condition("Ready", False, "Upgrading"));
    lab.advance(Span::mins(7));
    lab.assert_no_findings();
}

#[test]
fn the_rolling_update_after_a_canary_was_promoted_is_not_flapping() {
    let mut lab = Lab::new();
    let mut rollout = lab.converged("checkout");
    lab.advance(Span::hours(1));
    lab.apply(rollout.spec(2, lab.now));
    lab.advance(Span::secs(20));
    lab.apply(rollout.waiting().phase("Paused")); // the first step of the canary
    lab.advance(Span::hours(2));

    assert_eq!(lab.state("checkout"), ObjectState::Suspended);

    lab.apply(rollout.waiting().phase("Progressing")); // a person promotes it
    roll(&mut lab, &mut rollout, 5, "Ready");
    lab.apply(rollout.phase("Healthy"));
    lab.advance(Span::mins(30));

    let changes = lab.changes();
    assert!(changes.is_empty(), "{changes:?}");
}

#[test]
fn a_paused_object_that_is_deleted_is_stuck_all_the_same() {
    let mut lab = Lab::new();
    let mut composition = lab.converged("xdb");
    composition.paused = true; // crossplane.io/paused
    composition.finalizers = vec!["composite.apiextensions.crossplane.io".into()];
    lab.apply(&composition);
    lab.advance(Span::hours(2));
    composition.deleted = Some(lab.now);
    lab.apply(&composition);

    lab.advance(Span::mins(15));
    assert_eq!(lab.findings(), ["FinalizerStuck Widget team-a/xdb"]);
}

#[test]
fn an_object_that_was_paused_before_a_restart_and_resumed_after_it_has_its_full_deadline() {
    let mut lab = Lab::new();
    let mut release = Widget::new("release", lab.now);
    release.paused = true;
    lab.apply(release.waiting());
    lab.advance(Span::hours(90));

    let mut again = lab.restart();
    again.list(std::slice::from_ref(&release));
    again.advance(Span::hours(1));
    again.assert_no_findings();
    release.paused = false;

    let resumed = again.now;
    again.apply(&release);
    again.advance(Span::mins(9));
    again.assert_no_findings();
    again.advance(Span::mins(2));

    assert_eq!(again.since("Overdue"), resumed);
}

// Learned deadlines.

#[test]
fn a_first_cluster_of_nine_minutes_after_a_hundred_quick_updates_is_within_its_deadline() {
    let mut lab = Lab::with(Settings::default());
    let mut cluster = lab.converged("capi-0");
    for spec in 2..102 {
        lab.apply(cluster.spec(spec, lab.now));
        lab.advance(Span::secs(3));
        lab.apply(cluster.ready());
        lab.advance(Span::secs(30));
    }

    let mut second = Widget::new("capi-1", lab.now);
    lab.apply(&second);
    lab.apply(second.waiting());
    lab.advance(Span::mins(9));
    lab.assert_no_findings();
    lab.apply(second.ready());
    lab.advance(Span::mins(1));
    lab.apply(second.spec(2, lab.now));

    lab.apply(second.waiting());
    lab.advance(Span::mins(9));
    lab.assert_no_findings();
}

#[test]
fn objects_created_in_a_long_outage_of_the_operator_do_not_stretch_the_deadline_of_later_ones() {
    let mut lab = Lab::with(Settings::default());
    for number in 0..25 {
        lab.converged(&format!("before-{number}"));
    }

    let mut waiting: Vec<Widget> =
        (0..25).map(|number| Widget::new(&format!("in-{number}"), lab.now)).collect();
    waiting.iter().for_each(|widget| lab.apply(widget));
    lab.advance(Span::hours(7));
    waiting.iter_mut().for_each(|widget| lab.apply(widget.ready()));
    lab.advance(Span::mins(5));
    lab.assert_no_findings();
    lab.apply(&Widget::new("after", lab.now));

    lab.advance(Span::mins(30));
    assert_eq!(
        lab.findings(),
        ["Unacknowledged Widget team-a/after"],
        "deadline {}",
        lab.kind().deadline
    );
}

#[test]
fn an_invalid_spec_whose_error_text_differs_every_five_seconds_is_rejected_and_not_late() {
    let mut lab = Lab::new();
    let mut policy = lab.converged("iam-policy");
    lab.apply(policy.spec(2, lab.now));

    for _ in 0..240 {
        lab.apply(policy.failed("InvalidInput")); // "... request id: 3f2a…" differs every time
        lab.advance(Span::secs(5));
    }

    lab.assert_no_findings();
    assert_eq!((lab.outcomes(Outcome::Rejected), lab.outcomes(Outcome::Late)), (1, 0));
}

#[test]
fn what_was_learned_about_a_slow_version_of_the_operator_fades() {
    let mut lab = Lab::with(Settings::default());
    let mut backup = lab.converged("store");
    let mut spec = 1;
    let mut update = |lab: &mut Lab, took: Span| {
        spec += 1;
        lab.apply(backup.spec(spec, lab.now));
        lab.advance(Span::secs(1));
        lab.apply(backup.waiting());
        lab.advance(took);
        lab.apply(backup.ready());
        lab.advance(Span::secs(20));
    };

    for _ in 0..60 {
        update(&mut lab, Span::mins(8));
    }

    assert!(lab.kind().deadline > Span::mins(20), "{}", lab.kind().deadline);

    for _ in 0..1500 {
        update(&mut lab, Span::secs(2));
    }

    assert_eq!(lab.kind().deadline, Span::mins(10));
}

// Finalizers.

#[test]
fn an_error_text_in_the_phase_that_differs_with_every_attempt_does_not_hide_a_stuck_finalizer() {
    let mut lab = Lab::new();
    let mut volume = terminating(&mut lab, "volume", &["ebs.services.k8s.aws/finalizer"]);
    for attempt in 0..24 {
        lab.apply(volume.phase(&format!("Failed to delete: VolumeInUse, attempt {attempt}")));
        lab.advance(Span::mins(5));
    }

    assert_eq!(
        lab.findings(),
        ["FinalizerStuck Widget team-a/volume"],
        "two hours of the same error"
    );
}

#[test]
fn a_cluster_api_cleanup_that_drains_forty_nodes_one_by_one_is_not_stuck() {
    let mut lab = Lab::new();
    let mut cluster = terminating(&mut lab, "prod", &["cluster.cluster.x-k8s.io"]);
    for node in 0..40 {
        lab.apply(cluster.phase(&format!("Draining node {node}")));
        lab.advance(Span::mins(5));

        assert!(!lab.has("FinalizerStuck"), "node {node}");
    }

    lab.delete(&cluster);
    lab.assert_no_findings();
}

#[test]
fn the_foreign_finalizer_that_is_left_names_its_own_controller() {
    let mut lab = Lab::new();
    let mut app = lab.converged("app");
    app.finalizers =
        vec!["widgets.example.io/cleanup".into(), "snapshots.backup.example.com/keep".into()];
    app.deleted = Some(lab.now);

    let mut view = lab.view(&app);
    view.managers[1].finalizers = vec!["widgets.example.io/cleanup".into()];
    lab.apply_view(view);
    lab.advance(Span::mins(10));
    app.finalizers.remove(0);

    let mut view = lab.view(&app);
    view.managers[1].finalizers.clear();
    lab.apply_view(view);
    lab.advance(Span::mins(7));

    assert!(!lab.has("FinalizerStuck"));

    lab.advance(Span::mins(1));
    let evidence = lab.evidence();

    assert!(
        evidence.contains("actor the controller of snapshots.backup.example.com"),
        "{evidence}"
    );
    assert!(!evidence.contains("widget-operator"), "{evidence}");
}

#[test]
fn both_finalizers_of_an_object_are_found_stuck_although_only_one_has_totals_of_its_own() {
    let mut lab = Lab::limited(Limits { finalizers: 1, ..Limits::default() });
    terminating(&mut lab, "mesh", &["istio.io/gateway", "dns.example.com/records"]);
    lab.advance(Span::mins(15));

    let finding = lab.finding("FinalizerStuck");
    assert!(
        finding.summary().contains("istio.io/gateway, dns.example.com/records"),
        "{}",
        finding.summary()
    );
    assert!(lab.snapshot().dropped.contains_key("finalizers"));
}

#[test]
fn an_object_that_is_created_anew_and_stuck_again_is_stuck_since_its_own_deletion() {
    let mut lab = Lab::new();
    let first = terminating(&mut lab, "claim", &["claim.example.io/protect"]);
    lab.advance(Span::hours(20));

    assert!(lab.has("FinalizerStuck"));

    let mut again = lab.restart();
    again.advance(Span::mins(1));

    let mut anew = Widget::new("claim", again.ago(Span::secs(30)));
    anew.uid += 1;
    again.list(&[anew.ready().clone()]);
    again.advance(Span::hours(5));
    anew.finalizers.clone_from(&first.finalizers);
    anew.deleted = Some(again.now);
    again.apply(&anew);
    again.advance(Span::mins(16));

    assert_eq!(Some(again.since("FinalizerStuck")), anew.deleted);
}

// Spec churn.

#[test]
fn an_object_that_is_never_ready_is_found_although_its_operator_is_one_generation_behind() {
    let mut lab = Lab::new();
    let mut knative = lab.converged("revision");
    for spec in 2..80 {
        lab.apply(knative.spec(spec, lab.now)); // the autoscaler
        lab.advance(Span::mins(2));
        knative.observed = Some(knative.generation - 1); // the operator answers the change before
        lab.apply(knative.condition("Ready", False, "Progressing"));
        lab.advance(Span::mins(2));
    }

    assert!(
        !lab.findings().is_empty(),
        "not ready for five hours, state {:?}",
        lab.state("revision")
    );
}

#[test]
fn a_dead_operator_is_found_behind_an_autoscaler_outages_and_lists() {
    let mut lab = Lab::new();
    let mut web = lab.converged("web");
    let first = lab.now;

    for round in 1..30 {
        web.spec(round + 1, web.spec_written);
        let mut view = lab.view(&web);
        view.managers.push(spec_writer("kube-controller-manager", "scale", lab.now));
        lab.apply_view(view.clone());
        lab.advance(Span::mins(1));
        lab.fail();
        lab.advance(Span::secs(20));

        if round % 3 == 0 {
            lab.list_views(vec![view]);
        }

        lab.recover();
        lab.advance(Span::secs(40));
    }

    assert_eq!(lab.findings(), ["Unacknowledged Widget team-a/web"]);
    assert_eq!(lab.since("Unacknowledged"), first);
}

#[test]
fn an_operator_that_migrates_every_spec_and_then_dies_is_found() {
    let mut lab = Lab::new();
    let mut fleet = fleet(&mut lab, &["a", "b", "c"]);
    let migrated = lab.now;

    for widget in &mut fleet {
        write_spec_as_operator(&mut lab, widget, 2);
        lab.apply(widget.waiting());
    }

    lab.advance(Span::mins(30));
    assert_eq!(lab.findings().len(), 3, "{:?}", lab.findings());
    assert!(lab.snapshot().findings.iter().all(|finding| finding.since == migrated));
    assert_eq!(lab.outcomes(Outcome::Late), 0, "nobody asked for it");
}

// Steps of the clock.

#[test]
fn a_step_of_the_clock_does_not_move_the_start_of_a_failure_that_conditions_date() {
    for step in [Span::hours(1), Span::hours(-1)] {
        let mut lab = Lab::unsynced(unlearned());
        let (old, lost) = (lab.ago(Span::hours(500)), lab.ago(Span::hours(30)));
        let mut widgets: Vec<Widget> =
            (0..4).map(|number| Widget::new(&format!("w{number}"), old)).collect();

        for widget in &mut widgets {
            widget.failed("DependencyFailed").changed = Some(lost);
        }

        lab.list(&widgets);
        lab.advance(Span::mins(1));

        assert_eq!(lab.since("Failing"), lost);

        lab.step_clock(step);
        lab.advance(Span::mins(1));

        assert_eq!((lab.since("Failing"), lab.since("Regressed")), (lost, lost), "{} ms", step.0);
    }
}

#[test]
fn the_oldest_unconverged_object_is_not_one_from_before_a_step_of_the_clock() {
    let mut lab = Lab::unsynced(unlearned());
    let mut web = Widget::new("web", lab.ago(Span::hours(50)));
    web.ready();
    web.spec(2, lab.ago(Span::mins(5)));
    lab.list(std::slice::from_ref(&web));
    lab.step_clock(Span::hours(1));
    lab.advance(Span::secs(5));
    lab.apply(web.ready());

    lab.advance(Span::hours(24 * 30));
    let changed = lab.now;
    lab.apply(web.spec(3, changed));
    lab.advance(Span::mins(1));

    assert_eq!(lab.kind().oldest_unconverged, Some(changed));
}

#[test]
fn a_rollout_that_a_list_showed_is_under_way_after_the_fast_clock_was_set_back() {
    let mut lab = Lab::unsynced(unlearned()); // the clock is two hours fast
    let mut db = Widget::new("db", lab.ago(Span::hours(100)));
    db.spec(2, lab.ago(Span(Span::hours(2).0 + 5000)));
    db.ready(); // acknowledged, but Ready=True is still about the old spec
    lab.list(std::slice::from_ref(&db));
    lab.step_clock(Span::hours(-2));
    lab.advance(Span::secs(20));
    lab.apply(db.waiting());

    lab.advance(Span::mins(7));
    lab.assert_no_findings();
}

#[test]
fn a_step_of_the_clock_does_not_move_a_time_that_the_api_server_wrote() {
    let mut lab = Lab::unsynced(unlearned());
    let mut web = Widget::new("web", lab.ago(Span::hours(24 * 40)));
    let ready = lab.ago(Span::hours(24 * 20));
    web.ready().changed = Some(ready);
    lab.list(std::slice::from_ref(&web));
    lab.advance(Span::mins(1));

    assert_eq!((lab.row("web").state, lab.row("web").since), (ObjectState::Converged, ready));

    lab.step_clock(Span::hours(3));
    lab.advance(Span::mins(1));

    assert_eq!(lab.row("web").since, ready);
}

/// What happens before a step of the clock.
type Prepare = fn(&mut Lab, &mut Widget);

#[test]
fn a_step_of_the_clock_changes_no_verdict_in_any_open_state() {
    let states: [(&str, Prepare); 7] = [
        ("unacknowledged", |lab, web| lab.apply(web.spec(2, lab.now))),
        ("working", |lab, web| {
            lab.apply(web.spec(2, lab.now));
            lab.apply(web.waiting().phase("Provisioning"));
        }),
        ("regressed", |lab, web| lab.apply(web.waiting())),
        ("failed", |lab, web| lab.apply(web.failed("DiskFull"))),
        ("retried", |lab, web| {
            lab.apply(web.spec(2, lab.now));
            lab.apply(web.failed("QuotaExceeded"));
            lab.advance(Span::hours(5));
            lab.apply(web.waiting());
        }),
        ("resumed", |lab, web| {
            web.paused = true;
            lab.apply(web.waiting());
            lab.advance(Span::hours(5));
            web.paused = false;
            lab.apply(web.touch_status());
        }),
        ("blind", |lab, web| {
            lab.apply(web.spec(2, lab.now));
            lab.advance(Span::mins(3));
            lab.fail();
            lab.advance(Span::mins(1));
        }),
    ];
    for (name, prepare) in states {
        for step in [Span::hours(-4), Span::hours(9)] {
            let run = |step: Option<Span>| {
                let mut lab = Lab::new();
                let mut web = lab.converged("web");
                lab.advance(Span::hours(1));
                prepare(&mut lab, &mut web);
                lab.advance(Span::mins(2));

                if let Some(step) = step {
                    lab.step_clock(step);
                }

                let mut seen = Vec::new();
                for minute in 0..60 {
                    if name == "blind" && minute == 2 {
                        lab.recover();
                    }

                    lab.advance(Span::mins(1));
                    seen.push((lab.findings(), lab.state("web")));
                }

                (
                    seen,
                    Outcome::ALL.iter().map(|outcome| lab.outcomes(*outcome)).collect::<Vec<_>>(),
                )
            };
            assert_eq!(run(Some(step)), run(None), "{name}, {} ms", step.0);
        }
    }
}

// The order of events.

#[test]
fn an_older_version_that_arrives_after_a_newer_one_is_no_regression() {
    let mut lab = Lab::new();
    let mut service = lab.converged("service");
    lab.advance(Span::hours(1));

    let older = lab.view(service.waiting());
    let newer = lab.view(service.ready());
    lab.apply_view(newer);
    lab.apply_view(older); // from the connection before, which was slow to end
    lab.advance(Span::hours(1));
    lab.assert_no_findings();

    assert_eq!(lab.state("service"), ObjectState::Converged);
}

#[test]
fn a_deletion_that_is_older_than_the_object_is_that_of_its_predecessor() {
    let mut lab = Lab::new();
    let old = lab.converged("job");
    lab.version += 1;

    let deleted = lab.version;
    let mut anew = Widget::new("job", lab.now);
    anew.uid += 1;
    lab.apply(anew.ready());
    lab.observe(Observation::Deleted {
        watch: watch(),
        key: old.key(),
        version: deleted.to_string(),
    });

    assert_eq!(lab.model.objects(), 1, "the new object still exists");
}

#[test]
fn children_may_be_listed_before_their_owners() {
    let show = |reverse: bool| {
        let mut lab = Lab::unsynced(unlearned());
        let old = lab.ago(Span::hours(9));
        let mut views = Vec::new();

        for name in ["machine-set", "machine-1", "machine-0"] {
            let mut view = lab.view(Widget::new(name, old).ready());
            if name != "machine-set" {
                view.owners = vec![OwnerReference {
                    kind: "MachineSet".into(),
                    name: "machine-set".into(),
                    controller: true,
                    ..OwnerReference::default()
                }];
            }

            views.push(view);
        }

        if reverse {
            views.reverse();
        }

        lab.list_views(views);
        lab.advance(Span::hours(1));
        (lab.findings(), lab.row("machine-0").owners, lab.row("machine-1").state)
    };

    assert_eq!(show(false), show(true));
    assert_eq!(show(true).1, ["MachineSet/machine-set"]);
}

// Kinds that are read in another way.

fn second_version() -> WatchedKind {
    WatchedKind { version: "v2".into(), ..kind() }
}

/// Returns the object as another version of its kind shows it.
fn converted(mut view: ObjectView) -> ObjectView {
    view.hashes.spec += 1000;
    view.hashes.status += 1000;
    view.hashes.settled += 1000;
    view
}

#[test]
fn a_dead_operator_is_critical_although_its_kind_is_read_in_another_version() {
    let mut lab = Lab::new();
    let mut web = lab.converged("web");
    let changed = lab.now;
    let view = lab.view(web.spec(2, changed));

    lab.apply_view(view.clone());
    lab.advance(Span::mins(5));
    lab.discover(&[second_version()]);
    lab.list_views(vec![converted(view)]);
    lab.advance(Span::mins(6));

    assert_eq!(
        lab.findings(),
        ["Unacknowledged Widget team-a/web"],
        "nobody has written the status"
    );
    assert_eq!(lab.snapshot().findings[0].severity, Severity::Critical);
}

#[test]
fn another_version_of_the_kind_is_no_progress_of_a_deletion() {
    let mut lab = Lab::new();
    let widget = terminating(&mut lab, "ingress", &["networking.example.com/lb"]);
    lab.advance(Span::mins(14));
    lab.discover(&[second_version()]);

    let view = lab.view(&widget);
    lab.list_views(vec![converted(view)]);
    lab.advance(Span::mins(2));

    assert_eq!(lab.findings(), ["FinalizerStuck Widget team-a/ingress"]);
}

// Limits.

#[test]
fn the_seventeenth_condition_flaps_and_is_found_or_counted_as_dropped() {
    let mut lab = Lab::new();
    let mut vmi = Widget::new("vmi", lab.now);
    for part in 0..18 {
        vmi.condition(&format!("Disk{part}Ready"), True, "Ok");
    }

    lab.apply(vmi.ready());
    lab.advance(Span::hours(1));
    for _ in 0..10 {
        lab.apply(vmi.waiting());
        lab.advance(Span::mins(1));
        lab.apply(vmi.ready());
        lab.advance(Span::mins(1));
    }

    let dropped = lab.snapshot().dropped;
    assert!(
        lab.has("ConditionFlapping") || !dropped.is_empty(),
        "20 transitions: {:?} {dropped:?}",
        lab.findings()
    );
}

#[test]
fn eight_conditions_that_changed_once_do_not_hide_the_one_that_flaps_now() {
    let mut lab = Lab::new();
    let mut ceph = lab.converged("ceph");
    for part in 0..8 {
        lab.apply(ceph.condition(&format!("Mon{part}Ready"), True, "Ok"));
    }

    lab.advance(Span::hours(1));
    for part in 0..8 {
        lab.apply(ceph.condition(&format!("Mon{part}Ready"), False, "Restarting"));
        lab.advance(Span::mins(1));
        lab.apply(ceph.condition(&format!("Mon{part}Ready"), True, "Ok"));
        lab.advance(Span::mins(2));
    }

    for _ in 0..10 {
        lab.apply(ceph.waiting());
        lab.advance(Span::mins(1));
        lab.apply(ceph.ready());
        lab.advance(Span::mins(1));
    }

    let dropped = lab.snapshot().dropped;
    assert!(
        lab.has("ConditionFlapping") || !dropped.is_empty(),
        "20 transitions: {:?} {dropped:?}",
        lab.findings()
    );
}

#[test]
fn a_failing_kind_takes_the_place_of_a_warning_that_returns_with_its_true_start() {
    let mut lab = Lab::limited(Limits { findings: 2, ..Limits::default() });
    let mut gadget = other_kind("Gadget");
    gadget.group = "other.io".into();
    lab.discover(&[kind(), gadget.clone()]);
    lab.list_in(&gadget.watch, Vec::new());

    let mut widgets = fleet(&mut lab, &["a", "b", "c"]);
    let mut gadgets: Vec<Widget> = ["x", "y"].map(|name| Widget::new(name, lab.now)).into();
    for widget in &mut gadgets {
        let view = lab.view(widget.ready());
        lab.apply_to(&gadget.watch, view);
    }

    lab.advance(Span::hours(1));
    let lost = lab.now;
    for widget in &mut gadgets {
        let view = lab.view(widget.waiting());
        lab.apply_to(&gadget.watch, view);
    }

    lab.advance(Span::mins(6));
    widgets.iter_mut().for_each(|widget| lab.apply(widget.failed("TokenRevoked")));
    lab.advance(Span::mins(1));

    assert!(lab.has("Failing"), "{:?}", lab.findings());
    assert_eq!(
        lab.snapshot().findings.iter().filter(|finding| finding.code.name() == "Regressed").count(),
        1
    );

    widgets.iter_mut().for_each(|widget| lab.apply(widget.ready()));
    lab.advance(Span::mins(1));

    let regressed: Vec<Timestamp> = lab
        .snapshot()
        .findings
        .iter()
        .filter(|f| f.code.name() == "Regressed")
        .map(|f| f.since)
        .collect();

    assert_eq!(regressed, [lost, lost], "{:?}", lab.findings());
}

// Rollouts.

#[test]
fn a_rolling_update_with_three_phases_per_replica_is_not_cycling() {
    let mut lab = Lab::new();
    let mut mongo = lab.converged("mongo");
    lab.apply(mongo.phase("Running"));
    lab.advance(Span::hours(1));
    lab.changes();
    lab.apply(mongo.spec(2, lab.now));

    for _ in 0..6 {
        for phase in ["Stopping", "Starting", "Running"] {
            lab.apply(mongo.observe().phase(phase));
            lab.advance(Span::secs(25));
        }
    }

    lab.advance(Span::hours(1));
    let changes = lab.changes();

    assert!(changes.is_empty(), "{changes:?}");
}

#[test]
fn the_first_start_of_a_cluster_whose_members_join_one_by_one_is_not_flapping() {
    let mut lab = Lab::new();
    let mut cassandra = Widget::new("cassandra", lab.now);
    lab.apply(&cassandra);
    lab.apply(cassandra.waiting());
    roll(&mut lab, &mut cassandra, 5, "Ready");
    lab.advance(Span::hours(1));

    let changes = lab.changes();
    assert!(changes.is_empty(), "{changes:?}");
}

#[test]
fn a_new_cluster_that_is_not_ready_again_while_it_starts_has_not_regressed() {
    let mut lab = Lab::new();
    let mut cluster = Widget::new("eck", lab.now);
    lab.apply(&cluster);
    lab.advance(Span::mins(1));
    lab.apply(cluster.ready()); // the first node
    lab.advance(Span::mins(1));
    lab.apply(cluster.waiting()); // the others join
    lab.advance(Span::mins(7));

    lab.assert_no_findings();
    lab.advance(Span::mins(2));

    assert_eq!(lab.findings().len(), 1, "eleven minutes after its creation: {:?}", lab.findings());
}

#[test]
fn a_finished_rollout_that_crashes_an_hour_later_has_regressed_since_the_crash() {
    let mut lab = Lab::new();
    let mut rabbit = lab.converged("rabbit");
    lab.apply(rabbit.spec(2, lab.now));
    roll(&mut lab, &mut rabbit, 5, "Ready");
    lab.advance(Span::hours(1));

    let crashed = lab.now;
    lab.apply(rabbit.failed("MemoryAlarm"));
    lab.blind_for(Span::secs(50));
    lab.advance(Span::mins(5));

    assert_eq!(lab.findings(), ["Regressed Widget team-a/rabbit"]);
    assert_eq!(lab.since("Regressed"), crashed);
}

// Runs.

#[test]
fn tekton_runs_that_failed_yesterday_are_no_regression_after_a_start() {
    let run = other_kind("PipelineRun");
    let mut lab = Lab::unsynced(unlearned());
    lab.discover(std::slice::from_ref(&run));

    let (begun, ended) = (lab.ago(Span::hours(20)), lab.ago(Span::hours(19)));
    let views = (0..5).map(|number| {
        let mut widget = Widget::new(&format!("build-{number}"), begun);
        widget.condition("Succeeded", False, "Failed").changed = Some(ended);

        let mut view = lab.view(&widget);
        view.facts.push(text("status.completionTime", &ended.to_string()));
        view
    });

    let views = views.collect();
    lab.list_in(&run.watch, views);
    lab.advance(Span::hours(1));
    lab.assert_no_findings();
}

#[test]
fn argo_workflows_that_failed_yesterday_are_no_regression_after_a_start() {
    let workflow = other_kind("Workflow");
    let mut lab = Lab::unsynced(unlearned());
    lab.discover(std::slice::from_ref(&workflow));

    let (begun, ended) = (lab.ago(Span::hours(20)), lab.ago(Span::hours(19)));
    let views = (0..5).map(|number| {
        let mut widget = Widget::new(&format!("etl-{number}"), begun);
        widget.condition("PodRunning", False, "").condition("Completed", True, "").phase("Failed");
        widget.changed = Some(ended);

        let mut view = lab.view(&widget);
        view.facts.push(text("status.startedAt", &begun.to_string()));
        view.facts.push(text("status.finishedAt", &ended.to_string()));
        view
    });

    let views = views.collect();
    lab.list_in(&workflow.watch, views);
    lab.advance(Span::hours(1));
    lab.assert_no_findings();
}

#[test]
fn a_run_that_a_schedule_starts_every_four_minutes_does_not_cycle() {
    let mut lab = Lab::new();
    let mut sync = Widget::new("sync", lab.now);
    lab.apply(&sync);
    lab.changes();

    for _ in 0..60 {
        lab.apply(sync.observe().condition("Complete", False, "Synchronizing").phase("Running"));
        lab.advance(Span::mins(1));
        lab.apply(sync.condition("Complete", True, "SyncDone").phase("Succeeded"));
        lab.advance(Span::mins(3));
    }

    let changes = lab.changes();
    assert!(changes.is_empty(), "each run succeeded: {changes:?}");
}

#[test]
fn a_finished_migration_whose_spec_gets_a_time_to_live_in_an_outage_owes_nothing() {
    let mut lab = Lab::new();
    let mut migration = Widget::new("migration", lab.now);
    lab.apply(&migration);
    lab.apply(migration.observe().condition("Complete", True, "Done"));
    lab.advance(Span::hours(2));
    lab.changes();
    lab.fail();
    lab.advance(Span::mins(20));

    migration.spec(2, lab.ago(Span::mins(15)));
    lab.list(std::slice::from_ref(&migration));
    lab.recover();
    lab.advance(Span::hours(3));

    assert!(object_changes(&mut lab).is_empty());
    assert_eq!(lab.state("migration"), ObjectState::Finished);
}

#[test]
fn a_velero_backup_that_succeeded_and_is_deleted_by_its_time_to_live_leaves_nothing() {
    let mut lab = Lab::new();
    let mut backup = Widget::new("backup", lab.now);
    lab.apply(&backup);
    lab.apply(backup.observe().condition("Complete", True, "Completed"));
    lab.advance(Span::hours(24 * 30));
    backup.finalizers = vec!["gc.velero.io/backup".into()];
    backup.deleted = Some(lab.now);
    lab.apply(&backup);

    lab.advance(Span::mins(2));
    lab.delete(&backup);
    lab.advance(Span::hours(1));
    lab.assert_no_findings();

    assert_eq!(lab.kind().finalizers["gc.velero.io/backup"].totals.outcomes, [1, 0, 0, 0, 0]);
}

// Dumps.

#[test]
fn no_rule_makes_a_finding_critical_that_has_no_managed_fields() {
    let rule_of = FindingRule { severity: Some(Severity::Critical), ..FindingRule::default() };
    let mut lab = Lab::unsynced(rule("all", rule_of));
    let (old, lost) = (lab.ago(Span::hours(700)), lab.ago(Span::hours(30)));
    let views = (0..6).map(|number| {
        let mut widget = Widget::new(&format!("w{number}"), old);
        widget.failed("BackendGone").changed = Some(lost);

        let mut view = lab.view(&widget);
        view.managers.clear();
        view
    });

    let views = views.collect();
    lab.list_views(views);
    lab.advance(Span::mins(1));

    let findings = lab.snapshot().findings;
    assert!(!findings.is_empty());
    assert!(findings.iter().all(|finding| finding.severity != Severity::Critical), "{findings:#?}");
}

#[test]
fn an_object_scaled_by_keda_a_minute_before_the_start_is_not_unacknowledged() {
    let mut lab = Lab::unsynced(unlearned());
    let created = lab.ago(Span::hours(24 * 200));
    let mut web = Widget::new("web", created);
    web.ready();
    web.spec(9, lab.ago(Span::hours(24)));

    let mut view = lab.view(&web);
    view.managers.push(spec_writer("keda", "scale", lab.ago(Span::mins(1))));
    lab.list_views(vec![view]);
    lab.advance(Span::mins(8));
    lab.assert_no_findings();
    lab.advance(Span::mins(2));

    assert!(lab.has("Unacknowledged"));
}

// Reverted specs.

#[test]
fn a_revert_that_a_dead_operator_has_not_seen_is_no_failed_recovery() {
    let mut lab = Lab::new();
    let mut gateway = lab.converged("gateway");
    lab.advance(Span::hours(1));
    lab.apply(gateway.spec(2, lab.now));
    lab.advance(Span::mins(1));
    // The status has been Ready=True for the first spec all along.
    lab.apply(gateway.spec(1, lab.now));
    lab.advance(Span::hours(1));

    assert_eq!(lab.findings(), ["Unacknowledged Widget team-a/gateway"]);
}

#[test]
fn a_way_back_that_takes_as_long_as_the_way_there_is_a_recovery() {
    let mut lab = Lab::with(Settings { deadline: Span::hours(1), ..unlearned() });
    let mut es = Widget::new("es", lab.now);
    lab.apply(&es);
    lab.apply(es.waiting());
    lab.advance(Span::mins(20));
    lab.apply(es.ready());
    lab.advance(Span::hours(5));
    lab.apply(es.spec(2, lab.now));

    lab.apply(es.failed("InvalidHeapSize"));
    lab.advance(Span::mins(3));
    lab.apply(es.spec(1, lab.now));
    lab.apply(es.waiting());
    lab.advance(Span::mins(40));
    lab.assert_no_findings();
    lab.apply(es.ready());
    lab.advance(Span::hours(1));
    lab.assert_no_findings();
}

// Restarts.

#[test]
fn a_stuck_phase_has_the_same_start_after_a_restart() {
    let mut lab = Lab::new();
    let mut vm = lab.converged("vm");
    lab.apply(vm.spec(2, lab.now));
    lab.apply(vm.waiting().phase("Provisioning"));
    lab.advance(Span::hours(2));

    let entered = lab.now;
    lab.apply(vm.phase("Migrating"));
    lab.advance(Span::mins(40));

    assert_eq!(lab.since("PhaseStuck"), entered);

    let mut again = lab.restart();
    again.list(std::slice::from_ref(&vm));
    again.advance(Span::mins(1));

    assert_eq!(again.since("PhaseStuck"), entered);
}

#[test]
fn a_dead_operator_stays_found_after_a_restart_although_most_objects_have_no_status_yet() {
    let mut lab = Lab::new();
    let mut widgets = fleet(&mut lab, &["a", "b", "c"]);
    for number in 0..8 {
        let widget = Widget::new(&format!("new-{number}"), lab.now);
        lab.apply(&widget);
        widgets.push(widget);
    }

    lab.advance(Span::mins(20));
    assert!(lab.has("Unacknowledged"), "{:?}", lab.findings());

    let mut again = lab.restart();
    again.list(&widgets);
    again.advance(Span::mins(1));

    assert!(again.has("Unacknowledged"), "the operator is still dead: {:?}", again.findings());
}

#[test]
fn a_rollout_after_a_restart_is_not_the_regression_that_was_mended_meanwhile() {
    let (lab, mut web) = Lab::regressed();
    let mut again = lab.restart();
    again.advance(Span::hours(5));
    web.spec(2, again.ago(Span::mins(3))).waiting();
    web.changed = Some(again.ago(Span::mins(2))); // so it had been ready until then
    again.list(std::slice::from_ref(&web));
    again.advance(Span::mins(2));
    again.assert_no_findings();
}

#[test]
fn a_restart_in_a_rolling_update_opens_nothing() {
    let mut lab = Lab::new();
    let mut kafka = lab.converged("kafka");
    lab.advance(Span::hours(1));
    lab.apply(kafka.spec(2, lab.now));
    roll(&mut lab, &mut kafka, 2, "Ready");

    let mut again = lab.restart();
    again.advance(Span::secs(20));
    again.list(std::slice::from_ref(&kafka));
    roll(&mut again, &mut kafka, 3, "Ready");
    again.advance(Span::hours(1));

    assert!(object_changes(&mut again).is_empty());
}

#[test]
fn an_object_that_did_not_recover_stays_found_after_a_restart() {
    let (lab, pg) = Lab::unrecovered();
    let mut again = lab.restart();
    again.list(std::slice::from_ref(&pg));
    again.advance(Span::hours(1));

    assert!(!again.findings().is_empty(), "still down, state {:?}", again.state("pg"));
}

#[test]
fn a_dead_operator_of_a_crashed_object_stays_critical_after_a_restart() {
    let mut lab = Lab::new();
    let mut web = lab.converged("web");
    lab.advance(Span::hours(1));
    lab.apply(web.failed("OutOfMemory"));
    lab.advance(Span::mins(20));
    lab.apply(web.spec(2, lab.now)); // a person gives it more memory, but the operator is dead, too
    lab.advance(Span::mins(15));

    assert!(lab.has("Unacknowledged"), "{:?}", lab.findings());

    let mut again = lab.restart();
    again.list(std::slice::from_ref(&web));
    again.advance(Span::mins(30));

    assert!(again.has("Unacknowledged"), "{:?}", again.findings());
}

#[test]
fn a_dead_operator_behind_an_autoscaler_stays_critical_through_a_restart() {
    let mut lab = Lab::new();
    let mut web = lab.converged("web");
    let first = lab.now;

    for spec in 2..8 {
        lab.apply(web.spec(spec, lab.now));
        lab.advance(Span::mins(5));
    }

    assert_eq!(lab.since("Unacknowledged"), first);

    let mut again = lab.restart();
    again.list(std::slice::from_ref(&web)); // its managed fields show only the last of the changes
    again.advance(Span::mins(1));

    assert!(again.has("Unacknowledged"), "half an hour without an answer: {:?}", again.findings());
    assert_eq!(again.since("Unacknowledged"), first);
}

// Tuning.

#[test]
fn an_annotation_of_another_namespace_does_not_make_a_retried_object_overdue() {
    let mut lab = Lab::new();
    let mut certificate = Widget::new("certificate", lab.now);
    lab.apply(&certificate);
    lab.apply(certificate.failed("SecretNotFound"));
    lab.advance(Span::hours(12));
    lab.apply(certificate.waiting()); // somebody has created the Secret
    lab.advance(Span::mins(1));
    namespace(&mut lab, "sandbox", "ignore", "all");

    lab.advance(Span::mins(1));
    lab.assert_no_findings();
}

#[test]
fn a_changed_threshold_does_not_make_a_retried_object_overdue() {
    let mut lab = Lab::new();
    let mut claim = Widget::new("claim", lab.now);
    lab.apply(&claim);
    lab.apply(claim.failed("QuotaExceeded"));
    lab.advance(Span::hours(30));
    lab.apply(claim.waiting());
    lab.advance(Span::mins(1));

    let settings = Settings { flap_transitions: 8, ..unlearned() };
    lab.observe(Observation::SettingsChanged(Box::new(settings)));
    lab.advance(Span::mins(1));
    lab.assert_no_findings();
}

#[test]
fn an_ignored_object_that_never_got_a_status_stays_ignored() {
    let mut lab = Lab::new();
    let first = Widget::new("legacy", lab.now);
    let mut view = lab.view(&first);
    view.annotations.insert("loopwatch.dev/ignore".into(), "all".into());
    lab.apply_view(view);
    lab.advance(Span::mins(11));

    for name in ["x", "y", "z"] {
        lab.converged(name);
    }

    lab.advance(Span::hours(10));
    lab.assert_no_findings();
}

#[test]
fn a_deadline_annotation_of_an_object_that_never_got_a_status_applies() {
    let mut lab = Lab::new();
    let mut view = lab.view(&Widget::new("slow", lab.now));
    view.annotations.insert("loopwatch.dev/deadline".into(), "6h".into());
    lab.apply_view(view);
    lab.advance(Span::mins(11));

    for name in ["x", "y", "z"] {
        lab.converged(name);
    }

    lab.advance(Span::hours(2));
    lab.assert_no_findings();
}

#[test]
fn a_failure_of_the_kind_that_is_only_information_does_not_explain_tickets_away() {
    let mut lab = Lab::with(rule(
        "Failing",
        FindingRule { severity: Some(Severity::Info), ..FindingRule::default() },
    ));
    let mut caches = fleet(&mut lab, &["a", "b", "c", "d"]);

    caches.iter_mut().for_each(|cache| lab.apply(cache.failed("OutOfMemory")));
    lab.advance(Span::mins(10));

    assert!(lab.has("Failing") && lab.has("Regressed"), "{:?}", lab.findings());

    let tickets = lab.roots().into_iter().filter(|root| root.starts_with("Regressed")).count();
    assert_eq!(
        tickets,
        4,
        "an information raises no alert, so nobody would hear of it: {:?}",
        lab.roots()
    );
}

#[test]
fn a_deadline_of_the_namespace_applies_while_it_is_there() {
    let mut lab = Lab::new();
    namespace(&mut lab, "team-a", "deadline", "3h");

    let mut cluster = lab.converged("cluster");
    let changed = lab.now;
    lab.apply(cluster.spec(2, changed));
    lab.apply(cluster.waiting());
    lab.advance(Span::hours(1));
    lab.assert_no_findings();
    lab.observe(Observation::NamespaceGone("team-a".into()));

    assert_eq!(lab.findings(), ["Overdue Widget team-a/cluster"]);
    assert_eq!(lab.since("Overdue"), changed);
}

#[test]
fn an_ignored_namespace_that_is_no_longer_ignored_shows_what_holds_with_its_start() {
    let mut lab = Lab::new();
    namespace(&mut lab, "team-a", "ignore", "all");

    let mut web = lab.converged("web");
    lab.advance(Span::hours(1));

    let lost = lab.now;
    lab.apply(web.failed("PodsCrash"));
    lab.advance(Span::hours(3));
    lab.fail();
    lab.advance(Span::secs(30));
    lab.observe(Observation::NamespacesListed(Vec::new()));

    assert!(!lab.has("Regressed"), "the watch is blind");

    lab.recover();
    lab.advance(Span::secs(30));

    assert_eq!(lab.findings(), ["Regressed Widget team-a/web"]);
    assert_eq!(lab.since("Regressed"), lost);
}

#[test]
fn a_shorter_deadline_applies_to_a_regression_that_waits_for_the_end_of_the_longer_one() {
    let deadline = |span| Settings {
        deadlines: [("example.io/Widget".to_owned(), span)].into(),
        ..unlearned()
    };
    let mut lab = Lab::with(deadline(Span::hours(6)));
    let mut cluster = lab.converged("cluster");

    lab.apply(cluster.spec(2, lab.now));
    lab.advance(Span::secs(1));
    lab.apply(cluster.ready());
    lab.advance(Span::mins(1));
    lab.apply(cluster.waiting());
    lab.advance(Span::mins(30));
    lab.assert_no_findings();
    lab.observe(Observation::SettingsChanged(Box::new(deadline(Span::mins(10)))));

    lab.advance(Span::secs(1));
    assert!(
        !lab.findings().is_empty(),
        "half an hour after the change, state {:?}",
        lab.state("cluster")
    );
}

// Explanations.

#[test]
fn objects_that_regressed_with_their_kind_are_explained_until_the_kind_recovers() {
    let mut lab = Lab::new();
    let mut fleet = fleet(&mut lab, &["a", "b", "c", "d"]);
    fleet.iter_mut().for_each(|widget| lab.apply(widget.failed("DnsDown")));
    lab.advance(Span::mins(6));

    assert_eq!(lab.roots(), ["Failing Widget (all)"]);

    lab.model.finding_events();
    fleet[1..].iter_mut().for_each(|widget| lab.apply(widget.ready()));
    lab.advance(Span::mins(1));

    assert_eq!(lab.roots(), ["Regressed Widget team-a/a"]);

    let events = lab.model.finding_events();
    let told = events
        .iter()
        .any(|event| event.change == Change::Explained && event.finding.explained_by.is_none());

    assert!(told, "nobody explains it any more");
}

// Actors.

#[test]
fn the_operator_is_the_actor_although_a_gitops_tool_owns_the_finalizer_too() {
    for tool in ["helm", "argocd-controller", "kustomize-controller", "Terraform", "kubectl-create"]
    {
        let mut lab = Lab::new();
        let mut app = lab.converged("app");
        app.finalizers = vec!["apps.example.io/cleanup".into()];
        app.deleted = Some(lab.now);

        let mut view = lab.view(&app);
        view.managers[0].name = tool.into();
        view.managers[0].finalizers.clone_from(&app.finalizers);
        lab.apply_view(view);
        lab.advance(Span::mins(15));

        assert!(
            lab.evidence().contains("actor field manager widget-operator"),
            "{tool}: {}",
            lab.evidence()
        );
    }
}
