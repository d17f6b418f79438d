//! Pods that come and go: scaling, rollouts, drains, evictions and replicas that loopwatch cannot
//! see.

use loopwatch_model::finding::Severity;
use loopwatch_model::observation::{Cause, ContainerEnd, ContainerView, Observation, ProcessView};
use loopwatch_model::time::Span;

use crate::lab::pods::{DOWN, INSTANCE, OTHER_POD, Op, POD, pod};
use crate::lab::{Lab, Widget};

#[test]
fn an_operator_that_is_scaled_to_zero_is_not_down() {
    let (mut lab, mut op) = Op::with_lab();
    op.view.pods.clear();
    op.workload().replicas = 0;
    op.seen(&mut lab);
    lab.advance(Span::hours(2));
    lab.assert_no_findings();
}

#[test]
fn a_sidecar_that_outlives_the_operator_in_a_rollout_is_silent() {
    let (mut lab, mut op) = Op::with_lab();
    (op.view.pods[0].own, op.view.pods[0].deleted, op.view.complete) = (true, Some(lab.now), false);
    op.crash(&mut lab, "Completed");
    lab.scrape_fails(INSTANCE, Cause::Refused);
    lab.advance(Span::mins(30));
    lab.assert_no_findings();
}

#[test]
fn a_new_pod_is_not_down_before_its_first_start_but_must_start_some_time() {
    let (mut lab, mut op) = Op::with_lab();
    let new = OTHER_POD;
    op.view.pods = vec![pod(new, lab.now)];
    (op.container().running_since, op.container().ready) = (None, false);
    op.container().waiting = "ContainerCreating".into();
    op.seen(&mut lab);
    lab.advance(Span::mins(9));
    lab.assert_no_findings();

    let mut started = op.clone();
    started.container().running_since = Some(lab.now);

    let (mut twin, _) = Op::with_lab();
    started.seen(&mut twin);
    twin.run_with_lease(new, 60);
    twin.assert_no_findings();
    lab.advance(Span::mins(2));

    assert_eq!(lab.findings(), [DOWN], "an image that cannot be pulled, for example");
}

#[test]
fn a_rollout_that_ends_the_old_pods_first_is_not_down() {
    let (mut lab, mut op) = Op::with_lab();
    (op.workload().rolling, op.workload().recreates) = (true, true);
    op.view.pods.clear();
    op.seen(&mut lab);
    lab.advance(Span::mins(9));
    lab.assert_no_findings();
    op.workload().rolling = false;
    op.view.pods.push(pod("widget-operator-6c6b5d9f8-zzzzz", lab.now));

    op.seen(&mut lab);
    lab.run_with_lease("widget-operator-6c6b5d9f8-zzzzz", 30);
    lab.assert_no_findings();
}

#[test]
fn a_pod_that_terminates_without_end_is_down_after_its_grace_period() {
    // The node is lost: its kubelet ends nothing, and a StatefulSet waits for that.
    let mut lab = Lab::new();
    let mut op = Op::running(&lab);
    op.seen(&mut lab);
    lab.converged("web");
    op.workload().kind = "StatefulSet".into();

    let ends = lab.now.after(Span::secs(30));
    op.view.pods[0].deleted = Some(ends);
    op.seen(&mut lab);
    lab.advance(Span::secs(149));
    lab.assert_no_findings();

    let mut replaced = op.clone();
    replaced.view.pods = vec![pod("widget-operator-0", lab.now)];
    lab.advance(Span::secs(1));

    assert_eq!(lab.findings(), [DOWN]);
    assert_eq!(
        (lab.since("OperatorDown"), lab.finding("OperatorDown").severity),
        (ends, Severity::Critical)
    );
    assert!(lab.evidence().contains("Terminating"), "{}", lab.evidence());

    replaced.seen(&mut lab);
    lab.assert_no_findings();

    // A rollout with a long grace period is not an absence.
    let (mut lab, mut op) = Op::with_lab();
    op.view.pods[0].deleted = Some(lab.now.after(Span::mins(30)));
    op.seen(&mut lab);
    lab.advance(Span::mins(29));
    lab.assert_no_findings();
}

#[test]
fn pods_that_a_node_rejects_again_and_again_are_no_operator_that_starts() {
    let rejected = |lab: &mut Lab, op: &mut Op, number: usize| {
        let mut new = pod(&format!("widget-operator-7d9f8c6b5-{number:05}"), lab.now);
        new.containers[0] = ContainerView { name: "manager".into(), ..ContainerView::default() };
        new.phase = "Failed".into();
        op.view.pods.push(new);
        op.seen(lab);
    };

    let (mut lab, mut op) = Op::with_lab();
    op.view.pods.clear();
    for number in 0..3 {
        rejected(&mut lab, &mut op, number);
        lab.advance(Span::secs(40));
    }

    assert_eq!(lab.findings(), [DOWN], "{:?}", lab.findings());

    // Pods that a node rejects only after a while are not excused forever, either.
    let (mut lab, mut op) = Op::with_lab();
    op.view.pods.clear();
    for number in 0..12 {
        rejected(&mut lab, &mut op, number);
        let last = op.view.pods.len() - 1;
        op.view.pods[last].phase = "Pending".into();
        op.seen(&mut lab);

        assert_eq!(lab.has("OperatorDown"), number > 9, "{number}");

        lab.advance(Span::mins(1));
        op.view.pods[last].phase = "Failed".into();
    }
}

#[test]
fn evicted_pods_that_stay_do_not_date_the_next_stop() {
    let mut lab = Lab::new();
    let mut op = Op::running(&lab);
    op.seen(&mut lab);
    lab.advance(Span::mins(10));

    let mut evicted = pod("widget-operator-7d9f8c6b5-aaaaa", lab.ago(Span::hours(48)));
    let ended = ContainerEnd {
        finished: Some(lab.ago(Span::hours(24))),
        exit_code: 137,
        ..ContainerEnd::default()
    };

    (evicted.containers[0].ended, evicted.containers[0].running_since) = (Some(ended), None);
    evicted.phase = "Failed".into();
    op.view.pods.insert(0, evicted);
    op.seen(&mut lab);

    // A drain: the Pod terminates before its successor exists.
    op.view.pods[1].deleted = Some(lab.now.after(Span::secs(30)));
    op.seen(&mut lab);
    lab.assert_no_findings();
    lab.advance(Span::secs(30));
    op.view.pods.truncate(1);
    op.seen(&mut lab);
    lab.assert_no_findings();

    let mut new = pod("widget-operator-7d9f8c6b5-bbbbb", lab.now);
    new.containers[0].running_since = None;
    op.view.pods.push(new);
    op.seen(&mut lab);
    lab.advance(Span::mins(9));
    lab.assert_no_findings();
}

#[test]
fn a_new_pod_is_no_excuse_for_one_that_crashes_beside_it() {
    let (mut lab, mut op) = Op::with_lab();
    op.crash_loop(&mut lab, 3, "Error");
    lab.advance(Span::mins(3));

    let since = lab.since("OperatorDown");
    lab.changes();

    let mut new = pod("widget-operator-6c6b5d9f8-zzzzz", lab.now);
    (new.containers[0].running_since, new.containers[0].waiting) =
        (None, "ImagePullBackOff".into());
    op.view.pods.push(new);
    op.seen(&mut lab);
    lab.advance(Span::mins(15));

    assert!(lab.changes().is_empty(), "the page stays");
    assert_eq!(lab.since("OperatorDown"), since);

    op.view.pods[1].containers[0].running_since = Some(lab.now);
    op.seen(&mut lab);

    assert!(!lab.has("OperatorDown"));
}

#[test]
fn an_operator_that_is_scaled_up_again_has_its_time_to_start() {
    let (mut lab, mut op) = Op::with_lab();
    op.view.pods.clear();
    op.workload().replicas = 0;
    op.seen(&mut lab);
    lab.advance(Span::hours(2));

    // The workload is read before its Pod exists.
    op.workload().replicas = 1;
    op.seen(&mut lab);
    lab.advance(Span(59_000));
    lab.assert_no_findings();
    lab.advance(Span::secs(1));

    assert_eq!(lab.findings(), [DOWN], "no Pod can be created, for example because of a quota");

    // Without a view of the workload, the new Pod is all that loopwatch sees.
    let mut lab = Lab::new();
    op.view.workload = None;
    op.seen(&mut lab);
    lab.advance(Span::hours(2));
    op.view.pods = vec![pod(POD, lab.now)];
    op.container().running_since = None;
    op.seen(&mut lab);
    lab.advance(Span::mins(9));
    lab.assert_no_findings();
}

#[test]
fn a_second_pod_that_runs_is_enough() {
    let (mut lab, mut op) = Op::with_lab();
    op.view.pods.push(pod(OTHER_POD, lab.now));
    op.workload().replicas = 2;
    op.crash(&mut lab, "Error");
    lab.run_with_lease(OTHER_POD, 30);

    assert!(!lab.has("OperatorDown"), "{:?}", lab.findings());
}

#[test]
fn a_replica_that_loopwatch_cannot_see_may_run() {
    let (mut lab, mut op) = Op::with_lab();
    (op.view.complete, op.workload().replicas) = (false, 2);
    op.crash(&mut lab, "Error");
    lab.run_with_lease(OTHER_POD, 30);
    lab.assert_no_findings();
    lab.advance(Span::mins(3));

    assert_eq!(lab.findings(), [DOWN], "nobody renews the lease either");
    assert_eq!(lab.finding("OperatorDown").severity, Severity::Critical);
}

#[test]
fn a_sidecar_in_a_new_pod_that_crashes_does_not_know_whether_the_old_one_runs() {
    // A rollout keeps the only old Pod until the new one is ready. This sidecar sees only its own
    // Pod.
    for (rolling, recreates, found) in
        [(true, false, false), (true, true, true), (false, false, true)]
    {
        let mut lab = Lab::new();
        let mut op = Op::running(&lab);
        (op.view.complete, op.view.pods[0].own) = (false, true);
        (op.workload().rolling, op.workload().recreates) = (rolling, recreates);
        op.seen(&mut lab);
        lab.converged("web");
        lab.advance(Span::mins(15));
        op.crash_loop(&mut lab, 3, "Error");

        lab.advance(Span::mins(3));
        assert_eq!(lab.has("OperatorDown"), found, "{rolling} {recreates}: {:?}", lab.findings());

        let severity = if found { Severity::Critical } else { Severity::Warning };
        assert_eq!(lab.finding("RestartLoop").severity, severity);
    }
}

#[test]
fn one_of_several_pods_shows_nothing_about_the_others() {
    // The metrics and the process of the first Pod end with it.
    let mut lab = Lab::new();
    let mut op = Op::running(&lab);
    (op.view.complete, op.view.pods[0].own, op.workload().replicas) = (false, true, 3);
    op.seen(&mut lab);
    lab.converged("web");

    let process = ProcessView { instance: INSTANCE.into(), pid: Some(7), ..ProcessView::default() };
    lab.observe(Observation::ProcessSeen(Box::new(process)));
    lab.scrape(INSTANCE, Default::default());
    op.crash(&mut lab, "Error");
    lab.observe(Observation::ProcessGone { instance: INSTANCE.into() });
    lab.scrape_fails(INSTANCE, Cause::Refused);
    lab.advance(Span::mins(30));
    lab.assert_no_findings();
}

/// Deletes an object that waits for a finalizer of the operator.
fn delete_one(lab: &mut Lab) -> Widget {
    let mut doomed = lab.finalized("doomed", &["example.io/cleanup"]);
    lab.begin_deletion(&mut doomed);
    doomed
}

/// The operator's next Pod does not run yet.
fn begin_next(lab: &mut Lab, op: &mut Op, name: &str) {
    let mut next = pod(name, lab.now);
    (next.containers[0].running_since, next.phase) = (None, "Pending".into());
    op.view.pods.push(next);
    op.seen(lab);
}

/// A way in which the last Pod ends, and the next one begins.
type Begin = fn(&mut Lab, &mut Op);

#[test]
fn a_deletion_waits_for_a_new_pod_as_long_as_the_pod_may_need_to_start() {
    let recreated = |lab: &mut Lab, op: &mut Op| {
        (op.workload().rolling, op.workload().recreates) = (true, true);
        op.view.pods.clear();
        begin_next(lab, op, "widget-operator-6c6b5d9f8-zzzzz");
    };
    let evicted = |lab: &mut Lab, op: &mut Op| {
        op.crash(lab, "Error");
        op.container().waiting.clear();
        op.view.pods[0].phase = "Failed".into();
        op.seen(lab);
        lab.advance(Span::secs(5));
        begin_next(lab, op, OTHER_POD);
    };
    let cases: [(&str, Begin); 2] = [("recreated", recreated), ("evicted", evicted)];

    for (what, begin) in cases {
        let (mut lab, mut op) = Op::with_lab();
        begin(&mut lab, &mut op);
        lab.advance(Span::secs(30));
        let doomed = delete_one(&mut lab);
        lab.advance(Span::mins(7));
        assert_eq!(lab.alerting(), [], "{what}");

        let mut twin = lab.restart();
        op.seen(&mut twin);
        twin.list(std::slice::from_ref(&doomed));
        twin.advance(Span::mins(1));
        assert_eq!(twin.alerting(), [], "{what}: a new loopwatch");

        // It does not start in time.
        lab.advance(Span::mins(3));
        assert_eq!(lab.roots(), [DOWN], "{what}");
        assert!(lab.has("FinalizerOwnerAbsent"), "{what}: {:?}", lab.findings());

        // The Pod of another rollout starts in time.
        let (mut lab, mut op) = Op::with_lab();
        begin(&mut lab, &mut op);
        lab.advance(Span::secs(30));
        let doomed = delete_one(&mut lab);
        lab.advance(Span::mins(8));
        let next = op.view.pods.last_mut().expect("a Pod");
        next.containers[0].running_since = Some(lab.now);
        op.seen(&mut lab);
        lab.renew(OTHER_POD);
        lab.advance(Span::secs(10));
        lab.delete(&doomed);
        lab.advance(Span::secs(10));

        let pages = |change: &String| change.contains(DOWN) || change.contains("OwnerAbsent");
        assert!(!lab.changes().iter().any(pages), "{what}");
    }
}

#[test]
fn a_deletion_waits_no_longer_than_usual_for_a_new_pod_beside_one_that_crashes() {
    let (mut lab, mut op) = Op::with_lab();
    op.view.pods.push(pod(OTHER_POD, lab.now));
    op.view.pods[1].containers[0].running_since = None;
    op.crash(&mut lab, "Error");
    delete_one(&mut lab);
    lab.advance(Span::mins(6));

    assert!(lab.has("FinalizerOwnerAbsent"), "{:?}", lab.findings());
    assert_eq!(lab.roots(), [DOWN]);
}
