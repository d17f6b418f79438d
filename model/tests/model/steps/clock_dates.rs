//! Steps of the clock in the presence of times that the API server wrote.

use loopwatch_model::observation::*;
use loopwatch_model::snapshot::ObjectState;
use loopwatch_model::time::Span;

use crate::lab::{Lab, Widget, unlearned};

#[test]
fn a_deletion_is_found_stuck_in_time_although_the_clock_of_the_node_was_slow() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    widget.finalizers = vec!["example.io/f".into()];

    let deleted = lab.now.after(Span::hours(6)); // the clock of the node is six hours slow
    widget.deleted = Some(deleted);
    lab.apply(&widget);
    lab.advance(Span::secs(1));
    lab.step_clock(Span::hours(6));
    lab.advance(Span::mins(16));

    assert_eq!(lab.findings(), ["FinalizerStuck Widget team-a/web"]);
    assert_eq!(lab.since("FinalizerStuck"), deleted);
}

#[test]
fn the_start_of_a_stuck_deletion_stays_that_of_the_api_server_after_a_step_back() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    widget.finalizers = vec!["example.io/f".into()];
    widget.deleted = Some(lab.now);
    lab.apply(&widget);
    lab.advance(Span::hours(8));

    assert_eq!(Some(lab.since("FinalizerStuck")), widget.deleted);

    lab.step_clock(Span::hours(-6));
    lab.advance(Span::mins(1));
    lab.apply(widget.touch_status());

    assert_eq!(Some(lab.since("FinalizerStuck")), widget.deleted);
}

#[test]
fn an_obligation_that_a_list_opens_now_moves_with_the_clock() {
    let mut lab = Lab::unsynced(unlearned());
    // The clock of the node is an hour slow.
    let written = lab.now.after(Span(Span::hours(1).0 - 10_000));
    let mut widget = Widget::new("web", written);
    lab.list(&[widget.waiting().clone()]);
    lab.advance(Span::secs(1));
    lab.step_clock(Span::hours(1));
    lab.apply(widget.touch_status());
    lab.advance(Span::mins(8));

    assert!(lab.findings().is_empty(), "{:?}", lab.findings());
}

#[test]
fn an_unacknowledged_change_that_a_list_dates_does_not_move_with_the_clock() {
    let mut lab = Lab::unsynced(unlearned());
    let old = lab.ago(Span::hours(100));
    let mut widget = Widget::new("web", old);
    widget.ready();

    // The clock of the node is an hour fast: written ten seconds ago.
    let written = lab.ago(Span::secs(3_610));
    lab.list(&[widget.spec(2, written).clone()]);
    lab.advance(Span::secs(1));
    lab.step_clock(Span::hours(-1));
    lab.advance(Span::mins(1));

    assert!(lab.findings().is_empty(), "{:?}", lab.snapshot().findings);

    lab.advance(Span::mins(9));
    assert_eq!(lab.since("Unacknowledged"), written);
}

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

#[test]
fn a_step_of_the_clock_does_not_move_the_start_of_a_deletion() {
    let mut lab = Lab::new();
    let mut w = lab.converged("web");
    let deleted = lab.now;
    w.finalizers = vec!["example.io/f".into()];
    w.deleted = Some(deleted);
    lab.apply(&w);
    lab.advance(Span::mins(90));

    assert_eq!(lab.since("FinalizerStuck"), deleted);

    lab.now = lab.now.after(Span::mins(-60));
    lab.observe(Observation::ClockStepped { by_ms: -3_600_000 });
    lab.advance(Span::mins(1));

    assert_eq!(lab.since("FinalizerStuck"), deleted);
}
