//! An operator that is not about to run again needs half of the time until it counts as down, and
//! one that may run again by itself needs all of it.

use loopwatch_model::finding::Severity;
use loopwatch_model::observation::{Cause, SourceId};
use loopwatch_model::time::{Span, Timestamp};

use crate::lab::Lab;
use crate::lab::pods::{DOWN, OTHER_POD, Op, POD, pod};

/// Half of `operator_down_after`, and all of it.
const GONE_AFTER: Span = Span::secs(60);

const DOWN_AFTER: Span = Span::secs(120);

/// Expects a page about the operator, `after` its end and not a moment earlier.
fn expect_down(lab: &mut Lab, ended: Timestamp, after: Span, what: &str) {
    let rest = ended.after(after).since(lab.now);
    lab.advance(Span(rest.0 - 1));

    assert!(!lab.has("OperatorDown"), "{what}: {:?}", lab.findings());

    lab.advance(Span(1));
    assert!(lab.has("OperatorDown"), "{what}: {:?}", lab.findings());
    assert_eq!(lab.finding("OperatorDown").severity, Severity::Critical, "{what}");
}

/// The container ends, and the kubelet says why it does not start it again.
fn end(lab: &mut Lab, op: &mut Op, waiting: &str) -> Timestamp {
    op.crash(lab, "Error");
    op.container().waiting = waiting.into();
    op.seen(lab);
    lab.now
}

#[test]
fn a_container_that_nobody_starts_again_is_down_after_half_of_the_time() {
    for waiting in ["", "ImagePullBackOff", "CreateContainerConfigError", "RunContainerError"] {
        let (mut lab, mut op) = Op::with_lab();
        let ended = end(&mut lab, &mut op, waiting);
        expect_down(&mut lab, ended, GONE_AFTER, waiting);
    }

    // One of two replicas ends, and then the other one.
    let (mut lab, mut op) = Op::with_lab();
    op.view.pods.push(pod(OTHER_POD, lab.now));
    op.workload().replicas = 2;
    end(&mut lab, &mut op, "");
    lab.run_with_lease(OTHER_POD, 3);
    lab.assert_no_findings();
    op.view.pods.swap(0, 1);

    let ended = end(&mut lab, &mut op, "");
    expect_down(&mut lab, ended, GONE_AFTER, "the second replica");
}

#[test]
fn a_container_that_the_kubelet_starts_again_has_all_of_the_time() {
    // Creating a container takes long after the restart of a node.
    for waiting in ["CrashLoopBackOff", "ContainerCreating", "PodInitializing"] {
        let (mut lab, mut op) = Op::with_lab();
        let ended = end(&mut lab, &mut op, waiting);
        expect_down(&mut lab, ended, DOWN_AFTER, waiting);

        let (mut lab, mut op) = Op::with_lab();
        end(&mut lab, &mut op, waiting);
        lab.advance(Span::secs(110));
        op.restart(&mut lab);
        lab.advance(Span::secs(9));
        lab.assert_no_findings();
    }

    // One of two replicas may come back.
    let (mut lab, mut op) = Op::with_lab();
    op.view.pods.push(pod(OTHER_POD, lab.now));
    op.workload().replicas = 2;
    end(&mut lab, &mut op, "CrashLoopBackOff");
    op.view.pods.swap(0, 1);

    let ended = end(&mut lab, &mut op, "ImagePullBackOff");
    expect_down(&mut lab, ended, DOWN_AFTER, "the first replica backs off");
}

#[test]
fn a_crash_or_two_that_the_operator_survives_are_silent() {
    let (mut lab, mut op) = Op::with_lab();
    for waits in [1, 10] {
        end(&mut lab, &mut op, "CrashLoopBackOff");
        lab.advance(Span::secs(waits));
        op.restart(&mut lab);
        lab.advance(Span::secs(5));
    }

    lab.run_with_lease(POD, 30);
    assert!(lab.changes().is_empty(), "{:?}", lab.findings());
}

/// A kubelet starts a container at once after its first end, and then waits for 10, 20, 40 …
/// seconds. The container runs for `lives`. Returns when it first ended.
fn crash_again_and_again(
    lab: &mut Lab,
    op: &mut Op,
    times: u32,
    lives: Span,
    reason: &str,
) -> Timestamp {
    op.crash(lab, reason);
    let first = lab.now;
    for time in 0..times {
        lab.advance(if time == 0 { Span::secs(1) } else { Span::secs(5 << time) });
        op.restart(lab);
        lab.advance(lives);
        op.crash(lab, reason);
    }

    first
}

#[test]
fn a_crash_loop_pages_once_after_half_of_the_time() {
    for (reason, root) in [("Error", "RestartLoop"), ("OOMKilled", "StartupOutOfMemory")] {
        let (mut lab, mut op) = Op::with_lab();
        let ended = crash_again_and_again(&mut lab, &mut op, 3, Span::secs(2), reason);

        assert!(lab.has(root) && !lab.has("OperatorDown"), "{reason}: {:?}", lab.findings());
        assert_eq!(lab.finding(root).severity, Severity::Warning, "{reason}");

        expect_down(&mut lab, ended, GONE_AFTER, reason);
        assert_eq!(lab.finding(root).severity, Severity::Critical, "{reason}");
        assert_eq!(lab.roots(), [format!("{root} operator ops/widget-operator")]);

        lab.changes();

        // The next attempts to start do not close the findings.
        for _ in 0..4 {
            op.restart(&mut lab);
            lab.advance(Span::secs(30));
            op.crash(&mut lab, reason);
            lab.advance(Span::secs(80));
        }

        assert!(lab.changes().is_empty(), "{reason}: {:?}", lab.findings());

        op.restart(&mut lab);
        lab.run_with_lease(POD, 2);

        assert!(!lab.has("OperatorDown"), "{reason}");
    }
}

#[test]
fn a_crash_loop_that_is_none_yet_is_not_another_page() {
    // The finding that explains it opens after half of the time, so that `OperatorDown` would come
    // before it.
    let (mut lab, mut op) = Op::with_lab();
    let ended = crash_again_and_again(&mut lab, &mut op, 2, Span::secs(35), "Error");

    assert!(lab.now > ended.after(GONE_AFTER) && !lab.has("RestartLoop"));

    lab.assert_no_findings();
    lab.advance(Span::secs(20));
    op.restart(&mut lab);

    assert!(
        lab.has("RestartLoop") && !lab.has("OperatorDown"),
        "it runs again: {:?}",
        lab.findings()
    );

    lab.advance(Span::secs(10));
    op.crash(&mut lab, "Error");

    assert_eq!(lab.roots(), ["RestartLoop operator ops/widget-operator"]);
    assert!(lab.has("OperatorDown"), "{:?}", lab.findings());
}

#[test]
fn a_restart_that_works_after_some_that_did_not_is_a_warning() {
    let (mut lab, mut op) = Op::with_lab();
    crash_again_and_again(&mut lab, &mut op, 2, Span::secs(8), "Error");
    lab.advance(Span::secs(20));
    op.restart(&mut lab);
    lab.run_with_lease(POD, 2);

    assert_eq!(lab.finding("RestartLoop").severity, Severity::Warning);
    assert!(!lab.changes().iter().any(|change| change.contains("OperatorDown")));
}

#[test]
fn a_drain_of_its_node_is_silent() {
    // A Deployment: the next Pod waits for its node while the old one terminates, and then starts.
    let (mut lab, mut op) = Op::with_lab();
    op.view.pods[0].deleted = Some(lab.now.after(Span::secs(30)));

    let mut next = pod(OTHER_POD, lab.now);
    (next.containers[0].running_since, next.phase) = (None, "Pending".into());
    op.view.pods.push(next);
    op.seen(&mut lab);
    lab.advance(Span::secs(30));
    op.view.pods.remove(0);
    op.seen(&mut lab);
    lab.advance(Span::mins(5));

    op.container().running_since = Some(lab.now);
    op.seen(&mut lab);
    lab.run_with_lease(OTHER_POD, 30);

    assert!(lab.changes().is_empty(), "a Deployment");

    // A StatefulSet: the kubelet takes a while longer than the grace period, and then the next Pod
    // starts.
    let (mut lab, mut op) = Op::with_lab();
    op.workload().kind = "StatefulSet".into();

    let ends = lab.now.after(Span::secs(30));
    op.view.pods[0].deleted = Some(ends);
    op.seen(&mut lab);
    lab.advance(Span::secs(30));
    op.crash(&mut lab, "Error");
    op.container().waiting.clear();
    op.seen(&mut lab);
    lab.advance(Span::secs(110));

    op.view.pods.clear();
    op.seen(&mut lab);
    lab.advance(Span::secs(40));

    let mut next = pod("widget-operator-0", lab.now);
    (next.containers[0].running_since, next.phase) = (None, "Pending".into());
    op.view.pods.push(next);
    op.seen(&mut lab);
    lab.advance(Span::mins(5));
    op.container().running_since = Some(lab.now);
    op.seen(&mut lab);
    lab.run_with_lease("widget-operator-0", 30);

    assert!(lab.changes().is_empty(), "a StatefulSet");
}

#[test]
fn an_evicted_pod_that_another_one_replaces_is_silent() {
    let (mut lab, mut op) = Op::with_lab();
    end(&mut lab, &mut op, "");
    op.view.pods[0].phase = "Failed".into();
    op.seen(&mut lab);
    lab.advance(Span::secs(40)); // the controller manager changes its leader

    let mut next = pod(OTHER_POD, lab.now);
    (next.containers[0].running_since, next.phase) = (None, "Pending".into());
    op.view.pods.push(next);
    op.seen(&mut lab);
    lab.advance(Span::mins(5));
    op.view.pods[1].containers[0].running_since = Some(lab.now);
    op.seen(&mut lab);
    lab.run_with_lease(OTHER_POD, 30);

    assert!(lab.changes().is_empty());

    // Nobody replaces it.
    let (mut lab, mut op) = Op::with_lab();
    let ended = end(&mut lab, &mut op, "");
    op.view.pods[0].phase = "Failed".into();
    op.seen(&mut lab);
    expect_down(&mut lab, ended, GONE_AFTER, "evicted");
}

#[test]
fn a_pod_that_terminates_has_all_of_the_time_after_its_grace_period() {
    let (mut lab, mut op) = Op::with_lab();
    let ends = lab.now.after(Span::secs(30));
    op.view.pods[0].deleted = Some(ends);
    op.seen(&mut lab);
    expect_down(&mut lab, ends, DOWN_AFTER, "its process may run until the kubelet says otherwise");
}

#[test]
fn half_of_the_time_needs_a_view_of_all_pods() {
    let (mut lab, mut op) = Op::with_lab();
    (op.view.complete, op.workload().replicas) = (false, 2);
    end(&mut lab, &mut op, "");
    lab.run_with_lease(OTHER_POD, 30);
    lab.assert_no_findings();

    // The time begins when loopwatch sees the Pods again.
    let (mut lab, mut op) = Op::with_lab();
    let source = SourceId::Pods;
    lab.fail_source(&source, Cause::Connection);
    end(&mut lab, &mut op, "");

    lab.advance(Span::mins(1));
    lab.recover_source(&SourceId::Pods);
    lab.advance(Span(GONE_AFTER.0 - 1));

    assert!(!lab.has("OperatorDown"));

    lab.advance(Span(1));
    assert_eq!(lab.findings(), [DOWN]);
}

#[test]
fn the_signs_say_that_a_pod_was_evicted_and_what_its_successor_waits_for() {
    let (mut lab, mut op) = Op::with_lab();
    end(&mut lab, &mut op, "");
    (op.view.pods[0].phase, op.view.pods[0].reason) = ("Failed".into(), "Evicted".into());

    let mut next = pod(OTHER_POD, lab.now);
    (next.containers[0].running_since, next.phase) = (None, "Pending".into());
    op.view.pods.push(next);
    op.seen(&mut lab);
    lab.advance(Span::mins(11));

    let signs = lab.finding("OperatorDown").summary();
    assert!(signs.contains(&format!("{POD}: Evicted")), "{signs}");
    assert!(signs.contains(&format!("{OTHER_POD}: never started (Pending)")), "{signs}");

    // The kubelet says more than the phase.
    op.view.pods.remove(0);
    op.container().waiting = "ImagePullBackOff".into();
    op.seen(&mut lab);
    lab.advance(Span::secs(1));

    let signs = lab.finding("OperatorDown").summary();
    assert!(signs.contains(&format!("{OTHER_POD}: never started (ImagePullBackOff)")), "{signs}");
}

/// Its node no longer reports: the Pod says that its containers run, and shows nothing.
#[test]
fn a_pod_whose_node_is_lost_is_no_sign_of_life() {
    // The lease says that the operator has gone with the node.
    let (mut lab, mut op) = Op::with_lab();
    let lost = lab.now;
    op.view.pods[0].node_lost = true;
    op.seen(&mut lab);
    lab.advance(Span::mins(4));
    lab.assert_no_findings(); // the lease alone

    lab.advance(Span::mins(1));
    assert_eq!(lab.findings(), [DOWN]);
    assert_eq!(lab.finding("OperatorDown").severity, Severity::Warning);

    // Kubernetes evicts the Pod, and no other node takes its successor.
    op.view.pods[0].deleted = Some(lab.now.after(Span::secs(30)));
    let mut next = pod(OTHER_POD, lab.now);
    (next.containers[0].running_since, next.phase) = (None, "Pending".into());
    op.view.pods.push(next);
    op.seen(&mut lab);
    lab.advance(Span::mins(2));
    assert_eq!(lab.findings(), [DOWN], "since {lost}");

    // The successor runs at last.
    op.view.pods[1] = pod(OTHER_POD, lab.now);
    op.seen(&mut lab);
    lab.run_with_lease(OTHER_POD, 2);
    lab.assert_no_findings();
}

/// Only the kubelet has failed: the operator goes on.
#[test]
fn an_operator_on_a_lost_node_that_renews_its_lease_is_not_down() {
    let (mut lab, mut op) = Op::with_lab();
    op.view.pods[0].node_lost = true;
    op.seen(&mut lab);
    lab.run_with_lease(POD, 30);
    lab.assert_no_findings();
}
