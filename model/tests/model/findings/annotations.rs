//! Annotations of objects and namespaces tune the findings about them.

use std::collections::BTreeMap;

use loopwatch_model::observation::*;
use loopwatch_model::settings::{Limits, Settings};
use loopwatch_model::time::Span;

use crate::lab::{Lab, START, Widget, unlearned, watch};

/// Applies a version of the widget with one annotation.
fn annotate(lab: &mut Lab, widget: &Widget, version: u64, key: &str, value: &str) {
    let mut view = widget.view(version);
    view.annotations.insert(format!("loopwatch.dev/{key}"), value.to_owned());
    lab.apply_view(view);
}

/// Returns the namespaces with a team, and the team of each.
fn teams(lab: &Lab) -> Vec<String> {
    lab.snapshot()
        .teams
        .into_iter()
        .map(|(namespace, team)| format!("{namespace}: {team}"))
        .collect()
}

fn annotations(ignore: &str) -> BTreeMap<String, String> {
    [("loopwatch.dev/ignore".to_owned(), ignore.to_owned())].into()
}

#[test]
fn an_ignored_finding_does_not_open_and_opens_once_the_annotation_is_gone() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    widget.spec(2, lab.now);
    annotate(&mut lab, &widget, 10_000, "ignore", "Overdue, Unacknowledged");
    lab.advance(Span::hours(1));
    lab.assert_no_findings();
    lab.apply_view(widget.view(10_001));

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
    assert_eq!(lab.dropped("namespaces"), 1);
}

#[test]
fn an_annotation_of_another_namespace_does_not_make_a_retried_object_overdue() {
    let mut lab = Lab::new();
    let mut certificate = Widget::new("certificate", lab.now);
    lab.apply(&certificate);
    lab.apply(certificate.failed("SecretNotFound"));
    lab.advance(Span::hours(12));
    lab.apply(certificate.waiting()); // somebody has created the Secret
    lab.advance(Span::mins(1));
    lab.annotate_namespace("sandbox", "ignore", "all");

    lab.advance(Span::mins(1));
    lab.assert_no_findings();
}

#[test]
fn an_ignored_object_that_never_got_a_status_stays_ignored() {
    let mut lab = Lab::new();
    let first = Widget::new("legacy", lab.now);
    let mut view = lab.view(&first);
    view.annotations.insert("loopwatch.dev/ignore".into(), "all".into());
    lab.apply_view(view);
    lab.advance(Span::mins(11));

    for name in ["x", "y", "z"] {
        lab.converged(name);
    }

    lab.advance(Span::hours(10));
    lab.assert_no_findings();
}

#[test]
fn a_deadline_annotation_of_an_object_that_never_got_a_status_applies() {
    let mut lab = Lab::new();
    let mut view = lab.view(&Widget::new("slow", lab.now));
    view.annotations.insert("loopwatch.dev/deadline".into(), "6h".into());
    lab.apply_view(view);
    lab.advance(Span::mins(11));

    for name in ["x", "y", "z"] {
        lab.converged(name);
    }

    lab.advance(Span::hours(2));
    lab.assert_no_findings();
}

#[test]
fn a_deadline_of_the_namespace_applies_while_it_is_there() {
    let mut lab = Lab::new();
    lab.annotate_namespace("team-a", "deadline", "3h");

    let mut cluster = lab.converged("cluster");
    let changed = lab.now;
    lab.apply(cluster.spec(2, changed));
    lab.apply(cluster.waiting());
    lab.advance(Span::hours(1));
    lab.assert_no_findings();
    lab.observe(Observation::NamespaceGone("team-a".into()));

    assert_eq!(lab.findings(), ["Overdue Widget team-a/cluster"]);
    assert_eq!(lab.since("Overdue"), changed);
}

#[test]
fn an_ignored_namespace_that_is_no_longer_ignored_shows_what_holds_with_its_start() {
    let mut lab = Lab::new();
    lab.annotate_namespace("team-a", "ignore", "all");

    let mut web = lab.converged("web");
    lab.advance(Span::hours(1));

    let lost = lab.now;
    lab.apply(web.failed("PodsCrash"));
    lab.advance(Span::hours(3));
    lab.fail();
    lab.advance(Span::secs(30));
    lab.observe(Observation::NamespacesListed(Vec::new()));

    assert!(!lab.has("Regressed"), "the watch is blind");

    lab.recover();
    lab.advance(Span::secs(30));

    assert_eq!(lab.findings(), ["Regressed Widget team-a/web"]);
    assert_eq!(lab.since("Regressed"), lost);
}

#[test]
fn an_ignored_object_without_a_status_is_ignored_after_a_restart() {
    let mut lab = Lab::unsynced(unlearned());
    let mut ready = Widget::new("ready", START);
    ready.ready();

    let mut view = Widget::new("silent", START.after(Span::hours(-2))).view(11);
    view.annotations = annotations("all");
    lab.begin_list(&watch());
    lab.listed(&watch(), ready.view(10));
    lab.listed(&watch(), view);
    lab.end_list(&watch());
    lab.advance(Span::hours(1));
    lab.assert_no_findings();
}

#[test]
fn objects_in_an_ignored_namespace_do_not_make_their_kind_fail() {
    let mut lab = Lab::new();
    lab.annotate_namespace("team-a", "ignore", "all");

    let mut widgets: Vec<Widget> = (0..4).map(|i| lab.converged(&format!("w{i}"))).collect();
    lab.advance(Span::hours(1));
    for w in &mut widgets {
        lab.apply(w.failed("Broken"));
    }

    lab.advance(Span::mins(1));
    lab.assert_no_findings();
}
