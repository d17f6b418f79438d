//! Which finding gets a place if there is no room for all.
//!
//! Namespaces share the places. The namespace with most findings makes room for one that has at
//! least two fewer, however severe their findings are. Otherwise, somebody who causes many severe
//! findings would close those about other namespaces. Within its share, a namespace keeps the most
//! severe. A more severe finding also takes the place of the least severe one of all, unless that
//! is about a namespace with no more findings than its own.
//!
//! Findings about no namespace, such as those about the operator and its kinds, never make room for
//! those about namespaces.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::finding::{FindingId, Severity};
use crate::model::world::crowd::Crowd;

/// The places of the findings that count towards the limit.
#[derive(Debug, Default)]
pub(super) struct Places {
    open: Ranks,
    waiting: Ranks,
    /// The groups that wait. Those with the fewest open findings are first.
    next: BTreeSet<(usize, Group)>,
    /// The groups whose findings have changed since the last step.
    touched: BTreeSet<Group>,
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

/// Findings by namespace and by severity.
#[derive(Debug, Default)]
struct Ranks {
    of_namespaces: Crowd<Arc<str>, Rank>,
    /// The same findings, the least severe last.
    by_severity: BTreeSet<(Rank, Arc<str>)>,
    of_none: BTreeSet<Rank>,
}

/// The order within a group. Severities sort in descending order: the most severe, and of these the
/// oldest, is the first.
type Rank = (Severity, u64, FindingId);

impl Claim {
    fn rank(&self) -> Rank {
        (self.severity, self.number, self.id)
    }
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

    /// Returns the waiting finding that opens next if there is room.
    pub(super) fn next(&self) -> Option<FindingId> {
        let (_, group) = self.next.first()?;
        self.waiting.first(group).map(|(.., id)| id)
    }

    /// Returns a waiting finding that takes the place of an open one, and that one. Only groups that
    /// have changed, and the one with the fewest open findings, can have such a finding.
    pub(super) fn exchange(&mut self) -> Option<(FindingId, FindingId)> {
        while let Some(group) = self.touched.first().cloned() {
            if let Some(exchange) = self.exchange_in(&group) {
                return Some(exchange);
            }
            self.touched.remove(&group);
        }

        self.next.first().and_then(|(_, group)| self.exchange_in(group))
    }

    fn exchange_in(&self, group: &Group) -> Option<(FindingId, FindingId)> {
        let (severity, _, id) = self.waiting.first(group)?;
        Some((id, self.open_for(severity, group)?))
    }

    /// Makes a change to the group of a finding.
    fn change(&mut self, claim: &Claim, change: impl FnOnce(&mut Self)) {
        let old = self.need(&claim.group);
        change(self);

        let new = self.need(&claim.group);
        if old != new {
            old.map(|old| self.next.remove(&old));
            self.next.extend(new.clone());
        }

        if new.is_some() {
            self.touched.insert(claim.group.clone());
        }
    }

    /// Returns the entry of a group in [`Self::next`], if it waits.
    fn need(&self, group: &Group) -> Option<(usize, Group)> {
        self.waiting.first(group)?;
        Some((self.open.size(group), group.clone()))
    }
}

impl Ranks {
    fn len(&self) -> usize {
        self.of_none.len() + self.of_namespaces.len()
    }

    fn insert(&mut self, claim: &Claim) {
        match &claim.group {
            Some(namespace) => {
                self.of_namespaces.insert(namespace, claim.rank(), 1);
                self.by_severity.insert((claim.rank(), namespace.clone()));
            }
            None => drop(self.of_none.insert(claim.rank())),
        }
    }

    fn remove(&mut self, claim: &Claim) {
        match &claim.group {
            Some(namespace) => {
                self.of_namespaces.remove(namespace, &claim.rank());
                self.by_severity.remove(&(claim.rank(), namespace.clone()));
            }
            None => drop(self.of_none.remove(&claim.rank())),
        }
    }

    /// Returns the number of findings of a namespace, and 0 for those of none, which come first.
    fn size(&self, group: &Group) -> usize {
        group.as_ref().map_or(0, |namespace| self.of_namespaces.size_of(namespace))
    }

    /// Returns the most severe finding of a group.
    fn first(&self, group: &Group) -> Option<Rank> {
        match group {
            Some(namespace) => self.of_namespaces.first(namespace).copied(),
            None => self.of_none.first().copied(),
        }
    }

    /// Returns the finding that makes room for another one, if one does.
    fn gives_way_to(&self, severity: Severity, group: &Group) -> Option<FindingId> {
        let is_less = |rank: &&Rank| rank.0 > severity;
        let leaving = match group {
            Some(namespace) => {
                let of_largest = self.of_namespaces.leaves_for(namespace, 1);
                let own = || self.of_namespaces.last(namespace).filter(is_less);
                of_largest.or_else(own).or_else(|| self.least_severe(namespace).filter(is_less))
            }
            None => {
                let largest = self.of_namespaces.largest();
                let of_largest = largest.and_then(|largest| self.of_namespaces.last(largest));
                of_largest.or_else(|| self.of_none.last().filter(is_less))
            }
        };

        leaving.map(|(.., id)| *id)
    }

    /// Returns the least severe finding of all, if it is about a namespace with more findings than
    /// this one.
    fn least_severe(&self, namespace: &Arc<str>) -> Option<&Rank> {
        let (rank, of) = self.by_severity.last()?;
        let has_more = self.of_namespaces.size_of(of) > self.of_namespaces.size_of(namespace);
        has_more.then_some(rank)
    }
}
