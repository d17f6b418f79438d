//! Definitions of kinds.

use std::collections::BTreeMap;

use loopwatch_model::finding::Severity;
use loopwatch_model::observation::{
    Condition, ConditionStatus, DefinitionView, Observation, StatusSchema,
};
use loopwatch_model::settings::{ALL_FINDINGS, FindingRule, Settings};
use loopwatch_model::time::{Span, Timestamp};

use crate::lab::{GROUP, Lab, condition};

#[test]
fn a_status_without_a_status_subresource_opens_a_finding_about_the_definition() {
    let mut lab = Lab::new();
    let definition = |status| DefinitionView {
        name: "widgets.example.io".into(),
        kind: "Widget".into(),
        status,
        ..Default::default()
    };

    lab.observe(Observation::DefinitionSeen(definition(StatusSchema::None)));
    lab.assert_no_findings();
    lab.observe(Observation::DefinitionSeen(definition(StatusSchema::InBody)));

    assert_eq!(lab.findings(), ["StatusSubresourceMissing definition widgets.example.io"]);

    let finding = &lab.snapshot().findings[0];
    assert_eq!(finding.since, finding.found, "an old recording does not contain the creation time");

    lab.observe(Observation::DefinitionSeen(definition(StatusSchema::Subresource)));
    lab.assert_no_findings();

    let created = Some(Timestamp(lab.now.0 - Span::hours(5).0));
    lab.observe(Observation::DefinitionSeen(DefinitionView {
        created,
        ..definition(StatusSchema::InBody)
    }));

    assert_eq!(Some(lab.snapshot().findings[0].since), created);

    lab.observe(Observation::DefinitionsListed(vec!["widgets.example.io".into()]));
    assert_eq!(lab.findings().len(), 1, "it exists");

    lab.observe(Observation::DefinitionsListed(Vec::new()));
    lab.assert_no_findings(); // the deletion itself was not seen
}

/// Returns a definition of the operator that was created just now, with these conditions.
fn established(lab: &Lab, conditions: &[(&str, ConditionStatus, &str)]) -> DefinitionView {
    let condition = |(name, status, reason): &(&str, ConditionStatus, &str)| Condition {
        changed: Some(lab.now),
        ..condition(name, *status, reason)
    };
    DefinitionView {
        name: format!("gears.{GROUP}"),
        group: GROUP.into(),
        kind: "Gear".into(),
        served: vec!["v1".into()],
        storage: "v1".into(),
        stored: vec!["v1".into()],
        status: StatusSchema::Subresource,
        conditions: conditions.iter().map(condition).collect(),
        created: Some(lab.now),
        ..Default::default()
    }
}

const WORKS: [(&str, ConditionStatus, &str); 2] = [
    ("NamesAccepted", ConditionStatus::True, "NoConflicts"),
    ("Established", ConditionStatus::True, "InitialNamesAccepted"),
];

fn see(lab: &mut Lab, definition: &DefinitionView) {
    lab.observe(Observation::DefinitionSeen(definition.clone()));
}

#[test]
fn a_definition_that_is_not_established_within_a_minute_is_found() {
    let refused: [(&str, ConditionStatus, &str); 2] = [
        ("NamesAccepted", ConditionStatus::False, "ShortNamesConflict"),
        ("Established", ConditionStatus::False, "NotAccepted"),
    ];
    for (conditions, reason) in
        [(&refused[..], "ShortNamesConflict"), (&refused[1..], "NotAccepted")]
    {
        let mut lab = Lab::new();
        let definition = established(&lab, conditions);
        see(&mut lab, &definition);
        lab.advance(Span::secs(59));
        lab.assert_no_findings();

        lab.advance(Span::secs(2));
        assert_eq!(lab.findings(), ["DefinitionNotEstablished definition gears.example.io"]);
        assert!(lab.evidence().contains(reason), "{}", lab.evidence());
        assert_eq!(lab.finding("DefinitionNotEstablished").severity, Severity::Warning);

        let definition = established(&lab, &WORKS);
        see(&mut lab, &definition);
        lab.assert_no_findings();
    }
}

#[test]
fn names_that_are_refused_although_the_definition_works_are_found() {
    let mut lab = Lab::new();
    let conditions = [("NamesAccepted", ConditionStatus::False, "ShortNamesConflict"), WORKS[1]];
    let definition = established(&lab, &conditions);
    see(&mut lab, &definition);
    lab.advance(Span::mins(2));
    assert_eq!(lab.findings(), ["DefinitionNotEstablished definition gears.example.io"]);
}

#[test]
fn a_definition_of_others_or_one_that_is_deleted_or_known_from_an_old_recording_alerts_nobody() {
    let mut lab = Lab::new();
    let refused = [("Established", ConditionStatus::False, "NotAccepted")];
    let definition = established(&lab, &refused);
    let deleted = DefinitionView { deleted: Some(lab.now), ..definition.clone() };
    let old = DefinitionView { conditions: Vec::new(), ..definition.clone() };
    let names = ["a.example.io", "b.example.io"];
    for (name, view) in names.into_iter().zip([deleted, old]) {
        see(&mut lab, &DefinitionView { name: name.into(), ..view });
    }
    lab.advance(Span::mins(5));
    lab.assert_no_findings();

    let definition = established(&lab, &refused);
    see(&mut lab, &DefinitionView { group: "other.example.org".into(), ..definition });
    lab.advance(Span::mins(5));
    assert_eq!(lab.finding("DefinitionNotEstablished").severity, Severity::Info);
}

#[test]
fn versions_in_which_objects_may_still_be_stored_are_information() {
    let mut lab = Lab::new();
    let definition = DefinitionView {
        stored: vec!["v1alpha1".into(), "v1".into()],
        ..established(&lab, &WORKS)
    };
    see(&mut lab, &definition);
    assert_eq!(lab.findings(), ["StorageMigrationPending definition gears.example.io"]);
    assert!(lab.evidence().contains("stored v1alpha1"), "{}", lab.evidence());
    assert_eq!(lab.finding("StorageMigrationPending").severity, Severity::Info);

    let since = lab.since("StorageMigrationPending");
    lab.advance(Span::hours(1));
    see(&mut lab, &definition);
    assert_eq!(lab.since("StorageMigrationPending"), since);

    see(&mut lab, &DefinitionView { stored: vec!["v1".into()], ..definition.clone() });
    lab.assert_no_findings();

    see(&mut lab, &DefinitionView { group: "other.example.org".into(), ..definition });
    lab.assert_no_findings();
}

#[test]
fn a_schema_that_is_not_structural_is_information() {
    let mut lab = Lab::new();
    let violated = ("NonStructuralSchema", ConditionStatus::True, "Violations");
    let definition = established(&lab, &[WORKS[0], WORKS[1], violated]);
    see(&mut lab, &definition);
    assert_eq!(lab.findings(), ["DefinitionNonStructural definition gears.example.io"]);
    assert_eq!(lab.finding("DefinitionNonStructural").severity, Severity::Info);
}

#[test]
fn an_incomplete_schema_of_the_operator_is_reported_if_a_rule_enables_it() {
    let incomplete = |group: &str, drops_status, keeps: &[&str]| DefinitionView {
        name: format!("gears.{group}"),
        group: group.into(),
        drops_status,
        keeps_unknown: keeps.iter().map(ToString::to_string).collect(),
        ..Default::default()
    };

    let mut quiet = Lab::new();
    quiet.observe(Observation::DefinitionSeen(incomplete(GROUP, true, &[])));
    quiet.assert_no_findings();

    let enabled = FindingRule { enabled: Some(true), ..Default::default() };
    let findings = BTreeMap::from([(ALL_FINDINGS.to_owned(), vec![enabled])]);
    let mut lab = Lab::with(Settings { findings, ..Settings::default() });
    lab.observe(Observation::DefinitionSeen(incomplete("other.io", true, &["root"])));
    lab.observe(Observation::DefinitionSeen(incomplete(GROUP, false, &[])));
    lab.assert_no_findings();

    lab.observe(Observation::DefinitionSeen(incomplete(GROUP, true, &["spec"])));
    assert_eq!(lab.findings(), [format!("DefinitionSchemaIncomplete definition gears.{GROUP}")]);

    let finding = &lab.snapshot().findings[0];
    assert_eq!(finding.severity, Severity::Info);
    assert!(finding.summary().contains("dropped status"), "{}", finding.summary());
    assert!(finding.summary().contains("unchecked spec"), "{}", finding.summary());

    lab.observe(Observation::DefinitionSeen(incomplete(GROUP, false, &[])));
    lab.assert_no_findings();
}
