//! Settings that tune findings, and that change while loopwatch runs.

use loopwatch_model::finding::Severity;
use loopwatch_model::observation::*;
use loopwatch_model::settings::{FindingRule, Selector, Settings};
use loopwatch_model::time::Span;

use crate::lab::{Lab, Widget, kind, unlearned};

#[test]
fn a_changed_threshold_does_not_make_a_retried_object_overdue() {
    let mut lab = Lab::new();
    let mut claim = Widget::new("claim", lab.now);
    lab.apply(&claim);
    lab.apply(claim.failed("QuotaExceeded"));
    lab.advance(Span::hours(30));
    lab.apply(claim.waiting());
    lab.advance(Span::mins(1));

    let settings = Settings { flap_transitions: 8, ..unlearned() };
    lab.configure(settings);
    lab.advance(Span::mins(1));
    lab.assert_no_findings();
}

#[test]
fn a_shorter_deadline_applies_to_a_regression_that_waits_for_the_end_of_the_longer_one() {
    let deadline = |span| Settings {
        deadlines: [("example.io/Widget".to_owned(), span)].into(),
        ..unlearned()
    };
    let mut lab = Lab::with(deadline(Span::hours(6)));
    let mut cluster = lab.converged("cluster");

    lab.apply(cluster.spec(2, lab.now));
    lab.advance(Span::secs(1));
    lab.apply(cluster.ready());
    lab.advance(Span::mins(1));
    lab.apply(cluster.waiting());
    lab.advance(Span::mins(30));
    lab.assert_no_findings();
    lab.configure(deadline(Span::mins(10)));

    lab.advance(Span::secs(1));
    assert!(
        !lab.findings().is_empty(),
        "half an hour after the change, state {:?}",
        lab.state("cluster")
    );
}

#[test]
fn failing_closes_if_the_kind_is_no_longer_allowed() {
    let mut lab = Lab::new();
    let mut widgets: Vec<Widget> = (0..4).map(|i| lab.converged(&format!("w{i}"))).collect();
    lab.advance(Span::hours(1));

    for w in &mut widgets {
        lab.apply(w.failed("Broken"));
    }

    lab.advance(Span::mins(1));
    assert!(lab.has("Failing"));

    let mut forbidden = kind();
    forbidden.missing = vec!["list".into()];
    lab.discover(&[forbidden]);
    lab.advance(Span::hours(24));

    assert!(!lab.has("Failing"), "{:?}", lab.findings());
}

#[test]
fn weak_evidence_stays_weak_when_settings_change_in_blindness() {
    let mut lab = Lab::new();
    let mut w = lab.converged("web");
    w.spec(2, lab.now);

    let mut view = w.view(5000);
    view.managers.clear();
    lab.apply_view(view);
    lab.advance(Span::mins(20));

    let severity =
        |lab: &Lab| lab.snapshot().findings.iter().map(|f| f.severity).collect::<Vec<_>>();

    assert_eq!(severity(&lab), [Severity::Warning], "{:?}", lab.findings());

    lab.fail();
    let settings = Settings { flap_transitions: 8, ..unlearned() };
    lab.configure(settings);

    assert_eq!(severity(&lab), [Severity::Warning], "while blind");
}

#[test]
fn objects_in_a_namespace_silenced_by_a_rule_do_not_make_their_kind_fail() {
    let namespaces = Selector { include: vec!["team-a".into()], ..Selector::default() };
    let rule = FindingRule { namespaces, enabled: Some(false), ..FindingRule::default() };
    let findings = [("all".to_owned(), vec![rule])].into();
    let mut lab = Lab::with(Settings { findings, ..unlearned() });
    let mut widgets: Vec<Widget> = (0..4).map(|i| lab.converged(&format!("w{i}"))).collect();

    lab.advance(Span::hours(1));
    for w in &mut widgets {
        lab.apply(w.failed("Broken"));
    }

    lab.advance(Span::mins(1));
    lab.assert_no_findings();
}

#[test]
fn a_finding_about_a_definition_returns_when_it_is_enabled_again() {
    let mut lab = Lab::new();
    let definition = DefinitionView {
        name: "widgets.example.io".into(),
        status: StatusSchema::InBody,
        ..DefinitionView::default()
    };

    lab.observe(Observation::DefinitionSeen(definition));
    assert!(lab.has("StatusSubresourceMissing"));

    let settings = |enabled| {
        let rule = FindingRule { enabled: Some(enabled), ..FindingRule::default() };
        let findings = [("StatusSubresourceMissing".to_owned(), vec![rule])].into();
        Observation::SettingsChanged(Box::new(Settings { findings, ..unlearned() }))
    };

    lab.observe(settings(false));
    assert!(!lab.has("StatusSubresourceMissing"));

    lab.observe(settings(true));
    assert!(lab.has("StatusSubresourceMissing"));
}

#[test]
fn a_finding_about_a_namespace_returns_when_it_is_enabled_again() {
    let mut lab = Lab::new();
    lab.annotate_namespace("team-a", "ignore", "Bogus");

    assert!(lab.has("ConfigInvalid"));

    let settings = |enabled| {
        let rule = FindingRule { enabled: Some(enabled), ..FindingRule::default() };
        let findings = [("ConfigInvalid".to_owned(), vec![rule])].into();
        Observation::SettingsChanged(Box::new(Settings { findings, ..unlearned() }))
    };

    lab.observe(settings(false));
    lab.observe(settings(true));

    assert!(lab.has("ConfigInvalid"));
}
