//! Annotations of objects tune the findings about them.

mod lab;

use lab::{Lab, Widget, watch};
use loopwatch_model::observation::{NamespaceView, Observation};
use loopwatch_model::settings::{Limits, Settings};
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

/// Returns the namespaces with a team, and the team of each.
fn teams(lab: &Lab) -> Vec<String> {
    lab.snapshot()
        .teams
        .into_iter()
        .map(|(namespace, team)| format!("{namespace}: {team}"))
        .collect()
}

#[test]
fn the_teams_of_namespaces_with_objects_follow_their_labels() {
    let view = |name: &str, team: &str| NamespaceView {
        name: name.into(),
        team: team.into(),
        ..NamespaceView::default()
    };
    let mut lab = Lab::new();

    lab.converged("web");
    assert_eq!(teams(&lab), Vec::<String>::new());

    lab.observe(Observation::NamespacesListed(vec![
        view("team-a", "red"),
        view("elsewhere", "green"),
    ]));

    assert_eq!(teams(&lab), ["team-a: red"], "only namespaces that loopwatch shows");

    lab.observe(Observation::NamespaceSeen(view("team-a", "blue")));
    assert_eq!(teams(&lab), ["team-a: blue"]);

    lab.observe(Observation::NamespaceSeen(view("team-a", "")));
    assert_eq!(teams(&lab), Vec::<String>::new());

    lab.observe(Observation::NamespaceSeen(view("team-a", "red")));
    lab.observe(Observation::NamespaceGone("team-a".into()));

    assert_eq!(teams(&lab), Vec::<String>::new());

    lab.observe(Observation::NamespaceSeen(view("team-a", "red")));
    lab.observe(Observation::NamespacesListed(Vec::new()));

    assert_eq!(teams(&lab), Vec::<String>::new(), "without the permission, no team is left");
}

#[test]
fn teams_have_a_limit() {
    let mut lab = Lab::with(Settings {
        limits: Limits { namespaces: 1, ..Limits::default() },
        ..Settings::default()
    });

    lab.converged("web");
    let view = |name: &str, team: &str| NamespaceView {
        name: name.into(),
        team: team.into(),
        ..NamespaceView::default()
    };

    lab.observe(Observation::NamespacesListed(vec![view("a", "green"), view("team-a", "red")]));
    assert_eq!(teams(&lab), Vec::<String>::new());
    assert_eq!(lab.snapshot().dropped.get("namespaces"), Some(&1));
}
