//! The control loops of the operator, as its metrics show them: its reconciles, workers and queues.

mod lab;

use lab::loops::{Loop, add};
use lab::pods::{INSTANCE, OTHER, OTHER_POD, Op, POD, pod};
use lab::{Lab, START, Widget};
use loopwatch_model::finding::{Confidence, Severity};
use loopwatch_model::observation::{
    ControllerView, Durations, LeaseView, MetricsView, Observation, ProcessView,
};
use loopwatch_model::settings::Settings;
use loopwatch_model::time::{Span, Timestamp};

#[test]
fn a_controller_that_only_fails_is_found_and_one_success_ends_it() {
    let mut own = Loop::new();
    own.run(300, |view| add(&mut view.failed, 1));

    assert_eq!(own.lab.roots(), ["ReconcileErrors controller widget"], "not long enough");

    own.run(10, |view| add(&mut view.failed, 1));
    assert_eq!(own.lab.roots(), ["ReconcileFailing controller widget"]);

    let summary = own.lab.finding("ReconcileFailing").summary();
    assert!(summary.contains("errors 31") && summary.contains("conflicts 0"), "{summary}");

    own.run(10, |view| add(&mut view.succeeded, 1));
    assert_eq!(own.lab.findings(), ["ReconcileErrors controller widget"]);

    own.run(300, |view| add(&mut view.succeeded, 1));
    own.lab.assert_no_findings();
}

#[test]
fn three_errors_in_a_row_are_enough_however_slowly_they_come() {
    let mut own = Loop::new();
    for _ in 0..3 {
        own.run(10, |view| add(&mut view.failed, 1));
        own.run(200, |_| {});
    }

    own.assert_found("ReconcileFailing");
    own.run(20 * 60, |_| {});
    own.lab.assert_no_findings();
}

#[test]
fn errors_beside_successes_are_only_information() {
    let mut own = Loop::new();
    own.run(1_200, |view| {
        add(&mut view.failed, 1);
        add(&mut view.succeeded, 5);
    });
    own.assert_found("ReconcileErrors");

    assert_eq!(own.lab.finding("ReconcileErrors").severity, Severity::Info);
}

#[test]
fn two_errors_or_unknown_successes_show_nothing() {
    let mut own = Loop::new();
    own.run(10, |view| add(&mut view.failed, 2));
    own.run(1_200, |_| {});
    own.lab.assert_no_findings();

    let mut own = Loop::new();
    own.view.succeeded = None;
    own.run(1_200, |view| add(&mut view.failed, 1));

    assert!(!own.lab.has("ReconcileFailing"), "nothing shows whether others succeed");
}

#[test]
fn conflicts_are_counted_apart_and_raise_no_alert_alone() {
    let mut own = Loop::new();
    let mut conflicts = 7;
    for _ in 0..40 {
        own.lab.advance(Span::secs(10));
        add(&mut own.view.failed, 1);
        conflicts += 1;
        own.lab.scraped(MetricsView {
            instance: INSTANCE.into(),
            controllers: vec![own.view.clone()],
            requests: vec![("200".into(), 10_000 + conflicts * 10), ("409".into(), conflicts)],
            ..MetricsView::default()
        });
    }

    let finding = own.lab.finding("ReconcileFailing");
    assert_eq!(finding.confidence, Confidence::Suspected, "{}", finding.summary());
}

#[test]
fn suspended_objects_are_named_beside_the_errors() {
    let mut own = Loop::new();
    let mut widget = Widget::new("web", own.lab.now);
    widget.paused = true;
    own.lab.apply(&widget);
    own.run(400, |view| add(&mut view.failed, 1));

    let summary = own.lab.finding("ReconcileFailing").summary();
    assert!(summary.contains("skipped objects 1"), "{summary}");
}

#[test]
fn a_reset_of_the_counters_is_no_burst_of_errors() {
    let mut own = Loop::new();
    own.run(10, |view| (view.failed, view.succeeded) = (Some(0), Some(0)));
    own.run(1_200, |_| {});
    own.lab.assert_no_findings();

    // Errors that a new process counts are new ones.
    own.run(10, |view| (view.failed, view.succeeded) = (Some(3), Some(0)));
    own.run(310, |_| {});
    own.assert_found("ReconcileFailing");
}

#[test]
fn a_step_of_the_clock_of_the_operators_node_is_no_new_process() {
    // The start of a process in its metrics follows the clock of its node.
    let mut lab = Lab::new();
    let scrape = |lab: &mut Lab, started: Timestamp, panicked: u64| {
        lab.advance(Span::secs(10));
        let (name, succeeded) = ("widget".into(), Some(10_000));
        lab.scraped(MetricsView {
            instance: INSTANCE.into(),
            controllers: vec![ControllerView {
                name,
                succeeded,
                panicked: Some(panicked),
                ..ControllerView::default()
            }],
            requests: vec![("200".into(), 100), ("503".into(), 80)],
            process: ProcessView { started: Some(started), ..ProcessView::default() },
            ..MetricsView::default()
        });
    };

    let started = lab.ago(Span::hours(720));
    for step in 0..60 {
        scrape(&mut lab, started.after(Span::secs(step / 10 * 5)), 2);
        lab.assert_no_findings();
    }

    // What a new process has counted is new, although it is more than the old one had counted.
    let started = lab.now;
    scrape(&mut lab, started, 3);

    assert!(lab.finding("ReconcilePanicking").summary().contains("panics 3"));
}

#[test]
fn a_reconcile_that_runs_for_too_long_is_stuck() {
    let mut own = Loop::new();
    let mut running = 0.0;
    own.run(600, |view| {
        running += 10.0;
        view.longest_running_seconds = Some(running);
    });
    own.lab.assert_no_findings();

    let began = own.lab.ago(Span::mins(10));
    own.run(10, |view| view.longest_running_seconds = Some(610.0));
    own.assert_found("ReconcileStuck");

    assert_eq!(own.lab.since("ReconcileStuck"), began);

    own.run(10, |view| view.longest_running_seconds = Some(0.0));
    own.lab.assert_no_findings();
}

/// Frameworks such as the Java Operator SDK do not say how long a reconcile has been running.
fn silent_about_running() -> Loop {
    let mut own = Loop::new();
    (own.view.longest_running_seconds, own.view.workers_max) = (None, None);
    own.run(20, |_| {});
    own
}

#[test]
fn workers_that_are_busy_while_no_reconcile_ends_are_stuck() {
    let mut own = silent_about_running();
    own.run(610, |view| view.workers_busy = Some(1));
    own.lab.assert_no_findings();

    let began = own.lab.ago(Span::mins(10));
    own.run(10, |view| view.workers_busy = Some(2)); // further ones begin
    own.assert_found("ReconcileStuck");

    assert_eq!(own.lab.since("ReconcileStuck"), began);

    // The reconcile ends, and is much longer than the others.
    own.run(10, |view| view.reconcile_seconds = Some(Durations { count: 1_006, sum: 730.0 }));
    own.lab.assert_no_findings();
}

#[test]
fn busy_workers_whose_reconciles_end_are_not_stuck() {
    let mut own = silent_about_running();
    own.run(3_000, |view| {
        view.workers_busy = Some(1);
        view.reconcile_seconds
            .iter_mut()
            .for_each(|all| (all.count, all.sum) = (all.count + 1, all.sum + 9.0));
    });
    own.lab.assert_no_findings();

    // At one scrape, no worker was busy.
    own.run(300, |view| view.workers_busy = Some(1));
    own.run(10, |view| view.workers_busy = Some(0));
    own.run(580, |view| view.workers_busy = Some(1));
    own.lab.assert_no_findings();

    // Nothing shows whether reconciles end.
    own.view.reconcile_seconds = None;
    own.run(1_800, |view| view.workers_busy = Some(1));
    own.lab.assert_no_findings();
}

#[test]
fn a_controller_with_long_reconciles_has_more_time() {
    let mut own = Loop::new();
    own.view.reconcile_seconds = Some(Durations { count: 10, sum: 6_000.0 });
    own.run(10, |view| view.longest_running_seconds = Some(2_900.0));
    own.lab.assert_no_findings();
    own.run(10, |view| view.longest_running_seconds = Some(3_010.0));
    own.assert_found("ReconcileStuck");
}

#[test]
fn a_controller_that_succeeds_after_a_long_reconcile_may_take_as_long_again() {
    // Most reconciles take a tenth of a second, but the creation of a cluster takes half an hour.
    let creation = |own: &mut Loop, succeeds: bool| {
        let mut found = false;
        let mut running = 0.0;
        for _ in 0..180 {
            own.run(10, |view| {
                running += 10.0;
                view.longest_running_seconds = Some(running);
                add(&mut view.succeeded, 0);
            });
            found |= own.lab.has("ReconcileStuck");
        }

        own.run(10, |view| {
            view.longest_running_seconds = Some(0.0);
            add(if succeeds { &mut view.succeeded } else { &mut view.failed }, 1);
        });

        found
    };

    let mut own = Loop::new();
    assert!(creation(&mut own, true), "the first one is unusual");
    assert!(!creation(&mut own, true), "the second one is not");

    own.run(10, |view| view.longest_running_seconds = Some(3_700.0));
    assert!(own.lab.has("ReconcileStuck"), "twice as long is");

    let mut hangs = Loop::new();
    assert!(creation(&mut hangs, false));
    assert!(creation(&mut hangs, false), "one that ends with an error has waited in vain");

    hangs.run(10, |view| view.longest_running_seconds = Some(3_700.0));
    hangs.run(10, |view| (view.longest_running_seconds, view.succeeded) = (Some(0.0), Some(1)));

    assert!(creation(&mut hangs, false), "a restart has ended it");
}

#[test]
fn busy_workers_are_saturated_only_while_objects_wait() {
    let busy =
        |view: &mut ControllerView| (view.workers_busy, view.queue_depth) = (Some(1), Some(3));
    let mut own = Loop::new();
    own.run(900, busy);
    own.lab.assert_no_findings();
    own.run(10, busy);
    own.assert_found("WorkersSaturated");
    own.run(10, |view| view.queue_depth = Some(0));

    own.lab.assert_no_findings();
    let mut near = Loop::new();
    near.run(3_600, |view| (view.workers_busy, view.queue_depth) = (Some(1), Some(0)));
    near.lab.assert_no_findings();

    let mut turn = 0;
    near.run(3_600, |view| {
        turn += 1;
        (view.workers_busy, view.queue_depth) = (Some(u64::from(turn % 30 != 0)), Some(1));
    });
    near.lab.assert_no_findings();
}

#[test]
fn a_long_queue_is_a_backlog_unless_it_shrinks() {
    let mut own = Loop::new();
    own.run(120, |view| view.queue_depth = Some(501));
    own.lab.assert_no_findings();
    own.run(10, |view| view.queue_depth = Some(501));
    own.assert_found("QueueBacklog");
    own.run(10, |view| view.queue_depth = Some(500));
    own.lab.assert_no_findings();

    let mut start = Loop::new();
    let mut depth = 50_000;
    start.run(600, |view| {
        depth = depth * 9 / 10;
        view.queue_depth = Some(depth);
    });
    start.lab.assert_no_findings();
}

#[test]
fn a_queue_that_grows_for_an_hour_is_a_backlog_although_it_is_short() {
    let mut own = Loop::new();
    let mut turn = 0;
    own.run(4_200, |view| {
        turn += 1;
        view.queue_depth = Some(turn / 3);
    });
    own.assert_found("QueueBacklog");

    let mut wave = Loop::new();
    let mut turn = 0;
    wave.run(10_000, |view| {
        turn += 1;
        view.queue_depth = Some(if turn % 200 < 100 { turn % 200 } else { 200 - turn % 200 });
    });
    wave.lab.assert_no_findings();
}

#[test]
fn panics_are_found_at_once_and_forgotten_after_the_window() {
    let mut own = Loop::new();
    own.run(10, |view| add(&mut view.panicked, 1));
    own.assert_found("ReconcilePanicking");
    own.run(3_600, |view| add(&mut view.succeeded, 1));
    own.lab.assert_no_findings();
}

#[test]
fn short_and_long_windows_forget_little_at_once() {
    let settings = Settings {
        reconcile_failing_after: Span::mins(1),
        reconcile_errors: 5,
        ..Settings::default()
    };
    let mut own = Loop::with(settings);

    own.run(600, |view| {
        add(&mut view.failed, 1);
        add(&mut view.succeeded, 1);
    });
    own.assert_found("ReconcileErrors");

    assert_eq!(own.lab.changes().len(), 1, "it does not close and open again");

    let mut own = Loop::with(Settings { restart_window: Span::hours(24), ..Settings::default() });
    for _ in 0..200 {
        own.run(10, |view| add(&mut view.panicked, 1));
        own.run(590, |view| add(&mut view.succeeded, 1));
    }

    let summary = own.lab.finding("ReconcilePanicking").summary();
    assert!(summary.contains("panics 144") || summary.contains("panics 143"), "{summary}");
}

#[test]
fn one_stuck_worker_is_one_alert() {
    let mut own = Loop::new();
    let mut running = 0.0;
    own.run(1_000, |view| {
        running += 10.0;
        view.longest_running_seconds = Some(running);
        (view.workers_busy, view.queue_depth) = (Some(1), Some(600));
    });

    assert_eq!(own.lab.roots(), ["ReconcileStuck controller widget"]);
    assert_eq!(own.lab.findings().len(), 3, "{:?}", own.lab.findings());
}

#[test]
fn objects_that_wait_while_no_reconcile_has_begun_show_an_informer_that_does_not_sync() {
    let scrape = |lab: &mut Lab, started: Timestamp, succeeded: u64, depth: u64| {
        let controller = ControllerView {
            name: "widget".into(),
            succeeded: Some(succeeded),
            failed: Some(0),
            workers_busy: Some(0),
            queue_depth: Some(depth),
            ..ControllerView::default()
        };
        lab.scraped(MetricsView {
            instance: INSTANCE.into(),
            controllers: vec![controller],
            process: ProcessView { started: Some(started), ..ProcessView::default() },
            ..MetricsView::default()
        });
    };
    for (succeeded, depth, found) in [(0, 3, true), (0, 0, false), (1, 3, false)] {
        let mut lab = Lab::new();
        let started = lab.now;
        for _ in 0..35 {
            lab.advance(Span::secs(10));
            scrape(&mut lab, started, succeeded, depth);
        }

        lab.assert_no_findings();
        for _ in 0..2 {
            lab.advance(Span::secs(10));
            scrape(&mut lab, started, succeeded, depth);
        }

        assert_eq!(lab.has("InformerNotSynced"), found, "{succeeded} {depth}");
    }
}

#[test]
fn a_standby_that_takes_over_has_time_to_fill_its_caches() {
    let (mut lab, started) = (Lab::new(), START);
    let run = |lab: &mut Lab, seconds: i64, leads: bool, succeeded: u64| {
        for _ in 0..seconds / 10 {
            lab.advance(Span::secs(10));
            let controller = ControllerView {
                name: "widget".into(),
                succeeded: Some(succeeded),
                queue_depth: Some(if leads { 40 } else { 0 }),
                ..ControllerView::default()
            };

            lab.scraped(MetricsView {
                instance: INSTANCE.into(),
                controllers: vec![controller],
                leading: Some(leads),
                process: ProcessView { started: Some(started), ..ProcessView::default() },
                ..MetricsView::default()
            });
        }
    };

    run(&mut lab, 3_600, false, 0);
    run(&mut lab, 300, true, 0);
    lab.assert_no_findings();
    run(&mut lab, 100, true, 0);

    assert!(lab.has("InformerNotSynced"));

    run(&mut lab, 10, true, 1);
    lab.assert_no_findings();
}

#[test]
fn only_the_leader_is_judged() {
    let scrape = |lab: &mut Lab, instance: &str, leading: Option<bool>, depth: u64| {
        let controller = ControllerView {
            name: "widget".into(),
            queue_depth: Some(depth),
            ..ControllerView::default()
        };
        let controllers = vec![controller];

        lab.scraped(MetricsView {
            instance: instance.into(),
            controllers,
            leading,
            ..MetricsView::default()
        });
    };

    // (what the first and the second instance say, the holder of the lease, whether the first one
    // counts)
    let cases = [
        (Some(true), Some(false), None, true),
        (Some(false), Some(true), None, false),
        (Some(false), Some(false), None, false),
        (None, None, Some(POD), true),
        (None, None, Some(OTHER_POD), false),
        (None, None, None, true),
    ];

    for (first, second, holder, counts) in cases {
        let mut lab = Lab::new();
        let mut op = Op::running(&lab);
        op.view.pods.push(pod(OTHER_POD, lab.ago(Span::hours(1))));
        op.seen(&mut lab);

        for _ in 0..30 {
            lab.advance(Span::secs(10));
            holder.into_iter().for_each(|holder| lab.renew(holder));
            scrape(&mut lab, INSTANCE, first, 600);
            scrape(&mut lab, OTHER, second, 0);
        }

        assert_eq!(
            lab.has("QueueBacklog"),
            counts,
            "{first:?} {second:?} {holder:?}: {:?}",
            lab.findings()
        );
    }
}

#[test]
fn a_standby_is_not_judged_although_its_leader_is_not_scraped() {
    // A sidecar scrapes only its own Pod. The queue of a standby may fill, because its handlers run
    // already.
    for (holder, renews, judged) in
        [(OTHER_POD, true, false), (POD, true, true), (OTHER_POD, false, true)]
    {
        let mut lab = Lab::new();
        let mut op = Op::running(&lab);
        op.view.pods.push(pod(OTHER_POD, lab.ago(Span::hours(1))));
        op.seen(&mut lab);
        lab.renew(OTHER_POD); // a lease that nobody renews any more shows nothing
        lab.advance(Span::mins(10));

        for _ in 0..30 {
            lab.advance(Span::secs(10));
            if renews {
                lab.renew(holder);
            }

            let queue_depth = Some(600);
            lab.scrape(
                INSTANCE,
                ControllerView { name: "widget".into(), queue_depth, ..ControllerView::default() },
            );
        }

        assert_eq!(lab.has("QueueBacklog"), judged, "{holder} {renews}: {:?}", lab.findings());
    }
}

#[test]
fn a_pod_that_holds_one_of_several_leases_is_judged_all_the_time() {
    let mut lab = Lab::new();
    let mut op = Op::running(&lab);
    op.view.pods.push(pod(OTHER_POD, lab.ago(Span::hours(1))));
    op.seen(&mut lab);

    for turn in 0..60 {
        let leases = [("a.example.io", POD, INSTANCE, 600), ("b.example.io", OTHER_POD, OTHER, 0)];
        for (name, holder, instance, depth) in leases {
            lab.advance(Span::secs(5));
            lab.observe(Observation::LeaseSeen(LeaseView {
                namespace: "ops".into(),
                name: name.into(),
                holder: format!("{holder}_1"),
                renewed: Some(lab.now),
                written: Some(lab.now),
                ..LeaseView::default()
            }));

            let controller = ControllerView {
                name: name.into(),
                queue_depth: Some(depth),
                ..ControllerView::default()
            };

            lab.scrape(instance, controller);
            assert_eq!(lab.has("QueueBacklog"), turn > 11, "{turn}");
        }
    }
}

#[test]
fn metrics_that_stop_show_nothing_any_more_after_half_an_hour() {
    let mut own = Loop::new();
    own.run(200, |view| view.queue_depth = Some(600));
    own.lab.advance(Span(Span::mins(30).0 - 1));
    own.assert_found("QueueBacklog");
    own.lab.advance(Span(1));
    own.lab.assert_no_findings();

    // A state without an open finding is not continued over a gap.
    own.run(60, |view| view.queue_depth = Some(600));
    own.lab.assert_no_findings();
    own.lab.advance(Span::mins(6));
    own.run(60, |view| view.queue_depth = Some(600));
    own.lab.assert_no_findings();
}

#[test]
fn a_finding_lasts_from_one_scrape_to_the_next_however_rare_they_are() {
    let interval = Span::mins(25); // an operator that needs 15 s for its metrics
    let mut own = Loop::new();
    let scrape = |own: &mut Loop| {
        own.view.longest_running_seconds = Some(3_600.0);
        let controllers = vec![own.view.clone()];
        own.lab.scraped(MetricsView {
            instance: INSTANCE.into(),
            controllers,
            interval,
            ..MetricsView::default()
        });
    };

    scrape(&mut own);
    own.assert_found("ReconcileStuck");
    own.lab.changes();

    for _ in 0..3 {
        own.lab.advance(Span(interval.0 - 1));
        own.assert_found("ReconcileStuck");
        own.lab.advance(Span(1));
        scrape(&mut own);
    }

    assert!(own.lab.changes().is_empty(), "one alert, not one per scrape");

    own.lab.advance(Span::mins(50));
    own.lab.assert_no_findings();
}

#[test]
fn nothing_is_known_about_a_framework_without_signals() {
    let mut lab = Lab::new();
    for _ in 0..400 {
        lab.advance(Span::secs(30));
        lab.scrape(INSTANCE, ControllerView { name: "widget".into(), ..ControllerView::default() });
        lab.scraped(MetricsView { instance: OTHER.into(), ..MetricsView::default() });
    }

    lab.assert_no_findings();
}

#[test]
fn a_step_of_the_clock_changes_no_duration() {
    for by in [Span::hours(2), Span::hours(-2)] {
        let mut own = Loop::new();
        own.run(110, |view| view.queue_depth = Some(600));
        own.lab.step_clock(by);
        own.run(10, |view| view.queue_depth = Some(600));
        own.lab.assert_no_findings();
        own.run(10, |view| view.queue_depth = Some(600));
        own.assert_found("QueueBacklog");
        own.run(10, |view| add(&mut view.panicked, 1));

        own.lab.step_clock(by);
        own.run(600, |view| view.queue_depth = Some(0));
        own.assert_found("ReconcilePanicking");
    }
}
