//! Tests of settings that change while the model runs, and of annotations of namespaces.

mod lab;

use lab::{Lab, Widget};
use loopwatch_model::finding::Severity;
use loopwatch_model::model::tuning::{DEADLINE, IGNORE};
use loopwatch_model::observation::{NamespaceView, Observation};
use loopwatch_model::settings::{FindingRule, Settings};
use loopwatch_model::snapshot::Health;
use loopwatch_model::time::Span;

fn settings() -> Settings {
    Settings { learn_after: 0, ..Settings::default() }
}

fn with_rule(finding: &str, rule: FindingRule) -> Observation {
    let findings = [(finding.to_owned(), vec![rule])].into();
    Observation::SettingsChanged(Box::new(Settings { findings, ..settings() }))
}

fn namespace(name: &str, annotation: &str, value: &str) -> NamespaceView {
    NamespaceView { name: name.to_owned(), annotations: [(annotation.to_owned(), value.to_owned())].into() }
}

/// A lab with one overdue widget.
fn overdue() -> Lab {
    let mut lab = Lab::new();
    let mut widget = Widget::new("web", lab.now);
    lab.apply(widget.waiting());
    lab.advance(Span::mins(11));
    assert_eq!(lab.findings(), ["Overdue Widget team-a/web"]);
    lab
}

#[test]
fn a_new_threshold_applies_to_objects_that_wait_already() {
    let mut lab = Lab::new();
    let mut widget = Widget::new("web", lab.now);
    lab.apply(widget.waiting());
    lab.advance(Span::mins(2));
    lab.assert_no_findings();
    lab.observe(Observation::SettingsChanged(Box::new(Settings { deadline: Span::mins(3), ..settings() })));
    lab.assert_no_findings();
    lab.advance(Span::mins(1));
    assert_eq!(lab.findings(), ["Overdue Widget team-a/web"]);
    lab.observe(Observation::SettingsChanged(Box::new(Settings { deadline: Span::mins(30), ..settings() })));
    lab.assert_no_findings();
}

#[test]
fn disabling_a_finding_closes_it_and_enabling_opens_it_again_with_its_true_start() {
    let mut lab = overdue();
    let since = lab.snapshot().findings[0].since;
    lab.observe(with_rule("Overdue", FindingRule { enabled: Some(false), ..FindingRule::default() }));
    lab.assert_no_findings();
    lab.advance(Span::mins(5));
    lab.assert_no_findings();
    lab.observe(Observation::SettingsChanged(Box::new(settings())));
    assert_eq!(lab.findings(), ["Overdue Widget team-a/web"]);
    assert_eq!(lab.snapshot().findings[0].since, since);
    let events = lab.model.finding_events();
    assert_eq!(events.len(), 3, "opened, closed, opened");
}

#[test]
fn a_severity_changes_an_open_finding_and_the_health_of_its_namespace() {
    let mut lab = overdue();
    let shown = |lab: &Lab| (lab.snapshot().findings[0].severity, lab.snapshot().health["team-a"]);
    assert_eq!(shown(&lab), (Severity::Warning, Health::Degraded));
    lab.observe(with_rule("Overdue", FindingRule { severity: Some(Severity::Critical), ..FindingRule::default() }));
    assert_eq!(shown(&lab), (Severity::Critical, Health::Failing));
    assert_eq!(lab.model.finding_events().len(), 1, "the finding stays open");
    lab.observe(with_rule("all", FindingRule { severity: Some(Severity::Info), ..FindingRule::default() }));
    assert_eq!(shown(&lab).0, Severity::Info);
}

#[test]
fn an_annotation_of_the_namespace_silences_its_objects_while_it_exists() {
    let mut lab = overdue();
    lab.observe(Observation::NamespaceSeen(namespace("team-b", IGNORE, "all")));
    assert_eq!(lab.findings().len(), 1, "another namespace");
    lab.observe(Observation::NamespaceSeen(namespace("team-a", IGNORE, "Overdue")));
    lab.assert_no_findings();
    lab.observe(Observation::NamespaceSeen(NamespaceView { name: "team-a".to_owned(), ..NamespaceView::default() }));
    assert_eq!(lab.findings(), ["Overdue Widget team-a/web"]);
    lab.observe(Observation::NamespacesListed(vec![namespace("team-a", IGNORE, "all")]));
    lab.assert_no_findings();
    lab.observe(Observation::NamespacesListed(Vec::new()));
    assert_eq!(lab.findings().len(), 1);
    lab.observe(Observation::NamespaceSeen(namespace("team-a", IGNORE, "all")));
    lab.observe(Observation::NamespaceGone("team-a".to_owned()));
    assert_eq!(lab.findings().len(), 1);
}

#[test]
fn an_invalid_annotation_of_a_namespace_is_a_finding_until_it_is_corrected() {
    let mut lab = Lab::new();
    lab.observe(Observation::NamespaceSeen(namespace("team-a", IGNORE, "Overdeu")));
    assert_eq!(lab.findings(), ["ConfigInvalid Namespace team-a"]);
    assert!(lab.evidence().contains("Overdeu"), "{}", lab.evidence());
    lab.observe(Observation::NamespaceSeen(namespace("team-a", DEADLINE, "1h")));
    lab.assert_no_findings();
}

#[test]
fn namespaces_beyond_the_limit_are_counted() {
    let limits = loopwatch_model::settings::Limits { namespaces: 2, ..Default::default() };
    let mut lab = Lab::with(Settings { limits, ..settings() });
    for name in ["a", "b", "c", "a"] {
        lab.observe(Observation::NamespaceSeen(namespace(name, IGNORE, "all")));
    }
    assert_eq!(lab.snapshot().dropped["namespaces"], 1);
}

#[test]
fn new_observations_have_a_stable_recorded_form() {
    for (observation, expected) in [
        (
            Observation::NamespaceSeen(namespace("team-a", IGNORE, "all")),
            r#"{"namespace_seen":{"name":"team-a","annotations":{"loopwatch.dev/ignore":"all"}}}"#,
        ),
        (Observation::NamespacesListed(Vec::new()), r#"{"namespaces_listed":[]}"#),
        (Observation::NamespaceGone("team-a".to_owned()), r#"{"namespace_gone":"team-a"}"#),
    ] {
        assert_eq!(serde_json::to_string(&observation).expect("JSON"), expected);
        assert_eq!(serde_json::from_str::<Observation>(expected).expect("an observation"), observation);
    }
    let rule = FindingRule { enabled: Some(false), ..FindingRule::default() };
    let text = serde_json::to_string(&with_rule("Overdue", rule.clone())).expect("JSON");
    assert!(text.ends_with(r#""findings":{"Overdue":[{"enabled":false}]}}}"#), "{text}");
    assert_eq!(serde_json::from_str::<Observation>(&text).expect("an observation"), with_rule("Overdue", rule));
    let newer = text.replace("\"findings\"", "\"of_a_later_version\":1,\"findings\"");
    assert!(serde_json::from_str::<Observation>(&newer).is_ok(), "a later version may add settings");
    let none = serde_json::to_string(&settings()).expect("JSON");
    assert!(!none.contains("findings\":{"), "absent if empty: {none}");
}
