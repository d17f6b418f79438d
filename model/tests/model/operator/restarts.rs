//! An operator that restarts again and again, or is killed for its memory at each start.

use loopwatch_model::finding::Severity;
use loopwatch_model::observation::{Cause, ContainerEnd, MetricsView, ProcessView, SourceId};
use loopwatch_model::time::Span;

use crate::lab::Lab;
use crate::lab::pods::{DOWN, INSTANCE, OTHER_POD, Op, POD, pod};

const LOOP: &str = "RestartLoop operator ops/widget-operator";

const MEMORY: &str = "StartupOutOfMemory operator ops/widget-operator";

#[test]
fn a_restart_loop_explains_that_the_operator_is_down() {
    let (mut lab, mut op) = Op::with_lab();
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
    let (mut lab, mut op) = Op::with_lab();
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

/// The container ends and restarts in seconds.
fn restart(lab: &mut Lab, op: &mut Op) {
    op.crash(lab, "Error");
    lab.advance(Span::secs(2));
    op.restart(lab);
}

#[test]
fn restarts_that_go_on_around_the_threshold_are_one_finding() {
    let (mut lab, mut op) = Op::with_lab();
    for _ in 0..20 {
        restart(&mut lab, &mut op);
        lab.run_with_lease(POD, 25);
    }

    assert_eq!(lab.changes(), [format!("Opened {LOOP}")]);
    assert_eq!(lab.finding("RestartLoop").severity, Severity::Warning);

    // Near miss: a few restarts at once, and none since.
    let (mut lab, mut op) = Op::with_lab();
    for _ in 0..3 {
        restart(&mut lab, &mut op);
        lab.run_with_lease(POD, 5);
    }

    assert_eq!(lab.findings(), [LOOP]);
    lab.run_with_lease(POD, 50);
    lab.assert_no_findings();
}

#[test]
fn an_operator_that_exits_while_the_api_server_is_away_is_in_no_restart_loop() {
    let outage = |lab: &mut Lab, op: &mut Op| {
        let source = SourceId::Pods;
        lab.fail_source(&source, Cause::Refused);
        lab.advance(Span::secs(90));
        lab.recover_source(&SourceId::Pods);

        op.seen(lab);
        lab.advance(Span::secs(5));

        let (started, finished) = (Some(lab.ago(Span::secs(10))), Some(lab.ago(Span::secs(7))));
        let container = op.container();
        let (reason, exit_code) = ("Error".into(), 1);
        let end = ContainerEnd { reason, exit_code, started, finished, ..ContainerEnd::default() };
        container.ended = Some(end);
        (container.restarts, container.running_since) = (container.restarts + 4, Some(lab.now));
        op.seen(lab);
    };

    let (mut lab, mut op) = Op::with_lab();
    outage(&mut lab, &mut op);
    lab.run_with_lease(POD, 5);
    lab.assert_no_findings();

    // The finding opens if the operator keeps crashing.
    let (mut lab, mut op) = Op::with_lab();
    outage(&mut lab, &mut op);
    lab.advance(Span::mins(1));
    op.crash_loop(&mut lab, 3, "Error");

    assert!(lab.has("RestartLoop"), "{:?}", lab.findings());
}

#[test]
fn restarts_of_several_pods_and_rollouts_are_no_loop() {
    let (mut lab, mut op) = Op::with_lab();
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

    // Restarts that are spread over hours are not a loop, either.
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
    let (mut lab, mut op) = Op::with_lab();

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
    let mut lab = Op::with_lab_without_pods();
    for _ in 0..4 {
        lab.advance(Span::secs(10));
        scrape(&mut lab, INSTANCE);
    }

    assert_eq!(lab.findings(), [LOOP]);
}

#[test]
fn an_operator_that_is_killed_for_its_memory_at_each_start_is_named() {
    let (mut lab, mut op) = Op::with_lab();
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
        let (mut lab, mut op) = Op::with_lab();
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
    let (mut lab, mut op) = Op::with_lab();
    op.view.pods[0].created = Some(lab.ago(Span::mins(10)));
    op.crash_loop(&mut lab, 3, "Error");
    lab.advance(Span::mins(3));

    let since = lab.since("OperatorDown");
    let mut again = lab.restart();
    op.seen(&mut again);
    again.list(&[]);

    assert_eq!(again.findings(), [LOOP]);

    again.advance(Span(59_000));
    assert!(!again.has("OperatorDown"), "a lease may show life");

    again.advance(Span::secs(1));
    assert_eq!(again.since("OperatorDown"), since);
}

/// The container runs for `runs` and ends, again and again.
fn ends_after(lab: &mut Lab, op: &mut Op, runs: Span, times: u32, reason: &str) {
    for _ in 0..times {
        lab.advance(runs);
        op.crash(lab, reason);
        lab.advance(Span::secs(2));
        op.restart(lab);
    }
}

/// The changes of restart loops.
fn loops(lab: &mut Lab) -> Vec<String> {
    lab.changes().into_iter().filter(|change| change.contains("RestartLoop")).collect()
}

#[test]
fn an_operator_that_ends_in_the_same_way_every_few_hours_is_a_ticket() {
    for (reason, hours) in [("OOMKilled", 2), ("Error", 2), ("OOMKilled", 4)] {
        let mut lab = Lab::new();
        let mut op = Op::running(&lab);
        op.seen(&mut lab);
        ends_after(&mut lab, &mut op, Span::mins(hours * 60 - 5), 5, reason);
        lab.assert_no_findings();
        ends_after(&mut lab, &mut op, Span::mins(hours * 60 - 5), 30, reason);

        assert_eq!(loops(&mut lab), [format!("Opened {LOOP}")], "{reason} {hours}");
        let found = lab.finding("RestartLoop");
        let pattern = if reason == "Error" { "exit code 2" } else { "OOMKilled" };
        assert_eq!(found.severity, Severity::Warning);
        assert!(found.summary().contains(&format!("each run ended with {pattern}")));
        assert!(found.summary().contains("window 1d"), "{}", found.summary());

        // It is no explanation of what stops the operator for longer.
        op.crash(&mut lab, reason);
        lab.advance(Span::mins(3));
        assert!(lab.roots().contains(&DOWN.to_owned()), "{:?}", lab.roots());
        assert_eq!(lab.finding("RestartLoop").severity, Severity::Warning);

        op.restart(&mut lab);
        lab.advance(Span::hours(24));
        lab.assert_no_findings();
    }
}

#[test]
fn a_finding_about_rare_ends_makes_two_restarts_no_loop() {
    let mut lab = Lab::new();
    let mut op = Op::running(&lab);
    op.seen(&mut lab);
    ends_after(&mut lab, &mut op, Span::hours(2), 7, "OOMKilled");
    ends_after(&mut lab, &mut op, Span::mins(5), 1, "OOMKilled");
    lab.advance(Span::mins(5));
    op.crash(&mut lab, "Error");
    lab.advance(Span::mins(3));

    assert!(lab.roots().contains(&DOWN.to_owned()), "{:?}", lab.roots());
    assert!(lab.finding("RestartLoop").summary().contains("window 1d"));
    assert_eq!(lab.finding("RestartLoop").severity, Severity::Warning);
}

#[test]
fn ends_that_are_rare_unlike_regular_or_of_several_pods_are_no_pattern() {
    for case in ["rare", "unlike", "regular", "rollouts", "blind"] {
        let mut lab = Lab::new();
        let mut op = Op::running(&lab);
        op.seen(&mut lab);
        for turn in 0..24 {
            let (reason, code, hours) = match case {
                "rare" => ("OOMKilled", 137, 11),
                "unlike" => (["OOMKilled", "Error", "Error"][turn % 3], turn as i32 % 3, 3),
                "regular" => ("Completed", 0, 2),
                _ => ("Error", 1, 3),
            };
            op.exit_code = code;
            match case {
                "rollouts" => {
                    let name = format!("widget-operator-{turn}-x");
                    op.view.pods[0].deleted = Some(lab.now);
                    op.crash(&mut lab, reason);
                    op.view.pods = vec![pod(&name, lab.now)];
                    op.seen(&mut lab);
                    lab.advance(Span::hours(hours));
                }
                "blind" => {
                    lab.fail_source(&SourceId::Pods, Cause::Refused);
                    lab.advance(Span::mins(1));
                    lab.recover_source(&SourceId::Pods);
                    op.crash(&mut lab, reason);
                    op.restart(&mut lab);
                    lab.advance(Span::hours(hours));
                }
                _ => ends_after(&mut lab, &mut op, Span::hours(hours), 1, reason),
            }
        }

        assert_eq!(loops(&mut lab), Vec::<String>::new(), "{case}");
    }
}

#[test]
fn a_restart_loop_leaves_no_pattern_behind() {
    let (mut lab, mut op) = Op::with_lab();
    op.crash_loop(&mut lab, 20, "OOMKilled");
    op.restart(&mut lab);
    lab.run_with_lease(POD, 61);

    lab.assert_no_findings();
}

#[test]
fn a_restart_loop_names_how_many_of_the_pods_it_affects() {
    for looping in [1, 3] {
        let mut lab = Lab::new();
        let mut op = Op::running(&lab);
        for name in ["b", "c"] {
            op.view.pods.push(pod(&format!("widget-operator-7d9f8c6b5-{name}"), lab.now));
        }

        op.workload().replicas = 3;
        op.seen(&mut lab);
        for _ in 0..3 {
            op.view.pods[..looping].iter_mut().for_each(|pod| pod.containers[0].restarts += 1);
            op.seen(&mut lab);
            lab.advance(Span::secs(20));
        }

        let summary = lab.finding("RestartLoop").summary();
        assert!(summary.contains(&format!("affected {looping} of 3 Pods")), "{summary}");
    }
}

/// The only Pod that a sidecar sees restarts again and again, while a change waits. `serves` says
/// whether another Pod acknowledges the changes of a second object, and `leads` whether it renews
/// the lease. Returns the lab, and the findings that have ever alerted.
fn restarts_alone(serves: bool, leads: bool) -> (Lab, Vec<String>) {
    let mut lab = Lab::new();
    let mut op = Op::running(&lab);
    (op.view.complete, op.view.workload) = (false, None);
    op.view.pods[0].own = true;
    op.seen(&mut lab);

    let (mut web, mut other) = (lab.converged("web"), lab.converged("other"));
    let mut alerted = Vec::new();
    for turn in 0..12 {
        op.crash(&mut lab, "Error");
        if turn == 1 {
            lab.apply(web.spec(2, lab.now));
        }

        for second in 0..24 {
            lab.advance(Span::secs(5));
            alerted.extend(
                lab.alerting().into_iter().map(|(code, severity)| format!("{code} {severity:?}")),
            );
            if leads && second % 3 == 0 {
                lab.renew(OTHER_POD);
            }
        }

        op.restart(&mut lab);
        lab.advance(Span::secs(6));
        if serves {
            lab.apply(other.spec(turn + 10, lab.now));
            lab.advance(Span::secs(2));
            lab.apply(other.ready());
        }
    }

    alerted.sort();
    alerted.dedup();
    (lab, alerted)
}

#[test]
fn a_lonely_pod_that_restarts_explains_the_changes_that_wait_for_it() {
    let (lab, alerted) = restarts_alone(false, false);
    assert_eq!(lab.roots(), [LOOP]);
    assert_eq!(lab.finding("RestartLoop").severity, Severity::Critical);
    assert!(lab.has("Unacknowledged"), "{:?}", lab.findings());
    assert_eq!(alerted, ["RestartLoop Critical", "RestartLoop Warning"], "the effect never alerts");

    // Near misses: the Pod is a standby, and another one works.
    for (serves, leads) in [(true, false), (false, true), (true, true)] {
        let (lab, _) = restarts_alone(serves, leads);
        assert_eq!(lab.finding("RestartLoop").severity, Severity::Warning, "{serves} {leads}");
    }
}
