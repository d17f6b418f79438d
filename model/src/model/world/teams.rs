//! The teams of namespaces, for the alerts about objects in them. The sources report the value of
//! one label of each namespace, if the configuration names one.

use std::collections::BTreeMap;

use crate::model::Model;
use crate::snapshot::Health;

// === impl Model ===

impl Model {
    /// Handles a version of a namespace. `team` is empty if it has none.
    pub(crate) fn note_team(&mut self, namespace: &str, team: &str) {
        if team.is_empty() {
            self.teams.remove(namespace);
        } else if let Some(known) = self.teams.get_mut(namespace) {
            team.clone_into(known);
        } else if self.teams.len() < self.settings.limits.namespaces {
            self.teams.insert(namespace.to_owned(), team.to_owned());
        } else {
            self.count_dropped("namespaces");
        }
    }

    /// Returns the teams of the namespaces that loopwatch shows: those with objects or findings.
    pub(crate) fn shown_teams(&self, shown: &BTreeMap<String, Health>) -> BTreeMap<String, String> {
        let team =
            |namespace: &String| Some((namespace.clone(), self.teams.get(namespace)?.clone()));
        shown.keys().filter_map(team).collect()
    }
}
