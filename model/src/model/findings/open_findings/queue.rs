//! The findings that wait for room.

use std::collections::BTreeMap;

use crate::finding::{Finding, FindingId, Severity};
use crate::model::findings::open_findings::ranking::Ranking;
use crate::model::findings::open_findings::record::Record;

/// Findings without room, at most [`MAX_WAITING`].
#[derive(Debug, Default)]
pub(super) struct Queue {
    records: BTreeMap<FindingId, Record>,
    /// All waiting findings.
    ranking: Ranking,
    /// Whether a finding was dropped because the queue was full.
    overflowed: bool,
}

/// The maximum number of findings that wait for room.
const MAX_WAITING: usize = 10_000;

impl Queue {
    /// Adds a finding. If the queue is full, one of them is lost.
    pub(super) fn push(&mut self, record: Record) {
        let rank = record.rank();
        if self.records.len() >= MAX_WAITING {
            self.overflowed = true;
            let Some(lost) = self.ranking.gives_way_to(&rank) else { return };
            self.take(lost);
        }

        self.ranking.insert(&rank);
        self.records.insert(record.finding.id, record.without_room());
    }

    /// Removes and returns the most severe finding.
    pub(super) fn pop(&mut self) -> Option<Record> {
        let (_, id) = self.ranking.most_severe()?;
        self.take(id)
    }

    /// Removes and returns a finding, if it waits.
    pub(super) fn take(&mut self, id: FindingId) -> Option<Record> {
        let record = self.records.remove(&id)?;
        self.ranking.remove(&record.rank());
        Some(record)
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
        self.ranking.remove(&record.rank());
        change(record);
        self.ranking.insert(&record.rank());
    }

    /// Returns the highest severity.
    pub(super) fn most_severe(&self) -> Option<Severity> {
        self.ranking.most_severe().map(|(severity, _)| severity)
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
