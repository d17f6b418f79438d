//! Findings about the operator's process, and which process its signals are about.

use loopwatch_model::finding::{Confidence, FindingCode};
use loopwatch_model::observation::{Cause, MetricsView, Observation, ProcessView};
use loopwatch_model::time::Span;

use crate::lab::pods::{INSTANCE, OTHER, OTHER_POD, Op, pod};
use crate::lab::process::{MIB, Process, set_heap};
use crate::lab::{Lab, START};

#[test]
fn a_restart_of_the_container_ends_the_finding_although_the_start_is_unknown() {
    let mut operator = Process::new();
    let unknown = |operator: &mut Process, hours: f64, live: &dyn Fn(f64) -> f64| {
        operator.run(hours, |t, process| {
            process.started = None;
            set_heap(process, live(t));
        });
    };

    unknown(&mut operator, 6.0, &|_| 40.0);
    unknown(&mut operator, 2.0, &|t| 40.0 + 24.0 * t);

    assert!(operator.codes().contains(&FindingCode::HeapLeak));

    operator.see_pod(1);
    unknown(&mut operator, 0.1, &|_| 40.0);

    assert_eq!(operator.codes(), []);
}

#[test]
fn tasks_that_never_end_are_a_leak_and_a_burst_is_none() {
    let mut leak = Process::new();
    leak.run(6.0, |_, _| {})
        .run(4.0, |t, process| process.goroutines = Some(120 + (400.0 * t) as u64));

    let found = leak.finding(FindingCode::TaskLeak).expect("a leak");
    assert_eq!(found.confidence, Confidence::Confirmed);
    assert!(found.summary().contains("type goroutines"), "{}", found.summary());

    let limit = leak.finding(FindingCode::TaskLimit).expect("a threshold");
    assert_eq!((limit.confidence, limit.explained_by), (Confidence::Suspected, Some(found.id)));
    assert!(limit.summary().contains("threshold 1500"), "{}", limit.summary());

    let mut burst = Process::new();
    burst
        .run(6.0, |_, _| {})
        .run(0.4, |_, process| process.goroutines = Some(700))
        .run(2.0, |_, _| {});

    assert_eq!(burst.codes(), []);
}

#[test]
fn more_goroutines_than_ever_beyond_the_highest_threshold_are_certain() {
    let always = |days: f64, usual: u64, then: u64| {
        let mut operator = Process::new();
        operator.run(days * 24.0, move |_, process| process.goroutines = Some(usual));
        operator.run(0.5, move |_, process| process.goroutines = Some(then));
        operator.finding(FindingCode::TaskLimit).map(|found| found.confidence)
    };

    assert_eq!(always(2.0, 400, 3_000), Some(Confidence::Confirmed));
    assert_eq!(always(2.0, 2_950, 3_000), Some(Confidence::Suspected), "as many as always");
    assert_eq!(always(2.0, 400, 2_000), Some(Confidence::Suspected), "not the highest threshold");
    assert_eq!(always(0.0, 400, 3_000), Some(Confidence::Suspected), "nothing is known");
}

#[test]
fn descriptors_that_are_never_closed_are_a_leak_and_so_are_most_of_the_limit() {
    let mut leak = Process::new();
    leak.run(6.0, |_, _| {}).run(4.0, |t, process| process.open_fds = Some(20 + (80.0 * t) as u64));

    let found = leak.finding(FindingCode::FileDescriptorLeak).expect("a leak");
    assert!(found.summary().contains("limit 1024"), "{}", found.summary());

    let mut full = Process::new();
    full.run(0.1, |_, process| process.open_fds = Some(800));

    assert_eq!(full.codes(), [], "78 %");

    full.run(0.1, |_, process| process.open_fds = Some(850));
    assert_eq!(full.codes(), [FindingCode::FileDescriptorLeak]);
}

#[test]
fn an_instance_that_is_gone_has_no_findings_and_a_failing_scrape_changes_none() {
    let mut operator = Process::new();
    operator.heap(6.0, |_| 40.0).heap(2.0, |t| 40.0 + 24.0 * t);

    let (instance, detail) = (INSTANCE.to_owned(), String::new());
    operator.lab.observe(Observation::ScrapeFailed { instance, cause: Cause::Timeout, detail });
    operator.lab.advance(Span::hours(2));

    assert!(operator.codes().contains(&FindingCode::HeapLeak));

    let mut op = Op::running(&operator.lab);
    op.view.pods.clear();
    op.seen(&mut operator.lab);

    assert_eq!(operator.codes(), []);
    assert_eq!(operator.lab.snapshot().trends, []);
}

#[test]
fn the_kernel_does_not_take_the_place_of_metrics_that_are_missing_for_a_while() {
    let mut operator = Process::new();
    operator.heap(6.0, |_| 40.0).heap(2.0, |t| 40.0 + 24.0 * t);
    for _ in 0..20 {
        operator.lab.advance(Span::secs(30));
        operator.see_process(operator.started);

        assert!(operator.codes().contains(&FindingCode::HeapLeak));
    }

    // Without any metrics, the kernel's figures are enough.
    let mut bare = Process::new();
    bare.run(6.0, |_, process| (process.live_heap, process.anonymous) = (None, Some(60 << 20)));
    bare.run(2.0, |t, process| {
        (process.live_heap, process.anonymous) = (None, Some(((60.0 + 50.0 * t) * MIB) as u64));
    });

    let leak = bare.finding(FindingCode::HeapLeak).expect("a leak");
    assert!(leak.summary().contains("signal memory"), "{}", leak.summary());
}

#[test]
fn a_step_of_the_clock_keeps_the_trends() {
    let mut operator = Process::new();
    operator.heap(6.0, |_| 40.0).heap(1.0, |t| 40.0 + 24.0 * t);

    let by_ms = 3_600_000;
    operator.lab.now = operator.lab.now.after(Span(by_ms));
    operator.lab.observe(Observation::ClockStepped { by_ms });
    operator.heap(1.0, |t| 64.0 + 24.0 * t);

    assert!(operator.codes().contains(&FindingCode::HeapLeak), "{:?}", operator.codes());
}

#[test]
fn a_step_of_the_clock_is_no_restart_of_the_process_that_the_kernel_shows() {
    let mut operator = Process::new();
    operator.see_process(START);
    operator.heap(6.0, |_| 40.0).heap(1.5, |t| 40.0 + 24.0 * t);

    assert!(operator.codes().contains(&FindingCode::HeapLeak), "{:?}", operator.codes());

    let by_ms = 3_600_000;
    operator.lab.now = operator.lab.now.after(Span(by_ms));
    operator.lab.observe(Observation::ClockStepped { by_ms });
    operator.see_process(START.after(Span(by_ms)));
    operator.heap(0.1, |t| 76.0 + 24.0 * t);

    assert!(operator.codes().contains(&FindingCode::HeapLeak), "{:?}", operator.codes());
}

#[test]
fn a_node_with_another_clock_than_the_api_server_hides_no_leak_and_restarts_nothing() {
    for skew in [Span::mins(-10), Span::mins(10)] {
        let mut operator = Process::new();
        operator.lab.observe(Observation::OperatorSeen(Box::default())); // its Pod is not visible
        operator.started = START.after(skew);

        let live = |hours: f64| 40.0 + 24.0 * (hours - 6.0).max(0.0);
        for minute in 0..480 {
            operator.see_process(START);
            operator.heap(1.0 / 60.0, |t| live(f64::from(minute) / 60.0 + t));
        }

        assert_eq!(operator.codes(), [FindingCode::HeapLeak], "{skew:?}");

        let instance = operator.lab.snapshot().operator.instances.remove(0);
        assert_eq!(instance.process.started, Some(START), "{skew:?}");
        assert!(
            instance.process.live_heap.is_some() && instance.process.threads == Some(9),
            "{skew:?}"
        );
    }
}

#[test]
fn the_metrics_of_an_earlier_process_show_nothing_about_the_next_one() {
    let mut operator = Process::new();
    let leaking = |_, process: &mut ProcessView| process.goroutines = Some(3_000);
    operator.see_process(operator.started);
    operator.run(1.0, leaking);

    assert!(operator.codes().contains(&FindingCode::TaskLimit));

    operator.lab.advance(Span::secs(30));
    operator.see_process(operator.started);

    assert!(operator.codes().contains(&FindingCode::TaskLimit), "the same process");

    operator.lab.advance(Span::secs(30));
    operator.see_process(operator.lab.ago(Span::secs(5)));

    assert_eq!(operator.codes(), []);

    let process = operator.lab.snapshot().operator.instances.remove(0).process;
    assert_eq!((process.goroutines, process.threads), (None, Some(9)));
}

#[test]
fn metrics_that_cannot_be_scraped_any_more_show_nothing_about_the_process() {
    let shown = |operator: &Process| operator.lab.snapshot().operator.instances.remove(0).process;
    let mut operator = Process::new();
    operator.heap(1.0, |_| 40.0);

    assert!(shown(&operator).live_heap.is_some());

    operator.lab.scrape_fails(INSTANCE, Cause::Timeout);
    assert_eq!((shown(&operator).live_heap, shown(&operator).resident), (None, None));
    assert_eq!(shown(&operator).instance, INSTANCE);

    operator.see_process(operator.started);
    assert_eq!((shown(&operator).live_heap, shown(&operator).resident), (None, Some(220 << 20)));

    operator.heap(0.1, |_| 40.0);
    assert!(shown(&operator).live_heap.is_some());
}

#[test]
fn an_instance_whose_pod_is_gone_is_not_shown() {
    let shown = |lab: &Lab| -> Vec<String> {
        lab.snapshot().operator.instances.into_iter().map(|instance| instance.name).collect()
    };
    let mut lab = Lab::new();
    let mut op = Op::running(&lab);

    op.view.pods.push(pod(OTHER_POD, lab.now));
    op.seen(&mut lab);
    for instance in [INSTANCE, OTHER, "127.0.0.1:8080"] {
        lab.scraped(MetricsView { instance: instance.to_owned(), ..MetricsView::default() });
    }

    op.view.pods.pop();
    op.view.complete = false;
    op.seen(&mut lab);

    assert_eq!(shown(&lab).len(), 3, "a Pod that loopwatch may not see");

    op.view.complete = true;
    op.seen(&mut lab);

    assert_eq!(shown(&lab), ["127.0.0.1:8080", INSTANCE]);
}

#[test]
fn a_step_of_the_clock_of_the_operators_node_keeps_the_trends() {
    let mut operator = Process::new();
    operator.heap(6.0, |_| 40.0);
    for step in 0..8 {
        operator.started = operator.started.after(Span::secs(5));
        let from = 40.0 + f64::from(step) * 6.0;
        operator.heap(0.25, |t| from + 24.0 * t);
    }

    assert!(operator.codes().contains(&FindingCode::HeapLeak), "{:?}", operator.codes());
}

#[test]
fn without_signals_nothing_is_known() {
    let mut operator = Process::new();
    operator.run(3.0, |_, process| {
        *process = ProcessView { instance: INSTANCE.to_owned(), ..ProcessView::default() }
    });

    assert_eq!(operator.codes(), []);
    assert_eq!(operator.lab.snapshot().trends, []);
}
