//! Namespaces: their annotations, their teams, and their deletion.

use std::collections::BTreeSet;

use crate::finding::{Evidence, FindingCode};
use crate::model::Model;
use crate::model::deletion::terminating_scopes::TerminatingScope;
use crate::model::findings::detection::Detection;
use crate::model::world::annotations::Annotated;
use crate::model::world::limits::Limit;
use crate::model::world::subjects;
use crate::observation::{NamespaceView, SourceId};

impl Model {
    /// Replaces the annotations of all namespaces.
    pub(crate) fn namespaces_listed(&mut self, namespaces: Vec<NamespaceView>) {
        self.world.sources.note_success(&SourceId::Namespaces, self.world.now);
        let listed: BTreeSet<&str> =
            namespaces.iter().map(|namespace| namespace.name.as_str()).collect();
        self.parts.terminating_scopes.retain_scopes(&mut self.world, &mut self.findings, |scope| {
            match scope {
                TerminatingScope::Namespace(name) => listed.contains(name.as_str()),
                TerminatingScope::Definition(_) => true,
            }
        });

        let gone = self
            .world
            .namespaces
            .annotated
            .keys()
            .filter(|name| !listed.contains(name.as_str()))
            .cloned();
        let mut changed = false;
        for name in gone.collect::<Vec<_>>() {
            changed |= self.forget_namespace(&name);
        }

        self.world.namespaces.teams.retain(|name, _| listed.contains(name.as_str()));
        for namespace in namespaces {
            changed |= self.take_namespace(namespace);
        }

        if changed {
            self.retune();
        }
    }

    /// Handles a change of a namespace's annotations.
    pub(crate) fn namespace_seen(&mut self, namespace: NamespaceView) {
        self.world.sources.note_success(&SourceId::Namespaces, self.world.now);
        if self.take_namespace(namespace) {
            self.retune();
        }
    }

    /// Handles the deletion of a namespace.
    pub(crate) fn namespace_gone(&mut self, name: &str) {
        self.world.sources.note_success(&SourceId::Namespaces, self.world.now);
        self.parts.terminating_scopes.forget_scope(
            &mut self.world,
            &mut self.findings,
            &TerminatingScope::Namespace(name.to_owned()),
        );
        self.note_team(name, "");

        if self.forget_namespace(name) {
            self.retune();
        }
    }

    /// Updates the annotations of a namespace. Returns whether they changed.
    pub(crate) fn take_namespace(&mut self, namespace: NamespaceView) -> bool {
        let (parts, mut step) = self.parts();
        parts.terminating_scopes.note_namespace(&mut step, &namespace);
        self.note_team(&namespace.name, &namespace.team);

        let NamespaceView { name, annotations, .. } = namespace;
        let Some(annotated) = Annotated::read(&annotations) else {
            return self.forget_namespace(&name);
        };
        if self.world.namespaces.annotated.len() >= self.world.settings.limits.namespaces
            && !self.world.namespaces.annotated.contains_key(&name)
        {
            self.world.count_dropped(Limit::Namespaces);
            return false;
        }

        let subject = subjects::namespace(&name);
        if annotated.problems.is_empty() {
            self.findings.clear(self.world.now, FindingCode::ConfigInvalid, &subject);
        } else {
            let evidence = Evidence::new().text("problem", annotated.problems.join("; "));
            let now = self.world.now;
            self.findings.report(
                &mut self.world,
                subject,
                Detection::new(now, FindingCode::ConfigInvalid, now, now, || evidence),
            );
        }

        let earlier = self.world.namespaces.annotated.insert(name, annotated.clone());
        earlier.as_ref() != Some(&annotated)
    }

    /// Forgets the annotations of a namespace. Returns whether it had any.
    pub(crate) fn forget_namespace(&mut self, name: &str) -> bool {
        self.findings.clear(self.world.now, FindingCode::ConfigInvalid, &subjects::namespace(name));
        self.world.namespaces.annotated.remove(name).is_some()
    }

    fn note_team(&mut self, namespace: &str, team: &str) {
        let limit = self.world.settings.limits.namespaces;
        if !self.world.namespaces.set_team(namespace, team, limit) {
            self.world.count_dropped(Limit::Namespaces);
        }
    }
}
