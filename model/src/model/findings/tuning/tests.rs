//! Tests of rules and annotations.

use crate::finding::FINDINGS;
use crate::model::findings::tuning::*;
use crate::model::world::annotations::{DEADLINE, IGNORE};
use FindingCode::{Overdue, PhaseStuck, SourceFailing, StatusSubresourceMissing};

fn rule(
    kinds: &[&str],
    namespaces: &[&str],
    enabled: Option<bool>,
    severity: Option<Severity>,
) -> FindingRule {
    FindingRule { kinds: including(kinds), namespaces: including(namespaces), enabled, severity }
}

fn including(names: &[&str]) -> Selector {
    Selector { include: names.iter().map(|name| (*name).to_owned()).collect(), exclude: Vec::new() }
}

fn settings(rules: &[(&str, &[FindingRule])]) -> Settings {
    let findings = rules.iter().map(|(name, rules)| ((*name).to_owned(), rules.to_vec())).collect();
    Settings { findings, ..Settings::default() }
}

fn widget(namespace: &str) -> Subject {
    let (group, kind, name) = ("example.io".to_owned(), "Widget".to_owned(), "web".to_owned());
    Subject::Object { group, kind, namespace: namespace.to_owned(), name }
}

fn decide(settings: &Settings, code: FindingCode, subject: &Subject) -> (bool, Severity) {
    let Tuned { enabled, severity, .. } = tuned(settings, code, &TuningTarget::of(subject), []);
    (enabled, severity)
}

fn annotated(name: &str, value: &str) -> Annotated {
    *Annotated::read(&std::collections::BTreeMap::from([(name.to_owned(), value.to_owned())]))
        .expect("an annotation of loopwatch")
}

#[test]
fn without_rules_the_table_decides() {
    let settings = Settings::default();
    for info in FINDINGS {
        assert_eq!(
            decide(&settings, info.code, &widget("a")),
            (!info.code.is_lint(), info.severity),
            "{}",
            info.name
        );
    }
}

#[test]
fn a_rule_applies_to_its_finding_kinds_and_namespaces_only() {
    let settings = settings(&[(
        "Overdue",
        &[rule(&["example.io/Widget"], &["ci-*", "sandbox"], Some(false), None)],
    )]);
    for namespace in ["ci-", "ci-42", "sandbox"] {
        assert!(!decide(&settings, Overdue, &widget(namespace)).0, "{namespace}");
    }

    for namespace in ["ci", "prod", "sandbox-2", ""] {
        assert!(decide(&settings, Overdue, &widget(namespace)).0, "{namespace}");
    }

    assert!(decide(&settings, PhaseStuck, &widget("sandbox")).0, "another finding");

    let other = TuningTarget {
        group: "example.io",
        kind: "Gadget",
        resource: "gadgets",
        namespace: "sandbox",
    };

    assert!(tuned(&settings, Overdue, &other, []).enabled, "another kind");
}

#[test]
fn the_first_rule_with_a_value_decides_and_general_rules_come_last() {
    let settings = settings(&[
        (
            "Overdue",
            &[
                rule(&[], &["prod"], None, Some(Severity::Critical)),
                rule(&[], &[], None, Some(Severity::Info)),
                rule(&[], &["prod"], None, Some(Severity::Warning)),
            ],
        ),
        (
            "all",
            &[
                rule(&[], &["prod"], Some(true), None),
                rule(&[], &[], Some(false), Some(Severity::Critical)),
            ],
        ),
    ]);

    assert_eq!(decide(&settings, Overdue, &widget("prod")), (true, Severity::Critical));
    assert_eq!(decide(&settings, Overdue, &widget("dev")), (false, Severity::Info));
    assert_eq!(decide(&settings, PhaseStuck, &widget("prod")), (true, Severity::Critical));
}

#[test]
fn excluded_names_are_not_selected() {
    let except =
        |names: &[&str]| Selector { exclude: including(names).include, include: Vec::new() };
    let only_prod = FindingRule {
        namespaces: except(&["prod*"]),
        enabled: Some(false),
        ..FindingRule::default()
    };
    let settings = settings(&[("all", &[only_prod])]);

    assert!(decide(&settings, Overdue, &widget("prod-1")).0);
    assert!(!decide(&settings, Overdue, &widget("dev")).0);

    let source = Subject::Source { name: "lease".to_owned() };
    assert!(
        !decide(&settings, SourceFailing, &source).0,
        "a subject without namespace is not in prod"
    );

    let but_one = Selector { include: vec!["a*".to_owned()], exclude: vec!["ab".to_owned()] };
    let selected = |name: &str| but_one.selects(|pattern| matches(pattern, name));

    assert_eq!(["a", "ab", "abc", "b"].map(selected), [true, false, true, false]);
}

#[test]
fn kinds_are_named_as_for_the_flags() {
    let target =
        TuningTarget { group: "example.io", kind: "Widget", resource: "widgets", namespace: "" };
    for pattern in [
        "example.io/Widget",
        "example.io/widget",
        "example.io/widgets",
        "example.io/*",
        "*/Widget",
        "*",
    ] {
        assert!(target.is_kind(pattern), "{pattern}");
    }

    for pattern in ["Widget", "example.io/Gadget", "other.io/*", "", "/Widget"] {
        assert!(!target.is_kind(pattern), "{pattern}");
    }

    assert!(
        TuningTarget { kind: "Pod", ..TuningTarget::default() }.is_kind("Pod"),
        "the core group"
    );

    let definition = Subject::Definition { name: "widgets.example.io".to_owned() };
    let settings = settings(&[(
        "StatusSubresourceMissing",
        &[rule(&["example.io/widgets"], &[], Some(false), None)],
    )]);

    assert!(!decide(&settings, StatusSubresourceMissing, &definition).0);
}

#[test]
fn annotations_silence_all_or_some_findings() {
    let settings = Settings::default();
    let (subject, all) = (widget("a"), annotated(IGNORE, "all"));
    let some = annotated(IGNORE, " Overdue, phasestuck ,");
    let enabled = |code, annotated: &[&Annotated]| {
        tuned(&settings, code, &TuningTarget::of(&subject), annotated.iter().copied()).enabled
    };

    assert!(!enabled(Overdue, &[&all]) && !enabled(FindingCode::Failing, &[&all]));
    assert!(
        !enabled(Overdue, &[&some])
            && !enabled(PhaseStuck, &[&some])
            && enabled(FindingCode::Regressed, &[&some])
    );
    assert!(
        !enabled(Overdue, &[&annotated(DEADLINE, "5m"), &some]),
        "the object's or the namespace's"
    );
    assert!(some.problems.is_empty() && all.problems.is_empty());
}

#[test]
fn patterns_match_any_text_at_their_stars() {
    for (pattern, text, expected) in [
        ("*", "", true),
        ("*", "anything", true),
        ("a*c", "abbc", true),
        ("a*c", "abbcd", false),
        ("*-ci-*", "team-ci-1", true),
        ("a*a*a", "aa", false),
        ("a*a*a", "aXaXa", true),
        ("", "", true),
        ("", "a", false),
        ("abc", "ab", false),
    ] {
        assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
    }
}
