//! Custom resource definitions that appear, change or disappear.

use std::collections::BTreeSet;

use crate::model::Model;
use crate::model::deletion::terminating_scopes::TerminatingScope;
use crate::observation::DefinitionView;

impl Model {
    pub(crate) fn definition_seen(&mut self, definition: DefinitionView) {
        let (parts, mut step) = self.parts();
        parts.terminating_scopes.note_definition(&mut step, &definition);
        parts.webhooks.definition_seen(&mut step, &definition);
        let DefinitionView { group, kind, served, .. } = &definition;
        self.world.note_served_versions(group, kind, served);

        let (parts, step) = self.parts();
        parts.definitions.note(step.world, step.findings, definition);
    }

    pub(crate) fn definition_gone(&mut self, name: String) {
        let (parts, step) = self.parts();
        parts.definitions.forget(step.world, step.findings, &name);
        parts.webhooks.definition_gone(&name);
        parts.terminating_scopes.forget_scope(
            step.world,
            step.findings,
            &TerminatingScope::Definition(name),
        );
    }

    /// Forgets the definitions that a full list does not contain.
    pub(crate) fn definitions_listed(&mut self, names: &[String]) {
        self.parts.terminating_scopes.retain_scopes(&mut self.world, &mut self.findings, |scope| {
            match scope {
                TerminatingScope::Namespace(_) => true,
                TerminatingScope::Definition(name) => names.contains(name),
            }
        });
        let known = self.parts.definitions.names().chain(self.parts.webhooks.definitions());
        let gone: BTreeSet<String> = known.filter(|name| !names.contains(name)).cloned().collect();

        gone.into_iter().for_each(|name| self.definition_gone(name));
    }
}
