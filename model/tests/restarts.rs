//! Restarts of loopwatch: the same alerts as before, and no start times of problems that are over.

mod lab;

use lab::steps::{forbidden, other_kind, unlearned};
use lab::{Lab, Widget, kind};
use loopwatch_model::model::Model;
use loopwatch_model::observation::{ConditionStatus, Observation};
use loopwatch_model::settings::Settings;
use loopwatch_model::snapshot::Outcome;
use loopwatch_model::time::Span;

/// Returns a lab with an unacknowledged widget, and that widget.
fn with_finding() -> (Lab, Widget) {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    lab.apply(widget.spec(2, lab.now));
    lab.advance(Span::mins(11));

    assert!(lab.has("Unacknowledged"));

    (lab, widget)
}

#[test]
fn the_start_of_a_problem_that_was_mended_meanwhile_does_not_come_back_months_later() {
    let (lab, mut widget) = with_finding();
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
        let (lab, mut widget) = with_finding();
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
    let (lab, mut widget) = with_finding();
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
    let (lab, mut widget) = with_finding();
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
    let (lab, _) = with_finding();
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
fn a_restart_during_an_outage_of_the_api_server_keeps_the_start_of_open_findings() {
    let (lab, widget) = with_finding();
    let since = lab.since("Unacknowledged");
    let mut again = lab.restart();
    again.fail();
    again.advance(Span::mins(50));
    again.list(std::slice::from_ref(&widget));
    again.recover();
    again.advance(Span::mins(1));

    assert_eq!(again.since("Unacknowledged"), since);
    assert_eq!(again.outcomes(Outcome::Late), 0, "the earlier process has counted it");
}

#[test]
fn two_restarts_in_a_row_keep_what_was_learned() {
    let mut lab = Lab::with(Settings::default());
    let mut widget = lab.converged("a");
    for spec in 2..30 {
        lab.apply(widget.spec(spec, lab.now));
        lab.advance(Span::secs(2));
        lab.apply(widget.ready());
        lab.advance(Span::mins(1));
    }

    lab.apply(widget.spec(99, lab.now));
    lab.advance(Span::mins(20));

    let checkpoint = lab.model.checkpoint();
    assert!(!checkpoint.learned.is_empty() && !checkpoint.findings.is_empty());

    let mut model = Model::new(Settings::default());
    model.apply(lab.now, Observation::Restored(Box::new(checkpoint.clone())));

    assert_eq!(model.checkpoint(), checkpoint, "stopped before the API server answered");
}

#[test]
fn a_restart_before_a_kind_is_discovered_keeps_what_was_learned_about_it() {
    let mut lab = Lab::unsynced(Settings::default());
    let gadget = other_kind("Gadget");
    lab.discover(&[kind(), gadget.clone()]);
    lab.list(&[]);
    lab.list_in(&gadget.watch, Vec::new());
    lab.converged("web");

    let mut other = Widget::new("spring", lab.now);
    let view = lab.view(other.ready());
    lab.apply_to(&gadget.watch, view);
    lab.advance(Span::mins(1));

    let view = lab.view(other.spec(2, lab.now));
    lab.apply_to(&gadget.watch, view);
    lab.advance(Span::mins(11));

    let checkpoint = lab.model.checkpoint();
    assert_eq!((checkpoint.learned.len(), checkpoint.findings.len()), (2, 1));

    // Discovers only the widgets; the definition of the gadgets is late.
    let mut again = lab.restart();
    again.advance(Span::mins(1));

    assert_eq!(again.model.checkpoint().learned, checkpoint.learned);
}

#[test]
fn a_restart_during_a_failure_of_the_kind_keeps_the_finding_and_its_start() {
    let mut lab = Lab::new();
    let mut widgets: Vec<Widget> = ["a", "b", "c", "d"].map(|name| lab.converged(name)).into();
    lab.advance(Span::hours(3));

    for widget in &mut widgets[..3] {
        widget.changed = Some(lab.now);
        lab.apply(widget.failed("LicenseExpired"));
    }

    lab.advance(Span::mins(30));
    let since = lab.since("Failing");
    let mut again = lab.restart();
    again.list(&widgets);
    again.advance(Span::mins(1));

    assert_eq!(again.since("Failing"), since);
    assert_eq!(again.roots(), ["Failing Widget (all)"]);
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
fn a_forbidden_kind_does_not_keep_the_findings_of_others_from_a_restart() {
    let (mut lab, widget) = with_finding();
    let gadget = forbidden(other_kind("Gadget"));
    lab.discover(&[kind(), gadget.clone()]);

    let since = lab.since("Unacknowledged");
    let mut again = lab.restart();
    again.discover(&[kind(), gadget]);
    again.list(&[widget]);

    assert_eq!(again.since("Unacknowledged"), since);
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
fn a_spec_change_after_one_that_was_answered_meanwhile_has_its_full_deadline() {
    let (lab, mut web) = with_finding();
    let mut again = lab.restart();
    again.advance(Span::hours(1));
    web.ready();
    web.status_written = Some(again.ago(Span::mins(30)));
    web.spec(3, again.ago(Span::mins(1)));
    again.list(std::slice::from_ref(&web));
    again.advance(Span::mins(2));
    again.assert_no_findings();
}

#[test]
fn an_object_that_was_created_anew_without_a_status_is_not_expected_to_get_one() {
    let mut lab = Lab::new();
    let mut widgets: Vec<Widget> = ["a", "b"].map(|name| lab.converged(name)).into();
    lab.apply(&Widget::new("new-0", lab.now));
    lab.advance(Span::mins(20));

    assert!(lab.has("Unacknowledged"));

    let mut again = lab.restart();
    again.advance(Span::mins(5));

    let created = again.now;
    widgets.extend((0..5).map(|number| Widget::new(&format!("new-{number}"), created)));
    widgets.iter_mut().skip(2).for_each(|widget| widget.uid += 1);
    again.list(&widgets);
    again.advance(Span::hours(2));
    again.assert_no_findings();
}

#[test]
fn an_object_that_does_not_recover_keeps_its_finding_over_restarts_until_its_spec_changes() {
    let (mut lab, mut pg) = Lab::unrecovered();
    let back = pg.spec_written;
    for _ in 0..2 {
        lab = lab.restart();
        lab.list(std::slice::from_ref(&pg));
        lab.advance(Span::mins(1));

        assert_eq!(lab.findings(), ["NeverRecovered Widget team-a/pg"]);
        assert_eq!(lab.since("NeverRecovered"), back);
    }

    let mut again = lab.restart();
    again.advance(Span::hours(1));
    pg.spec(3, again.ago(Span::mins(30)));
    again.list(std::slice::from_ref(pg.failed("InvalidParameter")));
    again.advance(Span::hours(1));
    again.assert_no_findings();
}
