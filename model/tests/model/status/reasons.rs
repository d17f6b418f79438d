//! Reasons that must read as failures, and those that must read as pauses.

use loopwatch_model::model::reading::{Verdict, read};
use loopwatch_model::observation::ConditionStatus::{False, True};
use loopwatch_model::observation::{Condition, ConditionStatus, ObjectView, StatusShape};
use loopwatch_model::time::Span;

use crate::lab::{Lab, Widget, text};

/// Reasons that name something that is switched off, although nobody has paused the object.
const FAILURES: [&str; 15] = [
    "KMSKeyDisabled",
    "APIDisabled",
    "AccountSuspended",
    "ConnectionClosed",
    "SubscriptionSuspended",
    "InstanceStopped",
    "DatabaseStopped",
    "CircuitBreakerOpen",
    "UserDeactivated",
    "ServiceDisabled",
    "NodeShutdown",
    "VolumeDetached",
    "CertificateInactive",
    "ProcessHalted",
    "BillingDisabled",
];

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

#[test]
fn reasons_that_name_something_switched_off_are_failures_and_no_pauses() {
    let mut wrong = Vec::new();
    for reason in FAILURES {
        let condition = Condition {
            r#type: "Ready".into(),
            status: ConditionStatus::False,
            reason: reason.into(),
            message: "cannot reconcile: error calling the API".into(),
            ..Condition::default()
        };

        let object = ObjectView {
            status: StatusShape::Filled,
            generation: 1,
            observed_generation: Some(1),
            conditions: vec![condition],
            ..ObjectView::default()
        };

        let verdict = read("example.io", "Widget", &object).verdict;
        if verdict != Verdict::Failed {
            wrong.push((reason, verdict));
        }
    }

    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn objects_whose_key_was_disabled_are_found() {
    let mut lab = Lab::new();
    let mut widgets: Vec<Widget> =
        (0..10).map(|number| lab.converged(&format!("db{number}"))).collect();
    for widget in &mut widgets {
        lab.apply(widget.observe().condition("Ready", ConditionStatus::False, "KMSKeyDisabled"));
    }

    lab.advance(Span::hours(24));
    assert!(
        !lab.findings().is_empty(),
        "ten databases down for a day; state {:?}",
        lab.state("db1")
    );
}

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
        ("World", "ReplicationHealthy", "PrimaryDetached"),
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
        ("World", "Paused", True, "Paused", "World.Spec.Paused is set to true"),
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
    let mut databases = lab.fleet(&["db-0", "db-1", "db-2", "db-3", "db-4"]);
    for database in &mut databases {
        lab.apply(database.observe().condition("Ready", False, "UserDeactivated"));
    }

    lab.advance(Span::hours(6));
    assert!(!lab.findings().is_empty(), "five databases are down, state {:?}", lab.state("db-1"));
}

/// Reads a status that has a single phase.
fn verdict_of_phase(path: &str, phase: &str) -> Verdict {
    let object = ObjectView {
        status: StatusShape::Filled,
        facts: vec![text(path, phase)],
        ..ObjectView::default()
    };

    read("example.io", "Widget", &object).verdict
}

#[test]
fn a_phase_that_waits_for_a_person_is_a_pause() {
    for phase in ["Waiting for user action", "PendingApproval", "AwaitingManualIntervention"] {
        assert_eq!(verdict_of_phase("status.phase", phase), Verdict::Suspended, "{phase}");
    }

    for phase in
        ["Waiting for the instances to become active", "WaitingForUserPool", "Approving", "Pending"]
    {
        assert_ne!(verdict_of_phase("status.phase", phase), Verdict::Suspended, "{phase}");
    }

    let of_part = verdict_of_phase("status.parts[0].phase", "PendingApproval");
    assert_eq!(of_part, Verdict::Progressing, "the operator works on the other parts");
}

#[test]
fn an_object_that_waits_for_a_person_is_not_overdue_and_its_deadline_counts_from_the_decision() {
    let mut lab = Lab::new();
    let mut pg = lab.converged("pg");
    lab.apply(pg.spec(2, lab.now));
    pg.observe().condition("Ready", False, "ClusterIsNotReady");
    lab.apply(pg.phase("Upgrading cluster"));
    lab.advance(Span::mins(4));
    lab.apply(pg.phase("Waiting for user action"));
    lab.advance(Span::hours(20));
    lab.assert_no_findings();

    lab.apply(pg.phase("Switchover in progress"));
    lab.advance(Span::mins(9));
    lab.assert_no_findings();

    lab.advance(Span::mins(1));
    assert_eq!(lab.findings(), ["Overdue Widget team-a/pg"]);
}
