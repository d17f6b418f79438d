//! Definitions of kinds.

use loopwatch_model::observation::{DefinitionView, Observation, StatusSchema};
use loopwatch_model::time::{Span, Timestamp};

use crate::lab::Lab;

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
