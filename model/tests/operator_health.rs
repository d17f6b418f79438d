//! Whether the operator is there: its Pods, its lease, its metrics endpoint, its process and its writes.

mod lab;

use lab::pods::{INSTANCE, OTHER_POD, Op, POD, pod};
use lab::{Lab, Widget};
use loopwatch_model::finding::Severity;
use loopwatch_model::observation::{
    Cause, ContainerEnd, ContainerView, MetricsView, Observation, ProcessView, SourceId,
};
use loopwatch_model::snapshot::Health;
use loopwatch_model::time::Span;

const DOWN: &str = "OperatorDown operator ops/widget-operator";
const LOOP: &str = "RestartLoop operator ops/widget-operator";
const MEMORY: &str = "StartupOutOfMemory operator ops/widget-operator";

/// Returns a lab with a healthy operator and a converged object.
fn with_operator() -> (Lab, Op) {
    let mut lab = Lab::new();
    let op = Op::running(&lab);
    op.seen(&mut lab);
    lab.converged("web");
    lab.run_with_lease(POD, 10);
    lab.assert_no_findings();
    (lab, op)
}

/// Returns a lab with an operator of which loopwatch sees no Pods, but a lease, and its metrics.
fn without_pods() -> Lab {
    let mut lab = Lab::new();
    let mut op = Op::running(&lab);
    (op.view.workload, op.view.complete) = (None, false);
    op.view.pods.clear();
    op.seen(&mut lab);
    lab.converged("web");
    lab.run_with_lease(POD, 10);
    lab.scrape(INSTANCE, Default::default());
    lab.assert_no_findings();
    lab
}

#[test]
fn an_operator_whose_container_ended_is_down_although_its_objects_say_ready() {
    let (mut lab, mut op) = with_operator();
    let ended = lab.now;
    op.crash(&mut lab, "Error");
    lab.advance(Span(119_000));
    lab.assert_no_findings();
    lab.advance(Span::secs(1));
    assert_eq!(lab.findings(), [DOWN]);
    assert_eq!((lab.since("OperatorDown"), lab.finding("OperatorDown").severity), (ended, Severity::Critical));
    assert!(lab.evidence().contains("x2x4v: CrashLoopBackOff"), "{}", lab.evidence());
    lab.advance(Span::mins(20));
    op.restart(&mut lab);
    assert_eq!(lab.findings(), [DOWN], "it may crash again at once");
    lab.advance(Span::mins(1));
    lab.assert_no_findings();
}

#[test]
fn a_dead_operator_fails_all_namespaces_that_it_serves() {
    let (mut lab, mut op) = with_operator();
    lab.converged("steady");
    let health = |lab: &Lab| lab.snapshot().health.into_iter().collect::<Vec<_>>();
    assert_eq!(health(&lab), [("team-a".to_owned(), Health::Healthy)]);
    op.crash(&mut lab, "Error");
    lab.advance(Span::mins(3));
    assert_eq!(health(&lab), [("team-a".to_owned(), Health::Failing)]);
}

#[test]
fn an_operator_without_a_pod_is_down() {
    let (mut lab, mut op) = with_operator();
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
    let (mut lab, mut op) = with_operator();
    op.crash(&mut lab, "Error");
    lab.advance(Span::secs(10));
    op.restart(&mut lab);
    lab.run_with_lease(POD, 30);
    lab.assert_no_findings();
    assert!(lab.changes().is_empty());
}

#[test]
fn an_operator_that_is_scaled_to_zero_is_not_down() {
    let (mut lab, mut op) = with_operator();
    op.view.pods.clear();
    op.workload().replicas = 0;
    op.seen(&mut lab);
    lab.advance(Span::hours(2));
    lab.assert_no_findings();
}

#[test]
fn a_sidecar_that_outlives_the_operator_in_a_rollout_is_silent() {
    let (mut lab, mut op) = with_operator();
    (op.view.pods[0].own, op.view.pods[0].deleted, op.view.complete) = (true, Some(lab.now), false);
    op.crash(&mut lab, "Completed");
    lab.scrape_fails(INSTANCE, Cause::Refused);
    lab.advance(Span::mins(30));
    lab.assert_no_findings();
}

#[test]
fn a_new_pod_is_not_down_before_its_first_start_but_must_start_some_time() {
    let (mut lab, mut op) = with_operator();
    let new = OTHER_POD;
    op.view.pods = vec![pod(new, lab.now)];
    (op.container().running_since, op.container().ready) = (None, false);
    op.container().waiting = "ContainerCreating".into();
    op.seen(&mut lab);
    lab.advance(Span::mins(9));
    lab.assert_no_findings();
    let mut started = op.clone();
    started.container().running_since = Some(lab.now);
    let (mut twin, _) = with_operator();
    started.seen(&mut twin);
    twin.run_with_lease(new, 60);
    twin.assert_no_findings();
    lab.advance(Span::mins(2));
    assert_eq!(lab.findings(), [DOWN], "an image that cannot be pulled, for example");
}

#[test]
fn a_rollout_that_ends_the_old_pods_first_is_not_down() {
    let (mut lab, mut op) = with_operator();
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
    assert_eq!((lab.since("OperatorDown"), lab.finding("OperatorDown").severity), (ends, Severity::Critical));
    assert!(lab.evidence().contains("Terminating"), "{}", lab.evidence());
    replaced.seen(&mut lab);
    lab.assert_no_findings();
    // A rollout with a long grace period is no absence.
    let (mut lab, mut op) = with_operator();
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
    let (mut lab, mut op) = with_operator();
    op.view.pods.clear();
    for number in 0..3 {
        rejected(&mut lab, &mut op, number);
        lab.advance(Span::secs(40));
    }
    assert_eq!(lab.findings(), [DOWN], "{:?}", lab.findings());
    // Those that a node rejects only after a while are not excused without end either.
    let (mut lab, mut op) = with_operator();
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
    let ended = ContainerEnd { finished: Some(lab.ago(Span::hours(24))), exit_code: 137, ..ContainerEnd::default() };
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
    let (mut lab, mut op) = with_operator();
    op.crash_loop(&mut lab, 3, "Error");
    lab.advance(Span::mins(3));
    let since = lab.since("OperatorDown");
    lab.changes();
    let mut new = pod("widget-operator-6c6b5d9f8-zzzzz", lab.now);
    (new.containers[0].running_since, new.containers[0].waiting) = (None, "ImagePullBackOff".into());
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
    let (mut lab, mut op) = with_operator();
    op.view.pods.clear();
    op.workload().replicas = 0;
    op.seen(&mut lab);
    lab.advance(Span::hours(2));
    // The workload is read before its Pod exists.
    op.workload().replicas = 1;
    op.seen(&mut lab);
    lab.advance(Span(119_000));
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
    let (mut lab, mut op) = with_operator();
    op.view.pods.push(pod(OTHER_POD, lab.now));
    op.workload().replicas = 2;
    op.crash(&mut lab, "Error");
    lab.run_with_lease(OTHER_POD, 30);
    assert!(!lab.has("OperatorDown"), "{:?}", lab.findings());
}

#[test]
fn a_replica_that_loopwatch_cannot_see_may_run() {
    let (mut lab, mut op) = with_operator();
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
    // A rollout keeps the only old Pod until the new one is ready. This sidecar sees only its own Pod.
    for (rolling, recreates, found) in [(true, false, false), (true, true, true), (false, false, true)] {
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
    // Its metrics and its process end with it.
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

#[test]
fn a_writer_that_is_still_at_work_is_alive() {
    let (mut lab, mut op) = with_operator();
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
    let mut lab = without_pods();
    lab.advance(Span(299_000));
    lab.assert_no_findings();
    lab.advance(Span::secs(1));
    assert_eq!(lab.finding("OperatorDown").severity, Severity::Warning, "it may be scaled to zero");
    let mut lab = without_pods();
    lab.scrape_fails(INSTANCE, Cause::Refused);
    lab.advance(Span::mins(2));
    assert_eq!(lab.finding("OperatorDown").severity, Severity::Critical);
    assert!(lab.evidence().contains("lease 6ab5f5a3.example.io is not renewed"), "{}", lab.evidence());
    lab.renew(POD);
    lab.assert_no_findings();
}

#[test]
fn an_endpoint_that_hangs_forbids_or_was_never_seen_shows_nothing() {
    for cause in [Cause::Forbidden, Cause::Timeout, Cause::ServerError, Cause::Undecodable] {
        let mut lab = without_pods();
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
    let process = |pid: u32| ProcessView { instance: INSTANCE.into(), pid: Some(pid), ..ProcessView::default() };
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
    for source in [SourceId::Pods, SourceId::Lease, SourceId::Watch(lab::watch())] {
        let (mut lab, mut op) = with_operator();
        lab.observe(Observation::SourceFailed {
            source: source.clone(),
            cause: Cause::Connection,
            detail: String::new(),
        });
        op.crash(&mut lab, "Error");
        lab.advance(Span::mins(30));
        assert!(!lab.has("OperatorDown"), "{source}");
        lab.observe(Observation::SourceRecovered { source: source.clone() });
        lab.advance(Span(119_000));
        assert!(!lab.has("OperatorDown"), "{source}");
        lab.advance(Span::secs(1));
        assert!(lab.has("OperatorDown"), "{source}");
        lab.observe(Observation::SourceFailed {
            source: source.clone(),
            cause: Cause::Connection,
            detail: String::new(),
        });
        lab.advance(Span::mins(1));
        assert!(lab.has("OperatorDown"), "{source}: it stays open");
    }
}

#[test]
fn a_conversion_webhook_that_died_with_the_operator_hides_no_death() {
    let fail = |lab: &mut Lab, cause: Cause| {
        let source = SourceId::Watch(lab::watch());
        lab.observe(Observation::SourceFailed { source, cause, detail: "conversion webhook failed".into() });
    };
    let (mut lab, mut op) = with_operator();
    op.crash(&mut lab, "Error");
    fail(&mut lab, Cause::ServerError);
    lab.advance(Span(119_000));
    lab.assert_no_findings();
    lab.advance(Span::secs(1));
    assert_eq!(lab.finding("OperatorDown").severity, Severity::Critical);
    // Nothing shows whether an operator runs of which loopwatch does not see all Pods, or with an API server that is away.
    let (mut lab, mut op) = with_operator();
    (op.view.complete, op.workload().replicas) = (false, 2);
    op.crash(&mut lab, "Error");
    fail(&mut lab, Cause::ServerError);
    lab.advance(Span::mins(30));
    assert!(!lab.has("OperatorDown"));
    let (mut lab, mut op) = with_operator();
    op.crash(&mut lab, "Error");
    fail(&mut lab, Cause::ServerError);
    let source = SourceId::Pods;
    lab.observe(Observation::SourceFailed { source, cause: Cause::ServerError, detail: String::new() });
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
fn one_death_is_one_alert() {
    let (mut lab, mut op) = with_operator();
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
    assert!(!lab.has("OperatorDown") && lab.roots().iter().any(|root| root.starts_with("Unacknowledged")));
}

#[test]
fn a_finalizer_of_another_program_is_another_death() {
    let (mut lab, mut op) = with_operator();
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
    // A name that many programs share may be that of another program.
    for (manager, is_own) in [("kopf", true), ("manager", false)] {
        let (mut lab, mut op) = with_operator();
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
    let (mut lab, _op) = with_operator();
    delete(&mut lab);
    lab.advance(Span::mins(14));
    assert!(!lab.has("FinalizerOwnerAbsent"), "{:?}", lab.findings());
    // Pods that loopwatch sees only in part show none either.
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
    let (mut lab, mut op) = with_operator();
    op.crash(&mut lab, "Error");
    for source in [SourceId::Metrics, SourceId::Process, SourceId::Config] {
        lab.observe(Observation::SourceFailed { source, cause: Cause::Refused, detail: String::new() });
    }
    lab.advance(Span::mins(3));
    assert_eq!(lab.findings().len(), 4, "{:?}", lab.findings());
    assert_eq!(lab.roots(), [DOWN, "ConfigInvalid source config"]);
}

#[test]
fn a_restart_loop_explains_that_the_operator_is_down() {
    let (mut lab, mut op) = with_operator();
    op.crash_loop(&mut lab, 2, "Error");
    assert!(!lab.has("RestartLoop"));
    op.restart(&mut lab);
    assert!(lab.has("RestartLoop"));
    lab.advance(Span::secs(20));
    op.crash(&mut lab, "Error");
    lab.advance(Span::mins(3));
    assert_eq!(lab.roots(), [LOOP]);
    assert!(lab.has("OperatorDown"));
    let summary = lab.finding("RestartLoop").summary();
    assert!(summary.contains("reason Error") && summary.contains("restarts 3"), "{summary}");
    lab.changes();
    op.restart(&mut lab);
    lab.renew(POD);
    lab.advance(Span::secs(20));
    op.crash(&mut lab, "Error");
    lab.advance(Span::secs(20));
    assert!(lab.changes().is_empty(), "moments of life between two crashes");
}

#[test]
fn a_restart_loop_of_an_operator_that_runs_again_is_a_warning_until_it_is_over() {
    let (mut lab, mut op) = with_operator();
    op.crash_loop(&mut lab, 3, "Error");
    lab.advance(Span::mins(3));
    assert_eq!(lab.finding("RestartLoop").severity, Severity::Critical);
    op.restart(&mut lab);
    lab.run_with_lease(POD, 5);
    assert_eq!(lab.finding("RestartLoop").severity, Severity::Warning);
    assert_eq!(lab.findings(), [LOOP]);
    lab.run_with_lease(POD, 60);
    lab.assert_no_findings();
}

#[test]
fn an_operator_that_exits_while_the_api_server_is_away_is_in_no_restart_loop() {
    let outage = |lab: &mut Lab, op: &mut Op| {
        let source = SourceId::Pods;
        lab.observe(Observation::SourceFailed { source, cause: Cause::Refused, detail: String::new() });
        lab.advance(Span::secs(90));
        lab.observe(Observation::SourceRecovered { source: SourceId::Pods });
        op.seen(lab);
        lab.advance(Span::secs(5));
        let (started, finished) = (Some(lab.ago(Span::secs(10))), Some(lab.ago(Span::secs(7))));
        let container = op.container();
        container.ended = Some(ContainerEnd { reason: "Error".into(), exit_code: 1, started, finished });
        (container.restarts, container.running_since) = (container.restarts + 4, Some(lab.now));
        op.seen(lab);
    };
    let (mut lab, mut op) = with_operator();
    outage(&mut lab, &mut op);
    lab.run_with_lease(POD, 5);
    lab.assert_no_findings();
    // One that goes on to crash is found.
    let (mut lab, mut op) = with_operator();
    outage(&mut lab, &mut op);
    lab.advance(Span::mins(1));
    op.crash_loop(&mut lab, 3, "Error");
    assert!(lab.has("RestartLoop"), "{:?}", lab.findings());
}

#[test]
fn restarts_of_several_pods_and_rollouts_are_no_loop() {
    let (mut lab, mut op) = with_operator();
    for name in ["b", "c"] {
        op.view.pods.push(pod(&format!("widget-operator-7d9f8c6b5-{name}"), lab.now));
    }
    op.seen(&mut lab);
    for index in 0..3 {
        op.view.pods[index].containers[0].restarts += 1;
        op.seen(&mut lab);
    }
    for generation in 0..5 {
        let name = format!("widget-operator-{generation}-x");
        op.view.pods = vec![pod(&name, lab.now)];
        op.seen(&mut lab);
        lab.run_with_lease(&name, 5);
    }
    lab.assert_no_findings();
    // Restarts that are spread over hours are no loop either.
    for _ in 0..6 {
        op.crash(&mut lab, "Error");
        lab.advance(Span::secs(10));
        op.restart(&mut lab);
        lab.run_with_lease("widget-operator-4-x", 40);
    }
    lab.assert_no_findings();
}

#[test]
fn a_restart_loop_ends_with_its_pod_although_its_metrics_showed_it_too() {
    let scrape = |lab: &mut Lab, instance: &str| {
        let process = ProcessView { started: Some(lab.now), ..ProcessView::default() };
        lab.scraped(MetricsView { instance: instance.into(), process, ..MetricsView::default() });
    };
    let (mut lab, mut op) = with_operator();
    scrape(&mut lab, INSTANCE);
    for _ in 0..3 {
        op.crash(&mut lab, "Error");
        lab.advance(Span::secs(10));
        op.restart(&mut lab);
        scrape(&mut lab, INSTANCE);
    }
    assert_eq!(lab.findings(), [LOOP]);
    op.view.pods = vec![pod(OTHER_POD, lab.now)];
    op.seen(&mut lab);
    lab.run_with_lease(OTHER_POD, 1);
    lab.assert_no_findings();
    // Without a view of the Pods, the processes alone show it.
    let mut lab = without_pods();
    for _ in 0..4 {
        lab.advance(Span::secs(10));
        scrape(&mut lab, INSTANCE);
    }
    assert_eq!(lab.findings(), [LOOP]);
}

#[test]
fn an_operator_that_is_killed_for_its_memory_at_each_start_is_named() {
    let (mut lab, mut op) = with_operator();
    op.view.pods = vec![pod(OTHER_POD, lab.now)];
    op.seen(&mut lab);
    lab.advance(Span::secs(30));
    op.crash_loop(&mut lab, 3, "OOMKilled");
    lab.advance(Span::mins(3));
    assert_eq!(lab.roots(), [MEMORY]);
    assert!(lab.has("RestartLoop") && lab.has("OperatorDown"));
    let summary = lab.finding("StartupOutOfMemory").summary();
    assert!(summary.contains("128.0 MiB") && summary.contains("lived for 20s"), "{summary}");
}

#[test]
fn kills_after_a_long_life_or_for_another_reason_are_no_startup_problem() {
    for (reason, minutes) in [("OOMKilled", 11), ("Error", 1)] {
        let (mut lab, mut op) = with_operator();
        for _ in 0..3 {
            op.crash(&mut lab, reason);
            lab.advance(Span::secs(10));
            op.restart(&mut lab);
            lab.run_with_lease(POD, minutes);
        }
        assert!(!lab.has("StartupOutOfMemory"), "{reason}");
    }
}

#[test]
fn a_restart_of_loopwatch_finds_a_crash_loop_at_once_and_the_death_after_a_look() {
    let (mut lab, mut op) = with_operator();
    op.view.pods[0].created = Some(lab.ago(Span::mins(10)));
    op.crash_loop(&mut lab, 3, "Error");
    lab.advance(Span::mins(3));
    let since = lab.since("OperatorDown");
    let mut again = lab.restart();
    op.seen(&mut again);
    again.list(&[]);
    assert_eq!(again.findings(), [LOOP]);
    again.advance(Span(119_000));
    assert!(!again.has("OperatorDown"), "a lease may show life");
    again.advance(Span::secs(1));
    assert_eq!(again.since("OperatorDown"), since);
}

#[test]
fn setting_the_clock_makes_no_operator_absent() {
    for by in [Span::hours(3), Span::hours(-3)] {
        let mut lab = without_pods();
        lab.advance(Span::mins(1));
        lab.step_clock(by);
        lab.advance(Span::mins(3));
        lab.assert_no_findings();
        let (mut lab, mut op) = with_operator();
        op.view.pods.clear();
        op.seen(&mut lab);
        lab.advance(Span::secs(100));
        lab.step_clock(by);
        lab.advance(Span::secs(19));
        lab.assert_no_findings();
        lab.advance(Span::secs(1));
        assert_eq!(lab.findings(), [DOWN], "{by}");
    }
}
