//! Signs of life of other programs hide no death of the operator: agents of the same product write
//! the same statuses and have leases of their own.

use loopwatch_model::finding::Severity;
use loopwatch_model::observation::{Cause, LeaseView, Observation, SourceId};
use loopwatch_model::time::Span;

use crate::lab::pods::{DOWN, Op, POD};
use crate::lab::{Lab, Widget, kind, other_kind, status_by, watch};

const AGENT: &str = "widget-operator-agent-x2x4v_1";

/// A writer other than the operator writes the status every minute.
fn written_by_another(lab: &mut Lab, writer: &str, minutes: i64) {
    for _ in 0..minutes {
        lab.advance(Span::mins(1));
        let mut vm = Widget::new("vm", lab.now);
        let mut view = lab.view(vm.ready());
        view.managers.push(status_by(writer, lab.now));
        lab.apply_view(view);
    }
}

/// Another workload, whose name is longer, renews its own lease every minute.
fn renewed_by_agents(lab: &mut Lab, minutes: i64) {
    for _ in 0..minutes {
        lab.advance(Span::mins(1));
        lab.observe(Observation::LeaseSeen(LeaseView {
            namespace: "ops".into(),
            name: "widget-agent".into(),
            holder: AGENT.into(),
            renewed: Some(lab.now),
            written: Some(lab.now),
            duration: Some(Span::secs(15)),
            ..LeaseView::default()
        }));
    }
}

#[test]
fn another_writer_of_the_status_hides_no_death() {
    for writer in ["widget-handler", "manager"] {
        let (mut lab, mut op) = Op::with_lab();
        op.view.pods.clear();
        op.seen(&mut lab);
        written_by_another(&mut lab, writer, 5);

        assert_eq!(lab.findings(), [DOWN], "{writer}");
        assert_eq!(lab.finding("OperatorDown").severity, Severity::Critical);
    }

    // The Pods stay, but do not run.
    let (mut lab, mut op) = Op::with_lab();
    let mut other = Widget::new("other", lab.now);
    other.status_written = Some(lab.now);
    lab.apply(other.ready());
    op.crash(&mut lab, "Error");
    written_by_another(&mut lab, "widget-handler", 5);
    assert_eq!(lab.findings(), [DOWN]);
}

#[test]
fn two_writers_beside_a_running_operator_are_no_death() {
    let (mut lab, _op) = Op::with_lab();
    for _ in 0..10 {
        lab.renew(POD);
        written_by_another(&mut lab, "widget-handler", 1);
    }

    lab.assert_no_findings();
}

#[test]
fn a_writer_with_any_name_shows_life_while_nobody_has_the_name_of_the_operator() {
    let (mut lab, mut op) = Op::with_lab();
    op.view.name = "shop-gateway".into(); // its own writer has another name
    op.crash(&mut lab, "Error");
    written_by_another(&mut lab, "widget-handler", 5);
    lab.assert_no_findings();
}

#[test]
fn a_lease_of_agents_whose_name_is_longer_hides_no_death() {
    let (mut lab, mut op) = Op::with_lab();
    op.view.pods.clear();
    op.seen(&mut lab);
    renewed_by_agents(&mut lab, 5);
    assert_eq!(lab.findings(), [DOWN]);

    // Without a view of the Pods, only the names show that it is another workload.
    let mut lab = Op::with_lab_without_pods();
    lab.scrape_fails(crate::lab::pods::INSTANCE, Cause::Refused);
    renewed_by_agents(&mut lab, 5);
    assert_eq!(lab.findings(), [DOWN]);

    // The agents are nobody's death either.
    let (mut lab, _op) = Op::with_lab();
    for _ in 0..10 {
        lab.renew(POD);
        renewed_by_agents(&mut lab, 1);
    }

    lab.advance(Span::mins(3));
    lab.assert_no_findings();
}

#[test]
fn one_kind_that_cannot_be_watched_freezes_no_verdict() {
    let causes = [Cause::Forbidden, Cause::NotFound, Cause::Timeout, Cause::Connection];
    for cause in causes {
        let (mut lab, mut op) = Op::with_lab();
        lab.discover(&[kind(), other_kind("Gadget")]);
        let gadgets = other_kind("Gadget").watch;
        lab.list_in(&gadgets, Vec::new());
        lab.run_with_lease(POD, 5);
        lab.fail_source(&SourceId::Watch(gadgets), cause);
        lab.run_with_lease(POD, 1);
        op.view.pods.clear();
        op.seen(&mut lab);
        lab.advance(Span::mins(2));

        assert!(lab.has("OperatorDown"), "{cause:?}: {:?}", lab.findings());
    }

    // An API server that answers no watch at all may be away.
    let (mut lab, mut op) = Op::with_lab();
    lab.fail_source(&SourceId::Watch(watch()), Cause::Timeout);
    op.view.pods.clear();
    op.seen(&mut lab);
    lab.advance(Span::mins(30));
    assert!(!lab.has("OperatorDown"), "{:?}", lab.findings());
}

#[test]
fn a_lease_that_has_not_expired_is_no_sign_of_absence() {
    let patient = |lab: &mut Lab| {
        lab.observe(Observation::LeaseSeen(LeaseView {
            namespace: "ops".into(),
            name: "6ab5f5a3.example.io".into(),
            holder: format!("{POD}_1"),
            renewed: Some(lab.now),
            written: Some(lab.now),
            duration: Some(Span::mins(15)),
            ..LeaseView::default()
        }));
    };

    let mut lab = Op::with_lab_without_pods();
    for _ in 0..4 {
        patient(&mut lab);
        lab.advance(Span::mins(7));
        lab.assert_no_findings();
    }

    patient(&mut lab);
    lab.advance(Span::mins(15));
    assert_eq!(lab.findings(), [DOWN], "it has expired");
}
