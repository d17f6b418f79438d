//! The workers of a controller: reconciles that hang, and workers that are all busy.

use loopwatch_model::observation::{
    Answer, ControllerView, Durations, Framework, MetricsView, Observation, Probe, ProcessView,
    ProfileKind, ProfileView, WaitingStack,
};
use loopwatch_model::time::{Span, Timestamp};

use crate::lab::loops::{Loop, add};
use crate::lab::pods::INSTANCE;

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

/// 30,000 objects after the start, at the rate limit of the client.
#[test]
fn busy_workers_that_work_off_their_queue_are_not_saturated() {
    let mut own = Loop::new();
    let mut depth = 30_000;
    own.run(25 * 60, |view| {
        depth -= 199;
        (view.workers_busy, view.queue_depth) = (Some(1), Some(depth));
        add(&mut view.succeeded, 200);
    });
    own.lab.assert_no_findings();

    // The rest of the queue stands still.
    own.run(800, |view| add(&mut view.succeeded, 1));
    assert!(!own.lab.has("WorkersSaturated"));

    own.run(200, |view| add(&mut view.succeeded, 1));
    own.assert_found("WorkersSaturated");
}

#[test]
fn busy_workers_whose_queue_goes_up_and_down_or_grows_are_saturated() {
    for grows in [true, false] {
        let mut own = Loop::new();
        let mut turn = 0;
        own.run(1_800, |view| {
            turn += 1;
            let depth = if grows { turn } else { 5 + turn % 7 * 3 };
            (view.workers_busy, view.queue_depth) = (Some(1), Some(depth));
            add(&mut view.succeeded, 1);
        });
        own.assert_found("WorkersSaturated");
    }
}

/// A single worker runs one reconcile of 25 minutes while objects wait. Returns whether it was found
/// to be saturated.
fn saturated_by_one(own: &mut Loop) -> bool {
    let mut found = false;
    for _ in 0..150 {
        own.run(10, |view| (view.workers_busy, view.queue_depth) = (Some(1), Some(3)));
        found |= own.lab.has("WorkersSaturated");
    }

    own.run(10, |view| {
        (view.workers_busy, view.queue_depth) = (Some(0), Some(0));
        add(&mut view.succeeded, 4);
    });
    found
}

#[test]
fn a_usual_long_reconcile_of_a_single_worker_saturates_nothing() {
    let mut own = Loop::new();
    assert!(long_reconcile(&mut own, 30, true), "the first one is unusual");
    assert!(!saturated_by_one(&mut own), "{:?}", own.lab.findings());

    // The queue grows for longer than usual, although short reconciles end.
    let mut depth = 3;
    own.run(3_900, |view| {
        depth += 1;
        (view.workers_busy, view.queue_depth) = (Some(1), Some(depth));
        add(&mut view.succeeded, 1);
    });
    assert!(own.lab.has("WorkersSaturated"), "{:?}", own.lab.findings());
}

#[test]
fn a_long_reconcile_of_a_single_worker_that_usually_has_short_ones_saturates_it() {
    let mut own = Loop::new();
    own.run(600, |view| add(&mut view.succeeded, 5));
    assert!(saturated_by_one(&mut own));
}

/// Runs one reconcile of `minutes`, which succeeds. Returns whether it was found to hang.
fn long_reconcile(own: &mut Loop, minutes: u64, shows_running: bool) -> bool {
    let mut found = false;
    for tick in 1..=minutes * 6 {
        own.run(10, |view| {
            view.workers_busy = Some(1);
            view.longest_running_seconds = shows_running.then_some(tick as f64 * 10.0);
        });
        found |= own.lab.has("ReconcileStuck");
    }

    own.run(10, |view| {
        (view.workers_busy, view.longest_running_seconds) = (Some(0), shows_running.then_some(0.0));
        add(&mut view.succeeded, 1);
        view.reconcile_seconds.iter_mut().for_each(|all| {
            (all.count, all.sum) = (all.count + 1, all.sum + minutes as f64 * 60.0);
        });
    });

    found
}

#[test]
fn a_new_process_or_a_new_loopwatch_knows_how_long_reconciles_take() {
    for (shows_running, restarts_loopwatch) in
        [(true, false), (true, true), (false, false), (false, true)]
    {
        let mut own = if shows_running { Loop::new() } else { silent_about_running() };
        assert!(long_reconcile(&mut own, 30, shows_running), "the first one is unusual");

        if restarts_loopwatch {
            own.lab = own.lab.restart();
            own.lab.list(&[]);
        }

        // The counters of a new process begin at zero.
        (own.view.succeeded, own.view.failed) = (Some(0), Some(0));
        own.view.reconcile_seconds = Some(Durations::default());
        own.run(30, |_| {});

        let case = format!("{shows_running} {restarts_loopwatch}");
        assert!(!long_reconcile(&mut own, 30, shows_running), "{case}");
        assert!(!long_reconcile(&mut own, 55, shows_running), "{case}: less than twice as long");
        assert!(long_reconcile(&mut own, 300, shows_running), "{case}: ten times as long");
    }
}

#[test]
fn many_reconciles_that_become_slower_together_excuse_none_that_hangs() {
    let mut own = silent_about_running();
    own.run(600, |view| {
        add(&mut view.succeeded, 500);
        view.reconcile_seconds
            .iter_mut()
            .for_each(|all| (all.count, all.sum) = (all.count + 500, all.sum + 2_500.0));
    });
    own.run(650, |view| view.workers_busy = Some(1));
    own.assert_found("ReconcileStuck");
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

/// Scrapes a controller of a Go program in which a reconcile has been running for some seconds, and
/// returns the profiles that the model asks for.
fn scrape_hanging(own: &mut Loop, seconds: i64, running: f64) -> Vec<Probe> {
    let mut asked = Vec::new();
    for step in 0..seconds / 10 {
        own.lab.advance(Span::secs(10));
        own.view.longest_running_seconds = Some(running + 10.0 * step as f64);
        own.lab.scraped(MetricsView {
            instance: INSTANCE.into(),
            framework: Framework::ControllerRuntime,
            controllers: vec![own.view.clone()],
            process: ProcessView { goroutines: Some(90), ..ProcessView::default() },
            ..MetricsView::default()
        });
        asked.extend(own.lab.model.probes().into_iter().filter(is_profile));
    }

    asked
}

fn is_profile(probe: &Probe) -> bool {
    matches!(probe, Probe::Profile { .. })
}

fn waiting(functions: &[&str], reconcile: &str) -> WaitingStack {
    let functions = functions.iter().map(|name| (*name).to_owned()).collect();
    WaitingStack { functions, reconcile: reconcile.to_owned(), goroutines: 1 }
}

#[test]
fn a_profile_shows_where_a_reconcile_that_is_stuck_waits() {
    let mut own = Loop::new();
    assert_eq!(scrape_hanging(&mut own, 590, 0.0), [], "not for too long yet");

    let asked = scrape_hanging(&mut own, 60, 600.0);
    let probe = Probe::Profile { instance: INSTANCE.into(), kind: ProfileKind::Goroutines };
    assert_eq!(asked, std::slice::from_ref(&probe));
    assert!(!own.lab.evidence().contains("waits in"), "{}", own.lab.evidence());

    let cloud = ["runtime.gopark", "net/http.(*persistConn).roundTrip", "cloud.(*Client).Get"];
    let view = |from: Timestamp| ProfileView {
        instance: INSTANCE.into(),
        kind: ProfileKind::Goroutines,
        from,
        to: from.after(Span::mins(5)),
        waiting: vec![
            waiting(&["sync.(*Mutex).Lock"], "op.(*GadgetReconciler).Reconcile"),
            waiting(&cloud, "op.(*WidgetReconciler).Reconcile"),
        ],
        ..ProfileView::default()
    };
    let answer = |view| Answer::Profiled(Box::new(view));

    let earlier = answer(view(own.lab.ago(Span::hours(2))));
    own.lab.observe(Observation::Answered { probe: probe.clone(), answer: earlier });
    scrape_hanging(&mut own, 10, 660.0);
    assert!(!own.lab.evidence().contains("waits in"), "of another time: {}", own.lab.evidence());

    let now = answer(view(own.lab.now));
    own.lab.observe(Observation::Answered { probe, answer: now });
    assert_eq!(scrape_hanging(&mut own, 7200, 670.0), [], "the answer is there");

    let said = own.lab.evidence();
    let place =
        "net/http.(*persistConn).roundTrip, cloud.(*Client).Get, op.(*WidgetReconciler).Reconcile";
    assert!(said.contains(&format!("waits in {place}")), "{said}");
}
