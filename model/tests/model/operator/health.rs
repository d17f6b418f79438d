//! Whether the operator is there: its Pods, its lease, its metrics endpoint, its process and its
//! writes.

use loopwatch_model::finding::Severity;
use loopwatch_model::observation::{Cause, Observation, ProcessView, SourceId};
use loopwatch_model::snapshot::Health;
use loopwatch_model::time::Span;

use crate::lab::pods::{DOWN, INSTANCE, OTHER_POD, Op, POD, pod};
use crate::lab::{Lab, Widget, watch};

#[test]
fn an_operator_whose_container_ended_is_down_although_its_objects_say_ready() {
    let (mut lab, mut op) = Op::with_lab();
    let ended = lab.now;
    op.crash(&mut lab, "Error");
    lab.advance(Span(119_000));
    lab.assert_no_findings();
    lab.advance(Span::secs(1));

    assert_eq!(lab.findings(), [DOWN]);
    assert_eq!(
        (lab.since("OperatorDown"), lab.finding("OperatorDown").severity),
        (ended, Severity::Critical)
    );
    assert!(lab.evidence().contains("x2x4v: CrashLoopBackOff"), "{}", lab.evidence());

    lab.advance(Span::mins(20));
    op.restart(&mut lab);

    assert_eq!(lab.findings(), [DOWN], "it may crash again at once");

    lab.advance(Span::mins(1));
    lab.assert_no_findings();
}

#[test]
fn a_dead_operator_fails_all_namespaces_that_it_serves() {
    let (mut lab, mut op) = Op::with_lab();
    lab.converged("steady");

    let health = |lab: &Lab| lab.snapshot().health.into_iter().collect::<Vec<_>>();
    assert_eq!(health(&lab), [("team-a".to_owned(), Health::Healthy)]);

    op.crash(&mut lab, "Error");
    lab.advance(Span::mins(3));

    assert_eq!(health(&lab), [("team-a".to_owned(), Health::Failing)]);
}

#[test]
fn an_operator_without_a_pod_is_down() {
    let (mut lab, mut op) = Op::with_lab();
    op.view.pods.clear();
    op.seen(&mut lab);
    lab.advance(Span::mins(3));

    assert_eq!(lab.findings(), [DOWN]);

    op.view.pods.push(pod(OTHER_POD, lab.now));
    op.seen(&mut lab);
    lab.assert_no_findings();
}

#[test]
fn an_operator_that_restarts_once_is_not_down() {
    let (mut lab, mut op) = Op::with_lab();
    op.crash(&mut lab, "Error");
    lab.advance(Span::secs(10));
    op.restart(&mut lab);
    lab.run_with_lease(POD, 30);
    lab.assert_no_findings();

    assert!(lab.changes().is_empty());
}

#[test]
fn a_writer_that_is_still_at_work_is_alive() {
    let (mut lab, mut op) = Op::with_lab();
    op.crash(&mut lab, "Error");
    for minute in 0..10 {
        lab.advance(Span::mins(1));
        let mut other = Widget::new("other", lab.now);
        (other.spec, other.status_written) = (minute, Some(lab.now));
        lab.apply(other.ready());
    }

    assert!(!lab.has("OperatorDown"), "{:?}", lab.findings());

    lab.advance(Span::mins(3));
    assert!(lab.has("OperatorDown"));

    let mut other = Widget::new("other", lab.now);
    other.status_written = Some(lab.now);
    lab.apply(other.ready());

    assert!(!lab.has("OperatorDown"), "a write ends it");
}

#[test]
fn a_lease_that_nobody_renews_is_a_weaker_sign_alone_than_with_a_closed_endpoint() {
    let mut lab = Op::with_lab_without_pods();
    lab.advance(Span(299_000));
    lab.assert_no_findings();
    lab.advance(Span::secs(1));

    assert_eq!(lab.finding("OperatorDown").severity, Severity::Warning, "it may be scaled to zero");

    let mut lab = Op::with_lab_without_pods();
    lab.scrape_fails(INSTANCE, Cause::Refused);
    lab.advance(Span::mins(2));

    assert_eq!(lab.finding("OperatorDown").severity, Severity::Critical);
    assert!(
        lab.evidence().contains("lease 6ab5f5a3.example.io is not renewed"),
        "{}",
        lab.evidence()
    );

    lab.renew(POD);
    lab.assert_no_findings();
}

#[test]
fn an_endpoint_that_hangs_forbids_or_was_never_seen_shows_nothing() {
    for cause in [Cause::Forbidden, Cause::Timeout, Cause::ServerError, Cause::Undecodable] {
        let mut lab = Op::with_lab_without_pods();
        lab.scrape_fails(INSTANCE, cause);
        lab.run_with_lease(POD, 30);
        lab.assert_no_findings();
    }

    let mut lab = Lab::new();
    lab.scrape_fails("127.0.0.1:8080", Cause::Refused);
    lab.advance(Span::hours(1));
    lab.assert_no_findings();
}

#[test]
fn a_process_that_ended_is_a_sign_and_its_successor_ends_it() {
    let mut lab = Lab::new();
    let process = |pid: u32| ProcessView {
        instance: INSTANCE.into(),
        pid: Some(pid),
        ..ProcessView::default()
    };

    lab.observe(Observation::ProcessSeen(Box::new(process(7))));
    lab.advance(Span::hours(1));
    lab.assert_no_findings();
    lab.observe(Observation::ProcessGone { instance: INSTANCE.into() });
    lab.advance(Span::mins(6));

    assert_eq!(lab.finding("OperatorDown").severity, Severity::Warning);

    lab.observe(Observation::ProcessSeen(Box::new(process(8))));
    lab.assert_no_findings();
}

#[test]
fn a_process_that_ended_with_its_metrics_is_one_sign() {
    // Without a view of the Pods, other replicas may run.
    let mut lab = Lab::new();
    let process = ProcessView { instance: INSTANCE.into(), pid: Some(7), ..ProcessView::default() };
    lab.observe(Observation::ProcessSeen(Box::new(process)));
    lab.scrape(INSTANCE, Default::default());
    lab.advance(Span::mins(1));
    lab.observe(Observation::ProcessGone { instance: INSTANCE.into() });
    lab.scrape_fails(INSTANCE, Cause::Refused);
    lab.advance(Span::mins(4));

    lab.assert_no_findings();
    lab.advance(Span::mins(10));

    assert_eq!(lab.finding("OperatorDown").severity, Severity::Warning);
    assert!(lab.evidence().contains("process ended"), "{}", lab.evidence());
}

#[test]
fn while_loopwatch_cannot_see_nothing_opens_or_closes() {
    for source in [SourceId::Pods, SourceId::Lease, SourceId::Watch(watch())] {
        let (mut lab, mut op) = Op::with_lab();
        lab.fail_source(&source, Cause::Connection);
        op.crash(&mut lab, "Error");
        lab.advance(Span::mins(30));

        assert!(!lab.has("OperatorDown"), "{source}");

        lab.recover_source(&source);
        lab.advance(Span(119_000));

        assert!(!lab.has("OperatorDown"), "{source}");

        lab.advance(Span::secs(1));
        assert!(lab.has("OperatorDown"), "{source}");

        lab.fail_source(&source, Cause::Connection);
        lab.advance(Span::mins(1));

        assert!(lab.has("OperatorDown"), "{source}: it stays open");
    }
}

#[test]
fn a_conversion_webhook_that_died_with_the_operator_hides_no_death() {
    let fail = |lab: &mut Lab, cause: Cause| {
        let source = SourceId::Watch(watch());
        lab.observe(Observation::SourceFailed {
            source,
            cause,
            detail: "conversion webhook failed".into(),
        });
    };

    let (mut lab, mut op) = Op::with_lab();
    op.crash(&mut lab, "Error");
    fail(&mut lab, Cause::ServerError);
    lab.advance(Span(119_000));
    lab.assert_no_findings();
    lab.advance(Span::secs(1));

    assert_eq!(lab.finding("OperatorDown").severity, Severity::Critical);

    // Nothing shows whether the operator runs if loopwatch does not see all of its Pods, or if the
    // API server is unreachable.
    let (mut lab, mut op) = Op::with_lab();
    (op.view.complete, op.workload().replicas) = (false, 2);
    op.crash(&mut lab, "Error");
    fail(&mut lab, Cause::ServerError);
    lab.advance(Span::mins(30));

    assert!(!lab.has("OperatorDown"));

    let (mut lab, mut op) = Op::with_lab();
    op.crash(&mut lab, "Error");
    fail(&mut lab, Cause::ServerError);

    let source = SourceId::Pods;
    lab.fail_source(&source, Cause::ServerError);
    lab.advance(Span::mins(30));

    assert!(!lab.has("OperatorDown"));
}

#[test]
fn nothing_known_about_the_operator_is_no_accusation() {
    let mut lab = Lab::new();
    lab.converged("web");
    lab.advance(Span::hours(24));
    lab.assert_no_findings();
}

#[test]
fn setting_the_clock_makes_no_operator_absent() {
    for by in [Span::hours(3), Span::hours(-3)] {
        let mut lab = Op::with_lab_without_pods();
        lab.advance(Span::mins(1));
        lab.step_clock(by);
        lab.advance(Span::mins(3));
        lab.assert_no_findings();

        let (mut lab, mut op) = Op::with_lab();
        op.view.pods.clear();
        op.seen(&mut lab);
        lab.advance(Span::secs(40));
        lab.step_clock(by);
        lab.advance(Span::secs(19));
        lab.assert_no_findings();
        lab.advance(Span::secs(1));

        assert_eq!(lab.findings(), [DOWN], "{by}");
    }
}
