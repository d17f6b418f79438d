//! Maintenance raises no alert: objects that are paused, an operator that is scaled to zero or
//! replaced, and namespaces that are deleted.

use loopwatch_model::finding::{Confidence, Severity};
use loopwatch_model::observation::ConditionStatus::False;
use loopwatch_model::snapshot::{ObjectState, Outcome};
use loopwatch_model::time::Span;

use crate::lab::pods::{OTHER_POD, Op, POD, pod};
use crate::lab::{Lab, Widget};

/// Somebody scales it up again, and it starts.
fn start(lab: &mut Lab, op: &mut Op) {
    op.workload().replicas = 1;
    op.seen(lab);
    lab.advance(Span::secs(5));
    op.view.pods = vec![pod(OTHER_POD, lab.now)];
    op.seen(lab);
}

/// What would alert: confirmed findings of severity critical or warning that nothing explains.
fn alerts(lab: &Lab) -> Vec<String> {
    let findings = lab.snapshot().findings;
    let alerting = findings.iter().filter(|finding| {
        finding.confidence == Confidence::Confirmed
            && finding.severity != Severity::Info
            && finding.explained_by.is_none()
    });

    alerting.map(|finding| format!("{} {}", finding.code.name(), finding.subject)).collect()
}

fn late(lab: &Lab) -> u64 {
    lab.outcomes(Outcome::Late)
}

#[test]
fn spec_changes_while_the_operator_is_scaled_to_zero_are_not_late() {
    let (mut lab, mut op) = Op::with_lab();
    let mut widget = lab.converged("other");
    op.stop(&mut lab);
    lab.advance(Span::mins(30));
    lab.apply(widget.spec(2, lab.now));
    lab.advance(Span::hours(3));

    assert_eq!((alerts(&lab), late(&lab)), (vec![], 0));
    assert_eq!(lab.state("other"), ObjectState::Progressing);

    // It has its whole deadline once it runs again ...
    start(&mut lab, &mut op);
    lab.run_with_lease(OTHER_POD, 9);

    assert_eq!((alerts(&lab), late(&lab)), (vec![], 0));

    let (mut healthy, mut answered) = (lab, widget);
    healthy.apply(answered.observe());
    healthy.run_with_lease(OTHER_POD, 20);

    assert_eq!((alerts(&healthy), late(&healthy)), (vec![], 0));
}

#[test]
fn an_operator_that_stays_silent_after_maintenance_is_found() {
    let (mut lab, mut op) = Op::with_lab();
    let mut widget = lab.converged("other");
    op.stop(&mut lab);
    lab.apply(widget.spec(2, lab.now));
    lab.advance(Span::hours(3));
    start(&mut lab, &mut op);
    lab.run_with_lease(OTHER_POD, 11);

    assert_eq!(alerts(&lab), ["Unacknowledged Widget team-a/other"]);
    assert_eq!(late(&lab), 1);
}

#[test]
fn the_wait_before_the_maintenance_still_counts() {
    let (mut lab, mut op) = Op::with_lab();
    let mut widget = lab.converged("other");
    lab.apply(widget.spec(2, lab.now));
    lab.run_with_lease(POD, 8);
    op.stop(&mut lab);
    lab.advance(Span::hours(3));

    assert_eq!(alerts(&lab), Vec::<String>::new());

    start(&mut lab, &mut op);
    lab.run_with_lease(OTHER_POD, 1);

    assert_eq!(alerts(&lab), Vec::<String>::new());

    lab.run_with_lease(OTHER_POD, 2);
    assert_eq!(alerts(&lab), ["Unacknowledged Widget team-a/other"]);
}

#[test]
fn a_finding_closes_when_somebody_stops_the_operator_and_a_lost_readiness_is_none() {
    let (mut lab, mut op) = Op::with_lab();
    let (mut first, mut second) = (lab.converged("first"), lab.converged("second"));
    lab.apply(first.observe().condition("Ready", False, "Broken"));
    lab.run_with_lease(POD, 10);

    assert_eq!(alerts(&lab), ["Regressed Widget team-a/first"]);

    op.stop(&mut lab);
    lab.apply(second.observe().condition("Ready", False, "Broken"));
    lab.advance(Span::hours(1));

    assert_eq!(alerts(&lab), Vec::<String>::new());

    start(&mut lab, &mut op);
    lab.run_with_lease(OTHER_POD, 4);

    assert_eq!(alerts(&lab), ["Regressed Widget team-a/first"], "the second has its time");

    lab.run_with_lease(OTHER_POD, 2);
    assert_eq!(alerts(&lab).len(), 2);
}

#[test]
fn loopwatch_that_starts_during_the_maintenance_knows_no_earlier_wait() {
    let mut lab = Lab::new();
    let mut op = Op::running(&lab);
    op.stop(&mut lab);

    let mut widget = lab.converged("other");
    lab.apply(widget.spec(2, lab.now));
    lab.advance(Span::hours(3));

    assert_eq!(alerts(&lab), Vec::<String>::new());

    start(&mut lab, &mut op);
    lab.run_with_lease(OTHER_POD, 9);

    assert_eq!(alerts(&lab), Vec::<String>::new());
}

/// loopwatch may fail to read the workload when it starts.
#[test]
fn changes_from_before_the_start_of_loopwatch_have_their_time_after_the_maintenance() {
    for is_read_at_once in [true, false] {
        let mut lab = Lab::new();
        let mut op = Op::running(&lab);
        if !is_read_at_once {
            let mut unread = Op::running(&lab);
            (unread.view.workload, unread.view.complete) = (None, false);
            unread.view.pods.clear();
            unread.seen(&mut lab);
            lab.advance(Span::secs(1));
        }

        op.stop(&mut lab);
        let mut widget = Widget::new("other", lab.ago(Span::hours(5)));
        lab.apply(widget.ready().spec(2, lab.ago(Span::hours(3))));
        lab.advance(Span::mins(30));

        assert_eq!((alerts(&lab), late(&lab)), (vec![], 0));

        start(&mut lab, &mut op);
        lab.run_with_lease(OTHER_POD, 9);

        assert_eq!((alerts(&lab), late(&lab)), (vec![], 0), "read at once: {is_read_at_once}");

        lab.run_with_lease(OTHER_POD, 2);
        assert_eq!(
            alerts(&lab),
            ["Unacknowledged Widget team-a/other"],
            "it has its deadline, and no more"
        );
    }
}

#[test]
fn near_misses_an_operator_that_is_gone_without_being_scaled_down_and_a_deletion_that_waits_for_a_stopped_one()
 {
    let (mut lab, mut op) = Op::with_lab();
    let mut widget = lab.converged("other");
    op.view.pods.clear();
    op.seen(&mut lab);
    lab.apply(widget.spec(2, lab.now));
    lab.advance(Span::mins(20));

    assert_eq!(
        alerts(&lab),
        ["OperatorDown operator ops/widget-operator"],
        "one replica is wanted"
    );

    let (mut lab, mut op) = Op::with_lab();
    let mut doomed: Widget = lab.converged("doomed");
    doomed.finalizers = vec!["zoo.loopwatch.dev/cleanup".into()];
    lab.apply(&doomed);
    lab.run_with_lease(POD, 1);
    op.stop(&mut lab);
    doomed.deleted = Some(lab.now);
    lab.apply(&doomed);

    lab.advance(Span::mins(20));
    assert_eq!(
        alerts(&lab),
        ["FinalizerOwnerAbsent Widget team-a/doomed"],
        "it blocks the deletion of its namespace"
    );
}

#[test]
fn changes_that_others_supersede_while_the_operator_is_stopped_are_not_late() {
    let (mut lab, mut op) = Op::with_lab();
    let mut web = lab.converged("web");
    lab.run_with_lease(POD, 60);
    op.stop(&mut lab);
    for spec in 2..42 {
        lab.apply(web.spec(spec, lab.now));
        lab.advance(Span::mins(3));
    }

    start(&mut lab, &mut op);
    lab.advance(Span::secs(30));
    lab.apply(web.ready());
    lab.advance(Span::mins(2));
    assert_eq!((lab.outcomes(Outcome::Late), lab.outcomes(Outcome::Superseded)), (0, 39));
}
