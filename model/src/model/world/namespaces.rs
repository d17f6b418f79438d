//! What the model knows about namespaces: the annotations that tune findings, whether one is being
//! deleted, and the teams for the alerts about objects in them. The sources report the value of one
//! label of each namespace as its team, if the configuration names one.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::world::annotations::{self, Annotated};
use crate::snapshot::Health;
use crate::time::{Span, Timestamp};

/// What the model knows about namespaces, by name.
#[derive(Debug, Default)]
pub(crate) struct Namespaces {
    /// Their annotations; only of those that have any.
    pub(crate) annotated: BTreeMap<String, Box<Annotated>>,
    /// Their teams; only of those that have one.
    pub(crate) teams: BTreeMap<String, String>,
    /// Those that are being deleted.
    terminating: BTreeSet<String>,
    /// The last time during which namespaces were being deleted: its start, and its end if none is
    /// now.
    terminations: Option<(Timestamp, Option<Timestamp>)>,
}

/// How much later the operator's metrics may show a request: after the longest usual time between
/// two scrapes.
const SCRAPED_WITHIN: Span = Span::mins(1);

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

    /// Notes that a namespace is being deleted, or no longer is.
    pub(crate) fn set_terminating(&mut self, name: &str, is_terminating: bool, now: Timestamp) {
        let was_empty = self.terminating.is_empty();
        if is_terminating {
            self.terminating.insert(name.to_owned());
        } else {
            self.terminating.remove(name);
        }

        self.terminations = match (was_empty, self.terminating.is_empty()) {
            (true, false) => Some((now, None)),
            (false, true) => self.terminations.map(|(start, _)| (start, Some(now))),
            _ => self.terminations,
        };
    }

    /// Returns whether some namespace was being deleted whenever the operator's metrics showed
    /// something between two instants.
    pub(crate) fn were_terminating(&self, first: Timestamp, last: Timestamp) -> bool {
        self.terminations.is_some_and(|(start, end)| {
            start <= first && end.is_none_or(|end| last <= end.after(SCRAPED_WITHIN))
        })
    }

    /// Moves all instants to the new setting of the clock.
    pub(crate) fn clock_stepped(&mut self, by_ms: i64) {
        if let Some((start, end)) = &mut self.terminations {
            *start = start.shifted(by_ms);
            *end = end.map(|end| end.shifted(by_ms));
        }
    }

    /// Returns whether a namespace is being deleted.
    pub(crate) fn is_terminating(&self, name: &str) -> bool {
        !self.terminating.is_empty() && self.terminating.contains(name)
    }

    /// Returns the deadline that the annotations of an object or of its namespace set.
    pub(crate) fn deadline(&self, object: Option<&Annotated>, namespace: &str) -> Option<Span> {
        annotations::deadline(object, self.annotations(namespace))
    }

    /// Returns whether the objects of a namespace are critical.
    pub(crate) fn is_critical(&self, name: &str) -> bool {
        self.annotations(name).is_some_and(|annotated| annotated.is_critical)
    }

    /// Returns the annotations of a namespace.
    pub(crate) fn annotations(&self, name: &str) -> Option<&Annotated> {
        self.annotated.get(name).map(|annotated| &**annotated)
    }
}
