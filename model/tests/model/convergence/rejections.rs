//! Specs that the operator rejects, and its retries.

use loopwatch_model::finding::FindingCode;
use loopwatch_model::observation::ConditionStatus::{False, True};
use loopwatch_model::time::Span;

use crate::lab::{Lab, Widget};

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
fn work_that_begins_after_a_rejection_is_not_overdue_at_once() {
    let mut lab = Lab::new();
    let mut w = Widget::new("web", lab.now);
    lab.apply(&w);
    lab.advance(Span::secs(1));
    lab.apply(w.failed("SecretNotFound"));
    lab.advance(Span::hours(72));
    lab.assert_no_findings();
    lab.apply(w.waiting()); // somebody has created the Secret

    lab.advance(Span::secs(90));
    lab.assert_no_findings();
    lab.apply(w.ready());
    lab.advance(Span::hours(1));
    lab.assert_no_findings();
}

#[test]
fn work_that_never_ends_after_a_rejection_is_overdue_in_the_end() {
    let mut lab = Lab::new();
    let mut w = Widget::new("web", lab.now);
    lab.apply(&w);
    lab.advance(Span::secs(1));
    lab.apply(w.failed("SecretNotFound"));
    lab.advance(Span::hours(72));
    lab.apply(w.waiting());

    let resumed = lab.now;
    lab.advance(Span::mins(20));

    assert_eq!(lab.since("Overdue"), resumed, "{:?}", lab.findings());
}

#[test]
fn failing_does_not_close_and_open_with_every_retry() {
    let mut lab = Lab::new();
    let mut widgets: Vec<Widget> = (0..3).map(|i| lab.converged(&format!("w{i}"))).collect();
    lab.advance(Span::hours(1));

    for w in &mut widgets {
        lab.apply(w.failed("Broken"));
    }

    lab.advance(Span::mins(1));
    assert!(lab.has("Failing"));

    lab.model.finding_events();
    for _ in 0..4 {
        lab.apply(widgets[0].waiting()); // it tries again
        lab.advance(Span::secs(5));
        lab.apply(widgets[0].failed("Broken"));
        lab.advance(Span::secs(55));
    }

    let events: Vec<_> =
        lab.model.finding_events().iter().map(|e| (e.change, e.finding.code)).collect();
    let failing = events.iter().filter(|(_, code)| *code == FindingCode::Failing).count();

    assert_eq!(failing, 0, "{events:?}");
}
