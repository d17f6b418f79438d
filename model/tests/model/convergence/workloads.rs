//! Workloads that primary objects own: their states, and the findings that name them.

use loopwatch_model::observation::{
    ConditionStatus, EventView, Fact, FactValue, ObjectKey, ObjectView, Observation,
    OwnerReference, Pause, Role, WatchedKind,
};
use loopwatch_model::snapshot::ObjectState;
use loopwatch_model::time::Span;

use crate::lab::{Lab, Widget, child_of, deployment, deployments, kind, owned_by, text};

/// A lab with an empty list of Deployments.
fn lab() -> Lab {
    let mut lab = Lab::new();
    lab.discover(&[kind(), deployments()]);
    lab.list_in(&deployments().watch, Vec::new());
    lab
}

/// Applies the next version of a Deployment.
fn apply(lab: &mut Lab, view: &ObjectView) {
    let view = lab.versioned(view.clone());
    lab.apply_to(&deployments().watch, view);
}

/// The same Deployment after its progress deadline.
fn timed_out(mut deployment: ObjectView) -> ObjectView {
    deployment.conditions[0].status = ConditionStatus::False;
    deployment.conditions[0].reason = "ProgressDeadlineExceeded".into();
    deployment.hashes.settled += 100;
    deployment
}

/// A Widget that is overdue, since its operator waits for something.
fn overdue(lab: &mut Lab, name: &str) -> Widget {
    let mut widget = Widget::new(name, lab.now);
    lab.apply(&widget);
    lab.apply(widget.waiting());
    lab.advance(Span::hours(1));

    widget
}

/// What the only open finding says its object waits for.
fn waits_for(lab: &Lab) -> Option<String> {
    let findings = lab.snapshot().findings;
    assert_eq!(findings.len(), 1, "{:?}", lab.findings());

    findings[0].evidence.0.get("waits_for").map(ToString::to_string)
}

const SHORT: &str = "status.availableReplicas=1 of status.updatedReplicas=3";

#[test]
fn an_overdue_object_names_the_workload_that_it_waits_for() {
    let mut lab = lab();
    apply(&mut lab, &deployment("shop", "web", 3, 1));
    overdue(&mut lab, "shop");

    assert_eq!(lab.findings(), ["Overdue Widget team-a/shop"]);
    assert_eq!(waits_for(&lab), Some(format!("Deployment team-a/web: {SHORT}")));

    // The evidence follows the workload, without an event about its owner.
    apply(&mut lab, &timed_out(deployment("shop", "web", 3, 1)));
    let failed = "Deployment team-a/web: Progressing=False (ProgressDeadlineExceeded)";

    assert_eq!(waits_for(&lab).as_deref(), Some(failed));

    apply(&mut lab, &deployment("shop", "web", 3, 3));
    assert_eq!(waits_for(&lab), None, "the Deployment is ready");

    let lost = ObjectView { owners: Vec::new(), ..deployment("shop", "web", 3, 1) };
    apply(&mut lab, &deployment("shop", "web", 3, 1));

    assert!(waits_for(&lab).is_some());

    apply(&mut lab, &lost);
    assert_eq!(waits_for(&lab), None, "the Deployment has another owner");

    apply(&mut lab, &deployment("shop", "web", 3, 1));
    assert!(waits_for(&lab).is_some());

    lab.delete_from(&deployments().watch, lost.key);

    assert_eq!(waits_for(&lab), None, "the Deployment is gone");
}

#[test]
fn objects_that_regress_or_are_not_acknowledged_name_their_workloads() {
    let mut lab = lab();
    apply(&mut lab, &deployment("shop", "web", 3, 3));

    let mut widget = lab.converged("shop");
    lab.advance(Span::hours(1));
    apply(&mut lab, &timed_out(deployment("shop", "web", 3, 1)));
    lab.apply(widget.waiting());
    lab.advance(Span::hours(1));

    assert_eq!(lab.findings(), ["Regressed Widget team-a/shop"]);
    assert!(
        waits_for(&lab).is_some_and(|names| names.contains("ProgressDeadlineExceeded")),
        "{:?}",
        waits_for(&lab)
    );

    lab.apply(widget.ready());
    apply(&mut lab, &deployment("shop", "web", 3, 3));
    lab.advance(Span::hours(1));
    lab.assert_no_findings();
    apply(&mut lab, &timed_out(deployment("shop", "web", 3, 1)));
    lab.apply(widget.spec(2, lab.now));
    lab.advance(Span::hours(1));

    assert_eq!(lab.findings(), ["Unacknowledged Widget team-a/shop"]);
    assert!(waits_for(&lab).is_some());
}

#[test]
fn a_finding_names_three_workloads_and_those_that_failed_first() {
    let mut lab = lab();
    for name in ["a", "b", "c"] {
        apply(&mut lab, &deployment("shop", name, 3, 1));
    }

    apply(&mut lab, &timed_out(deployment("shop", "d", 3, 1)));
    apply(&mut lab, &deployment("bank", "other-owner", 3, 0));

    let mut elsewhere = timed_out(deployment("shop", "other-namespace", 3, 0));
    elsewhere.key.namespace = "team-b".into();
    elsewhere.owners[0].uid = "uid of the shop in team-b".into();
    apply(&mut lab, &elsewhere);
    overdue(&mut lab, "shop");

    let failed = "Deployment team-a/d: Progressing=False (ProgressDeadlineExceeded)";
    let expected = format!("{failed}, Deployment team-a/a: {SHORT}, Deployment team-a/b: {SHORT}");

    assert_eq!(waits_for(&lab), Some(expected));
}

#[test]
fn a_child_opens_no_finding_and_counts_towards_no_total_but_its_state() {
    let mut lab = lab();
    let mut shop = Widget::new("shop", lab.now); // which does not claim that anything runs
    lab.apply(shop.observe().condition("Synced", ConditionStatus::True, "AsExpected"));

    let state = |lab: &Lab, state: ObjectState| {
        let kinds = lab.snapshot().kinds;
        let kind = kinds.iter().find(|kind| kind.role == Role::Child).expect("the child kind");
        let totals = kind.namespaces.values();

        assert!(totals.clone().all(|n| n.obligations.iter().all(|count| *count == 0)), "{kind:?}");
        assert!(
            kind.totals.phases.is_empty()
                && kind.totals.conditions.is_empty()
                && kind.totals.flaps.is_empty()
        );
        assert_eq!(kind.oldest_unconverged, None);

        totals.map(|n| n.states[state as usize]).sum::<u64>()
    };

    let apply_and_wait = |lab: &mut Lab, view: &ObjectView| {
        apply(lab, view);
        lab.advance(Span::hours(48));
        lab.assert_no_findings();

        assert!(lab.snapshot().unhealthy.is_empty());
    };

    for _ in 0..10 {
        apply_and_wait(&mut lab, &deployment("shop", "web", 3, 1));
        assert_eq!(state(&lab, ObjectState::Progressing), 1);

        apply_and_wait(&mut lab, &deployment("shop", "web", 3, 3));
        assert_eq!(state(&lab, ObjectState::Converged), 1);

        apply_and_wait(&mut lab, &timed_out(deployment("shop", "web", 3, 1)));
        assert_eq!(state(&lab, ObjectState::Failed), 1);

        let outdated = ObjectView { generation: 2, ..timed_out(deployment("shop", "web", 3, 1)) };
        apply_and_wait(&mut lab, &outdated);

        assert_eq!(state(&lab, ObjectState::Progressing), 1);

        apply_and_wait(&mut lab, &deployment("shop", "web", 3, 3));
    }

    // Many Deployments that fail at once do not make a failing kind.
    for number in 0..50 {
        apply(&mut lab, &deployment("shop", &format!("web{number}"), 3, 3));
    }

    lab.advance(Span::hours(1));
    for number in 0..50 {
        apply(&mut lab, &timed_out(deployment("shop", &format!("web{number}"), 3, 0)));
    }

    lab.advance(Span::hours(1));
    lab.assert_no_findings();

    assert_eq!(state(&lab, ObjectState::Failed), 50);
}

#[test]
fn a_child_shows_its_signal_only_while_it_is_not_ready() {
    let mut lab = lab();
    let signal = |lab: &Lab| {
        let (rows, _) = lab.model.rows(Default::default(), usize::MAX);
        rows.iter()
            .find(|row| row.name == "web")
            .map(|row| row.signal.clone())
            .expect("the Deployment")
    };

    apply(&mut lab, &deployment("shop", "web", 3, 1));
    lab.advance(Span::hours(1));

    assert_eq!(signal(&lab), SHORT);

    apply(&mut lab, &deployment("shop", "web", 3, 3));
    assert_eq!(signal(&lab), "", "the record of a child that has converged stays small");

    lab.list_in(&deployments().watch, vec![timed_out(deployment("shop", "web", 3, 1))]);
    assert_eq!(signal(&lab), "Progressing=False (ProgressDeadlineExceeded)");
}

#[test]
fn children_of_which_only_metadata_is_known_are_unknown() {
    let mut lab = lab();
    apply(&mut lab, &ObjectView { generation: 3, ..child_of("shop", "web") });
    overdue(&mut lab, "shop");

    assert_eq!(lab.state("web"), ObjectState::Unknown);
    assert_eq!(waits_for(&lab), None);
}

#[test]
fn a_paused_and_a_terminating_workload_are_named() {
    let mut lab = lab();
    let mut paused = deployment("shop", "paused", 3, 1);
    paused.paused = Some(Pause { by: "spec.paused".into() });
    apply(&mut lab, &paused);

    let deleted = ObjectView { deleted: Some(lab.now), ..deployment("shop", "web", 3, 3) };
    apply(&mut lab, &deleted);
    overdue(&mut lab, "shop");

    let expected = "Deployment team-a/paused: suspended, Deployment team-a/web: terminating";
    assert_eq!(waits_for(&lab).as_deref(), Some(expected));
}

#[test]
fn workloads_that_a_failing_watch_hides_are_not_named() {
    let mut lab = lab();
    apply(&mut lab, &deployment("shop", "web", 3, 1));
    lab.fail_watch(&deployments().watch);
    overdue(&mut lab, "shop");

    let findings = lab.snapshot().findings;
    let finding =
        findings.iter().find(|f| f.code.name() == "Overdue").expect("the Widget is overdue");

    assert!(!finding.evidence.0.contains_key("waits_for"), "{finding:?}");
}

/// A Job of a Widget that runs.
fn job(name: &str) -> ObjectView {
    ObjectView {
        facts: vec![text("status.startTime", "2026-01-01T00:00:00Z")],
        conditions: Vec::new(),
        observed_generation: None,
        ..deployment("shop", name, 3, 0)
    }
}

#[test]
fn a_job_that_runs_for_long_is_named_but_never_overdue() {
    for (role, named) in
        [(Role::Child, Some("Job team-a/migrate: status.succeeded=0")), (Role::Primary, None)]
    {
        let mut lab = Lab::new();
        let jobs = WatchedKind { group: "batch".into(), kind: "Job".into(), role, ..deployments() };
        lab.discover(&[kind(), jobs]);
        lab.list_in(&deployments().watch, vec![job("migrate")]);
        lab.advance(Span::hours(48));
        lab.assert_no_findings();
        overdue(&mut lab, "shop");

        assert_eq!(waits_for(&lab).as_deref(), named);
    }
}

/// A CronJob with running Jobs, or without one, whose last run succeeded or not.
fn cron_job(running: i64, succeeded: bool) -> ObjectView {
    let last = if succeeded { "2026-01-01T00:05:00Z" } else { "2025-12-31T00:05:00Z" };
    ObjectView {
        facts: vec![
            Fact { path: "status.active".into(), value: FactValue::Number(running) },
            text("status.lastScheduleTime", "2026-01-01T00:00:00Z"),
            text("status.lastSuccessfulTime", last),
        ],
        conditions: Vec::new(),
        observed_generation: None,
        ..deployment("", "nightly", 3, 0)
    }
}

#[test]
fn a_cron_job_regresses_when_its_job_fails_and_not_while_it_runs() {
    let mut lab = Lab::new();
    let (group, kind) = ("batch".into(), "CronJob".into());
    lab.discover(&[WatchedKind { group, kind, role: Role::Primary, ..deployments() }]);
    lab.list_in(&deployments().watch, vec![cron_job(0, true)]);

    apply(&mut lab, &cron_job(1, false));
    lab.advance(Span::hours(3));
    lab.assert_no_findings();

    apply(&mut lab, &cron_job(0, true));
    lab.advance(Span::hours(3));
    lab.assert_no_findings();

    apply(&mut lab, &cron_job(0, false));
    lab.advance(Span::hours(3));
    let found = lab.snapshot().findings;
    assert!(found.iter().any(|finding| finding.code.name() == "Regressed"), "{found:?}");
}

#[test]
fn owners_in_a_cycle_and_without_an_end_are_survived() {
    let mut lab = Lab::new();

    // In a dump, every kind is a primary kind.
    let primary = WatchedKind { role: Role::Primary, filtered: false, ..deployments() };
    lab.discover(&[kind(), primary]);
    lab.list_in(&deployments().watch, vec![]);

    let of = |name: &str, owner: &str| {
        let uid = format!("uid-{owner}");
        let owner = OwnerReference {
            api_version: "apps/v1".into(),
            kind: "Deployment".into(),
            uid,
            ..owned_by(owner)
        };

        ObjectView { owners: vec![owner], ..deployment("", name, 3, 1) }
    };

    for _ in 0..3 {
        for (name, owner) in [("a", "b"), ("b", "a"), ("self", "self")] {
            apply(&mut lab, &of(name, owner));
        }
        lab.advance(Span::hours(1));
    }

    let mut findings = lab.snapshot().findings;
    findings.retain(|finding| finding.code.name() != "OwnerCycle");

    let names = |name: &str| {
        let finding = findings.iter().find(|f| f.subject.to_string().ends_with(name));
        finding
            .and_then(|f| f.evidence.0.get("waits_for"))
            .map(ToString::to_string)
            .unwrap_or_default()
    };

    assert_eq!(
        (names("/a"), names("/b")),
        (format!("Deployment team-a/b: {SHORT}"), format!("Deployment team-a/a: {SHORT}"))
    );
}

#[test]
fn a_warning_about_the_workload_stands_in_the_finding_about_its_owner() {
    let mut lab = lab();
    apply(&mut lab, &deployment("shop", "web", 3, 1));
    apply(&mut lab, &deployment("shop", "ready", 3, 3));
    overdue(&mut lab, "shop");

    let mut warn = |about: &str, reason: &str| {
        let about = ObjectKey { namespace: "team-a".into(), name: about.into() };
        let event = EventView {
            uid: reason.into(),
            about,
            r#type: "Warning".into(),
            reason: reason.into(),
            message: "no node fits".into(),
            ..EventView::default()
        };
        let watch = deployments().watch;
        lab.observe(Observation::EventSeen { watch, event: Box::new(event) });
        lab.evidence()
    };

    assert!(!warn("ready", "Unrelated").contains("last warning"));
    assert!(
        warn("web", "FailedScheduling").contains("last warning FailedScheduling: no node fits")
    );

    // No total counts Events about workloads, and those about somebody else's leave no trace.
    warn("foreign", "Unrelated");
    assert!(lab.snapshot().kinds.iter().all(|kind| kind.totals.events.is_empty()));
}
