//! Steps of the clock beside times of the API server.

mod lab;

use lab::steps::unlearned;
use lab::{Lab, Widget};
use loopwatch_model::time::Span;

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
