//! Custom resource definitions without a status subresource, and the finding about them.

use crate::finding::{Evidence, FindingCode, Subject};
use crate::model::Model;
use crate::model::deletion::terminating_scopes::Container;
use crate::model::findings::detection::Detection;
use crate::observation::{DefinitionView, StatusSchema};

/// The maximum number of definitions that can be reviewed again.
const MAX_DEFINITIONS: usize = 2_000;

// === impl Model ===

impl Model {
    pub(crate) fn definition_seen(&mut self, definition: DefinitionView) {
        self.note_definition(&definition);
        self.definitions.remove(&definition.name);
        if definition.status == StatusSchema::InBody && self.definitions.len() < MAX_DEFINITIONS {
            self.definitions.insert(definition.name.clone(), definition.clone());
        }

        self.review_definition(definition);
    }

    pub(crate) fn definition_gone(&mut self, name: String) {
        self.definitions.remove(&name);
        self.forget_container(&Container::Definition(name.clone()));

        let subject = Subject::Definition { name };
        self.open_findings.clear(self.now, FindingCode::StatusSubresourceMissing, &subject);
    }

    /// Forgets the definitions that a full list does not contain.
    pub(crate) fn definitions_listed(&mut self, names: &[String]) {
        self.retain_containers(|container| match container {
            Container::Namespace(_) => true,
            Container::Definition(name) => names.contains(name),
        });
        let gone: Vec<String> =
            self.definitions.keys().filter(|name| !names.contains(name)).cloned().collect();

        gone.into_iter().for_each(|name| self.definition_gone(name));
    }

    /// Opens or closes the finding about a definition.
    pub(crate) fn review_definition(&mut self, definition: DefinitionView) {
        let subject = Subject::Definition { name: definition.name };
        if definition.status == StatusSchema::InBody {
            let evidence =
                Evidence::new().text("kind", definition.kind).text("group", definition.group);

            // The creation time is the best evidence, because loopwatch does not see earlier
            // versions of a definition.
            let (now, since) = (self.now, definition.created.unwrap_or(self.now).min(self.now));
            self.raise(
                subject,
                Detection::new(now, FindingCode::StatusSubresourceMissing, since, now, || evidence),
            );
        } else {
            self.open_findings.clear(self.now, FindingCode::StatusSubresourceMissing, &subject);
        }
    }
}
