//! The order in which findings give way to others when there is no room for all.
//!
//! A finding gives way to a more severe one. Of findings of the same severity, those about objects
//! in the namespace with most of them give way, so that the objects of one user never keep the
//! findings about others from opening.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;

use crate::finding::{FindingId, Severity, Subject};
use crate::model::findings::open_findings::record::Record;

/// The findings that count towards a limit.
#[derive(Debug, Default)]
pub(super) struct Ranking {
    /// The most severe first.
    by_severity: BTreeSet<(Severity, FindingId)>,
    /// The findings about objects in namespaces.
    by_namespace: BTreeMap<(Severity, Arc<str>), BTreeSet<FindingId>>,
    /// The namespaces with findings of each severity, by the number of these findings.
    sizes: BTreeSet<(Severity, usize, Arc<str>)>,
}

/// The place of a finding in a ranking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rank {
    severity: Severity,
    id: FindingId,
    /// The namespace of the object, if the finding is about an object in one.
    namespace: Option<Arc<str>>,
}

/// How many findings more than another one a namespace must have to give way to it. With less,
/// two namespaces would take each other's place in turns.
const MORE: usize = 2;

impl Rank {
    pub(super) fn of(record: &Record) -> Self {
        let namespace = match &record.finding.subject {
            Subject::Object { namespace, .. } if !namespace.is_empty() => Some(&**namespace),
            _ => None,
        };

        Self {
            severity: record.finding.severity,
            id: record.finding.id,
            namespace: namespace.map(Arc::from),
        }
    }
}

impl Ranking {
    pub(super) fn len(&self) -> usize {
        self.by_severity.len()
    }

    pub(super) fn insert(&mut self, rank: &Rank) {
        self.by_severity.insert((rank.severity, rank.id));
        self.change_namespace(rank, |findings| _ = findings.insert(rank.id));
    }

    /// Returns whether the ranking contained the finding.
    pub(super) fn remove(&mut self, rank: &Rank) -> bool {
        let is_known = self.by_severity.remove(&(rank.severity, rank.id));
        if is_known {
            self.change_namespace(rank, |findings| _ = findings.remove(&rank.id));
        }

        is_known
    }

    /// Returns the most severe finding.
    pub(super) fn most_severe(&self) -> Option<(Severity, FindingId)> {
        self.by_severity.first().copied()
    }

    /// Returns the least severe finding.
    pub(super) fn least_severe(&self) -> Option<(Severity, FindingId)> {
        self.by_severity.last().copied()
    }

    /// Returns the finding that gives way to one that is not part of the ranking.
    pub(super) fn gives_way_to(&self, rank: &Rank) -> Option<FindingId> {
        match self.least_severe()? {
            (least, id) if least > rank.severity => Some(id),
            _ => self.of_largest_namespace(rank),
        }
    }

    fn of_largest_namespace(&self, rank: &Rank) -> Option<FindingId> {
        let (_, largest, namespace) = self.largest_namespace(rank.severity)?;
        let own = rank.namespace.as_ref().map_or(0, |own| self.count(rank.severity, own));
        if *largest < own + MORE {
            return None;
        }

        self.by_namespace.get(&(rank.severity, namespace.clone()))?.last().copied()
    }

    /// Returns the namespace with most findings of a severity.
    fn largest_namespace(&self, severity: Severity) -> Option<&(Severity, usize, Arc<str>)> {
        let beyond = (severity, usize::MAX, Arc::from(""));
        let upto = self.sizes.range((Unbounded, Excluded(beyond))).next_back();
        upto.filter(|(of, ..)| *of == severity)
    }

    fn count(&self, severity: Severity, namespace: &Arc<str>) -> usize {
        self.by_namespace.get(&(severity, namespace.clone())).map_or(0, BTreeSet::len)
    }

    fn change_namespace(&mut self, rank: &Rank, change: impl FnOnce(&mut BTreeSet<FindingId>)) {
        let Some(namespace) = rank.namespace.clone() else { return };
        let key = (rank.severity, namespace);
        let findings = self.by_namespace.entry(key.clone()).or_default();
        let before = findings.len();
        change(findings);

        let after = findings.len();
        if after == 0 {
            self.by_namespace.remove(&key);
        }

        let (severity, namespace) = key;
        self.sizes.remove(&(severity, before, namespace.clone()));
        if after > 0 {
            self.sizes.insert((severity, after, namespace));
        }
    }
}
