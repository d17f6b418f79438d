//! Kinds whose objects are written often without a change: the fault, its healthy twins, near misses.

use loopwatch_model::finding::{Finding, FindingCode, Severity};
use loopwatch_model::settings::Settings;
use loopwatch_model::time::Span;

use crate::lab::{Lab, Widget, unlearned};

/// Objects that have converged.
struct Fleet {
    lab: Lab,
    widgets: Vec<Widget>,
}

impl Fleet {
    fn new(objects: u32) -> Self {
        Self::with(objects, unlearned())
    }

    fn with(objects: u32, settings: Settings) -> Self {
        let mut lab = Lab::with(settings);
        let widgets = (0..objects).map(|number| lab.converged(&format!("web-{number}"))).collect();
        Self { lab, widgets }
    }

    /// For some minutes, writes the time into the status of each object every `every` seconds.
    fn heartbeats(&mut self, minutes: i64, every: i64) {
        for _ in 0..minutes * 60 / every {
            self.lab.advance(Span::secs(every));
            for widget in &mut self.widgets {
                let view = self.lab.view(widget.touch_times(self.lab.now));
                self.lab.apply_view(view);
            }
        }
    }

    fn found(&self) -> Option<Finding> {
        let findings = self.lab.snapshot().findings;
        findings.into_iter().find(|finding| finding.code == FindingCode::RedundantStatusWrites)
    }
}

#[test]
fn a_heartbeat_in_many_objects_is_information_about_the_kind() {
    let mut fleet = Fleet::new(20);
    fleet.heartbeats(25, 20);
    assert_eq!(fleet.found(), None, "the window is not full");
    fleet.heartbeats(10, 20);

    let found = fleet.found().expect("a finding");
    assert_eq!(
        (found.severity, found.subject.to_string().as_str()),
        (Severity::Info, "Widget (all)")
    );
    let summary = found.summary();
    assert!(summary.contains("writes per minute 6"), "{summary}");
    assert!(summary.contains("objects 20"), "{summary}");
    assert_eq!(
        fleet.lab.findings(),
        ["RedundantStatusWrites Widget (all)"],
        "and no loop of one object"
    );

    fleet.lab.advance(Span::hours(1));
    assert_eq!(fleet.found(), None);
}

#[test]
fn rare_heartbeats_and_few_objects_are_no_problem() {
    let mut many = Fleet::new(60);
    many.heartbeats(90, 300);
    assert_eq!(many.found(), None, "each object every five minutes");

    let mut few = Fleet::new(2);
    few.heartbeats(90, 20);
    assert_eq!(few.found(), None, "six writes per minute");
}

#[test]
fn writes_that_change_something_are_work() {
    let mut fleet = Fleet::new(20);
    for _ in 0..60 {
        fleet.heartbeats(1, 60);
        for widget in &mut fleet.widgets {
            let view = fleet.lab.view(widget.touch_status());
            fleet.lab.apply_view(view);
            let view = fleet.lab.view(widget.touch_status());
            fleet.lab.apply_view(view);
        }
    }
    assert_eq!(fleet.found(), None);
}

#[test]
fn the_finding_does_not_flap_and_its_limits_are_settings() {
    let mut fleet = Fleet::new(20);
    fleet.heartbeats(40, 60);
    assert!(fleet.found().is_some());
    fleet.lab.changes();
    fleet.heartbeats(40, 110);
    fleet.lab.step_clock(Span::hours(-3));
    fleet.heartbeats(10, 60);
    assert!(fleet.found().is_some());
    assert!(!fleet.lab.changes().iter().any(|change| change.contains("RedundantStatusWrites")));

    let settings = Settings { redundant_writes: 5_000, ..unlearned() };
    let mut fleet = Fleet::with(20, settings);
    fleet.heartbeats(60, 20);
    assert_eq!(fleet.found(), None);
}
