//! Custom resource definitions without a status subresource, and the finding about them.

use std::collections::BTreeMap;

use crate::finding::{Evidence, FindingCode, Subject};
use crate::model::findings::detection::Detection;
use crate::model::findings::open_findings::OpenFindings;
use crate::model::world::World;
use crate::observation::{DefinitionView, StatusSchema};

/// The definitions without a status subresource.
#[derive(Debug, Default)]
pub(crate) struct Definitions {
    /// The definitions by name, for a review when the settings change; at most [`MAX_DEFINITIONS`].
    pub(crate) in_body: BTreeMap<String, DefinitionView>,
}

/// The maximum number of definitions that the model keeps for another review.
pub(crate) const MAX_DEFINITIONS: usize = 2_000;

/// Opens or closes the finding about a definition.
pub(crate) fn review_definition(
    world: &mut World,
    findings: &mut OpenFindings,
    definition: DefinitionView,
) {
    let subject = Subject::Definition { name: definition.name };
    if definition.status == StatusSchema::InBody {
        let evidence =
            Evidence::new().text("kind", definition.kind).text("group", definition.group);

        // loopwatch does not see earlier versions of a definition, so its creation is the best
        // known start of the problem.
        let (now, since) = (world.now, definition.created.unwrap_or(world.now).min(world.now));
        findings.report(
            world,
            subject,
            Detection::new(now, FindingCode::StatusSubresourceMissing, since, now, || evidence),
        );
    } else {
        findings.clear(world.now, FindingCode::StatusSubresourceMissing, &subject);
    }
}
