//! The findings that wait for room.

use std::collections::{BTreeMap, BTreeSet};

use crate::finding::{Finding, FindingId, Severity};
use crate::model::findings::open_findings::record::Record;

/// Findings without room, at most [`MAX_WAITING`].
#[derive(Debug, Default)]
pub(super) struct Queue {
    records: BTreeMap<FindingId, Record>,
    /// All waiting findings, the most severe first.
    ranked: BTreeSet<(Severity, FindingId)>,
    /// Whether a finding was dropped because the queue was full.
    overflowed: bool,
}

/// The maximum number of findings that wait for room.
const MAX_WAITING: usize = 10_000;

impl Queue {
    pub(super) fn push(&mut self, record: Record) {
        if self.records.len() >= MAX_WAITING {
            self.overflowed = true;
            return;
        }

        let record = record.without_room();
        self.ranked.insert(record.rank());
        self.records.insert(record.finding.id, record);
    }

    /// Removes and returns the most severe finding.
    pub(super) fn pop(&mut self) -> Option<Record> {
        let (_, id) = self.ranked.pop_first()?;
        self.records.remove(&id)
    }

    pub(super) fn remove(&mut self, id: FindingId) {
        if let Some(record) = self.records.remove(&id) {
            self.ranked.remove(&record.rank());
        }
    }

    pub(super) fn contains(&self, id: FindingId) -> bool {
        self.records.contains_key(&id)
    }

    pub(super) fn get(&self, id: FindingId) -> Option<&Record> {
        self.records.get(&id)
    }

    pub(super) fn findings(&self) -> impl Iterator<Item = &Finding> {
        self.records().map(|record| &record.finding)
    }

    pub(super) fn records(&self) -> impl Iterator<Item = &Record> {
        self.records.values()
    }

    /// Changes a record and its rank.
    pub(super) fn change(&mut self, id: FindingId, change: impl FnOnce(&mut Record)) {
        let Some(record) = self.records.get_mut(&id) else { return };
        self.ranked.remove(&record.rank());
        change(record);
        self.ranked.insert(record.rank());
    }

    /// Returns the highest severity.
    pub(super) fn most_severe(&self) -> Option<Severity> {
        self.ranked.first().map(|(severity, _)| *severity)
    }

    /// Returns whether findings wait, or were dropped because the queue was full.
    pub(super) fn has_any(&self) -> bool {
        !self.records.is_empty() || self.overflowed
    }

    /// Returns whether findings were dropped and none waits any more.
    pub(super) fn is_worked_off(&self) -> bool {
        self.overflowed && self.records.is_empty()
    }

    /// Forgets that findings were dropped.
    pub(super) fn forget_overflow(&mut self) {
        self.overflowed = false;
    }

    /// Moves all instants by `by_ms` milliseconds.
    pub(super) fn rebase(&mut self, by_ms: i64) {
        self.records.values_mut().for_each(|record| record.rebase(by_ms));
    }
}
