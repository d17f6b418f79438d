//! The memory that each object takes, approximately, and how much of it each share takes.
//!
//! The objects of one namespace have a share together. The objects of a kind without a namespace
//! have one, too. If the memory for objects is used up, a share that takes more than the average
//! makes room for the others; see `steps/room.rs`.

use std::collections::HashMap;
use std::sync::Arc;

use crate::model::world::store::hot::{Deletion, History, HotRecord};
use crate::model::world::store::record::Record;
use crate::model::world::store::{Slot, Store};

/// The memory of all objects.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// By slot, in units of [`UNIT`].
    by_slot: Vec<u16>,
    /// In units of [`UNIT`], like the shares.
    total: usize,
    by_namespace: HashMap<Arc<str>, usize>,
    /// The shares of objects without a namespace, by watch.
    by_watch: HashMap<u16, usize>,
}

/// The resolution of the memory of one object, in bytes: an object takes at most 2 MiB.
const UNIT: usize = 32;

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

impl Store {
    /// Returns the memory of all objects, in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.memory.total.saturating_mul(UNIT)
    }

    /// Measures an object that has changed.
    pub(crate) fn measure(&mut self, slot: Slot) {
        let Some(record) = self.chunks.get(slot as usize / super::CHUNK) else { return };
        let Some(Some(record)) = record.get(slot as usize % super::CHUNK) else { return };
        self.memory.set(slot, record, record.memory());
    }

    /// Returns how many times the average share the share of this object takes; `None` if it takes
    /// less than the average. `newcomers` is the number of shares that have no object yet.
    pub(crate) fn times_average(
        &self,
        watch: u16,
        namespace: &str,
        newcomers: usize,
    ) -> Option<usize> {
        let shares = self.memory.by_namespace.len() + self.memory.by_watch.len() + newcomers;
        let average = (self.memory.total / shares.max(1)).max(1);
        let times = self.share(watch, namespace).unwrap_or_default() / average;
        (times > 0).then_some(times)
    }

    /// Returns the share of this object, if it has any yet.
    pub(crate) fn share(&self, watch: u16, namespace: &str) -> Option<usize> {
        let share = match namespace {
            "" => self.memory.by_watch.get(&watch),
            _ => self.memory.by_namespace.get(namespace),
        };
        share.copied()
    }
}

impl Memory {
    /// Forgets an object.
    pub(super) fn remove(&mut self, slot: Slot, record: &Record) {
        self.set(slot, record, 0);
    }

    fn set(&mut self, slot: Slot, record: &Record, bytes: usize) {
        let position = slot as usize;
        if self.by_slot.len() <= position {
            self.by_slot.resize(position + 1, 0);
        }

        let new = u16::try_from(bytes.div_ceil(UNIT)).unwrap_or(u16::MAX);
        let old = std::mem::replace(&mut self.by_slot[position], new);
        if old == new {
            return;
        }

        let (old, new) = (usize::from(old), usize::from(new));
        self.total = (self.total + new).saturating_sub(old);
        if record.namespace.is_empty() {
            update(&mut self.by_watch, &record.watch, old, new);
        } else {
            update(&mut self.by_namespace, &record.namespace, old, new);
        }
    }
}

/// Changes the part of an object in a share, which it adds or removes if necessary.
fn update<K: Clone + Eq + std::hash::Hash>(
    shares: &mut HashMap<K, usize>,
    key: &K,
    old: usize,
    new: usize,
) {
    match shares.get_mut(key) {
        Some(share) => {
            *share = (*share + new).saturating_sub(old);
            if *share == 0 {
                shares.remove(key);
            }
        }
        None => drop(shares.insert(key.clone(), new)),
    }
}

impl Record {
    /// Returns the memory that the object takes, in bytes, except the texts and lists that it
    /// shares with others.
    fn memory(&self) -> usize {
        let owners = self.owners.iter().flatten().map(|owner| owner.memory() + EDGE);
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
            transitions.times.len() * 8 + 3 * ENTRY + reasons.sum::<usize>()
        });
        let finalizers = self.finalizers.iter().map(|change| change.finalizer.len() + 3 * ENTRY);

        size_of::<Self>()
            + self.phases.len() * ENTRY
            + transitions.sum::<usize>()
            + finalizers.sum::<usize>()
    }
}
