//! Failures of many objects at once, reasons that must read as failures, and phases.

mod lab;

use lab::steps::unlearned;
use lab::{Lab, Widget};
use loopwatch_model::model::reading::{Verdict, read};
use loopwatch_model::observation::{Condition, ConditionStatus, ObjectView, StatusShape};
use loopwatch_model::settings::Settings;
use loopwatch_model::time::Span;

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
fn one_failing_object_is_enough_if_the_settings_say_so() {
    let settings = Settings { failing_objects: 1, failing_percent: 1, ..unlearned() };
    let mut lab = Lab::with(settings);
    let mut widget = lab.converged("web");
    lab.apply(widget.failed("DependencyDown"));
    lab.advance(Span::secs(20));

    assert_eq!(lab.findings(), ["Failing Widget (all)"]);

    lab.apply(widget.ready());
    lab.advance(Span::hours(10));
    lab.assert_no_findings();
}

#[test]
fn a_kind_has_failed_since_the_object_that_reached_the_threshold_and_the_evidence_names_the_objects()
 {
    let mut lab = Lab::new();
    let mut widgets: Vec<Widget> =
        (0..4).map(|number| lab.converged(&format!("w{number}"))).collect();
    let mut third = lab.now;

    for widget in &mut widgets[..3] {
        third = lab.now;
        lab.apply(widget.failed("DependencyDown"));
        lab.advance(Span::mins(1));
    }

    let failing = lab.finding("Failing");
    assert_eq!(failing.since, third);

    let summary = failing.summary();
    for part in ["failed 3", "objects 4", "DependencyDown", "team-a/w0, team-a/w1, team-a/w2"] {
        assert!(summary.contains(part), "{part}: {summary}");
    }

    assert!(!summary.contains("w3"), "{summary}");
}

#[test]
fn a_kind_that_keeps_failing_with_other_objects_keeps_its_finding() {
    let mut lab = Lab::new();
    let mut widgets: Vec<Widget> =
        (0..6).map(|number| lab.converged(&format!("w{number}"))).collect();
    widgets[..4].iter_mut().for_each(|widget| lab.apply(widget.failed("RegistryDown")));
    lab.advance(Span::mins(1));

    let since = lab.since("Failing");
    lab.changes();
    lab.apply(widgets[5].failed("RegistryDown"));
    lab.apply(widgets[0].ready());
    lab.delete(&widgets[1]);
    lab.advance(Span::mins(1));

    assert_eq!(lab.since("Failing"), since);

    let changes = lab.changes();
    assert!(!changes.iter().any(|change| change.contains("Failing")), "{changes:?}");
}

#[test]
fn objects_that_fail_after_their_own_spec_changes_do_not_make_the_kind_fail() {
    let mut lab = Lab::new();
    let mut widgets: Vec<Widget> =
        (0..4).map(|number| lab.converged(&format!("w{number}"))).collect();
    for widget in &mut widgets {
        lab.apply(widget.spec(2, lab.now));
        lab.apply(widget.failed("ImageNotFound"));
        lab.advance(Span::mins(2));
    }

    lab.advance(Span::hours(1));
    lab.assert_no_findings();
}

// Phases.

#[test]
fn a_stuck_phase_began_when_the_object_entered_it() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    lab.apply(widget.waiting().phase("Repairing"));
    lab.advance(Span::hours(10));

    let entered = lab.now;
    lab.apply(widget.phase("Provisioning"));
    lab.advance(Span::mins(31));

    assert_eq!(lab.since("PhaseStuck"), entered);

    lab.advance(Span::mins(5));
    lab.apply(widget.touch_status());

    assert_eq!(lab.since("PhaseStuck"), entered);
}
