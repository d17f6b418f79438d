//! The start of a finding: a new problem does not inherit the start of an earlier one that is over.

use loopwatch_model::finding::{Confidence, FindingCode};
use loopwatch_model::observation::ConditionStatus::{False, True, Unknown};
use loopwatch_model::observation::*;
use loopwatch_model::time::Span;

use crate::lab::{Lab, Widget, forbidden, kind, other_kind, unlearned};

#[test]
fn the_start_of_a_problem_that_was_mended_meanwhile_does_not_come_back_months_later() {
    let (lab, mut widget) = Lab::unacknowledged();
    let mut again = lab.restart();
    again.list(&[widget.ready().clone()]); // mended while loopwatch was down
    again.advance(Span::hours(24 * 90));

    let changed = again.now;
    again.apply(widget.spec(3, changed));
    again.advance(Span::mins(11));

    assert_eq!(again.findings(), ["Unacknowledged Widget team-a/web"]);
    assert_eq!(again.since("Unacknowledged"), changed);
}

#[test]
fn the_start_of_a_problem_that_was_mended_meanwhile_does_not_come_back_within_the_hour() {
    for minutes in [0, 1, 30] {
        let (lab, mut widget) = Lab::unacknowledged();
        let mut again = lab.restart();
        again.list(&[widget.ready().clone()]);
        again.advance(Span::mins(minutes));

        let changed = again.now;
        again.apply(widget.spec(3, changed));
        again.advance(Span::mins(10));

        assert_eq!(again.findings(), ["Unacknowledged Widget team-a/web"]);
        assert_eq!(again.since("Unacknowledged"), changed, "broken again after {minutes} minutes");
    }
}

#[test]
fn a_problem_that_is_mended_after_the_restart_begins_anew_when_it_comes_back() {
    let (lab, mut widget) = Lab::unacknowledged();
    let mut again = lab.restart();
    again.list(std::slice::from_ref(&widget));

    assert!(again.has("Unacknowledged"), "{:?}", again.findings());

    again.apply(widget.ready());
    again.advance(Span::mins(20));

    let changed = again.now;
    again.apply(widget.spec(3, changed));
    again.advance(Span::mins(10));

    assert_eq!(again.since("Unacknowledged"), changed);
}

#[test]
fn another_problem_of_the_same_object_does_not_inherit_the_start() {
    let (lab, mut widget) = Lab::unacknowledged();
    let mut again = lab.restart();
    again.list(&[widget.ready().clone()]);
    again.advance(Span::mins(20));

    let lost = again.now;
    again.apply(widget.waiting());
    again.advance(Span::mins(5));

    assert_eq!(again.findings(), ["Regressed Widget team-a/web"]);
    assert_eq!(again.since("Regressed"), lost);
}

#[test]
fn an_object_that_was_deleted_and_created_anew_meanwhile_does_not_inherit_the_start() {
    let (lab, _) = Lab::unacknowledged();
    let mut again = lab.restart();
    again.advance(Span::mins(30));

    let mut widget = Widget::new("web", again.now);
    widget.uid += 1;

    let created = again.now;
    again.list(&[]);
    again.apply(&widget);
    again.apply(widget.waiting());
    again.advance(Span::mins(10));

    assert_eq!(again.findings(), ["Overdue Widget team-a/web"]);
    assert_eq!(again.since("Overdue"), created);
}

#[test]
fn a_kind_that_failed_before_loopwatch_was_installed_has_failed_since_its_conditions_changed() {
    let mut lab = Lab::unsynced(unlearned());
    let (old, lost) = (lab.ago(Span::hours(500)), lab.ago(Span::hours(30)));
    let widgets: Vec<Widget> = (0..4)
        .map(|number| {
            let mut widget = Widget::new(&format!("w{number}"), old);
            widget.ready();
            widget.changed = Some(lost);
            widget.failed("DependencyDown");

            widget
        })
        .collect();

    lab.list(&widgets);
    lab.advance(Span::mins(1));

    assert_eq!(lab.since("Failing"), lost);
}

#[test]
fn a_regression_that_a_list_shows_began_when_the_condition_changed() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    lab.advance(Span::hours(1));

    let lost = lab.now;
    widget.changed = Some(lost);
    widget.waiting();
    lab.advance(Span::hours(2)); // the watch was cut
    lab.list(&[widget]);
    lab.advance(Span::mins(6));

    assert_eq!(lab.findings(), ["Regressed Widget team-a/web"]);
    assert_eq!(lab.since("Regressed"), lost);
}

#[test]
fn a_regression_that_began_before_a_restart_began_when_the_condition_changed() {
    for condition in ["Ready", "Available", "Synced", "Healthy"] {
        let mut lab = Lab::unsynced(unlearned());
        let (old, lost) = (lab.ago(Span::hours(500)), lab.ago(Span::hours(2)));
        let mut widget = Widget::new("web", old);
        widget.observe().condition(condition, ConditionStatus::False, "ConnectionRefused");
        widget.changed = Some(lost);
        lab.list(&[widget]);
        lab.advance(Span::mins(1));

        assert_eq!(
            lab.snapshot().findings.first().map(|finding| finding.since),
            Some(lost),
            "{condition}"
        );
    }
}

#[test]
fn an_object_whose_generation_was_never_observed_has_not_regressed() {
    for (observed, code) in [(-1, FindingCode::Overdue), (0, FindingCode::Regressed)] {
        let mut lab = Lab::unsynced(unlearned());
        let (old, lost) = (lab.ago(Span::hours(5)), lab.ago(Span::hours(2)));
        let mut widget = Widget::new("web", old);
        widget.touch_status().condition("Ready", ConditionStatus::False, "PodsNotReady");
        widget.changed = Some(lost);

        let mut view = lab.view(&widget);
        let path = "status.observedGeneration".into();
        view.facts.push(Fact { path, value: FactValue::Number(observed) });
        lab.list_views(vec![view]);
        lab.advance(Span::mins(10));

        assert_eq!(lab.snapshot().findings[0].code, code, "{observed}");
    }
}

#[test]
fn work_on_an_object_that_has_been_ready_since_its_last_change_is_not_late() {
    for (changed_again, phase, is_late) in [
        (false, "Migrating", false),
        (false, "Creating", true),
        (true, "Migrating", true), // the condition is about an earlier spec
    ] {
        let mut lab = Lab::unsynced(unlearned());
        let mut widget = Widget::new("web", lab.ago(Span::hours(200)));
        widget.touch_status().condition("Ready", ConditionStatus::True, "");
        widget.phase(phase).changed = Some(lab.ago(Span::hours(199)));
        if changed_again {
            widget.spec(2, lab.ago(Span::hours(5)));
        }
        lab.list(&[widget]);
        lab.advance(Span::mins(10));

        assert_eq!(lab.has("Overdue"), is_late, "{phase}: {:?}", lab.findings());
        assert!(is_late || lab.findings().is_empty(), "{:?}", lab.findings());
    }
}

#[test]
fn work_with_a_start_time_takes_as_long_as_it_takes() {
    for (path, is_late) in [("status.startTimestamp", false), ("status.lastSyncTime", true)] {
        let mut lab = Lab::unsynced(unlearned());
        let mut widget = Widget::new("web", lab.ago(Span::hours(2)));
        widget.touch_status().phase("InProgress");
        let mut view = lab.view(&widget);
        let value = FactValue::Text(lab.ago(Span::hours(1)).to_string());
        view.facts.push(Fact { path: path.into(), value });
        lab.list_views(vec![view]);
        lab.advance(Span::mins(10));

        assert_eq!(lab.has("Overdue"), is_late, "{path}: {:?}", lab.findings());
    }
}

#[test]
fn an_object_that_is_still_being_made_is_only_suspected_to_have_regressed() {
    for (reason, confidence) in
        [("Creating", Confidence::Suspected), ("PodsNotReady", Confidence::Confirmed)]
    {
        let mut lab = Lab::unsynced(unlearned());
        let (old, lost) = (lab.ago(Span::hours(5)), lab.ago(Span::hours(2)));
        let mut widget = Widget::new("web", old);
        widget.observe().condition("Ready", ConditionStatus::False, reason);
        widget.changed = Some(lost);
        lab.list(&[widget]);
        lab.advance(Span::mins(10));

        let snapshot = lab.snapshot();
        let found = &snapshot.findings[0];
        assert_eq!(
            (found.code, found.confidence),
            (FindingCode::Regressed, confidence),
            "{reason}"
        );
    }
}

#[test]
fn a_regression_that_was_mended_before_a_spec_change_meanwhile_is_over() {
    let (lab, mut web) = Lab::regressed();
    let mut again = lab.restart();
    again.advance(Span::hours(5));
    web.ready();
    web.spec(2, again.ago(Span::mins(3)));
    again.list(std::slice::from_ref(&web));
    again.advance(Span::mins(2));
    again.apply(web.ready());

    again.advance(Span::hours(2));
    assert!(again.changes().is_empty());
}

#[test]
fn a_problem_that_was_mended_before_it_was_due_again_begins_anew() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    lab.apply(widget.spec(2, lab.now));
    lab.advance(Span::mins(11));

    let mut again = lab.restart();
    again.advance(Span::mins(30));
    widget.ready();
    widget.spec(3, again.ago(Span::mins(3))); // mended, and changed again, while loopwatch was down
    again.list(&[widget.clone()]);
    again.advance(Span::mins(2));
    again.apply(widget.ready());
    again.advance(Span::mins(20));

    let changed = again.now;
    again.apply(widget.spec(4, changed));
    again.advance(Span::mins(10));

    assert_eq!(again.since("Unacknowledged"), changed);
}

#[test]
fn a_problem_that_was_mended_and_came_back_while_loopwatch_was_down_begins_anew() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    lab.apply(widget.spec(2, lab.now));
    lab.advance(Span::mins(11));

    let mut again = lab.restart();
    again.advance(Span::mins(30));
    widget.ready();
    widget.status_written = Some(again.ago(Span::mins(20))); // mended ...
    widget.changed = Some(again.ago(Span::mins(20)));

    let changed = again.ago(Span::mins(15));
    widget.spec(3, changed); // ... and broken again while loopwatch was down
    again.list(&[widget.clone()]);
    again.advance(Span::mins(1));

    assert_eq!(again.since("Unacknowledged"), changed);
}

#[test]
fn a_problem_is_not_older_than_its_object() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    lab.apply(widget.spec(2, lab.now));
    lab.apply(widget.waiting());
    lab.advance(Span::mins(11));

    let mut again = lab.restart();
    again.advance(Span::mins(50));

    let created = again.ago(Span::mins(20));
    let mut anew = Widget::new("web", created);
    anew.uid += 1;
    again.list(&[anew.waiting().clone()]);
    again.advance(Span::mins(1));

    assert_eq!(again.since("Overdue"), created);
}

#[test]
fn a_forbidden_kind_does_not_keep_old_start_times_alive() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    lab.apply(widget.spec(2, lab.now));
    lab.advance(Span::mins(11));

    let mut again = lab.restart();
    again.discover(&[kind(), forbidden(other_kind("Gadget"))]);
    again.list(&[widget.ready().clone()]);
    again.advance(Span::hours(24 * 90));

    let changed = again.now;
    again.apply(widget.spec(3, changed));
    again.advance(Span::mins(11));

    assert_eq!(again.since("Unacknowledged"), changed);
}

#[test]
fn a_failing_watch_does_not_keep_old_start_times_of_others_alive() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    lab.apply(widget.spec(2, lab.now));
    lab.advance(Span::mins(11));

    let gadget = other_kind("Gadget");
    let mut again = lab.restart();
    again.discover(&[kind(), gadget.clone()]);
    again.fail_watch(&gadget.watch); // its conversion webhook is down for days
    again.list(&[widget.ready().clone()]);
    again.advance(Span::hours(20));

    let changed = again.now;
    again.apply(widget.spec(3, changed));
    again.advance(Span::mins(11));

    assert_eq!(again.since("Unacknowledged"), changed);
}

#[test]
fn a_condition_that_was_false_all_along_does_not_date_a_regression() {
    let mut lab = Lab::unsynced(unlearned());
    let (old, other, lost) =
        (lab.ago(Span::hours(500)), lab.ago(Span::hours(400)), lab.ago(Span::hours(2)));
    let mut widget = Widget::new("web", old);

    widget.observe().condition("Ready", False, "ConnectionRefused").condition(
        "AutoscalingReady",
        False,
        "NotConfigured",
    );
    let mut view = lab.view(&widget);

    view.conditions[0].changed = Some(lost);
    view.conditions[1].changed = Some(other);
    lab.list_views(vec![view]);
    lab.advance(Span::mins(1));

    assert_eq!(
        lab.snapshot().findings.iter().map(|f| f.since).collect::<Vec<_>>(),
        [lost],
        "{:?}",
        lab.findings()
    );
}

#[test]
fn an_object_that_was_never_ready_has_not_regressed_with_its_last_attempt() {
    let mut lab = Lab::unsynced(unlearned());
    let (old, first, last) =
        (lab.ago(Span::hours(500)), lab.ago(Span::hours(500)), lab.ago(Span::hours(2)));
    let mut widget = Widget::new("web", old);
    widget
        .observe()
        .condition("Ready", False, "DoesNotExist")
        .condition("Issuing", False, "Failed");
    let mut view = lab.view(&widget);
    view.conditions[0].changed = Some(first);
    view.conditions[1].changed = Some(last);
    lab.list_views(vec![view]);
    lab.advance(Span::mins(1));

    assert!(!lab.has("Regressed"), "{:?}", lab.findings());
}

#[test]
fn start_times_of_an_earlier_run_are_forgotten_although_a_kind_is_forbidden() {
    let mut first = Lab::new();
    let mut w = first.converged("web");
    first.apply(w.spec(2, first.now));
    first.advance(Span::mins(20));

    assert!(first.has("Unacknowledged"));

    let checkpoint = first.model.checkpoint();
    let mut lab = Lab::unsynced(unlearned());
    lab.now = first.now;

    let mut forbidden = other_kind("Thing");
    forbidden.missing = vec!["list".into()];
    lab.observe(Observation::Restored(Box::new(checkpoint)));
    lab.discover(&[kind(), forbidden]);
    w.ready();
    lab.list(&[w.clone()]);
    lab.advance(Span::hours(24 * 30));

    let changed = lab.now;
    lab.apply(w.spec(3, changed));
    lab.advance(Span::mins(20));

    assert_eq!(lab.since("Unacknowledged"), changed);
}

#[test]
fn the_start_of_a_problem_of_an_earlier_run_is_not_that_of_a_later_spec() {
    let mut first = Lab::new();
    let mut w = first.converged("web");
    first.apply(w.spec(2, first.now));
    first.advance(Span::secs(1));
    first.apply(w.waiting());
    first.advance(Span::mins(20));

    assert!(first.has("Overdue"));

    let checkpoint = first.model.checkpoint();
    let mut lab = Lab::unsynced(unlearned());
    lab.now = first.now.after(Span::hours(5));

    // Somebody fixed the spec while loopwatch was down.
    let written = lab.now.after(Span::mins(-3));
    w.spec(3, written).waiting();
    lab.observe(Observation::Restored(Box::new(checkpoint)));
    lab.discover(&[kind()]);
    lab.list(&[w.clone()]);
    lab.assert_no_findings();
    lab.advance(Span::mins(20));

    assert_eq!(lab.since("Overdue"), written);
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
