//! Changes that look like faults: rollouts, retries, resumed objects, runs that are over, kinds
//! that are read anew.

mod lab;

use lab::steps::{spec_writer, unlearned};
use lab::{Lab, Widget, kind};
use loopwatch_model::observation::ConditionStatus::{False, True};
use loopwatch_model::observation::{
    Hashes, ObjectView, Role, StatusSchema, StatusShape, WatchedKind,
};
use loopwatch_model::snapshot::ObjectState;
use loopwatch_model::time::Span;

#[test]
fn a_finished_run_with_a_spec_change_is_still_finished_after_a_restart() {
    let mut lab = Lab::new();
    let mut widget = Widget::new("run", lab.now);
    lab.apply(&widget);
    lab.apply(widget.observe().condition("Complete", True, "Done"));
    lab.advance(Span::hours(1));
    lab.apply(widget.spec(2, lab.now));
    lab.advance(Span::hours(1));
    lab.assert_no_findings();

    let mut again = lab.restart();
    again.list(&[widget]);
    again.advance(Span::hours(1));
    again.assert_no_findings();
}

#[test]
fn a_finished_run_whose_status_changes_after_a_spec_change_is_still_finished() {
    let mut lab = Lab::new();
    let mut widget = Widget::new("run", lab.now);
    lab.apply(&widget);
    lab.apply(widget.observe().condition("Complete", True, "Done"));
    lab.advance(Span::hours(1));
    lab.apply(widget.spec(2, lab.now));
    lab.advance(Span::secs(5));
    lab.apply(widget.touch_status()); // logs archived; observedGeneration stays as it was

    lab.advance(Span::hours(1));
    lab.assert_no_findings();

    assert_eq!(lab.state("run"), ObjectState::Finished);
}

#[test]
fn a_retry_of_a_rejected_spec_is_not_overdue_at_once() {
    let mut lab = Lab::new();
    let mut widget = Widget::new("typo", lab.now);
    lab.apply(&widget);
    lab.apply(widget.failed("SecretNotFound"));
    lab.advance(Span::hours(12));
    lab.apply(widget.waiting()); // somebody has created the Secret
    lab.advance(Span::mins(1));
    lab.assert_no_findings();
}

#[test]
fn retries_of_a_rejected_spec_open_and_close_no_finding() {
    let mut lab = Lab::new();
    let mut widget = Widget::new("typo", lab.now);
    lab.apply(&widget);

    for _ in 0..100 {
        lab.apply(widget.waiting());
        lab.advance(Span::secs(10));
        lab.apply(widget.failed("SecretNotFound"));
        lab.advance(Span::mins(5));
    }

    let changes = lab.changes();
    assert!(changes.len() < 3, "{}", changes.len());
}

#[test]
fn a_spec_change_of_a_paused_object_counts_from_the_list_that_shows_it_resumed() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    widget.paused = true;
    lab.apply(widget.touch_status());
    lab.advance(Span::hours(10));
    lab.fail();
    lab.advance(Span::mins(40));
    widget.spec(2, lab.ago(Span::mins(30)));

    widget.paused = false; // resumed a minute ago, by an annotation
    lab.list(&[widget.clone()]);
    lab.recover();
    lab.advance(Span::mins(3));
    lab.assert_no_findings();
}

#[test]
fn a_kind_that_recovers_within_the_grace_after_blindness_does_not_fail() {
    let mut lab = Lab::new();
    let mut widgets: Vec<Widget> = ["a", "b", "c", "d"].map(|name| lab.converged(name)).into();
    lab.advance(Span::hours(1));
    lab.changes();
    lab.fail();
    lab.advance(Span::mins(5));

    for widget in &mut widgets {
        lab.changes();
        widget.failed("ApiServerUnreachable");
    }

    lab.list(&widgets);
    lab.recover();
    lab.advance(Span::secs(40));
    widgets.iter_mut().for_each(|widget| lab.apply(widget.ready()));
    lab.advance(Span::hours(1));

    let changes = lab.changes();
    assert!(!changes.iter().any(|change| change.contains(" Failing")), "{changes:?}");
}

#[test]
fn a_rolling_update_that_is_under_way_when_loopwatch_starts_is_not_flapping() {
    let mut lab = Lab::unsynced(unlearned());
    let mut widget = Widget::new("kafka", lab.ago(Span::hours(100)));
    widget.spec(2, lab.ago(Span::secs(30)));
    widget.ready();
    lab.list(&[widget.clone()]);

    for _ in 0..5 {
        lab.advance(Span::secs(40));
        lab.apply(widget.observe().condition("Ready", False, "PodNotReady"));
        lab.advance(Span::secs(40));
        lab.apply(widget.observe().condition("Ready", True, "AllPodsReady"));
    }

    lab.assert_no_findings();
}

#[test]
fn a_rollout_that_begins_after_loopwatch_started_is_not_a_regression() {
    let mut lab = Lab::unsynced(unlearned());
    let mut widget = Widget::new("db", lab.ago(Span::hours(100)));
    widget.spec(2, lab.ago(Span::secs(5)));
    widget.ready(); // acknowledged, but Ready=True is still about the old spec
    lab.list(&[widget.clone()]);
    lab.advance(Span::secs(20));
    lab.apply(widget.waiting());
    lab.advance(Span::mins(7));
    lab.assert_no_findings();
}

#[test]
fn a_rolling_update_whose_spec_change_a_list_showed_is_not_flapping() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("kafka");
    lab.advance(Span::hours(1));
    lab.fail();
    lab.advance(Span::secs(30));
    widget.spec(2, lab.ago(Span::secs(20)));
    lab.list(&[widget.clone()]);
    lab.recover();

    lab.apply(widget.observe());
    for _ in 0..5 {
        lab.advance(Span::secs(40));
        lab.apply(widget.observe().condition("Ready", False, "PodNotReady"));
        lab.advance(Span::secs(40));
        lab.apply(widget.observe().condition("Ready", True, "AllPodsReady"));
    }

    lab.assert_no_findings();
}

#[test]
fn specs_that_are_rejected_late_do_not_make_the_kind_fail() {
    let mut lab = Lab::new();
    let mut widgets: Vec<Widget> =
        ["a", "b", "c", "d"].map(|name| Widget::new(name, lab.now)).into();
    for widget in &mut widgets {
        lab.apply(widget);
        lab.apply(widget.condition("Ready", True, "Ok"));
    }

    lab.advance(Span::hours(1));
    for widget in &mut widgets {
        lab.apply(widget.spec(2, lab.now));
    }

    lab.advance(Span::secs(45));
    for widget in &mut widgets {
        lab.apply(widget.condition("Ready", False, "InvalidSpec"));
    }

    lab.advance(Span::mins(30));
    lab.assert_no_findings();
}

#[test]
fn specs_that_are_rejected_after_a_first_acknowledgement_do_not_make_the_kind_fail() {
    let mut lab = Lab::new();
    let mut widgets: Vec<Widget> = ["a", "b", "c", "d"].map(|name| lab.converged(name)).into();
    lab.advance(Span::hours(1));

    for widget in &mut widgets {
        lab.apply(widget.spec(2, lab.now));
    }

    lab.advance(Span::secs(1));
    for widget in &mut widgets {
        lab.apply(widget.observe().touch_status());
    }

    lab.advance(Span::secs(20));
    for widget in &mut widgets {
        lab.apply(widget.failed("InvalidSpec"));
    }

    lab.advance(Span::mins(30));
    lab.assert_no_findings();
}

#[test]
fn phases_that_change_once_for_each_replica_of_a_rolling_update_are_not_cycling() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("es");
    lab.apply(widget.phase("Running"));
    lab.advance(Span::hours(1));
    lab.apply(widget.spec(2, lab.now));

    for _ in 0..5 {
        lab.apply(widget.observe().phase("Updating"));
        lab.advance(Span::secs(40));
        lab.apply(widget.phase("Running"));
        lab.advance(Span::secs(40));
    }

    lab.assert_no_findings();
}

#[test]
fn a_rolling_update_to_a_version_that_the_operator_wrote_is_not_flapping() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("kafka");
    lab.advance(Span::hours(1));
    widget.spec(2, widget.spec_written);

    let mut view = lab.view(&widget);
    view.managers.push(spec_writer("widget-operator", "", lab.now)); // an upgrade channel
    lab.apply_view(view);

    for _ in 0..5 {
        lab.advance(Span::secs(40));
        lab.apply(widget.observe().condition("Ready", False, "PodNotReady"));
        lab.advance(Span::secs(40));
        lab.apply(widget.observe().condition("Ready", True, "AllPodsReady"));
    }

    lab.assert_no_findings();
}

#[test]
fn a_kind_of_which_only_the_metadata_is_read_from_now_on_has_not_regressed() {
    let mut lab = Lab::new();
    let widgets: Vec<Widget> = ["a", "b", "c", "d"].map(|name| lab.converged(name)).into();
    lab.discover(&[WatchedKind { role: Role::Child, ..kind() }]);

    let views = widgets.iter().map(|widget| {
        let view = lab.view(widget);
        ObjectView {
            status: StatusShape::Absent,
            conditions: Vec::new(),
            observed_generation: None,
            hashes: Hashes::default(),
            ..view
        }
    });

    let views: Vec<ObjectView> = views.collect();
    lab.list_views(views);
    lab.advance(Span::hours(1));
    lab.assert_no_findings();
}

#[test]
fn another_version_of_a_kind_without_status_subresource_changes_no_spec() {
    let mut lab = Lab::new();
    lab.discover(&[WatchedKind { status: StatusSchema::InBody, ..kind() }]);

    let mut widgets: Vec<Widget> = ["a", "b"].map(|name| lab.converged(name)).into();
    lab.apply(widgets[1].waiting());
    lab.advance(Span::hours(3));

    let before = (lab.findings(), lab.kind().states(), lab.kind().namespaces["team-a"].obligations);
    lab.discover(&[WatchedKind { status: StatusSchema::InBody, version: "v2".into(), ..kind() }]);

    let views = widgets.iter().map(|widget| {
        let mut view = lab.view(widget);
        view.hashes.spec += 1000;
        view
    });
    let views = views.collect();

    lab.list_views(views);
    lab.advance(Span::secs(1));

    let mid = (lab.findings(), lab.kind().states());
    lab.advance(Span::mins(5));

    let after = (lab.findings(), lab.kind().states(), lab.kind().namespaces["team-a"].obligations);
    assert_eq!(mid, (before.0.clone(), before.1));
    assert_eq!(before, after);
}

#[test]
fn a_start_during_an_outage_has_a_grace_too() {
    let mut lab = Lab::unsynced(unlearned());
    lab.fail();
    lab.advance(Span::mins(15));

    let mut widget = Widget::new("web", lab.ago(Span::hours(100)));
    widget.ready();
    widget.spec(2, lab.ago(Span::mins(16)));
    lab.list(&[widget.clone()]);
    lab.recover();
    lab.advance(Span::secs(40));
    lab.apply(widget.ready());
    lab.advance(Span::mins(5));

    assert!(!lab.changes().iter().any(|change| change.contains("Unack")));
}
