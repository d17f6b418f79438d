//! Faults that something hides: other spec changes, other writers, a restart, the style of the
//! status.

mod lab;

use lab::steps::{spec_writer, unlearned};
use lab::{Lab, Widget};
use loopwatch_model::observation::ConditionStatus::{False, True, Unknown};
use loopwatch_model::observation::{Cause, Manager, Observation, Owned, SourceId};
use loopwatch_model::snapshot::Outcome;
use loopwatch_model::time::Span;

#[test]
fn objects_that_fail_after_their_operator_changed_their_specs_are_found() {
    let mut lab = Lab::new();
    let mut widgets: Vec<Widget> = ["a", "b", "c", "d"].map(|name| lab.converged(name)).into();
    lab.advance(Span::hours(5));

    for widget in &mut widgets {
        widget.spec(2, widget.spec_written);
        let mut view = lab.view(widget);
        // Its new version migrates all objects.
        view.managers.push(spec_writer("widget-operator", "", lab.now));
        lab.apply_view(view);
        lab.apply(widget.failed("MigrationFailed"));
    }

    lab.advance(Span::hours(5));
    assert!(!lab.findings().is_empty(), "{:?}", lab.kind().states());
}

#[test]
fn a_crashed_object_stays_found_although_somebody_edits_its_spec() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("db");
    lab.advance(Span::hours(1));
    lab.apply(widget.failed("DataCorrupt"));
    lab.advance(Span::mins(6));

    assert!(lab.has("Regressed"), "{:?}", lab.findings());

    lab.apply(widget.spec(2, lab.now)); // a person tries to help
    lab.apply(widget.failed("DataCorrupt"));
    lab.advance(Span::hours(24));

    assert!(!lab.findings().is_empty(), "down for a day, state {:?}", lab.state("db"));
}

#[test]
fn a_failing_kind_stays_found_although_a_pipeline_edits_all_specs() {
    let mut lab = Lab::new();
    let mut widgets: Vec<Widget> = ["a", "b", "c", "d"].map(|name| lab.converged(name)).into();
    lab.advance(Span::hours(1));
    widgets.iter_mut().for_each(|widget| lab.apply(widget.failed("LicenseExpired")));
    lab.advance(Span::mins(6));

    assert!(lab.has("Failing"), "{:?}", lab.findings());

    for widget in &mut widgets {
        lab.apply(widget.spec(2, lab.now));
        lab.apply(widget.failed("LicenseExpired"));
    }

    lab.advance(Span::hours(24));
    assert!(!lab.findings().is_empty(), "all down for a day, {:?}", lab.kind().states());
}

#[test]
fn a_crashed_object_is_found_although_an_autoscaler_changes_its_spec_every_four_minutes() {
    // Not ready after crash; autoscaler changes spec every 4 minutes; operator acks
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    lab.advance(Span::hours(1));
    lab.apply(widget.condition("Ready", False, "CrashLoop"));

    for spec in 2..50 {
        lab.advance(Span::mins(4));
        lab.apply(widget.spec(spec, lab.now));
        lab.apply(widget.observe().condition("Ready", False, "CrashLoop"));
    }

    assert!(!lab.findings().is_empty(), "{:?}", lab.state("web"));
}

#[test]
fn an_object_that_is_never_ready_is_found_although_an_autoscaler_changes_its_spec() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    for spec in 2..100 {
        lab.apply(widget.spec(spec, lab.now));
        lab.advance(Span::secs(1));
        lab.apply(widget.waiting());
        lab.advance(Span::mins(8));
    }

    assert!(!lab.findings().is_empty(), "not ready for 13 hours");
}

#[test]
fn a_second_writer_of_the_status_does_not_make_the_operator_a_user() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    lab.apply(widget.spec(2, lab.now));
    lab.apply(widget.waiting());
    lab.advance(Span::secs(1));

    let mut open_minutes = 0;
    for spec in 3..183 {
        widget.spec(spec, widget.spec_written);
        widget.status_written = Some(lab.ago(Span::secs(20)));

        let mut view = lab.view(widget.waiting());
        view.managers.push(spec_writer("widget-operator", "", lab.now));
        view.managers.push(Manager {
            name: "backup-agent".into(),
            subresource: "status".into(),
            time: Some(lab.ago(Span::secs(5))),
            owns: Owned { status: true, ..Owned::default() },
            ..Manager::default()
        });

        lab.apply_view(view);
        lab.advance(Span::mins(1));
        open_minutes += usize::from(!lab.findings().is_empty());
    }

    assert!(open_minutes > 160, "{open_minutes} of 180");
    assert_eq!(lab.outcomes(Outcome::Late), 1);
}

#[test]
fn lists_do_not_let_an_operator_extend_its_own_deadline() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    lab.apply(widget.spec(2, lab.now));
    lab.apply(widget.waiting());
    lab.advance(Span::secs(1));

    let mut open = 0;
    for spec in 3..40 {
        widget.spec(spec, widget.spec_written);
        let mut view = lab.view(widget.waiting());
        view.managers.push(spec_writer("widget-operator", "", lab.now));
        lab.fail();
        lab.advance(Span::secs(10));
        lab.list_views(vec![view]);
        lab.recover();
        lab.advance(Span::mins(5));
        open += usize::from(!lab.findings().is_empty());
    }

    assert!(open > 30, "{open} of 37");
}

#[test]
fn a_failing_kind_without_transition_times_is_still_failing_after_a_restart() {
    let mut lab = Lab::new();
    let mut widgets: Vec<Widget> = ["a", "b", "c", "d"].map(|name| lab.converged(name)).into();
    lab.advance(Span::hours(1));
    widgets[..3].iter_mut().for_each(|widget| lab.apply(widget.failed("LicenseExpired")));
    lab.advance(Span::mins(30));

    let since = lab.since("Failing");
    let mut again = lab.restart();
    again.list(&widgets);
    again.advance(Span::mins(1));

    assert!(again.has("Failing"), "{:?} {:?}", again.findings(), again.kind().states());
    assert_eq!(again.since("Failing"), since);
}

#[test]
fn a_regression_without_transition_times_is_the_same_finding_after_a_restart() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    lab.advance(Span::hours(1));
    lab.apply(widget.waiting());
    lab.advance(Span::mins(30));

    let before = lab.finding("Regressed");
    let mut again = lab.restart();
    again.list(&[widget]);
    again.advance(Span::mins(1));

    let after = again.snapshot().findings;
    assert_eq!(
        after.iter().map(|f| (f.code, f.since)).collect::<Vec<_>>(),
        [(before.code, before.since)]
    );
}

#[test]
fn a_kind_with_degraded_conditions_has_failed_since_they_changed() {
    for (condition, status) in
        [("Degraded", True), ("Stalled", True), ("ReconcileFailed", True), ("Ready", False)]
    {
        let mut lab = Lab::unsynced(unlearned());
        let (old, lost) = (lab.ago(Span::hours(500)), lab.ago(Span::hours(30)));
        let widgets: Vec<Widget> = (0..4)
            .map(|number| {
                let mut widget = Widget::new(&format!("w{number}"), old);
                widget.observe().condition(condition, status, "DependencyFailed");
                widget.changed = Some(lost);
                widget
            })
            .collect();

        lab.list(&widgets);
        lab.advance(Span::mins(1));

        assert!(lab.has("Failing"), "{condition}: {:?} {:?}", lab.findings(), lab.kind().states());
        assert_eq!(lab.since("Failing"), lost, "{condition}");
    }
}

#[test]
fn a_regression_to_unknown_began_when_the_condition_changed() {
    let mut lab = Lab::unsynced(unlearned());
    let (old, lost) = (lab.ago(Span::hours(500)), lab.ago(Span::hours(2)));
    let mut widget = Widget::new("web", old);
    widget.observe().condition("Ready", Unknown, "NodeUnreachable");
    widget.changed = Some(lost);
    lab.list(&[widget]);
    lab.advance(Span::mins(1));

    assert_eq!(
        lab.snapshot().findings.iter().map(|f| f.since).collect::<Vec<_>>(),
        [lost],
        "{:?}",
        lab.findings()
    );
}

#[test]
fn an_object_that_never_got_a_status_is_found_once_its_kind_shows_one() {
    let mut lab = Lab::new();
    let first = Widget::new("first", lab.now);
    lab.apply(&first);
    lab.advance(Span::mins(11));

    for name in ["x", "y", "z"] {
        lab.converged(name);
    }

    lab.advance(Span::hours(10));
    assert!(!lab.findings().is_empty(), "state {:?}", lab.state("first"));
}

#[test]
fn phases_that_only_repeat_do_not_hide_a_stuck_finalizer() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("v");
    widget.finalizers = vec!["example.io/f".into()];
    widget.deleted = Some(lab.now);
    lab.apply(&widget);

    for _ in 0..24 {
        lab.apply(widget.phase("Deleting"));
        lab.advance(Span::mins(5));
        lab.apply(widget.phase("DeleteFailed"));
        lab.advance(Span::mins(5));
    }

    assert!(lab.has("FinalizerStuck"), "four hours");
}

#[test]
fn an_object_that_a_list_had_to_skip_keeps_its_findings() {
    let mut lab = Lab::with(unlearned());
    let mut large = lab.converged("large");
    let (small, gone) = (lab.converged("small"), lab.converged("gone"));
    lab.apply(large.waiting());
    lab.advance(Span::mins(20));

    assert_eq!(lab.findings(), ["Regressed Widget team-a/large"]);

    lab.begin_list(&lab::watch());
    let view = lab.view(&small);
    lab.listed(&lab::watch(), view);

    let view = lab.view(&gone);
    lab.listed(&lab::watch(), view);
    lab.observe(Observation::Skipped {
        source: SourceId::Watch(lab::watch()),
        cause: Cause::TooLarge,
    });
    lab.end_list(&lab::watch());
    lab.advance(Span::mins(1));

    assert_eq!(
        lab.findings(),
        ["Regressed Widget team-a/large", "LimitReached limit object_bytes"]
    );

    lab.list(&[small]);
    lab.advance(Span::mins(1));

    assert_eq!(
        lab.findings(),
        ["LimitReached limit object_bytes"],
        "the complete list shows that it was removed"
    );
}
