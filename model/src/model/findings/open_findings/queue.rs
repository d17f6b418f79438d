//! The findings that wait for room.

use std::collections::BTreeMap;

use crate::finding::{Finding, FindingId};
use crate::model::findings::open_findings::record::Record;

/// Findings without room, at most [`MAX_WAITING`].
#[derive(Debug, Default)]
pub(super) struct Queue {
    records: BTreeMap<FindingId, Record>,
    /// Whether a finding was dropped because the queue was full.
    pub(super) overflowed: bool,
}

/// The maximum number of findings that wait for room.
pub(super) const MAX_WAITING: usize = 10_000;

impl Queue {
    pub(super) fn insert(&mut self, record: Record) {
        self.records.insert(record.finding.id, record);
    }

    pub(super) fn remove(&mut self, id: FindingId) -> Option<Record> {
        self.records.remove(&id)
    }

    pub(super) fn contains(&self, id: FindingId) -> bool {
        self.records.contains_key(&id)
    }

    pub(super) fn get(&self, id: FindingId) -> Option<&Record> {
        self.records.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: FindingId) -> Option<&mut Record> {
        self.records.get_mut(&id)
    }

    pub(super) fn findings(&self) -> impl Iterator<Item = &Finding> {
        self.records().map(|record| &record.finding)
    }

    pub(super) fn records(&self) -> impl Iterator<Item = &Record> {
        self.records.values()
    }

    /// Returns whether findings wait, or were dropped because the queue was full.
    pub(super) fn has_any(&self) -> bool {
        !self.records.is_empty() || self.overflowed
    }

    /// Returns whether findings were dropped and none waits any more.
    pub(super) fn is_worked_off(&self) -> bool {
        self.overflowed && self.records.is_empty()
    }

    /// Moves all instants by `by_ms` milliseconds.
    pub(super) fn rebase(&mut self, by_ms: i64) {
        self.records.values_mut().for_each(|record| record.rebase(by_ms));
    }
}
