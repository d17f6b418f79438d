//! Findings about the memory of the operator's process: each with its fault, its healthy twin and
//! near misses.

use std::f64::consts::TAU;

use loopwatch_model::finding::{Confidence, FindingCode, Severity};
use loopwatch_model::observation::{
    Answer, Cause, GrowingStack, Observation, Probe, ProfileKind, ProfileView, Runtime, SourceId,
};
use loopwatch_model::settings::Settings;
use loopwatch_model::snapshot::TrendSignal;
use loopwatch_model::time::{Span, Timestamp};
use loopwatch_model::trend::TrendState;

use crate::lab::pods::INSTANCE;
use crate::lab::process::{MIB, Process, set_heap};
use crate::lab::{START, Widget, unlearned};

#[test]
fn a_leak_of_the_heap_is_suspected_and_then_confirmed() {
    let mut operator = Process::new();
    operator.heap(6.0, |_| 40.0);

    assert_eq!(operator.codes(), []);

    let mut seen = Vec::new();
    for step in 0..24 {
        let from = 40.0 + f64::from(step) * 2.0;
        operator.heap(1.0 / 12.0, |t| from + 24.0 * t);
        seen.extend(operator.finding(FindingCode::HeapLeak).map(|finding| finding.confidence));
    }

    assert_eq!(seen.first(), Some(&Confidence::Suspected));
    assert_eq!(seen.last(), Some(&Confidence::Confirmed));

    let leak = operator.finding(FindingCode::HeapLeak).expect("a leak");
    assert_eq!(leak.subject.to_string(), "operator ops/widget-operator");
    assert!(leak.summary().contains(&format!("instance {INSTANCE}")), "{}", leak.summary());
    assert!(
        leak.summary().contains("limit 256.0 MiB") && leak.summary().contains("per hour 24."),
        "{}",
        leak.summary()
    );

    let row =
        operator.lab.snapshot().trends.into_iter().find(|row| row.signal == TrendSignal::LiveHeap);
    let verdict = row.expect("a row").verdict;

    assert_eq!(verdict.state, TrendState::Confirmed);
    assert!(verdict.exhaustion.is_some_and(|span| span < Span::hours(3)), "{verdict:?}");

    // A new process ends the finding.
    operator.restart();
    operator.heap(0.1, |_| 40.0);

    assert_eq!(operator.codes(), []);
}

#[test]
fn a_step_a_wave_and_a_warm_up_are_no_leak() {
    let mut step = Process::new();
    step.heap(6.0, |_| 40.0).heap(8.0, |_| 70.0);

    assert_eq!(step.codes(), [], "more load after a rollout");

    let mut wave = Process::new();
    for day in 0..2 {
        wave.heap(24.0, |t| 50.0 + 12.0 * (TAU * t / 24.0).sin());
        assert_eq!(wave.codes(), [], "day {day}");
    }

    let mut warm_up = Process::new();
    for _ in 0..10 {
        let from = warm_up.lab.now.since(START).seconds() / 3600.0;
        warm_up.heap(0.5, |t| 30.0 + 40.0 * (1.0 - (-(from + t)).exp()));

        assert_eq!(warm_up.codes(), [], "after {from} h");
    }
}

#[test]
fn memory_that_grows_with_the_objects_is_explained() {
    let mut operator = Process::new();
    let widgets: Vec<Widget> =
        (0..100).map(|number| Widget::new(&format!("old-{number}"), START)).collect();
    for widget in widgets {
        let mut widget = widget;
        operator.lab.apply(widget.ready());
    }

    operator.heap(6.0, |_| 40.0);
    for number in 0..120_u32 {
        let mut widget = Widget::new(&format!("new-{number}"), operator.lab.now);
        operator.lab.apply(widget.ready());
        operator.heap(1.0 / 60.0, |_| 40.0 + 0.4 * f64::from(number));
    }

    let explained = operator.finding(FindingCode::HeapGrowthExplained).expect("an explanation");
    assert_eq!(explained.severity, Severity::Info);
    assert!(operator.finding(FindingCode::HeapLeak).is_none(), "{:?}", operator.codes());
}

#[test]
fn exhaustion_pages_only_if_objects_suffer() {
    let mut operator = Process::new();
    let mut widget = operator.lab.converged("web");
    operator.heap(6.0, |_| 40.0).heap(2.0, |t| 40.0 + 24.0 * t);

    let quiet = operator.finding(FindingCode::MemoryExhaustionPredicted).expect("a prediction");
    assert_eq!(quiet.severity, Severity::Warning, "{}", quiet.summary());

    let leak = operator.finding(FindingCode::HeapLeak).expect("a leak");
    assert_eq!(leak.explained_by, Some(quiet.id), "one alert");

    operator.lab.apply(widget.spec(2, operator.lab.now));
    operator.heap(0.5, |t| 88.0 + 24.0 * t);

    let loud = operator.finding(FindingCode::MemoryExhaustionPredicted).expect("a prediction");
    assert_eq!(loud.severity, Severity::Critical, "{}", loud.summary());
}

/// The next heap goal is beyond the limit, but a runtime that allocates little takes long to get there.
#[test]
fn a_heap_that_has_outgrown_its_share_of_the_limit_still_has_the_time_that_its_growth_takes() {
    let mut operator = Process::new();
    operator.heap(6.0, |_| 40.0).run(4.0, |t, process| {
        set_heap(process, 40.0 + 24.0 * t);
        process.resident = Some(((60.0 + 30.0 * t) * MIB) as u64);
    });

    let found = operator.finding(FindingCode::MemoryExhaustionPredicted).expect("a prediction");
    let summary = found.summary();
    assert!(summary.contains("exhausted in 3h"), "76 MiB are left at 24 MiB/h: {summary}");
    assert!(
        summary.contains("limit 256.0 MiB") && summary.contains("heap goal 27"),
        "the reason: {summary}"
    );

    let rows = operator.lab.snapshot().trends;
    let row = rows.iter().find(|row| row.signal == TrendSignal::LiveHeap).expect("a row");
    assert!(row.verdict.exhaustion.is_some_and(|left| left > Span::hours(3)), "{row:?}");
}

#[test]
fn exhaustion_does_not_page_for_an_object_that_was_broken_before_or_has_another_cause() {
    let mut operator = Process::new();
    let (mut old, mut broken) = (operator.lab.converged("old"), operator.lab.converged("broken"));
    operator.lab.apply(old.spec(2, operator.lab.now));
    operator.heap(8.0, |_| 40.0).heap(2.0, |t| 40.0 + 24.0 * t);

    operator.lab.apply(broken.failed("LicenceExpired"));
    operator.heap(0.5, |t| 88.0 + 24.0 * t);

    assert!(operator.codes().contains(&FindingCode::Unacknowledged), "{:?}", operator.codes());
    let found = operator.finding(FindingCode::MemoryExhaustionPredicted).expect("a prediction");
    assert_eq!(found.severity, Severity::Warning, "{}", found.summary());
}

#[test]
fn a_slow_leak_exhausts_nothing_within_a_day_and_a_busy_hour_far_from_the_limit_neither() {
    let mut slow = Process::new();
    slow.heap(6.0, |_| 40.0).heap(12.0, |t| 40.0 + 1.6 * t);

    assert!(slow.finding(FindingCode::MemoryExhaustionPredicted).is_none());

    let mut busy = Process::new();
    busy.heap(6.0, |_| 20.0).heap(1.0, |t| 20.0 + 25.0 * t).heap(1.0, |_| 45.0);

    assert!(busy.finding(FindingCode::MemoryExhaustionPredicted).is_none(), "{:?}", busy.codes());
}

#[test]
fn memory_that_fills_up_to_the_limit_of_the_runtime_is_no_exhaustion() {
    // GOGC=off with GOMEMLIMIT, and a JVM with -Xmx: garbage fills the memory, while the live heap
    // stays.
    for jvm in [false, true] {
        let fills = |leaks: f64| {
            let mut operator = Process::new();
            let mut suffers = Widget::new("web", operator.lab.now);
            operator.lab.apply(suffers.waiting());

            let mut seen = Vec::new();
            for step in 0..72 {
                let hours = f64::from(step) / 12.0;
                operator.run(1.0 / 12.0, |t, process| {
                    let live = 40.0 + leaks * (hours + t);
                    set_heap(process, live);
                    process.resident = Some(((60.0 + 42.0 * (hours + t)).min(225.0) * MIB) as u64);
                    process.runtime_limit = Some(230 << 20);

                    if jvm {
                        (process.runtime, process.gc_percent, process.heap_goal) =
                            (Runtime::Jvm, None, None);
                        process.runtime_limit = Some(180 << 20);
                    } else {
                        (process.gc_percent, process.heap_goal) = (None, process.runtime_limit);
                    }
                });
                seen.extend(operator.finding(FindingCode::MemoryExhaustionPredicted));
            }

            seen
        };

        assert_eq!(fills(0.0), [], "{jvm}");
        assert!(!fills(25.0).is_empty(), "a leak: {jvm}");
    }
}

#[test]
fn a_heap_at_the_limit_of_the_runtime_thrashes() {
    let run = |live: f64, goal: f64, per_hour: f64, limited: bool| {
        let mut operator = Process::new();
        let mut cycles = 1000.0;
        for step in 0..20_u64 {
            operator.run(1.0 / 60.0, |t, process| {
                set_heap(process, live);
                process.heap_goal = Some((goal * MIB) as u64);
                process.runtime_limit = Some(200 << 20);
                process.gc_cycles = Some((cycles + per_hour * t) as u64);
                process.gc_limited_cycle = Some(if limited { 900 + step } else { 900 });
            });
            cycles += per_hour / 60.0;
        }

        operator.finding(FindingCode::GarbageCollectionThrash).map(|finding| finding.confidence)
    };

    assert_eq!(run(170.0, 175.0, 20_000.0, true), Some(Confidence::Confirmed));
    assert_eq!(run(170.0, 175.0, 20_000.0, false), Some(Confidence::Suspected));
    assert_eq!(run(60.0, 120.0, 20_000.0, false), None, "much work");
    assert_eq!(run(170.0, 175.0, 30.0, false), None, "a full heap that is not collected");
}

#[test]
fn memory_above_that_of_the_process_before_is_a_jump() {
    let jump = |peak: f64, second: f64, more_objects: bool| {
        let mut operator = Process::new();
        let mut first = Widget::new("first", START);
        operator.lab.apply(first.ready());
        operator.heap(1.5, |_| 40.0);
        operator.heap(7.0, |_| peak);
        operator.restart();

        for number in 0..if more_objects { 5 } else { 0 } {
            let mut widget = Widget::new(&format!("more-{number}"), operator.lab.now);
            operator.lab.apply(widget.ready());
        }

        operator.heap(1.5, |_| second);
        operator.finding(FindingCode::MemoryJump)
    };

    let found = jump(40.0, 75.0, false).expect("a jump");
    assert!(
        found.summary().contains("before 100.0 MiB") && found.summary().contains("uptime 1h"),
        "{}",
        found.summary()
    );
    assert_eq!((found.severity, found.confidence), (Severity::Warning, Confidence::Confirmed));
    assert!(jump(40.0, 50.0, false).is_none(), "less than 40 %");
    assert!(jump(40.0, 75.0, true).is_none(), "more objects");

    let found = jump(80.0, 75.0, false).expect("a jump at the same time after the start");
    assert_eq!(found.confidence, Confidence::Suspected, "the process before needed more later");
}

#[test]
fn a_process_that_waited_for_the_lease_of_its_predecessor_is_compared_with_it() {
    let jump = |wait: f64| {
        let mut operator = Process::new();
        operator.leading = Some(true);
        operator.heap(1.5, |_| 40.0);
        operator.restart();
        operator.leading = Some(false);
        operator.heap(wait, |_| 20.0);
        operator.leading = Some(true);
        operator.heap(1.5, |_| 75.0);
        operator.finding(FindingCode::MemoryJump)
    };

    assert!(jump(0.1).is_some(), "it waited for six minutes");
    assert!(jump(0.3).is_none(), "it was a standby");
}

#[test]
fn quoted_amounts_of_memory_are_information() {
    let settings = Settings { memory_levels: vec![200 << 20], ..unlearned() };
    let mut operator = Process::with(settings);
    operator.heap(0.1, |_| 80.0);

    assert_eq!(operator.codes(), []);

    operator.heap(0.1, |_| 95.0);
    assert_eq!(operator.codes(), [FindingCode::MemoryLarge]);
}

#[test]
fn a_suspicion_asks_for_profiles_and_their_answer_is_evidence() {
    let mut operator = Process::new();
    operator.heap(6.0, |_| 40.0);

    assert_eq!(operator.probes, []);

    operator.heap(2.0, |t| 40.0 + 20.0 * t);
    let probe = Probe::Profile { instance: INSTANCE.to_owned(), kind: ProfileKind::Heap };

    assert!(!operator.probes.is_empty());
    assert!(operator.probes.iter().all(|(_, asked)| *asked == probe), "{:?}", operator.probes);

    let times: Vec<Timestamp> = operator.probes.iter().map(|(at, _)| *at).collect();
    assert!(times.windows(2).all(|pair| pair[1].since(pair[0]) >= Span::mins(30)), "{times:?}");

    let functions =
        ["bytes.growSlice", "main.leak", "main.handle", "main.main"].map(str::to_owned).to_vec();
    let profile = ProfileView {
        instance: INSTANCE.to_owned(),
        from: operator.lab.now,
        to: operator.lab.now,
        stacks: vec![GrowingStack { functions, growth: 1 << 20, now: 2 << 20 }],
        ..ProfileView::default()
    };

    let answer = Answer::Profiled(Box::new(profile));
    operator.lab.observe(Observation::Answered { probe, answer });

    let leak = operator.finding(FindingCode::HeapLeak).expect("a leak");
    assert!(leak.summary().contains("top growth main.leak, main.handle"), "{}", leak.summary());
    assert_eq!(operator.lab.snapshot().profiles[0].growth, [1 << 20]);

    let before = operator.probes.len();
    operator.heap(1.0, |t| 80.0 + 20.0 * t);

    assert_eq!(operator.probes.len(), before, "the answer is there");
}

#[test]
fn an_answer_without_a_profile_does_not_hide_why_the_source_is_off() {
    let mut operator = Process::new();
    let (source, reason) = (SourceId::Profiles, "the operator serves no pprof".to_owned());
    operator.lab.observe(Observation::SourceOff { source, reason: reason.clone() });

    let shown = |operator: &Process| {
        let sources = operator.lab.snapshot().sources;
        sources
            .into_iter()
            .find(|source| source.source == "profiles")
            .map(|source| (source.off, source.last_success))
    };

    for answer in [Answer::Absent, Answer::Failed(Cause::Timeout)] {
        let probe = Probe::Profile { instance: INSTANCE.to_owned(), kind: ProfileKind::Heap };
        operator.lab.observe(Observation::Answered { probe, answer });

        assert_eq!(shown(&operator), Some((Some(reason.clone()), None)));
    }
}

#[test]
fn an_operator_near_its_limit_is_not_asked_for_profiles() {
    let mut operator = Process::new();
    operator.heap(6.0, |_| 109.0); // resident: 238 of 256 MiB
    operator.heap(3.0, |t| 109.0 + 2.5 * t);

    assert!(
        operator.finding(FindingCode::MemoryExhaustionPredicted).is_some(),
        "{:?}",
        operator.codes()
    );
    assert_eq!(operator.probes, []);
}

#[test]
fn memory_that_the_process_before_used_between_its_marks_is_no_confirmed_jump() {
    let mut operator = Process::new();
    operator.heap(1.5, |_| 40.0).heap(3.0, |_| 80.0).heap(5.0, |_| 40.0);
    operator.restart();
    operator.heap(1.5, |_| 75.0);

    let found = operator.finding(FindingCode::MemoryJump).expect("a jump");
    assert_eq!(found.confidence, Confidence::Suspected, "{}", found.summary());
}
