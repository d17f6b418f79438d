//! The death of the operator raises one alert, with signs from a closed set.

use loopwatch_model::observation::{Cause, Observation, ProcessView, SourceId};
use loopwatch_model::time::Span;

use crate::lab::Lab;
use crate::lab::pods::{DOWN, INSTANCE, Op, POD};

#[test]
fn one_death_is_one_alert() {
    let (mut lab, mut op) = Op::with_lab();
    let mut doomed = lab.converged("doomed");
    doomed.finalizers = vec!["example.io/cleanup".into()];
    lab.apply(&doomed);
    lab.run_with_lease(POD, 1);
    doomed.deleted = Some(lab.now);
    lab.apply(&doomed);

    let mut widget = lab.converged("late");
    lab.apply(widget.spec(2, lab.now));
    op.crash(&mut lab, "Error");
    lab.advance(Span::mins(40));

    assert!(lab.has("Unacknowledged") && lab.has("FinalizerOwnerAbsent"), "{:?}", lab.findings());
    assert_eq!(lab.roots(), [DOWN]);

    op.restart(&mut lab);
    lab.advance(Span::mins(1));

    assert!(
        !lab.has("OperatorDown")
            && lab.roots().iter().any(|root| root.starts_with("Unacknowledged"))
    );
}

#[test]
fn a_finalizer_of_another_program_is_another_death() {
    let (mut lab, mut op) = Op::with_lab();
    let mut doomed = lab.converged("doomed");
    doomed.finalizers = vec!["backup.other.com/snapshot".into()];

    let mut view = lab.view(&doomed);
    view.managers[1].finalizers.clear();
    view.deleted = Some(lab.now);
    lab.apply_view(view);
    op.crash(&mut lab, "Error");
    lab.advance(Span::mins(40));

    assert_eq!(lab.roots(), [DOWN, "FinalizerStuck Widget team-a/doomed"]);
}

#[test]
fn a_finalizer_of_the_framework_is_of_the_operator_that_writes_the_status() {
    const MARKER: &str = "kopf.zalando.org/KopfFinalizerMarker";

    // A name that many programs share may belong to another program.
    for (manager, is_own) in [("kopf", true), ("manager", false)] {
        let (mut lab, mut op) = Op::with_lab();
        let mut doomed = lab.converged("doomed");
        doomed.finalizers = vec![MARKER.into()];

        let mut view = lab.view(&doomed);
        for written in view.managers.iter_mut().filter(|written| written.owns.status) {
            written.name = manager.into();
            written.finalizers = vec![MARKER.into()];
        }

        view.deleted = Some(lab.now);
        lab.apply_view(view);
        op.crash(&mut lab, "Error");
        lab.advance(Span::mins(40));

        assert_eq!(lab.roots() == [DOWN], is_own, "{manager}: {:?}", lab.findings());
    }
}

#[test]
fn the_pods_show_that_the_owner_of_a_finalizer_is_absent_or_alive() {
    let delete = |lab: &mut Lab| {
        let mut doomed = lab.converged("doomed");
        doomed.finalizers = vec!["example.io/cleanup".into()];
        lab.apply(&doomed);
        doomed.deleted = Some(lab.now);
        lab.apply(&doomed);
    };

    // Without a lease, the Pods alone show it. Somebody has scaled the operator to zero.
    let mut lab = Lab::new();
    let mut op = Op::running(&lab);
    op.seen(&mut lab);
    lab.advance(Span::mins(10));
    delete(&mut lab);
    op.view.pods.clear();
    op.workload().replicas = 0;
    op.seen(&mut lab);

    lab.advance(Span(299_000));
    assert!(!lab.has("FinalizerOwnerAbsent"));

    lab.advance(Span::secs(1));
    assert_eq!(lab.roots(), ["FinalizerOwnerAbsent Widget team-a/doomed"]);

    // A lease that nobody renews shows no absence while a Pod runs.
    let (mut lab, _op) = Op::with_lab();
    delete(&mut lab);
    lab.advance(Span::mins(14));

    assert!(!lab.has("FinalizerOwnerAbsent"), "{:?}", lab.findings());

    // If loopwatch sees only some of the Pods, an expired lease does not show an absence, either.
    let mut lab = Lab::new();
    let mut op = Op::running(&lab);
    op.view.complete = false;
    op.seen(&mut lab);
    delete(&mut lab);
    op.crash(&mut lab, "Error");
    lab.advance(Span::mins(14));

    assert!(!lab.has("FinalizerOwnerAbsent"), "{:?}", lab.findings());
}

#[test]
fn an_operator_that_is_down_explains_that_its_metrics_and_its_process_cannot_be_read() {
    let (mut lab, mut op) = Op::with_lab();
    op.crash(&mut lab, "Error");
    for source in [SourceId::Metrics, SourceId::Process, SourceId::Config] {
        lab.fail_source(&source, Cause::Refused);
    }

    lab.advance(Span::mins(3));
    assert_eq!(lab.findings().len(), 4, "{:?}", lab.findings());
    assert_eq!(lab.roots(), [DOWN, "ConfigInvalid source config"]);
}

#[test]
fn the_signs_of_an_open_finding_are_words_of_a_closed_set() {
    let signs = |lab: &Lab| {
        lab.snapshot().operator.down_signs.iter().map(|sign| sign.as_str()).collect::<Vec<_>>()
    };
    let (mut lab, mut op) = Op::with_lab();

    op.crash(&mut lab, "Error");
    lab.advance(Span(119_000));

    assert!(signs(&lab).is_empty(), "the finding is not open yet");

    lab.advance(Span::secs(1));
    assert_eq!(signs(&lab), ["no_pod_runs", "lease_not_renewed"]);

    op.restart(&mut lab);
    lab.advance(Span::mins(2));

    assert!(signs(&lab).is_empty());

    let (mut lab, mut op) = Op::with_lab();
    op.view.pods.clear();
    op.seen(&mut lab);
    lab.advance(Span::mins(3));

    assert_eq!(signs(&lab), ["no_pod", "lease_not_renewed"]);

    let source = SourceId::Pods;
    lab.fail_source(&source, Cause::Forbidden);

    assert_eq!(
        (lab.findings(), signs(&lab)),
        (vec![DOWN.to_owned()], vec!["lease_not_renewed"]),
        "the Pods show nothing"
    );

    let mut lab = Op::with_lab_without_pods();
    lab.scrape_fails(INSTANCE, Cause::Refused);
    lab.advance(Span::mins(2));

    assert_eq!(signs(&lab), ["lease_not_renewed", "metrics_endpoint_refuses_connections"]);

    lab.observe(Observation::ProcessSeen(Box::new(ProcessView {
        instance: INSTANCE.into(),
        ..ProcessView::default()
    })));
    lab.observe(Observation::ProcessGone { instance: INSTANCE.into() });
    lab.advance(Span::mins(6));

    assert_eq!(
        signs(&lab),
        ["lease_not_renewed", "metrics_endpoint_refuses_connections", "process_ended"]
    );
}
