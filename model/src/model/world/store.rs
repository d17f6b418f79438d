//! The store of all objects: a small cold record for each, plus a hot part for the few that are
//! unconverged, being deleted or have a history.
//!
//! Most objects of a large cluster are idle, so memory is dominated by the cold records.

mod told; // what the status of an object has said during its deletion
mod hot; // the part that few objects have
mod ids; // of objects and their versions
mod memory; // that an object takes
mod shares; // of the memory that all objects take
mod record;

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

pub(crate) use self::hot::{
    Deletion, FinalizerChange, History, HotRecord, Obligation, Superseded, Transitions, Unconverged,
};
pub(crate) use self::ids::{NO_UID, Slot, uid_number, uid_text, version_number};
pub(crate) use self::record::{Flag, Flags, Generation, Owners, Record};
pub(crate) use self::shares::Shares;
pub(crate) use self::told::{News, Told};

/// All objects, by slot and by watch, namespace and name.
#[derive(Debug)]
pub(crate) struct Store {
    /// Chunks rather than one vector: a vector that grows needs the old and the new allocation at
    /// the same time. They are small, because one process may have a model for each of many operators.
    chunks: Vec<Vec<Option<Record>>>,
    free: Vec<Slot>,
    index: HashTable<Slot>,
    hasher: DefaultHashBuilder,
    shares: Shares,
    /// Where the next search through the slots begins.
    hand: Slot,
}

const CHUNK: usize = 256;

impl Store {
    pub(crate) fn new() -> Self {
        Self {
            chunks: Vec::new(),
            free: Vec::new(),
            index: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
            shares: Shares::default(),
            hand: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.index.len()
    }

    /// Returns the end of the range of slots. Some slots before it may be free.
    pub(crate) fn end(&self) -> Slot {
        let full = self.chunks.len().saturating_sub(1) * CHUNK;
        u32::try_from(full + self.chunks.last().map_or(0, Vec::len)).unwrap_or(u32::MAX)
    }

    pub(crate) fn get(&self, slot: Slot) -> Option<&Record> {
        self.chunks.get(slot as usize / CHUNK)?.get(slot as usize % CHUNK)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, slot: Slot) -> Option<&mut Record> {
        self.chunks.get_mut(slot as usize / CHUNK)?.get_mut(slot as usize % CHUNK)?.as_mut()
    }

    pub(crate) fn find(&self, watch: u16, namespace: &str, name: &str) -> Option<Slot> {
        let hash = self.hasher.hash_one((watch, namespace, name));
        let same = |slot: &Slot| {
            self.get(*slot)
                .is_some_and(|r| r.watch == watch && *r.name == *name && *r.namespace == *namespace)
        };

        self.index.find(hash, same).copied()
    }

    pub(crate) fn insert(&mut self, record: Record) -> Slot {
        let hash = self.hash(&record);
        let slot = match self.free.pop() {
            Some(slot) => {
                self.chunks[slot as usize / CHUNK][slot as usize % CHUNK] = Some(record);
                slot
            }
            None => self.append(record),
        };

        let Self { chunks, index, hasher, .. } = self;
        index.insert_unique(hash, slot, |slot| {
            match &chunks[*slot as usize / CHUNK][*slot as usize % CHUNK] {
                Some(r) => hasher.hash_one((r.watch, &*r.namespace, &*r.name)),
                None => 0, // unreachable: the index contains only slots that are in use
            }
        });

        slot
    }

    pub(crate) fn remove(&mut self, slot: Slot) -> Option<Record> {
        let hash = self.hash(self.get(slot)?);
        if let Ok(entry) = self.index.find_entry(hash, |other| *other == slot) {
            entry.remove();
        }

        self.free.push(slot);
        let record = self.chunks[slot as usize / CHUNK][slot as usize % CHUNK].take()?;
        self.shares.set(slot, record.watch, &record.namespace, 0);
        Some(record)
    }

    /// Returns the memory that the objects take.
    pub(crate) fn shares(&self) -> &Shares {
        &self.shares
    }

    /// Measures an object that has changed.
    pub(crate) fn measure(&mut self, slot: Slot) {
        let chunk = self.chunks.get(slot as usize / CHUNK);
        let Some(Some(record)) = chunk.and_then(|chunk| chunk.get(slot as usize % CHUNK)) else {
            return;
        };

        self.shares.set(slot, record.watch, &record.namespace, record.memory());
    }

    /// Returns the next `count` slots, some of which may be free. After the last slot, the first one
    /// follows.
    pub(crate) fn next_slots(&mut self, count: Slot) -> impl Iterator<Item = Slot> + use<> {
        let (begin, end) = (self.hand, self.end().max(1));
        self.hand = begin.wrapping_add(count) % end;
        (0..count.min(end)).map(move |step| begin.wrapping_add(step) % end)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Slot, &Record)> {
        (0..self.end()).filter_map(|slot| self.get(slot).map(|record| (slot, record)))
    }

    fn append(&mut self, record: Record) -> Slot {
        if self.chunks.last().is_none_or(|chunk| chunk.len() == CHUNK) {
            self.chunks.push(Vec::with_capacity(CHUNK));
        }

        let slot = self.end();
        if let Some(chunk) = self.chunks.last_mut() {
            chunk.push(Some(record));
        }

        slot
    }

    fn hash(&self, record: &Record) -> u64 {
        self.hasher.hash_one((record.watch, &*record.namespace, &*record.name))
    }
}
