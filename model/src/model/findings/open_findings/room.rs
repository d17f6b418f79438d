//! Findings that take a place, make room for others, and wait for room.

use crate::finding::FindingId;
use crate::model::findings::open_findings::OpenFindings;
use crate::model::findings::open_findings::places::Claim;
use crate::model::findings::open_findings::queue::MAX_WAITING;
use crate::model::findings::open_findings::record::Record;
use crate::time::Timestamp;

impl OpenFindings {
    /// Closes a finding and makes it wait for room.
    pub(super) fn evict(&mut self, now: Timestamp, id: FindingId) {
        if let Some(record) = self.close(now, id) {
            self.wait(record);
        }
    }

    /// Makes a finding wait for room. If too many wait, one of them is dropped.
    pub(super) fn wait(&mut self, record: Record) {
        let record = record.without_room();
        let Some(claim) = record.claim() else { return };
        if self.places.waiting() >= MAX_WAITING {
            self.waiting.overflowed = true;
            let Some(least) = self.places.waiting_for(claim.severity, &claim.group) else { return };
            self.take_waiting(least);
        }

        self.places.add_waiting(&claim);
        self.waiting.insert(record);
        self.note_paging(claim.id);
    }

    /// Removes a finding that waits.
    pub(super) fn take_waiting(&mut self, id: FindingId) -> Option<Record> {
        let record = self.waiting.remove(id)?;
        record.claim().iter().for_each(|claim| self.places.remove_waiting(claim));
        self.forget_paging(&record);
        Some(record)
    }

    /// Changes an open finding and its place. Returns what `change` returns.
    pub(super) fn change_open<T>(
        &mut self,
        id: FindingId,
        change: impl FnOnce(&mut Record) -> T,
    ) -> Option<T> {
        let mut moved = None;
        let changed = self.open.change(id, |record| {
            let before = record.finding.severity;
            let changed = change(record);
            if record.finding.severity != before {
                moved = record.claim().map(|claim| (before, claim));
            }

            changed
        })?;

        if let Some((before, claim)) = moved {
            self.places.remove_open(&Claim { severity: before, ..claim.clone() });
            self.places.add_open(&claim);
        }

        Some(changed)
    }

    /// Changes a waiting finding and its place.
    pub(super) fn change_waiting(&mut self, id: FindingId, change: impl FnOnce(&mut Record)) {
        let Some(record) = self.waiting.get_mut(id) else { return };
        record.claim().iter().for_each(|claim| self.places.remove_waiting(claim));
        change(record);
        record.claim().iter().for_each(|claim| self.places.add_waiting(claim));
    }

    /// Returns whether there is room for another finding that counts towards the limit.
    pub(super) fn has_room(&self, limit: usize) -> bool {
        self.places.open() < limit
    }
}
