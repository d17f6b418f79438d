//! Annotations of objects tune the findings about them.

mod lab;

use lab::{Lab, Widget, watch};
use loopwatch_model::observation::Observation;
use loopwatch_model::time::Span;

/// Applies a version of the widget with one annotation.
fn annotate(lab: &mut Lab, widget: &Widget, version: u64, key: &str, value: &str) {
    let mut view = widget.view(version);
    view.annotations.insert(format!("loopwatch.dev/{key}"), value.to_owned());
    lab.observe(Observation::Applied { watch: watch(), object: Box::new(view) });
}

#[test]
fn an_ignored_finding_does_not_open_and_opens_once_the_annotation_is_gone() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    widget.spec(2, lab.now);
    annotate(&mut lab, &widget, 10_000, "ignore", "Overdue, Unacknowledged");
    lab.advance(Span::hours(1));
    lab.assert_no_findings();
    lab.observe(Observation::Applied { watch: watch(), object: Box::new(widget.view(10_001)) });
    assert_eq!(lab.findings(), ["Unacknowledged Widget team-a/web"]);
    annotate(&mut lab, &widget, 10_002, "ignore", "all");
    lab.assert_no_findings();
}

#[test]
fn an_annotated_deadline_applies_to_a_change_that_is_under_way() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    lab.apply(widget.spec(2, lab.now));
    lab.apply(widget.waiting());
    lab.advance(Span::mins(5));
    annotate(&mut lab, &widget, 10_000, "deadline", "2h");
    lab.advance(Span::mins(110));
    lab.assert_no_findings();
    lab.advance(Span::mins(6));
    assert_eq!(lab.findings(), ["Overdue Widget team-a/web"]);
}

#[test]
fn an_invalid_annotation_opens_a_finding_about_the_object_until_it_is_mended() {
    let mut lab = Lab::new();
    let widget = lab.converged("web");
    annotate(&mut lab, &widget, 10_000, "deadline", "soon");
    assert_eq!(lab.findings(), ["ConfigInvalid Widget team-a/web"]);
    assert!(lab.evidence().contains("soon"), "{}", lab.evidence());
    annotate(&mut lab, &widget, 10_001, "deadline", "30m");
    lab.assert_no_findings();
}
