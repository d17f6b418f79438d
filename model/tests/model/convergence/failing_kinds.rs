//! Kinds with many objects that fail at once.

use loopwatch_model::observation::{Fact, FactValue};
use loopwatch_model::settings::Settings;
use loopwatch_model::time::Span;

use crate::lab::{Lab, START, Widget, forbidden, kind, unlearned};

#[test]
fn a_kind_is_failing_if_many_of_its_converged_objects_fail() {
    let mut lab = Lab::new();
    let mut widgets: Vec<Widget> = ["a", "b", "c", "d"].map(|name| lab.converged(name)).into();
    for widget in &mut widgets[..2] {
        lab.apply(widget.failed("DependencyUnavailable"));
    }

    lab.advance(Span::secs(60));
    lab.assert_no_findings();
    lab.apply(widgets[2].failed("DependencyUnavailable"));
    lab.assert_no_findings();
    lab.advance(Span::secs(10));

    assert_eq!(lab.findings(), ["Failing Widget (all)"]);
    assert!(lab.evidence().contains("failed 3"), "{}", lab.evidence());

    lab.advance(Span::mins(10));
    assert_eq!(
        lab.roots(),
        ["Failing Widget (all)"],
        "the finding about the kind explains those about its objects"
    );
    assert!(lab.findings().len() > 1);

    widgets.iter_mut().for_each(|widget| lab.apply(widget.ready()));
    lab.assert_no_findings();
}

/// A policy works if it finds a violation, whoever has to mend that.
#[test]
fn policies_that_find_violations_are_no_failure_of_their_operator() {
    let mut lab = Lab::new();
    let judged = |lab: &mut Lab, widget: &Widget, text: &str| {
        let mut view = lab.view(widget);
        view.conditions.clear();
        let value = FactValue::Text(text.to_owned());
        view.facts = vec![Fact { path: "status.compliant".to_owned(), value }];
        lab.apply_view(view);
    };
    let mut widgets: Vec<Widget> = (0..12).map(|it| lab.converged(&format!("w{it}"))).collect();
    widgets.iter_mut().for_each(|widget| judged(&mut lab, widget.touch_status(), "Compliant"));
    lab.advance(Span::mins(10));
    widgets.iter_mut().for_each(|widget| judged(&mut lab, widget.touch_status(), "NonCompliant"));
    lab.advance(Span::hours(1));

    lab.assert_no_findings();
}

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
fn a_kind_has_failed_since_the_object_that_reached_the_threshold_and_the_evidence_names_the_objects()
 {
    let mut lab = Lab::new();
    let mut widgets: Vec<Widget> =
        (0..4).map(|number| lab.converged(&format!("w{number}"))).collect();
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
    let mut widgets: Vec<Widget> =
        (0..6).map(|number| lab.converged(&format!("w{number}"))).collect();
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
    let mut widgets: Vec<Widget> =
        (0..4).map(|number| lab.converged(&format!("w{number}"))).collect();
    for widget in &mut widgets {
        lab.apply(widget.spec(2, lab.now));
        lab.apply(widget.failed("ImageNotFound"));
        lab.advance(Span::mins(2));
    }

    lab.advance(Span::hours(1));
    lab.assert_no_findings();
}

#[test]
fn objects_that_still_fail_when_the_rollout_ends_make_their_kind_fail() {
    let mut lab = Lab::new();
    let mut widgets: Vec<Widget> = (0..4).map(|i| lab.converged(&format!("w{i}"))).collect();
    lab.advance(Span::hours(1));

    let changed = lab.now;
    for w in &mut widgets {
        lab.apply(w.spec(2, changed));
    }

    lab.advance(Span::secs(1));
    for w in &mut widgets {
        lab.apply(w.ready());
    }

    lab.advance(Span::mins(9));
    for w in &mut widgets {
        lab.apply(w.failed("Broken"));
    }

    lab.advance(Span::mins(2)); // 11 minutes after the change
    assert!(lab.has("Failing"), "{:?}", lab.findings());
}

#[test]
fn a_rollout_that_began_in_an_outage_is_no_failure_of_the_kind() {
    let mut lab = Lab::new();
    let mut widgets: Vec<Widget> = (0..4).map(|i| lab.converged(&format!("w{i}"))).collect();
    lab.advance(Span::hours(1));
    lab.fail();
    lab.advance(Span::secs(30));

    for w in &mut widgets {
        w.spec(2, lab.now).ready();
    }

    lab.advance(Span::secs(30));
    lab.list(&widgets);
    lab.recover();
    lab.advance(Span::secs(90));

    for w in &mut widgets {
        lab.apply(w.failed("ReplicaNotReady"));
    }

    lab.advance(Span::secs(90));
    lab.assert_no_findings();
}

#[test]
fn a_rollout_that_began_before_a_restart_is_no_failure_of_the_kind() {
    let mut lab = Lab::unsynced(unlearned());
    let mut widgets: Vec<Widget> =
        (0..4).map(|i| Widget::new(&format!("w{i}"), START.after(Span::hours(-5)))).collect();
    for w in &mut widgets {
        w.spec(2, START.after(Span::mins(-2))).ready();
    }

    lab.list(&widgets);
    lab.advance(Span::secs(30));
    for w in &mut widgets {
        lab.apply(w.failed("ReplicaNotReady"));
    }

    lab.advance(Span::secs(90));
    lab.assert_no_findings();
}

#[test]
fn a_kind_of_which_nothing_is_seen_any_more_is_not_failing() {
    let mut lab = Lab::new();
    let mut widgets: Vec<Widget> = ["a", "b", "c", "d"].map(|name| lab.converged(name)).into();
    widgets[..3].iter_mut().for_each(|widget| lab.apply(widget.failed("DiskFull")));
    lab.advance(Span::mins(10));
    lab.discover(&[forbidden(kind())]);
    lab.advance(Span::hours(24 * 30));

    assert_eq!(lab.findings(), ["PermissionMissing permission to list widgets.example.io"]);
}
