//! Controllers that get nothing done because of conflicts: the fault, its healthy twin, and near misses.

use loopwatch_model::finding::{Confidence, Finding, FindingCode};
use loopwatch_model::observation::{ControllerView, Framework, MetricsView};
use loopwatch_model::settings::Settings;
use loopwatch_model::time::{Span, Timestamp};

use crate::lab::pods::INSTANCE;
use crate::lab::{Lab, unlearned};

/// What an instance does between two scrapes.
#[derive(Clone, Copy, Default)]
struct Turn {
    succeeded: u64,
    failed: u64,
    conflicts: u64,
    other: u64,
}

/// An instance that is scraped every fifteen seconds.
struct Operator {
    lab: Lab,
    total: Turn,
    started: Option<Timestamp>,
}

const STORM: Turn = Turn { succeeded: 0, failed: 8, conflicts: 8, other: 20 };
const WORK: Turn = Turn { succeeded: 20, failed: 0, conflicts: 0, other: 40 };

impl Operator {
    fn new(settings: Settings) -> Self {
        let mut new = Self { lab: Lab::with(settings), total: Turn::default(), started: None };
        new.run(4, WORK);
        new
    }

    fn run(&mut self, scrapes: u32, turn: Turn) -> &mut Self {
        for _ in 0..scrapes {
            self.lab.advance(Span::secs(15));
            self.total.succeeded += turn.succeeded;
            self.total.failed += turn.failed;
            self.total.conflicts += turn.conflicts;
            self.total.other += turn.other;
            self.scrape();
        }

        self
    }

    fn scrape(&mut self) {
        let total = self.total;
        let mut view = MetricsView {
            instance: INSTANCE.into(),
            framework: Framework::ControllerRuntime,
            controllers: vec![ControllerView {
                name: "widget".into(),
                succeeded: Some(total.succeeded),
                failed: Some(total.failed),
                ..ControllerView::default()
            }],
            requests: vec![("200".into(), total.other), ("409".into(), total.conflicts)],
            ..MetricsView::default()
        };
        view.process.started = self.started;
        self.lab.scraped(view);
    }

    fn found(&self) -> Option<Finding> {
        let findings = self.lab.snapshot().findings;
        findings.into_iter().find(|finding| finding.code == FindingCode::ConflictStorm)
    }
}

#[test]
fn a_controller_whose_writes_all_conflict_is_found_and_explains_its_errors() {
    let mut operator = Operator::new(unlearned());
    operator.run(20, WORK);
    operator.lab.assert_no_findings();
    let began = operator.lab.now;

    operator.run(10, STORM);
    assert_eq!(operator.found(), None, "the window still has many successes");
    operator.run(20, STORM);
    let found = operator.found().expect("a finding");
    assert_eq!(found.confidence, Confidence::Confirmed);
    assert_eq!(found.subject.to_string(), "controller widget");
    assert!(found.since.since(began) <= Span::mins(6), "{}", found.since);
    let summary = found.summary();
    assert!(summary.contains("conflicts 160") || summary.contains("conflicts 16"), "{summary}");
    assert_eq!(operator.lab.roots(), ["ConflictStorm controller widget"]);

    operator.run(4, WORK);
    assert_eq!(operator.found(), None, "a tenth of the reconciles succeed again");
}

#[test]
fn a_storm_from_the_start_is_found_within_two_minutes() {
    let mut operator = Operator { lab: Lab::new(), total: Turn::default(), started: None };
    operator.scrape();
    operator.run(8, STORM);
    assert!(operator.found().is_some());
}

#[test]
fn conflicts_beside_successes_and_other_errors_are_no_storm() {
    let near_misses = [
        (
            "an operator with optimistic locks",
            Turn { succeeded: 40, failed: 8, conflicts: 8, other: 40 },
        ),
        ("retries within a reconcile", Turn { succeeded: 20, failed: 0, conflicts: 60, other: 40 }),
        ("errors of another sort", Turn { succeeded: 0, failed: 20, conflicts: 1, other: 40 }),
        (
            "a few conflicts among many requests",
            Turn { succeeded: 0, failed: 4, conflicts: 3, other: 90 },
        ),
        ("no conflicts", Turn { succeeded: 0, failed: 20, conflicts: 0, other: 40 }),
    ];
    for (what, turn) in near_misses {
        let mut operator = Operator::new(unlearned());
        operator.run(60, turn);
        assert_eq!(operator.found(), None, "{what}");
    }
}

#[test]
fn conflicts_beside_successes_are_no_errors() {
    let errors = |turn| {
        let mut operator = Operator::new(unlearned());
        operator.run(60, turn);
        operator.lab.has("ReconcileErrors")
    };

    assert!(!errors(Turn { succeeded: 40, failed: 8, conflicts: 8, other: 40 }));
    assert!(!errors(Turn { succeeded: 40, failed: 8, conflicts: 80, other: 40 }), "of others, too");
    assert!(errors(Turn { succeeded: 40, failed: 8, conflicts: 4, other: 40 }), "half of them");
}

#[test]
fn a_new_leader_with_old_copies_is_no_storm() {
    let mut operator = Operator { lab: Lab::new(), total: Turn::default(), started: None };
    operator.scrape();
    operator.run(2, Turn { succeeded: 0, failed: 40, conflicts: 40, other: 40 });
    operator.run(40, WORK);
    assert!(!operator.lab.changes().iter().any(|change| change.contains("ConflictStorm")));
}

#[test]
fn without_counts_of_conflicts_nothing_is_known() {
    let mut lab = Lab::new();
    for turn in 0..100 {
        lab.advance(Span::secs(15));
        let controller = ControllerView {
            failed: Some(turn * 10),
            succeeded: Some(0),
            ..ControllerView::default()
        };
        lab.scrape(INSTANCE, controller);
    }
    assert!(!lab.has("ConflictStorm"));
}

#[test]
fn a_restart_of_the_process_and_of_its_counters_ends_nothing_and_invents_nothing() {
    let mut operator = Operator::new(unlearned());
    operator.run(40, STORM);
    assert!(operator.found().is_some());
    operator.total = Turn::default();
    operator.started = Some(operator.lab.now);
    operator.run(8, STORM);
    assert!(operator.found().is_some(), "the storm goes on in the new process");

    let mut operator = Operator::new(unlearned());
    operator.total = Turn { succeeded: 0, failed: 500, conflicts: 500, other: 900 };
    operator.started = Some(operator.lab.now);
    operator.run(40, WORK);
    assert_eq!(operator.found(), None);
}

#[test]
fn the_finding_does_not_flap_and_follows_steps_of_the_clock() {
    let mut operator = Operator::new(unlearned());
    operator.run(40, STORM);
    operator.lab.changes();
    for _ in 0..10 {
        operator.run(4, Turn { succeeded: 0, failed: 4, conflicts: 4, other: 10 });
        operator.run(4, Turn { succeeded: 0, failed: 1, conflicts: 1, other: 4 });
    }
    assert!(!operator.lab.changes().iter().any(|change| change.contains("ConflictStorm")));
    assert!(operator.found().is_some());

    operator.lab.step_clock(Span::hours(-5));
    operator.run(2, STORM);
    assert!(operator.found().is_some());
    operator.run(30, WORK);
    assert_eq!(operator.found(), None);
}

#[test]
fn the_threshold_is_a_setting() {
    let mut operator = Operator::new(Settings { conflicts: 10_000, ..unlearned() });
    operator.run(80, STORM);
    assert_eq!(operator.found(), None);
}
