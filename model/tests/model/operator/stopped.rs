//! An operator that is scaled to zero or deleted for long while its objects remain: a ticket, but
//! not for a schedule that stops it at night or over the weekend.

use loopwatch_model::finding::Severity;
use loopwatch_model::time::Span;

use crate::lab::pods::{OTHER_POD, Op, POD, pod};
use crate::lab::{Lab, Widget};

const DOWN: &str = "OperatorDown operator ops/widget-operator";

fn start(lab: &mut Lab, op: &mut Op) {
    op.workload().replicas = 1;
    op.view.pods = vec![pod(OTHER_POD, lab.now)];
    op.seen(lab);
}

/// Somebody changes all of these objects.
fn change_twenty(lab: &mut Lab, objects: &mut [Widget]) {
    for widget in objects {
        let spec = widget.spec + 1;
        lab.apply(widget.spec(spec, lab.now));
    }
}

/// Returns an operator with twenty converged objects.
fn with_objects() -> (Lab, Op, Vec<Widget>) {
    let (mut lab, op) = Op::with_lab();
    let objects = (0..20).map(|number| lab.converged(&format!("w{number}"))).collect();
    lab.run_with_lease(POD, 5);

    (lab, op, objects)
}

#[test]
fn changes_that_wait_for_a_day_for_an_operator_scaled_to_zero_are_a_ticket() {
    let (mut lab, mut op, mut objects) = with_objects();
    op.stop(&mut lab);
    lab.advance(Span::hours(1));
    change_twenty(&mut lab, &mut objects);
    (0..23).for_each(|_| lab.advance(Span::hours(1)));
    lab.assert_no_findings();
    (0..2).for_each(|_| lab.advance(Span::hours(1)));

    assert_eq!(lab.findings(), [DOWN]);
    assert_eq!(lab.finding("OperatorDown").severity, Severity::Warning);
    let evidence = lab.evidence();
    assert!(evidence.contains("scaled to zero"), "{evidence}");
    assert!(evidence.contains("waiting changes 20"), "{evidence}");

    start(&mut lab, &mut op);
    lab.advance(Span::secs(5));
    lab.assert_no_findings();
}

#[test]
fn an_operator_scaled_to_zero_without_changes_or_without_objects_is_silent() {
    let (mut lab, mut op, _objects) = with_objects();
    op.stop(&mut lab);
    (0..96).for_each(|_| lab.advance(Span::hours(1)));
    lab.assert_no_findings();

    // It was uninstalled, and its objects are gone.
    let (mut lab, mut op, objects) = with_objects();
    op.stop(&mut lab);
    op.workload().deleted = true;
    op.seen(&mut lab);
    objects.iter().for_each(|widget| lab.delete(widget));
    lab.delete(&Widget::new("web", lab.now));
    (0..96).for_each(|_| lab.advance(Span::hours(1)));
    lab.assert_no_findings();
}

#[test]
fn nights_and_weekends_of_a_schedule_are_silent() {
    let night = |lab: &mut Lab, op: &mut Op, objects: &mut [Widget], hours: i64| {
        op.stop(lab);
        lab.advance(Span::hours(1));
        change_twenty(lab, objects);
        for _ in 1..hours {
            lab.advance(Span::hours(1));
            lab.assert_no_findings();
        }

        start(lab, op);
        for widget in objects {
            lab.advance(Span::secs(1));
            lab.apply(widget.ready());
        }

        lab.run_with_lease(OTHER_POD, 60);
        lab.assert_no_findings();
    };

    let (mut lab, mut op, mut objects) = with_objects();
    for hours in [12, 12, 64] {
        night(&mut lab, &mut op, &mut objects, hours);
    }

    // The first weekend is known by an annotation.
    let (mut lab, mut op, mut objects) = with_objects();
    op.workload().scheduled = true;
    night(&mut lab, &mut op, &mut objects, 64);

    // Even a schedule does not stop an operator for a week.
    op.stop(&mut lab);
    change_twenty(&mut lab, &mut objects);
    (0..98).for_each(|_| lab.advance(Span::hours(1)));
    assert_eq!(lab.findings(), [DOWN]);
}

#[test]
fn a_workload_that_was_deleted_although_objects_remain_is_a_ticket() {
    let (mut lab, mut op, _objects) = with_objects();
    op.stop(&mut lab);
    op.workload().deleted = true;
    op.seen(&mut lab);
    (0..23).for_each(|_| lab.advance(Span::hours(1)));
    lab.assert_no_findings();
    lab.advance(Span::hours(1));

    assert_eq!(lab.findings(), [DOWN]);
    assert!(lab.evidence().contains("workload deleted"), "{}", lab.evidence());
}

/// Returns a lab in which an object with a finalizer of the operator is deleted an hour after the
/// operator was stopped, by a schedule or by hand.
fn deleted_after_a_stop(scheduled: bool) -> Lab {
    let (mut lab, mut op) = Op::with_lab();
    let mut widget = lab.converged("web");
    widget.finalizers = vec!["example.io/cleanup".into()];
    lab.apply(&widget);
    lab.run_with_lease(POD, 10);
    op.workload().scheduled = scheduled;
    op.stop(&mut lab);
    lab.advance(Span::hours(1));
    lab.begin_deletion(&mut widget);

    lab
}

#[test]
fn a_deletion_in_a_night_in_which_a_schedule_stops_the_operator_pages_nobody() {
    let pages =
        |lab: &Lab| lab.findings().iter().any(|found| found.starts_with("FinalizerOwnerAbsent"));
    let mut lab = deleted_after_a_stop(true);
    lab.advance(Span::hours(10));
    assert!(!pages(&lab), "{:?}", lab.findings());

    // The schedule does not start the operator again.
    lab.advance(Span::hours(14));
    assert!(pages(&lab), "{:?}", lab.findings());

    // Near miss: somebody has stopped it.
    let mut lab = deleted_after_a_stop(false);
    lab.advance(Span::mins(10));
    assert!(pages(&lab), "{:?}", lab.findings());
}
