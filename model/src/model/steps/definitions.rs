//! Custom resource definitions that appear, change or disappear.

use crate::finding::{FindingCode, Subject};
use crate::model::Model;
use crate::model::deletion::terminating_scopes::TerminatingScope;
use crate::model::visibility::definitions;
use crate::observation::{DefinitionView, StatusSchema};

impl Model {
    pub(crate) fn definition_seen(&mut self, definition: DefinitionView) {
        let (parts, mut step) = self.parts();
        parts.terminating_scopes.note_definition(&mut step, &definition);
        let DefinitionView { group, kind, served, .. } = &definition;
        self.world.note_served_versions(group, kind, served);
        self.definitions.in_body.remove(&definition.name);
        if definition.status == StatusSchema::InBody
            && self.definitions.in_body.len() < definitions::MAX_DEFINITIONS
        {
            self.definitions.in_body.insert(definition.name.clone(), definition.clone());
        }

        definitions::review_definition(&mut self.world, &mut self.findings, definition);
    }

    pub(crate) fn definition_gone(&mut self, name: String) {
        self.definitions.in_body.remove(&name);
        self.parts.terminating_scopes.forget_scope(
            &mut self.world,
            &mut self.findings,
            &TerminatingScope::Definition(name.clone()),
        );

        let subject = Subject::Definition { name };
        self.findings.clear(self.world.now, FindingCode::StatusSubresourceMissing, &subject);
    }

    /// Forgets the definitions that a full list does not contain.
    pub(crate) fn definitions_listed(&mut self, names: &[String]) {
        self.parts.terminating_scopes.retain_scopes(&mut self.world, &mut self.findings, |scope| {
            match scope {
                TerminatingScope::Namespace(_) => true,
                TerminatingScope::Definition(name) => names.contains(name),
            }
        });
        let gone: Vec<String> =
            self.definitions.in_body.keys().filter(|name| !names.contains(name)).cloned().collect();

        gone.into_iter().for_each(|name| self.definition_gone(name));
    }
}
