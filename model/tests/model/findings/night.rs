//! Alarms at night: neither a second page for one cause, nor a problem that stays silent.

use loopwatch_model::time::Span;

use crate::lab::loops::{Loop, add};
use crate::lab::pods::{Op, POD};
use crate::lab::{Lab, Widget, unlearned};

#[test]
fn a_kind_that_fails_now_and_then_does_not_hide_objects_that_fail_for_long() {
    let mut lab = Lab::new();
    let mut widgets: Vec<Widget> =
        ["a", "b", "c", "d", "e"].iter().map(|name| lab.converged(name)).collect();
    lab.advance(Span::hours(1));

    for widget in &mut widgets[..2] {
        lab.apply(widget.failed("Lost"));
    }

    // The finding about the kind is open for a minute out of four, which is too short for its
    // alert.
    let mut alerted = Vec::new();
    for minute in 0..40 {
        let flapping = &mut widgets[2];
        lab.apply(if minute % 4 == 0 { flapping.failed("Lost") } else { flapping.ready() });
        lab.advance(Span::mins(1));

        if lab.alerts("Regressed") {
            alerted.push(minute);
        }
    }

    // After their threshold of five minutes, and the time to catch up.
    assert_eq!(alerted, (14..40).collect::<Vec<_>>(), "{:?}", lab.findings());
}

/// Returns a controller whose reconciles all fail, and a widget that waits because of that.
fn explained_by_failures() -> (Loop, Widget) {
    let mut own = Loop::new();
    let mut web = own.lab.converged("web");
    own.run(360, |view| add(&mut view.failed, 1));

    let now = own.lab.now;
    own.lab.apply(web.spec(2, now));
    own.run(700, |view| add(&mut view.failed, 1));
    (own, web)
}

#[test]
fn a_restart_of_loopwatch_does_not_make_an_explained_object_page() {
    let (mut own, web) = explained_by_failures();
    assert!(own.lab.has("Unacknowledged") && own.lab.alerts("ReconcileFailing"));

    for restarts in 1..=2 {
        own.lab = own.lab.restart();
        own.lab.list(std::slice::from_ref(&web));

        // It takes five minutes to find the cause again.
        own.run(120 * restarts, |view| add(&mut view.failed, 1));
        assert!(!own.lab.alerts("Unacknowledged"), "after restart {restarts}");
    }

    own.run(300, |view| add(&mut view.failed, 1));
    assert_eq!(
        (own.lab.alerts("Unacknowledged"), own.lab.alerts("ReconcileFailing")),
        (false, true)
    );
}

#[test]
fn restarts_of_loopwatch_do_not_silence_an_object_without_end() {
    let (mut own, web) = explained_by_failures();
    // The controller works again, but the object still waits.
    for minute in 0..15 {
        own.lab = own.lab.restart();
        own.lab.list(std::slice::from_ref(&web));
        own.run(60, |view| add(&mut view.succeeded, 1));

        assert_eq!(own.lab.alerts("Unacknowledged"), minute >= 9, "{minute}");
    }
}

#[test]
fn a_restart_of_loopwatch_does_not_end_the_time_to_catch_up() {
    let (mut lab, mut op) = Op::with_lab();
    let mut web = lab.converged("other");
    op.crash(&mut lab, "Error");
    lab.apply(web.spec(2, lab.now));
    lab.advance(Span::mins(15));
    op.restart(&mut lab);
    lab.run_with_lease(POD, 2);

    assert!(lab.has("Unacknowledged") && !lab.alerts("Unacknowledged"));

    let mut lab = lab.restart();
    op.seen(&mut lab);
    lab.list(std::slice::from_ref(&web));
    lab.run_with_lease(POD, 8);

    assert!(!lab.alerts("Unacknowledged"));

    lab.run_with_lease(POD, 3);
    assert!(lab.alerts("Unacknowledged"), "it has had its time");
}

#[test]
fn an_object_that_alerted_before_a_restart_of_loopwatch_alerts_at_once() {
    let mut lab = Lab::new();
    let mut web = lab.converged("web");
    lab.apply(web.spec(2, lab.now));
    lab.advance(Span::mins(15));

    assert!(lab.alerts("Unacknowledged"));

    let mut lab = lab.restart();
    lab.list(std::slice::from_ref(&web));

    assert!(lab.alerts("Unacknowledged"));
}

/// Returns a lab in which loopwatch and the operator have started together, a moment ago, and a
/// widget that the operator has not acknowledged for 40 minutes.
fn started_together() -> (Lab, Op, Widget) {
    let lab = Lab::unsynced(unlearned());
    let mut op = Op::running(&lab);
    op.view.pods[0].created = Some(lab.ago(Span::secs(20)));
    op.container().running_since = Some(lab.ago(Span::secs(10)));

    let mut web = Widget::new("web", lab.ago(Span::hours(3)));
    web.status_written = Some(lab.ago(Span::hours(3)));
    web.ready().spec(2, lab.ago(Span::mins(40)));
    (lab, op, web)
}

#[test]
fn an_operator_that_starts_with_its_sidecar_may_work_off_what_waited_before() {
    for pods_first in [true, false] {
        let (mut lab, op, web) = started_together();
        if pods_first {
            op.seen(&mut lab);
            lab.list(std::slice::from_ref(&web));
        } else {
            lab.list(std::slice::from_ref(&web));
            lab.advance(Span::secs(5));
            op.seen(&mut lab);
        }

        lab.advance_by_minutes(9);
        assert!(lab.has("Unacknowledged") && !lab.alerts("Unacknowledged"), "{pods_first}");

        lab.advance_by_minutes(2);
        assert!(lab.alerts("Unacknowledged"), "it has had its time");
    }
}

#[test]
fn a_sidecar_that_starts_before_the_operator_waits_for_it() {
    let (mut lab, mut op, web) = started_together();
    (op.container().running_since, op.container().waiting) = (None, "PodInitializing".into());
    op.seen(&mut lab);
    lab.list(std::slice::from_ref(&web));

    for _ in 0..3 {
        lab.advance_by_minutes(1);
        op.seen(&mut lab);
    }

    (op.container().running_since, op.container().waiting) = (Some(lab.now), String::new());
    op.seen(&mut lab);
    lab.advance_by_minutes(9);

    assert!(!lab.alerts("Unacknowledged"));

    // A later start is not an excuse.
    (op.container().running_since, op.container().restarts) = (Some(lab.now), 1);
    op.seen(&mut lab);
    lab.advance_by_minutes(2);

    assert!(lab.alerts("Unacknowledged"));
}

#[test]
fn an_operator_that_has_run_for_long_gets_no_time_when_loopwatch_starts() {
    let (mut lab, mut op, web) = started_together();
    op.container().running_since = Some(lab.ago(Span::hours(1)));
    op.seen(&mut lab);
    lab.list(std::slice::from_ref(&web));
    lab.advance(Span::secs(1));

    assert!(lab.alerts("Unacknowledged"));
}

#[test]
fn an_object_that_alerted_before_both_restarted_goes_on() {
    let mut lab = Lab::new();
    let mut web = lab.converged("web");
    lab.apply(web.spec(2, lab.now));
    lab.advance(Span::mins(15));

    let mut lab = lab.restart();
    let mut op = Op::running(&lab);
    op.container().running_since = Some(lab.now);
    op.seen(&mut lab);
    lab.list(std::slice::from_ref(&web));

    assert!(lab.alerts("Unacknowledged"));
}
