//! Which finding gets a place if there is no room for all.
//!
//! A more severe finding takes the place of a less severe one. Among findings of equal severity,
//! the namespace that has most makes room for one that has at least two fewer, so nobody who
//! causes many findings keeps those about other namespaces from opening. Findings about no
//! namespace, such as those about the operator and its kinds, never make room for those about
//! namespaces.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::finding::{FindingId, Severity};
use crate::model::world::crowd::Crowd;

/// The places of the findings that count towards the limit.
#[derive(Debug, Default)]
pub(super) struct Places {
    open: Ranks,
    waiting: Ranks,
    /// The groups that wait: the most severe first, and then those that have the fewest open.
    next: BTreeSet<(Severity, usize, Group)>,
}

/// What decides the place of a finding.
#[derive(Clone, Debug)]
pub(super) struct Claim {
    pub(super) severity: Severity,
    pub(super) group: Group,
    /// The number of the finding, in the order in which they were raised.
    pub(super) number: u64,
    pub(super) id: FindingId,
}

/// The namespace of a finding, or `None` if it is not about a namespace.
pub(super) type Group = Option<Arc<str>>;

/// Findings by severity and by namespace.
#[derive(Debug, Default)]
struct Ranks {
    of_namespaces: BTreeMap<Severity, Crowd<Arc<str>, (u64, FindingId)>>,
    of_none: BTreeSet<(Severity, u64, FindingId)>,
}

impl Places {
    /// Returns how many findings are open.
    pub(super) fn open(&self) -> usize {
        self.open.len()
    }

    /// Returns how many findings wait.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn add_open(&mut self, claim: &Claim) {
        self.change(claim, |places| places.open.insert(claim));
    }

    pub(super) fn remove_open(&mut self, claim: &Claim) {
        self.change(claim, |places| places.open.remove(claim));
    }

    pub(super) fn add_waiting(&mut self, claim: &Claim) {
        self.change(claim, |places| places.waiting.insert(claim));
    }

    pub(super) fn remove_waiting(&mut self, claim: &Claim) {
        self.change(claim, |places| places.waiting.remove(claim));
    }

    /// Returns the open finding that makes room for another one, if one does.
    pub(super) fn open_for(&self, severity: Severity, group: &Group) -> Option<FindingId> {
        self.open.gives_way_to(severity, group)
    }

    /// Returns the waiting finding that makes room for another one, if one does.
    pub(super) fn waiting_for(&self, severity: Severity, group: &Group) -> Option<FindingId> {
        self.waiting.gives_way_to(severity, group)
    }

    /// Returns the waiting finding that opens next, with its severity and its group.
    pub(super) fn next(&self) -> Option<(Severity, &Group, FindingId)> {
        let (severity, _, group) = self.next.first()?;
        Some((*severity, group, self.waiting.first(*severity, group)?))
    }

    /// Makes a change to the group of a finding.
    fn change(&mut self, claim: &Claim, change: impl FnOnce(&mut Self)) {
        let old = self.need(claim);
        change(self);

        let new = self.need(claim);
        if old != new {
            old.map(|old| self.next.remove(&old));
            self.next.extend(new);
        }
    }

    /// Returns the entry of the group of a finding in [`Self::next`], if it waits.
    fn need(&self, claim: &Claim) -> Option<(Severity, usize, Group)> {
        let Claim { severity, group, .. } = claim;
        self.waiting.first(*severity, group)?;
        Some((*severity, self.open.size(*severity, group), group.clone()))
    }
}

impl Ranks {
    fn len(&self) -> usize {
        self.of_none.len() + self.of_namespaces.values().map(Crowd::len).sum::<usize>()
    }

    fn insert(&mut self, claim: &Claim) {
        let Claim { severity, ref group, number, id } = *claim;
        match group {
            Some(namespace) => {
                self.of_namespaces.entry(severity).or_default().insert(namespace, (number, id), 1);
            }
            None => drop(self.of_none.insert((severity, number, id))),
        }
    }

    fn remove(&mut self, claim: &Claim) {
        let Claim { severity, ref group, number, id } = *claim;
        let Some(namespace) = group else {
            self.of_none.remove(&(severity, number, id));
            return;
        };

        if let Some(crowd) = self.of_namespaces.get_mut(&severity) {
            crowd.remove(namespace, &(number, id));
            if crowd.len() == 0 {
                self.of_namespaces.remove(&severity);
            }
        }
    }

    /// Returns the number of findings of a namespace, and 0 for those of none, which come first.
    fn size(&self, severity: Severity, group: &Group) -> usize {
        let crowd = self.of_namespaces.get(&severity);
        crowd.zip(group.as_ref()).map_or(0, |(crowd, namespace)| crowd.size_of(namespace))
    }

    /// Returns the first finding of a group.
    fn first(&self, severity: Severity, group: &Group) -> Option<FindingId> {
        match group {
            Some(namespace) => Some(self.of_namespaces.get(&severity)?.first(namespace)?.1),
            None => {
                let first = self.of_none.range((severity, 0, FindingId(0))..).next();
                first.filter(|(of, ..)| *of == severity).map(|(.., id)| *id)
            }
        }
    }

    /// Returns the finding that makes room for another one, if one does. Severities sort in
    /// descending order: the least severe is the last.
    fn gives_way_to(&self, severity: Severity, group: &Group) -> Option<FindingId> {
        let of_namespace = self.of_namespaces.last_key_value().and_then(|(least, crowd)| {
            let namespace = match group {
                Some(namespace) if *least == severity => crowd.gives_way_to(namespace, 1),
                _ => crowd.largest().filter(|_| *least >= severity),
            };
            crowd.last(namespace?).map(|(_, id)| *id)
        });

        let of_none = self.of_none.last();
        let of_none = of_none.filter(|(least, ..)| group.is_none() && *least > severity);
        of_namespace.or(of_none.map(|(.., id)| *id))
    }
}
