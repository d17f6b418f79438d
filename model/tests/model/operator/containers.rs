//! Not only the first container of the first Pod counts: further managers, helpers, shards, and Pods
//! that end again and again.

use loopwatch_model::finding::Severity;
use loopwatch_model::observation::{ContainerEnd, ContainerView};
use loopwatch_model::time::Span;

use crate::lab::pods::{OPERATOR, OTHER_POD, Op, POD, pod};
use crate::lab::{Lab, Widget};

const LOOP: &str = "RestartLoop operator ops/widget-operator";

const DOWN: &str = "OperatorDown operator ops/widget-operator";

/// Returns the container that a story is about.
type Chosen = fn(&mut Op) -> &mut ContainerView;

fn container(name: &str, lab: &Lab) -> ContainerView {
    ContainerView {
        name: name.into(),
        ready: true,
        running_since: Some(lab.ago(Span::hours(1))),
        ..ContainerView::default()
    }
}

/// A container ends, and the kubelet restarts it five minutes later.
fn crash(lab: &mut Lab, op: &mut Op, of: Chosen) {
    let finished = Some(lab.now);
    let container = of(op);
    let started = container.running_since.take();
    container.waiting = "CrashLoopBackOff".into();
    container.ended = Some(ContainerEnd {
        reason: "Error".into(),
        exit_code: 1,
        message: "no route to host".into(),
        started,
        finished,
    });
    op.seen(lab);
    lab.run_with_lease(POD, 5);

    let now = lab.now;
    let container = of(op);
    (container.restarts, container.running_since) = (container.restarts + 1, Some(now));
    container.waiting.clear();
    op.seen(lab);
    lab.advance(Span::secs(1));
}

#[test]
fn a_second_manager_or_a_helper_that_crashes_again_and_again_is_named() {
    let cases: [(&str, Chosen); 2] = [
        ("scheduler", |op| &mut op.view.pods[0].containers[1]),
        ("istio-proxy", |op| &mut op.view.pods[0].helpers[0]),
    ];

    for (name, of) in cases {
        let (mut lab, mut op) = Op::with_lab();
        let other = container("scheduler", &lab);
        op.view.pods[0].containers.push(other);
        let proxy = container("istio-proxy", &lab);
        op.view.pods[0].helpers.push(proxy);
        op.seen(&mut lab);
        for _ in 0..3 {
            assert!(!lab.has("RestartLoop"), "{name}");
            crash(&mut lab, &mut op, of);
        }

        assert_eq!(lab.findings(), [LOOP], "{name}");
        let found = lab.finding("RestartLoop");
        assert_eq!(found.severity, Severity::Warning);
        assert!(found.summary().contains(name), "{}", found.summary());
        assert!(found.summary().contains("no route to host"), "{}", found.summary());

        // The operator works, so it explains nothing.
        let mut other = Widget::new("other", lab.now);
        lab.apply(&other);
        lab.run_with_lease(POD, 11);
        assert!(lab.alerts("Unacknowledged"), "{name}: {:?}", lab.findings());

        lab.apply(other.ready());
        lab.run_with_lease(POD, 60);
        lab.assert_no_findings();
    }
}

#[test]
fn a_second_manager_that_restarts_once_or_twice_is_silent() {
    let (mut lab, mut op) = Op::with_lab();
    let other = container("scheduler", &lab);
    op.view.pods[0].containers.push(other);
    op.seen(&mut lab);
    for _ in 0..2 {
        crash(&mut lab, &mut op, |op| &mut op.view.pods[0].containers[1]);
    }

    lab.run_with_lease(POD, 60);
    assert!(lab.changes().is_empty());
}

#[test]
fn a_second_manager_that_does_not_run_for_an_hour_is_a_ticket() {
    let (mut lab, mut op) = Op::with_lab();
    let mut other = container("scheduler", &lab);
    (other.running_since, other.waiting) = (None, "ImagePullBackOff".into());
    op.view.pods[0].containers.push(other);
    op.seen(&mut lab);
    lab.run_with_lease(POD, 59);
    lab.assert_no_findings();
    lab.run_with_lease(POD, 1);

    assert_eq!(lab.findings(), [DOWN]);
    assert_eq!(lab.finding("OperatorDown").severity, Severity::Warning);
    assert!(lab.evidence().contains("scheduler: ImagePullBackOff"), "{}", lab.evidence());
    assert_eq!(lab.snapshot().operator.health.up, Some(true), "the rest of it works");

    op.view.pods[0].containers[1].running_since = Some(lab.now);
    op.seen(&mut lab);
    lab.assert_no_findings();
}

/// Returns an operator with three Pods, of which the second one waits for its image.
fn with_shards(kind: &str) -> (Lab, Op) {
    let mut lab = Lab::new();
    let mut op = Op::running(&lab);
    (op.workload().kind, op.workload().replicas) = (kind.into(), 3);
    let started = lab.ago(Span::hours(1));
    op.view.pods = (0..3).map(|number| pod(&format!("{OPERATOR}-{number}"), started)).collect();
    op.seen(&mut lab);
    lab.converged("web");
    lab.advance(Span::mins(10));
    let container = &mut op.view.pods[1].containers[0];
    (container.running_since, container.waiting) = (None, "ImagePullBackOff".into());

    (lab, op)
}

#[test]
fn one_of_three_shards_that_is_down_for_an_hour_is_a_ticket() {
    let (mut lab, op) = with_shards("StatefulSet");
    op.seen(&mut lab);
    lab.advance(Span::mins(59));
    lab.assert_no_findings();
    lab.advance(Span::mins(1));

    assert_eq!(lab.findings(), [DOWN]);
    assert_eq!(lab.finding("OperatorDown").severity, Severity::Warning);
    let evidence = lab.evidence();
    assert!(evidence.contains("2 of 3 Pods run"), "{evidence}");
    assert!(evidence.contains("widget-operator-1: ImagePullBackOff"), "{evidence}");

    // The other shards work, so their objects are not explained by it.
    lab.apply(&Widget::new("other", lab.now));
    lab.advance(Span::mins(11));
    assert!(lab.alerts("Unacknowledged"), "{:?}", lab.findings());
}

#[test]
fn a_standby_that_is_down_is_no_ticket() {
    let (mut lab, op) = with_shards("StatefulSet");
    op.seen(&mut lab);
    for _ in 0..120 {
        lab.run_with_lease("widget-operator-0", 1);
    }

    lab.assert_no_findings();

    // Of a Deployment whose leases loopwatch cannot see, nobody knows.
    let (mut lab, op) = with_shards("Deployment");
    op.seen(&mut lab);
    lab.advance(Span::hours(3));
    lab.assert_no_findings();
}

#[test]
fn nodes_that_come_and_go_are_no_shard_that_is_down() {
    let (mut lab, mut op) = with_shards("DaemonSet");
    for turn in 0..6 {
        op.seen(&mut lab);
        lab.advance(Span::mins(50));

        // The Pod on this node begins to run, and the one on another node ends.
        let (runs, ends) = ((turn + 1) % 3, (turn + 2) % 3);
        let container = &mut op.view.pods[runs].containers[0];
        (container.running_since, container.waiting) = (Some(lab.now), String::new());
        let container = &mut op.view.pods[ends].containers[0];
        (container.running_since, container.waiting) = (None, "ContainerCreating".into());
    }
    lab.assert_no_findings();

    op.seen(&mut lab);
    lab.advance(Span::mins(61));
    assert_eq!(lab.findings(), [DOWN]);
}

/// The node evicts the Pod, and the next one starts soon.
fn evict(lab: &mut Lab, op: &mut Op, number: usize, hash: &str) {
    if let Some(last) = op.view.pods.last_mut() {
        (last.phase, last.reason) = ("Failed".into(), "Evicted".into());
        last.containers[0].running_since = None;
        let started = Some(lab.now.before(Span::mins(3)));
        last.containers[0].ended = Some(ContainerEnd {
            started,
            finished: Some(lab.now),
            exit_code: 137,
            ..ContainerEnd::default()
        });
    }

    op.seen(lab);
    lab.advance(Span::secs(40));
    let name = format!("{OPERATOR}-{hash}-n{number}");
    op.view.pods.push(pod(&name, lab.now));
    op.seen(lab);
    lab.run_with_lease(&name, 3);
}

#[test]
fn a_pod_that_is_evicted_again_and_again_is_found() {
    let (mut lab, mut op) = Op::with_lab();
    for number in 0..14 {
        evict(&mut lab, &mut op, number, "7d9f8c6b5");
    }

    assert_eq!(lab.findings(), [LOOP]);
    let evidence = lab.evidence();
    assert!(evidence.contains("restarts 14") && evidence.contains("Evicted"), "{evidence}");
    assert_eq!(lab.finding("RestartLoop").severity, Severity::Warning);
}

#[test]
fn a_few_evictions_rollouts_and_an_autoscaler_are_no_loop() {
    let (mut lab, mut op) = Op::with_lab();
    for number in 0..4 {
        evict(&mut lab, &mut op, number, "7d9f8c6b5");
    }

    lab.assert_no_findings();

    // Each rollout brings another revision.
    let (mut lab, mut op) = Op::with_lab();
    for hash in
        ["7d9f8c6b4", "7d9f8c6b6", "7d9f8c6b7", "7d9f8c6b8", "7d9f8c6b9", "7d9f8c6bb", "7d9f8c6bc"]
    {
        let name = format!("{OPERATOR}-{hash}-b2b4c");
        op.view.pods = vec![pod(&name, lab.now)];
        op.seen(&mut lab);
        lab.run_with_lease(&name, 5);
    }

    lab.assert_no_findings();

    let (mut lab, mut op) = Op::with_lab();
    for turn in 0..20 {
        let is_up = turn % 2 == 0;
        op.workload().replicas = if is_up { 2 } else { 1 };
        match is_up {
            true => op.view.pods.push(pod(&format!("{OTHER_POD}{turn}"), lab.now)),
            false => drop(op.view.pods.pop()),
        }
        op.seen(&mut lab);
        lab.run_with_lease(POD, 2);
    }

    lab.assert_no_findings();
}

#[test]
fn pods_that_end_after_their_workload_was_scaled_down_are_not_lost() {
    let (mut lab, mut op) = Op::with_lab();
    op.workload().replicas = 10;
    op.view.pods.extend((0..9).map(|number| pod(&format!("{OTHER_POD}{number}"), lab.now)));
    op.seen(&mut lab);
    lab.run_with_lease(POD, 5);

    op.workload().replicas = 1;
    op.seen(&mut lab);
    op.view.pods.truncate(1);
    op.seen(&mut lab);
    lab.run_with_lease(POD, 5);
    lab.assert_no_findings();

    // The next Pod that ends is lost again.
    for number in 0..14 {
        evict(&mut lab, &mut op, number, "7d9f8c6b5");
    }
    assert_eq!(lab.findings(), [LOOP]);
}
