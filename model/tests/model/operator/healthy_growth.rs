//! Growth of the operator's process that is no leak, each beside a leak that looks like it for a
//! while.

use std::f64::consts::TAU;

use loopwatch_model::finding::{Confidence, FindingCode};
use loopwatch_model::observation::{Observation, ProcessView, Runtime};
use loopwatch_model::time::Span;

use crate::lab::process::{MIB, Process, set_heap};

/// The interval between scrapes of these long runs.
const MINUTE: Span = Span::mins(1);

/// The hours of a process per step, after which the findings are looked at.
const STEP: f64 = 0.5;

/// Runs for some hours. `change` sets signals by the hours since midnight of the first day. Returns
/// the confirmed findings that were open at the end of any step.
fn confirmed(
    operator: &mut Process,
    hours: f64,
    change: impl Fn(f64, &mut ProcessView),
) -> Vec<FindingCode> {
    let mut found = Vec::new();
    for _ in 0..(hours / STEP).round() as usize {
        let from = operator.lab.now.since(crate::lab::START).seconds() / 3600.0;
        operator.run_every(MINUTE, STEP, |t, process| change(from + t, process));

        let open = operator.lab.snapshot().findings;
        let open = open.iter().filter(|finding| finding.confidence == Confidence::Confirmed);
        found.extend(open.map(|finding| finding.code));
    }

    found.retain(|code| *code != FindingCode::TaskLimit && *code != FindingCode::MemoryLarge);
    found.sort_unstable();
    found.dedup();
    found
}

/// 600 goroutines at night, 1,400 at noon.
fn clients(t: f64) -> f64 {
    1000.0 - 400.0 * (TAU * t / 24.0).cos()
}

fn goroutines(process: &mut ProcessView, count: f64) {
    process.goroutines = Some(count as u64);
}

#[test]
fn goroutines_that_nobody_sees_for_a_while_are_no_threads() {
    // Threads are 9, so they would end a leak, and their end would begin one.
    let blind = |operator: &mut Process, minutes: i64| {
        for _ in 0..minutes * 2 {
            operator.lab.advance(Span::secs(30));
            operator.see_process(operator.started);
        }
    };

    let mut leak = Process::new();
    leak.see_process(leak.started);
    leak.run(6.0, |_, _| {}).run(4.0, |t, process| goroutines(process, 120.0 + 400.0 * t));
    let since = leak.finding(FindingCode::TaskLeak).expect("a leak").since;

    blind(&mut leak, 20);
    assert_eq!(leak.finding(FindingCode::TaskLeak).expect("the leak").since, since);
    assert!(leak.finding(FindingCode::TaskLimit).is_some());

    leak.run(0.5, |_, process| goroutines(process, 1750.0));
    assert_eq!(leak.finding(FindingCode::TaskLeak).expect("the leak").since, since);

    leak.run(0.1, |_, process| goroutines(process, 120.0));
    assert!(leak.finding(FindingCode::TaskLeak).is_none(), "the leak is undone");

    let mut healthy = Process::new();
    healthy.see_process(healthy.started);
    healthy.run(3.0, |_, process| goroutines(process, 600.0));
    blind(&mut healthy, 30);

    for _ in 0..12 {
        healthy.run(0.5, |_, process| goroutines(process, 600.0));
        assert_eq!(healthy.codes(), []);
    }
}

#[test]
fn a_leak_stands_after_hours_without_samples_until_a_window_shows_no_growth() {
    let leaking = || {
        let mut operator = Process::new();
        operator.heap(6.0, |_| 40.0).heap(2.0, |t| 40.0 + 24.0 * t);
        assert!(operator.finding(FindingCode::HeapLeak).is_some());
        operator.lab.advance(Span::hours(3));
        operator
    };

    let mut goes_on = leaking();
    for step in 0..12 {
        let from = 90.0 + 5.0 * f64::from(step);
        goes_on.heap(0.25, |t| from + 20.0 * t);
        assert!(goes_on.finding(FindingCode::HeapLeak).is_some(), "{step}");
    }

    let mut undone = leaking();
    undone.heap(0.1, |_| 40.0);
    assert!(undone.finding(FindingCode::HeapLeak).is_none());

    let mut stops = leaking();
    stops.heap(0.5, |_| 88.0);
    assert!(stops.finding(FindingCode::HeapLeak).is_some(), "nobody knows yet");
    stops.heap(7.0, |_| 88.0);
    assert!(stops.finding(FindingCode::HeapLeak).is_none());
}

#[test]
fn a_forecast_of_exhaustion_stands_while_the_metrics_are_missing() {
    let mut operator = Process::new();
    let resident = |process: &mut ProcessView, mib: f64| {
        (process.live_heap, process.heap_goal) = (None, None);
        process.resident = Some((mib * MIB) as u64);
    };
    operator.run(2.0, |_, process| resident(process, 150.0));
    operator.run(1.5, |t, process| resident(process, 150.0 + 45.0 * t));
    assert!(operator.finding(FindingCode::MemoryExhaustionPredicted).is_some());

    operator.lab.advance(Span::mins(20));
    operator.run(0.2, |t, process| resident(process, 230.0 + 45.0 * t));
    assert!(operator.finding(FindingCode::MemoryExhaustionPredicted).is_some());

    operator.run(0.1, |_, process| resident(process, 150.0));
    assert!(operator.finding(FindingCode::MemoryExhaustionPredicted).is_none());
}

#[test]
fn a_jvm_that_fills_its_memory_up_to_the_limit_of_its_heap_is_no_leak() {
    // Without the heap after a collection, garbage and data look alike.
    let fills = |limit: Option<u64>, most: f64| {
        let mut operator = Process::new();
        confirmed(&mut operator, 24.0, |t, process| {
            (process.runtime, process.live_heap, process.heap_goal) = (Runtime::Jvm, None, None);
            (process.gc_percent, process.goroutines) = (None, None);
            process.threads = Some(40);
            process.runtime_limit = limit.map(|limit| limit << 20);
            process.resident = Some(((70.0 + 12.0 * t).min(most) * MIB) as u64);
        })
    };

    assert_eq!(fills(Some(128), 150.0), [], "-Xmx128m");
    assert_eq!(fills(Some(160), 215.0), [], "a percentage of the limit of the container");
    assert_eq!(fills(None, 215.0), [], "nothing tells the limit");

    // Memory outside the heap has no such limit.
    assert!(fills(Some(64), 250.0).contains(&FindingCode::HeapLeak));
}

#[test]
fn a_jvm_that_grows_beyond_what_it_has_held_for_a_day_leaks() {
    let mut operator = Process::new();
    let mut run = |hours: f64, mib: &dyn Fn(f64) -> f64| {
        confirmed(&mut operator, hours, |t, process| {
            (process.runtime, process.live_heap, process.heap_goal) = (Runtime::Jvm, None, None);
            (process.gc_percent, process.goroutines) = (None, None);
            (process.runtime_limit, process.threads) = (Some(128 << 20), Some(40));
            process.resident = Some((mib(t) * MIB) as u64);
        })
    };

    assert_eq!(run(40.0, &|t| (70.0 + 12.0 * t).min(160.0)), []);
    let found = run(12.0, &|t| 160.0 + 7.0 * (t - 40.0));
    assert!(found.contains(&FindingCode::HeapLeak), "{found:?}");
}

#[test]
fn resident_memory_of_go_without_a_known_heap_grows_only_with_its_heap() {
    // Versions of client_golang before 1.20 do not export the live heap.
    let run = |goal: f64| {
        let mut operator = Process::new();
        confirmed(&mut operator, 8.0, |t, process| {
            process.live_heap = None;
            process.runtime_limit = Some(200 << 20);
            process.heap_goal = Some((goal * MIB) as u64);
            process.resident = Some(((60.0 + 15.0 * t) * MIB) as u64);
        })
    };

    assert_eq!(run(200.0), [], "GOGC=off: garbage up to GOMEMLIMIT");
    assert!(run(90.0).contains(&FindingCode::HeapLeak));
}

#[test]
fn the_first_ramp_of_a_working_day_is_no_leak() {
    // The operator is rolled out at midnight, at six and at noon.
    for begin in [0.0, 6.0, 12.0] {
        let mut operator = Process::new();
        let day = confirmed(&mut operator, 48.0, |t, process| {
            goroutines(process, clients(t + begin));
            process.open_fds = Some((clients(t + begin) / 2.0) as u64);
        });

        assert_eq!(day, [], "from {begin} on");
    }

    // The same growth without an end.
    let mut leak = Process::new();
    let found = confirmed(&mut leak, 22.0, |t, process| goroutines(process, 600.0 + 100.0 * t));
    assert_eq!(found, [FindingCode::TaskLeak]);
}

#[test]
fn a_monday_after_a_quiet_weekend_is_no_leak() {
    let week = |t: f64| {
        let day = (t / 24.0) as i64 % 7;
        if day >= 5 { 600.0 } else { clients(t) }
    };

    // It starts on a Saturday, is rolled out every midnight, and again in the next week.
    let mut operator = Process::new();
    for day in 0..10 {
        let found = confirmed(&mut operator, 24.0, |t, process| {
            goroutines(process, week(t + 5.0 * 24.0));
        });

        assert_eq!(found, [], "day {day}");
        operator.restart();
    }
}

#[test]
fn a_batch_after_a_rollout_is_as_normal_as_before_it() {
    // Every night at two, a batch takes two hours: 30 to 100 MiB of live heap, of at most 118.
    let batch = |t: f64| {
        let t = t.rem_euclid(24.0) - 2.0;
        30.0 + 70.0 * (t / 2.0).min((2.5 - t) / 0.5).clamp(0.0, 1.0)
    };

    let mut operator = Process::new();
    confirmed(&mut operator, 24.0, |t, process| set_heap(process, batch(t)));
    operator.restart();
    let found = confirmed(&mut operator, 24.0, |t, process| set_heap(process, batch(t)));
    assert_eq!(found, [], "after a rollout");

    operator.lab = operator.lab.restart();
    operator.see_pod(0);
    operator.restart();
    let found = confirmed(&mut operator, 24.0, |t, process| set_heap(process, batch(t)));
    assert_eq!(found, [], "after a restart of loopwatch");

    // A leak with the speed of the batch goes beyond its level.
    operator.restart();
    let from = operator.lab.now.since(crate::lab::START).seconds() / 3600.0;
    let found = confirmed(&mut operator, 7.0, |t, process| {
        set_heap(process, 30.0 + 12.0 * (t - from));
    });
    assert!(found.contains(&FindingCode::HeapLeak), "{found:?}");
}

#[test]
fn the_end_of_a_leaking_process_makes_its_memory_not_normal() {
    let mut operator = Process::new();
    let leak = |operator: &mut Process| {
        let from = operator.lab.now.since(crate::lab::START).seconds() / 3600.0;
        confirmed(operator, 5.0, |t, process| set_heap(process, 30.0 + 16.0 * (t - from)))
    };

    for process in 0..3 {
        assert!(leak(&mut operator).contains(&FindingCode::HeapLeak), "process {process}");
        operator.restart();
    }
}

#[test]
fn healthy_processes_of_many_kinds_raise_no_alarm_within_three_days() {
    type Shape = fn(f64, &mut ProcessView);
    let shapes: [(&str, Shape); 6] = [
        ("a cache fills", |t, process| set_heap(process, 30.0 + 40.0 * (1.0 - (-t / 5.0).exp()))),
        ("a daily wave", |t, process| set_heap(process, 45.0 - 15.0 * (TAU * t / 24.0).cos())),
        ("GOGC=400", |t, process| {
            set_heap(process, 30.0 - 4.0 * (TAU * t / 24.0).cos());
            process.gc_percent = Some(400);
            process.resident = Some(((120.0 + 20.0 * (t % 3.0)) * MIB) as u64);
        }),
        ("a high-water mark", |t, process| {
            (process.live_heap, process.heap_goal, process.goroutines) = (None, None, None);
            (process.runtime, process.gc_percent) = (Runtime::Python, None);
            let steps = [60.0, 72.0, 72.0, 80.0, 80.0, 80.0, 83.0, 83.0, 83.0, 83.0];
            process.resident = Some((steps[((t / 5.0) as usize).min(9)] * MIB) as u64);
        }),
        ("memory returned late", |t, process| {
            (process.live_heap, process.heap_goal) = (None, None);
            let busy = t % 12.0;
            let back = (-(busy - 2.0).max(0.0) / 2.0).exp();
            process.resident = Some(((70.0 + 60.0 * busy.min(1.0) * back) * MIB) as u64);
        }),
        ("the sawtooth of a JVM", |t, process| {
            (process.runtime, process.live_heap, process.heap_goal) = (Runtime::Jvm, None, None);
            (process.gc_percent, process.goroutines) = (None, None);
            (process.runtime_limit, process.threads) = (Some(128 << 20), Some(40));
            process.resident = Some(((150.0 + 6.0 * (t % 7.0)) * MIB) as u64);
        }),
    ];

    for (name, shape) in shapes {
        let mut operator = Process::new();
        assert_eq!(confirmed(&mut operator, 72.0, shape), [], "{name}");
    }
}

#[test]
fn a_restored_level_of_an_unknown_source_is_skipped() {
    let mut checkpoint = Process::new().lab.model.checkpoint();
    checkpoint.levels.insert("of_the_future".to_owned(), Default::default());

    let mut operator = Process::new();
    operator.lab.observe(Observation::Restored(Box::new(checkpoint)));
    assert!(operator.lab.model.checkpoint().levels.is_empty());
}

#[test]
fn a_leak_that_is_smaller_than_the_daily_wave_is_found_by_its_nights() {
    let week = 9.0 * 24.0;
    let mut leak = Process::new();
    let found = confirmed(&mut leak, week, |t, process| goroutines(process, clients(t) + 6.0 * t));
    assert_eq!(found, [FindingCode::TaskLeak]);

    let finding = leak.finding(FindingCode::TaskLeak).expect("a leak");
    let said = finding.summary();
    assert!(said.contains("window 4d"), "{said}");

    let mut twin = Process::new();
    assert_eq!(confirmed(&mut twin, week, |t, process| goroutines(process, clients(t))), []);
    assert_eq!(twin.codes().iter().filter(|code| **code == FindingCode::TaskLeak).count(), 0);

    // Each night is a little higher, but not by much.
    let mut near = Process::new();
    let found = confirmed(&mut near, week, |t, process| goroutines(process, clients(t) + 0.8 * t));
    assert_eq!(found, []);
}
