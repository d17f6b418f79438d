//! The memory that each object takes, approximately, in bytes.

use crate::model::world::store::hot::{Deletion, History, HotRecord};
use crate::model::world::store::record::Record;
use crate::time::Timestamp;

/// What an object takes in the indexes by name and by UID, with their free places.
const INDEXED: usize = 48;

/// What an entry of a list or a map takes in addition to its own size and its text.
const ENTRY: usize = 32;

/// What a finding takes, with its evidence: less for most, and up to this for objects with long
/// names.
const FINDING: usize = 2048;

/// What an owner takes in addition to its size, in the index of children and among the owners that
/// nothing has verified yet.
const EDGE: usize = 96;

impl Record {
    /// Returns the memory that the object takes, in bytes, except the texts and lists that it
    /// shares with others.
    pub(super) fn memory(&self) -> usize {
        let owners = self.owners().iter().map(|owner| owner.memory() + EDGE);
        let hot = self.hot.as_ref().map_or(0, |hot| hot.memory());

        size_of::<Self>() + INDEXED + self.name.len() + owners.sum::<usize>() + hot
    }
}

impl HotRecord {
    fn memory(&self) -> usize {
        let attempts = self.attempts.as_ref();
        let attempts = attempts.map_or(0, |known| known.handler.len() + known.error.len() + 64);
        let unconverged = self.unconverged.as_ref();
        let unconverged = unconverged.map_or(0, |unconverged| {
            unconverged.status_writer.len() + unconverged.superseded.len() * ENTRY
        });
        let deletion = self.deletion.as_deref().map_or(0, Deletion::memory);
        let history = self.history.as_ref().map_or(0, |history| history.memory());

        // With the timer.
        size_of::<Self>()
            + 2 * ENTRY
            + self.findings.len() * FINDING
            + self.signal.len()
            + self.message.len()
            + self.annotated.as_ref().map_or(0, |annotated| annotated.memory())
            + attempts
            + unconverged
            + deletion
            + history
    }
}

impl Deletion {
    fn memory(&self) -> usize {
        // The actor repeats the domain of its finalizer, and the allocator rounds up.
        let actors = self.actors.iter().map(|(finalizer, _)| finalizer.len() * 5 / 2 + 3 * ENTRY);
        size_of::<Self>() + actors.sum::<usize>() + self.shown.len() * 8 + self.told.memory()
    }
}

impl History {
    fn memory(&self) -> usize {
        let transitions = self.transitions.iter().map(|transitions| {
            let reasons = transitions.reasons.iter().map(|reason| reason.len() + ENTRY);
            let changes = transitions.changes.len() * size_of::<Timestamp>();
            changes + 3 * ENTRY + reasons.sum::<usize>()
        });
        let finalizers = self.finalizers.iter().map(|change| change.finalizer.len() + 3 * ENTRY);

        size_of::<Self>()
            + self.phases.len() * ENTRY
            + transitions.sum::<usize>()
            + finalizers.sum::<usize>()
    }
}
