//! The finding that the kernel throttles the operator: with its fault, its healthy twin and near
//! misses.

use loopwatch_model::finding::{Finding, FindingCode, Severity};
use loopwatch_model::observation::{
    ControllerView, Durations, MetricsView, Observation, ProcessView,
};
use loopwatch_model::time::{Span, Timestamp};

use crate::lab::pods::INSTANCE;
use crate::lab::process::Process;

/// An operator with a CPU limit, whose kernel and metrics loopwatch reads every ten seconds.
struct Limited {
    process: Process,
    started: Timestamp,
    /// What the kernel counts; `None` if it does not count periods.
    periods: Option<[u64; 2]>,
    queued: Durations,
    standby: bool,
}

/// How long an object waits in the queue of a healthy operator, and of one without CPU time.
const SHORT: f64 = 0.02;
const LONG: f64 = 8.0;

impl Limited {
    fn new() -> Self {
        let process = Process::new();
        let started = process.started;
        Self {
            process,
            started,
            periods: Some([0, 0]),
            queued: Durations::default(),
            standby: false,
        }
    }

    /// Runs for some minutes. In each ten seconds, the operator wants to run in `busy` of 100
    /// periods and is throttled in `throttled` of them, and objects `wait` for so many seconds.
    fn run(&mut self, minutes: i64, busy: u64, throttled: u64, wait: f64) -> &mut Self {
        for _ in 0..minutes * 6 {
            if let Some([all, some]) = &mut self.periods {
                (*all, *some) = (*all + busy, *some + throttled);
            }

            self.queued =
                Durations { count: self.queued.count + 3, sum: self.queued.sum + 3.0 * wait };
            self.process.lab.now = self.process.lab.now.after(Span::secs(10));
            self.see();
        }

        self
    }

    fn see(&mut self) {
        let kernel = ProcessView {
            instance: INSTANCE.to_owned(),
            started: Some(self.started),
            resident: Some(80 << 20),
            cpu_limit: Some(0.2),
            cpu_periods: self.periods.map(|[all, _]| all),
            cpu_throttled_periods: self.periods.map(|[_, throttled]| throttled),
            ..ProcessView::default()
        };
        let controller = ControllerView {
            name: "widget".to_owned(),
            queue_seconds: Some(self.queued),
            ..ControllerView::default()
        };
        let metrics = MetricsView {
            instance: INSTANCE.to_owned(),
            leading: self.standby.then_some(false),
            controllers: vec![controller],
            ..MetricsView::default()
        };

        self.process.lab.observe(Observation::ProcessSeen(Box::new(kernel)));
        self.process.lab.observe(Observation::MetricsScraped(Box::new(metrics)));
    }

    fn found(&self) -> Option<Finding> {
        self.process.finding(FindingCode::CpuThrottled)
    }

    fn severity(&self) -> Option<Severity> {
        self.found().map(|finding| finding.severity)
    }
}

#[test]
fn throttling_while_objects_wait_in_the_queue_is_a_warning() {
    let mut operator = Limited::new();
    operator.run(20, 90, 40, LONG);
    assert_eq!(operator.severity(), None, "a window of five minutes, and fifteen more");

    operator.run(2, 90, 40, LONG);
    let found = operator.found().expect("throttling");
    let summary = found.summary();
    assert_eq!(found.severity, Severity::Warning, "{summary}");
    for part in ["percent 44", "limit 200m", "queue wait 8s", "window 5m"] {
        assert!(summary.contains(part), "{part}: {summary}");
    }

    operator.run(6, 90, 0, SHORT);
    assert_eq!(operator.severity(), None, "the limit has been raised");
}

#[test]
fn its_healthy_twin_with_the_same_work_is_not_throttled() {
    let mut operator = Limited::new();
    operator.run(60, 90, 0, SHORT);
    assert_eq!(operator.severity(), None);

    operator.run(60, 90, 20, LONG);
    assert_eq!(operator.severity(), None, "near miss: fewer than a quarter of the periods");
}

#[test]
fn throttling_alone_is_information_until_objects_wait() {
    let mut operator = Limited::new();
    operator.run(60, 90, 80, SHORT);
    assert_eq!(operator.severity(), Some(Severity::Info));

    operator.run(6, 90, 80, LONG);
    assert_eq!(operator.severity(), Some(Severity::Warning));

    operator.run(6, 90, 80, SHORT);
    assert_eq!(operator.severity(), Some(Severity::Info));

    let mut standby = Limited { standby: true, ..Limited::new() };
    standby.run(60, 90, 80, LONG);
    assert_eq!(standby.severity(), Some(Severity::Info), "a standby has no work");
}

#[test]
fn a_late_acknowledgement_counts_only_if_it_began_with_the_throttling() {
    let run = |late_first: bool| {
        let mut operator = Limited::new();
        let mut widget = operator.process.lab.converged("web");
        let mut change = |operator: &mut Limited| {
            let now = operator.process.lab.now;
            operator.process.lab.apply(widget.spec(2, now));
        };

        if late_first {
            change(&mut operator);
            operator.run(40, 90, 0, SHORT);
        }

        operator.run(20, 90, 80, SHORT);
        if !late_first {
            change(&mut operator);
        }

        operator.run(30, 90, 80, SHORT);
        assert!(operator.process.codes().contains(&FindingCode::Unacknowledged));
        operator.found().expect("throttling")
    };

    let found = run(false);
    assert_eq!(found.severity, Severity::Warning, "{}", found.summary());
    assert!(found.summary().contains("delays Unacknowledged"), "{}", found.summary());
    assert_eq!(run(true).severity, Severity::Info);
}

#[test]
fn a_burst_or_an_idle_operator_is_no_throttling() {
    let mut burst = Limited::new();
    for _ in 0..4 {
        burst.run(20, 90, 0, SHORT).run(8, 100, 100, LONG);
        assert_eq!(burst.severity(), None, "a burst of eight minutes");
    }

    let mut idle = Limited::new();
    idle.run(60, 2, 2, LONG);
    assert_eq!(idle.severity(), None, "60 periods in five minutes show nothing");
}

#[test]
fn an_open_finding_closes_only_at_half_the_share() {
    let mut operator = Limited::new();
    operator.run(30, 100, 40, LONG).run(30, 100, 15, LONG);
    assert_eq!(operator.severity(), Some(Severity::Warning));

    operator.run(6, 100, 10, LONG);
    assert_eq!(operator.severity(), None);
}

#[test]
fn counters_that_begin_anew_show_no_throttling() {
    let mut operator = Limited::new();
    for _ in 0..12 {
        operator.run(4, 90, 80, LONG);
        operator.periods = Some([0, 0]);
    }

    assert_eq!(operator.severity(), None, "no window is complete");

    operator.periods = Some([u64::MAX - 50, u64::MAX]);
    operator.run(0, 0, 0, LONG).see();
    operator.periods = Some([0, u64::MAX]);
    operator.see();
    assert_eq!(operator.severity(), None, "hostile counts");
}

#[test]
fn another_process_starts_anew() {
    let mut operator = Limited::new();
    operator.run(30, 90, 80, LONG);
    assert_eq!(operator.severity(), Some(Severity::Warning));

    operator.started = operator.process.lab.now;
    operator.periods = Some([0, 0]);
    operator.run(15, 90, 80, LONG);
    assert_eq!(operator.severity(), None);

    operator.run(8, 90, 80, LONG);
    assert_eq!(operator.severity(), Some(Severity::Warning));
}

#[test]
fn without_counts_nothing_opens_or_closes() {
    let mut blind = Limited { periods: None, ..Limited::new() };
    blind.run(60, 90, 80, LONG);
    assert_eq!(blind.severity(), None, "the kernel counts no periods");

    let mut operator = Limited::new();
    operator.run(30, 90, 80, LONG);
    let lab = &mut operator.process.lab;
    lab.now = lab.now.after(Span::mins(20));
    operator.run(2, 90, 80, LONG);
    assert_eq!(operator.severity(), Some(Severity::Warning), "after a gap");

    operator.run(6, 90, 0, SHORT);
    assert_eq!(operator.severity(), None);
}
