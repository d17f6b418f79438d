//! The open findings, with indexes.

use std::collections::{BTreeMap, BTreeSet};

use crate::finding::{Explainer, FINDINGS, Finding, FindingCode, FindingId, Subject};
use crate::model::findings::open_findings::record::Record;
use crate::model::findings::open_findings::report::Causes;
use crate::time::Timestamp;

/// The open findings.
#[derive(Debug, Default)]
pub(super) struct Register {
    records: BTreeMap<FindingId, Record>,
    /// The findings that another object blocks, by that object.
    blocked: BTreeSet<(Subject, FindingId)>,
    /// The findings on which kinds depend.
    machinery: BTreeSet<FindingId>,
    /// When held findings close, unless a detector reports them again.
    held: BTreeMap<FindingId, Timestamp>,
    /// When the causes of findings take over their severities.
    raises: BTreeSet<(Timestamp, FindingId)>,
}

impl Register {
    pub(super) fn insert(&mut self, record: Record) {
        let id = record.finding.id;
        self.blocked.extend(record.causes.blocker.as_deref().cloned().map(|by| (by, id)));
        if is_machinery(&record) {
            self.machinery.insert(id);
        }

        self.records.insert(id, record);
    }

    pub(super) fn remove(&mut self, id: FindingId) -> Option<Record> {
        let record = self.records.remove(&id)?;
        self.held.remove(&id);
        self.machinery.remove(&id);
        if let Some(at) = record.raises_at {
            self.raises.remove(&(at, id));
        }

        if let Some(blocker) = &record.causes.blocker {
            self.blocked.remove(&(Subject::clone(blocker), id));
        }

        Some(record)
    }

    pub(super) fn contains(&self, id: FindingId) -> bool {
        self.records.contains_key(&id)
    }

    pub(super) fn get(&self, id: FindingId) -> Option<&Record> {
        self.records.get(&id)
    }

    /// Returns the record of the finding of `code` about `subject`.
    pub(super) fn about(&self, code: FindingCode, subject: &Subject) -> Option<&Record> {
        self.get(FindingId::of(code, subject))
    }

    /// Returns the records of findings on which kinds depend.
    pub(super) fn of_machinery(&self) -> impl Iterator<Item = &Record> {
        self.machinery.iter().filter_map(|id| self.get(*id))
    }

    pub(super) fn records(&self) -> impl Iterator<Item = &Record> {
        self.records.values()
    }

    pub(super) fn findings(&self) -> impl Iterator<Item = &Finding> {
        self.records().map(|record| &record.finding)
    }

    /// Changes a record, but not its causes. Returns what `change` returns.
    pub(super) fn change<T>(
        &mut self,
        id: FindingId,
        change: impl FnOnce(&mut Record) -> T,
    ) -> Option<T> {
        self.records.get_mut(&id).map(change)
    }

    /// Changes all records, but not their causes.
    pub(super) fn change_all(&mut self, change: impl FnMut(&mut Record)) {
        self.records.values_mut().for_each(change);
    }

    /// Sets the causes of a finding. Returns whether they have changed.
    pub(super) fn set_causes(&mut self, id: FindingId, causes: Causes) -> bool {
        let Some(record) = self.records.get_mut(&id).filter(|record| record.causes != causes)
        else {
            return false;
        };

        let old = std::mem::replace(&mut record.causes, causes);
        if old.blocker != record.causes.blocker {
            if let Some(blocker) = old.blocker {
                self.blocked.remove(&(*blocker, id));
            }

            self.blocked.extend(record.causes.blocker.as_deref().cloned().map(|by| (by, id)));
        }

        true
    }

    /// Returns the findings that a finding about `blocker` may explain.
    pub(super) fn blocked_by(&self, blocker: &Subject) -> impl Iterator<Item = FindingId> {
        let first = (blocker.clone(), FindingId(0));
        let blocked = self.blocked.range(first..).take_while(move |(by, _)| by == blocker);
        blocked.map(|(_, id)| *id)
    }

    /// Keeps a finding open until `until`.
    pub(super) fn hold(&mut self, id: FindingId, until: Timestamp) {
        if self.contains(id) {
            self.held.insert(id, until);
        }
    }

    /// Ends a [`Self::hold`], so that the finding does not expire.
    pub(super) fn release(&mut self, id: FindingId) {
        self.held.remove(&id);
    }

    /// Returns the held findings whose time is over.
    pub(super) fn overdue(&self, now: Timestamp) -> Vec<FindingId> {
        self.held.iter().filter(|(_, until)| **until <= now).map(|(id, _)| *id).collect()
    }

    /// Returns the next time at which a finding is no longer held open, or raises its cause.
    pub(super) fn next_due(&self) -> Option<Timestamp> {
        self.held.values().min().copied().into_iter().chain(self.next_raise()).min()
    }

    /// Sets when the cause of a finding takes over its severity.
    pub(super) fn raise_at(&mut self, id: FindingId, at: Option<Timestamp>) {
        let Some(record) = self.records.get_mut(&id) else { return };
        let old = std::mem::replace(&mut record.raises_at, at);
        if old != at {
            old.map(|old| self.raises.remove(&(old, id)));
            self.raises.extend(at.map(|at| (at, id)));
        }
    }

    /// Returns the next time at which a finding raises its cause.
    pub(super) fn next_raise(&self) -> Option<Timestamp> {
        self.raises.first().map(|(at, _)| *at)
    }

    /// Returns the findings that wait to raise their causes, with the time of each.
    pub(super) fn raises(&self) -> impl Iterator<Item = (Timestamp, FindingId)> {
        self.raises.iter().copied()
    }

    /// Moves all instants by `by_ms` milliseconds.
    pub(super) fn rebase(&mut self, by_ms: i64) {
        self.change_all(|record| record.rebase_open(by_ms));
        self.held.values_mut().for_each(|until| *until = until.shifted(by_ms));
        let raises = std::mem::take(&mut self.raises).into_iter();
        self.raises = raises.map(|(at, id)| (at.shifted(by_ms), id)).collect();
    }
}

/// Returns whether the finding explains others about kinds that depend on its subject.
fn is_machinery(record: &Record) -> bool {
    let explainer = Explainer::Machinery(record.finding.code);
    FINDINGS.iter().any(|info| info.explained_by.contains(&explainer))
}
