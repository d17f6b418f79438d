//! Controllers that reconcile objects at rest again and again: the fault, its healthy twin, and near
//! misses.

use loopwatch_model::finding::{Confidence, Finding, FindingCode};
use loopwatch_model::observation::{ControllerView, Framework, MetricsView};
use loopwatch_model::settings::Settings;
use loopwatch_model::time::{Span, Timestamp};

use crate::lab::pods::INSTANCE;
use crate::lab::{Lab, Widget, unlearned};

/// What a controller does between two scrapes, which are fifteen seconds apart.
#[derive(Clone, Copy, Default)]
struct Turn {
    succeeded: u64,
    failed: u64,
    requeued: u64,
}

/// A controller of some objects, which have converged.
struct Operator {
    lab: Lab,
    widgets: Vec<Widget>,
    total: Turn,
    started: Option<Timestamp>,
    counts_requeues: bool,
    name: &'static str,
}

/// Ten reconciles per second, each of which asks for the next one.
const LOOP: Turn = Turn { succeeded: 150, failed: 0, requeued: 150 };
const REST: Turn = Turn { succeeded: 0, failed: 0, requeued: 0 };

impl Operator {
    fn new(objects: u32) -> Self {
        Self::with(objects, unlearned())
    }

    fn with(objects: u32, settings: Settings) -> Self {
        let mut lab = Lab::with(settings);
        let widgets = (0..objects).map(|number| lab.converged(&format!("web-{number}"))).collect();
        let total = Turn { succeeded: 1_000, failed: 10, requeued: 50 };
        let mut new =
            Self { lab, widgets, total, started: None, counts_requeues: true, name: "widget" };
        new.run(8, REST);
        new
    }

    fn run(&mut self, scrapes: u32, turn: Turn) {
        self.run_and(scrapes, turn, |_, _| ());
    }

    /// Runs, with something else before each scrape.
    fn run_and(&mut self, scrapes: u32, turn: Turn, mut also: impl FnMut(&mut Lab, &mut [Widget])) {
        for _ in 0..scrapes {
            self.lab.advance(Span::secs(15));
            also(&mut self.lab, &mut self.widgets);
            self.total.succeeded += turn.succeeded;
            self.total.failed += turn.failed;
            self.total.requeued += turn.requeued;
            self.scrape();
        }
    }

    fn scrape(&mut self) {
        let total = self.total;
        let mut view = MetricsView {
            instance: INSTANCE.into(),
            framework: Framework::ControllerRuntime,
            controllers: vec![ControllerView {
                name: self.name.into(),
                succeeded: Some(total.succeeded),
                failed: Some(total.failed),
                requeued: self.counts_requeues.then_some(total.requeued),
                ..ControllerView::default()
            }],
            ..MetricsView::default()
        };
        view.process.started = self.started;
        self.lab.scraped(view);
    }

    fn found(&self) -> Option<Finding> {
        let findings = self.lab.snapshot().findings;
        findings.into_iter().find(|finding| finding.code == FindingCode::SilentHotLoop)
    }
}

#[test]
fn a_controller_of_objects_that_nobody_watches_is_only_suspected() {
    let mut operator = Operator::new(3);
    operator.name = "node-health";
    operator.run(60, LOOP);
    assert_eq!(operator.found().map(|it| it.confidence), Some(Confidence::Suspected));
}

#[test]
fn a_controller_that_reconciles_an_object_at_rest_again_and_again_is_found() {
    let mut operator = Operator::new(1);
    let began = operator.lab.now;
    operator.run(20, LOOP);
    assert_eq!(operator.found(), None, "five minutes have not passed");
    operator.run(8, LOOP);

    let found = operator.found().expect("a finding");
    assert_eq!(found.confidence, Confidence::Confirmed);
    assert_eq!(found.subject.to_string(), "controller widget");
    assert!(found.since.since(began) <= Span::mins(2), "{}", found.since);
    let summary = found.summary();
    assert!(summary.contains("reconciles per second 10"), "{summary}");
    assert!(summary.contains("requeued percent 100"), "{summary}");
    assert_eq!(operator.lab.roots(), ["SilentHotLoop controller widget"]);

    operator.run(12, REST);
    assert_eq!(operator.found(), None);
}

#[test]
fn many_objects_that_are_reconciled_each_second_are_found() {
    let mut operator = Operator::new(20);
    operator.run(30, Turn { succeeded: 300, failed: 0, requeued: 300 });
    assert!(operator.found().is_some());
}

#[test]
fn polling_work_and_answers_to_changes_are_no_loop() {
    let polls = |objects: u64, seconds: u64| {
        let count = objects * 15 / seconds;
        Turn { succeeded: count, failed: 0, requeued: count }
    };
    let near_misses = [
        ("one object every second", 1, polls(1, 1)),
        ("twenty objects every two seconds", 20, polls(20, 2)),
        ("fifty objects every ten seconds", 50, polls(50, 10)),
        ("reconciles that nobody asked for", 1, Turn { requeued: 10, ..LOOP }),
        ("errors, which are repeated", 1, Turn { succeeded: 50, failed: 100, requeued: 50 }),
    ];
    for (what, objects, turn) in near_misses {
        let mut operator = Operator::new(objects);
        operator.run(60, turn);
        assert_eq!(operator.found(), None, "{what}");
    }
}

#[test]
fn a_controller_that_answers_changes_is_no_loop() {
    let mut operator = Operator::new(1);
    operator.run_and(60, LOOP, |lab, widgets| {
        for _ in 0..50 {
            let view = lab.view(widgets[0].touch_status());
            lab.apply_view(view);
        }
    });
    assert_eq!(operator.found(), None);
}

#[test]
fn a_controller_that_waits_for_objects_in_progress_is_no_loop() {
    let mut operator = Operator::new(10);
    let mut new = Widget::new("new", operator.lab.now);
    operator.lab.apply(new.waiting());
    operator.run(36, LOOP);
    assert_eq!(operator.found(), None);
}

#[test]
fn a_start_and_a_burst_are_no_loop() {
    let mut operator = Operator::new(5);
    for _ in 0..5 {
        operator.run(10, LOOP);
        operator.run(12, REST);
    }
    assert!(!operator.lab.changes().iter().any(|change| change.contains("SilentHotLoop")));
}

#[test]
fn without_counts_of_repetitions_nothing_is_known() {
    let mut operator = Operator::new(1);
    operator.counts_requeues = false;
    operator.run(60, LOOP);
    assert_eq!(operator.found(), None);
}

#[test]
fn while_a_watch_is_blind_the_finding_neither_opens_nor_closes() {
    let mut operator = Operator::new(1);
    operator.run(16, LOOP);
    operator.lab.fail();
    operator.run(40, LOOP);
    assert_eq!(operator.found(), None);
    operator.lab.recover();
    operator.run(30, LOOP);
    assert!(operator.found().is_some());
    operator.lab.fail();
    operator.run(20, LOOP);
    assert!(operator.found().is_some());
}

#[test]
fn a_new_process_counts_anew() {
    let mut operator = Operator::new(1);
    operator.run(16, LOOP);
    operator.total = Turn { succeeded: 40_000, failed: 0, requeued: 40_000 };
    operator.started = Some(operator.lab.now);
    operator.run(12, REST);
    assert_eq!(operator.found(), None);
    operator.run(30, LOOP);
    assert!(operator.found().is_some());
}

#[test]
fn the_finding_does_not_flap_and_follows_steps_of_the_clock() {
    let mut operator = Operator::new(1);
    operator.run(40, LOOP);
    operator.lab.changes();
    for _ in 0..6 {
        operator.run(8, Turn { succeeded: 60, failed: 0, requeued: 60 });
        operator.run(8, Turn { succeeded: 80, failed: 0, requeued: 80 });
    }
    operator.lab.step_clock(Span::hours(2));
    operator.run(4, LOOP);
    assert!(!operator.lab.changes().iter().any(|change| change.contains("SilentHotLoop")));
    assert!(operator.found().is_some());
}

#[test]
fn the_thresholds_are_settings() {
    let quick = Settings { silent_loop_after: Span::mins(1), ..unlearned() };
    let mut operator = Operator::with(1, quick);
    operator.run(14, LOOP);
    assert!(operator.found().is_some());

    let mut operator = Operator::with(1, Settings { silent_loop_rate: 20, ..unlearned() });
    operator.run(60, LOOP);
    assert_eq!(operator.found(), None);
}
