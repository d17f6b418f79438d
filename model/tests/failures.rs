//! Failures of many objects at once, and phases.

mod lab;

use lab::steps::unlearned;
use lab::{Lab, Widget};
use loopwatch_model::settings::Settings;
use loopwatch_model::time::Span;

#[test]
fn one_failing_object_is_enough_if_the_settings_say_so() {
    let settings = Settings { failing_objects: 1, failing_percent: 1, ..unlearned() };
    let mut lab = Lab::with(settings);
    let mut widget = lab.converged("web");
    lab.apply(widget.failed("DependencyDown"));
    lab.advance(Span::secs(20));
    assert_eq!(lab.findings(), ["Failing Widget (all)"]);
    lab.apply(widget.ready());
    lab.advance(Span::hours(10));
    lab.assert_no_findings();
}

#[test]
fn a_kind_has_failed_since_the_object_that_reached_the_threshold_and_the_evidence_names_the_objects() {
    let mut lab = Lab::new();
    let mut widgets: Vec<Widget> = (0..4).map(|number| lab.converged(&format!("w{number}"))).collect();
    let mut third = lab.now;
    for widget in &mut widgets[..3] {
        third = lab.now;
        lab.apply(widget.failed("DependencyDown"));
        lab.advance(Span::mins(1));
    }
    let failing = lab.finding("Failing");
    assert_eq!(failing.since, third);
    let summary = failing.summary();
    for part in ["failed 3", "objects 4", "DependencyDown", "team-a/w0, team-a/w1, team-a/w2"] {
        assert!(summary.contains(part), "{part}: {summary}");
    }
    assert!(!summary.contains("w3"), "{summary}");
}

#[test]
fn a_kind_that_keeps_failing_with_other_objects_keeps_its_finding() {
    let mut lab = Lab::new();
    let mut widgets: Vec<Widget> = (0..6).map(|number| lab.converged(&format!("w{number}"))).collect();
    widgets[..4].iter_mut().for_each(|widget| lab.apply(widget.failed("RegistryDown")));
    lab.advance(Span::mins(1));
    let since = lab.since("Failing");
    lab.changes();
    lab.apply(widgets[5].failed("RegistryDown"));
    lab.apply(widgets[0].ready());
    lab.delete(&widgets[1]);
    lab.advance(Span::mins(1));
    assert_eq!(lab.since("Failing"), since);
    let changes = lab.changes();
    assert!(!changes.iter().any(|change| change.contains("Failing")), "{changes:?}");
}

#[test]
fn objects_that_fail_after_their_own_spec_changes_do_not_make_the_kind_fail() {
    let mut lab = Lab::new();
    let mut widgets: Vec<Widget> = (0..4).map(|number| lab.converged(&format!("w{number}"))).collect();
    for widget in &mut widgets {
        lab.apply(widget.spec(2, lab.now));
        lab.apply(widget.failed("ImageNotFound"));
        lab.advance(Span::mins(2));
    }
    lab.advance(Span::hours(1));
    lab.assert_no_findings();
}

// Phases.

#[test]
fn a_stuck_phase_began_when_the_object_entered_it() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    lab.apply(widget.waiting().phase("Repairing"));
    lab.advance(Span::hours(10));
    let entered = lab.now;
    lab.apply(widget.phase("Provisioning"));
    lab.advance(Span::mins(31));
    assert_eq!(lab.since("PhaseStuck"), entered);
    lab.advance(Span::mins(5));
    lab.apply(widget.touch_status());
    assert_eq!(lab.since("PhaseStuck"), entered);
}
