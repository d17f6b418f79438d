//! What the model knows about namespaces: the annotations that tune findings, whether one is being
//! deleted, and the teams for the alerts about objects in them. The sources report the value of one
//! label of each namespace as its team, if the configuration names one.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::world::annotations::{self, Annotated};
use crate::snapshot::Health;
use crate::time::Span;

/// What the model knows about namespaces, by name.
#[derive(Debug, Default)]
pub(crate) struct Namespaces {
    /// Their annotations; only of those that have any.
    pub(crate) annotated: BTreeMap<String, Box<Annotated>>,
    /// Their teams; only of those that have one.
    pub(crate) teams: BTreeMap<String, String>,
    /// Those that are being deleted.
    pub(crate) terminating: BTreeSet<String>,
}

impl Namespaces {
    /// Sets the team of a namespace; none if `team` is empty. Returns whether there is room for it
    /// among `limit` teams.
    pub(crate) fn set_team(&mut self, namespace: &str, team: &str, limit: usize) -> bool {
        if team.is_empty() {
            self.teams.remove(namespace);
        } else if let Some(known) = self.teams.get_mut(namespace) {
            team.clone_into(known);
        } else if self.teams.len() < limit {
            self.teams.insert(namespace.to_owned(), team.to_owned());
        } else {
            return false;
        }

        true
    }

    /// Returns the teams of the namespaces that loopwatch shows: those with objects or findings.
    pub(crate) fn shown_teams(&self, shown: &BTreeMap<String, Health>) -> BTreeMap<String, String> {
        let team =
            |namespace: &String| Some((namespace.clone(), self.teams.get(namespace)?.clone()));
        shown.keys().filter_map(team).collect()
    }

    /// Returns whether a namespace is being deleted.
    pub(crate) fn is_terminating(&self, name: &str) -> bool {
        !self.terminating.is_empty() && self.terminating.contains(name)
    }

    /// Returns the deadline that the annotations of an object or of its namespace set.
    pub(crate) fn deadline(&self, object: Option<&Annotated>, namespace: &str) -> Option<Span> {
        annotations::deadline(object, self.annotations(namespace))
    }

    /// Returns the annotations of a namespace.
    pub(crate) fn annotations(&self, name: &str) -> Option<&Annotated> {
        self.annotated.get(name).map(|annotated| &**annotated)
    }
}
