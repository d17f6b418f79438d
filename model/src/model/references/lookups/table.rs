//! The table of references, and the order in which their targets are looked up.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::BuildHasher as _;
use std::sync::Arc;

use hashbrown::{DefaultHashBuilder, HashTable};

use crate::model::world::crowd::Crowd;
use crate::model::world::intern::Symbol;
use crate::model::world::store::Slot;
use crate::time::{Span, Timestamp};

pub(crate) use crate::model::world::limits::{MAX_OUTPUTS, MAX_REFERENCES};

/// The shortest time between two steps. Each step may ask for one read.
pub(super) const STEP: Span = Span::secs(1);
/// The time in which every reference is looked up once.
const ROUND: Span = Span::mins(10);
/// The maximum number of references that one step looks up.
pub(super) const MAX_STEP: usize = 256;

/// The position of a reference in [`References`].
pub(crate) type Index = u32;

/// All references.
#[derive(Debug, Default)]
pub(crate) struct References {
    /// Chunked, because a growing vector needs its old and its new allocation at the same time.
    chunks: Vec<Vec<Option<Held>>>,
    free: Vec<Index>,
    /// Indexes by the slot of the object.
    by_slot: HashTable<Index>,
    hasher: DefaultHashBuilder,
    /// What the references take, in bytes, by the namespace of the object.
    by_namespace: Crowd<Arc<str>, Index>,
    /// The references with a time for their next lookup: those that are new, and those whose target
    /// is absent.
    pub(crate) queue: BTreeSet<(Timestamp, Index)>,
    pub(super) queued: BTreeMap<Index, Timestamp>,
    /// The reference that the round looks up next.
    cursor: Index,
    /// The number of references that wait for their first lookup by the round.
    pub(crate) unchecked: usize,
    /// When the round makes its next lookup.
    pub(super) round_due: Timestamp,
    /// Whether the round comes before the queue in the next step.
    pub(super) round_first: bool,
    /// No further read is asked for before this time.
    pub(super) next_ask: Timestamp,
    /// When the timer is due.
    pub(crate) due: Option<Timestamp>,
    /// The fields that name objects that the operator creates, as `group/Kind path`.
    pub(super) outputs: BTreeSet<String>,
    /// The field managers that write the statuses of each kind.
    pub(super) writers: BTreeMap<u16, BTreeSet<String>>,
}

/// One reference.
#[derive(Debug)]
pub(crate) struct Held {
    /// The name of the target.
    pub(super) name: Box<str>,
    /// The object with the reference.
    pub(crate) slot: Slot,
    /// Group, kind, namespace and path, which many references have in common.
    pub(super) place: Symbol,
    /// When the reference appeared, or since when its target is absent, in seconds since the Unix
    /// epoch; 0 if unknown.
    pub(crate) since: u32,
    pub(crate) state: State,
    pub(crate) marks: Marks,
    /// The target has been absent for long enough to be a finding.
    pub(crate) missing: bool,
    /// The number of reads in a row that gave no answer.
    pub(crate) unanswered: u8,
}

/// Boolean properties of a reference, as a set of [`Mark`]s.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Marks(u8);

/// A boolean property of a reference.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Mark {
    /// A read has been asked for.
    Asked,
    /// The target has existed.
    Existed,
    /// The object was converged for long without the target, so it does not need it.
    Unneeded,
}

impl Marks {
    pub(crate) const fn has(self, mark: Mark) -> bool {
        self.0 & (1 << mark as u8) != 0
    }

    pub(crate) const fn set(&mut self, mark: Mark, value: bool) {
        let bit = 1 << mark as u8;
        self.0 = if value { self.0 | bit } else { self.0 & !bit };
    }
}

// The memory budget is 64 bytes per reference, including 12 bytes in the index and a name of 20
// bytes.
// The index by namespace comes on top of it.
const _: () = assert!(size_of::<Option<Held>>() <= 32, "a reference has grown past its budget");

/// What is known about the target of a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// It waits for its first lookup by the round.
    Unchecked,
    /// It has been asked for, or is about to be.
    New,
    Exists,
    Absent,
    /// It could not be looked up.
    Unknown,
}

/// What a reference takes beside the name of its target, in bytes.
const ENTRY: usize = 80;

/// The maximum size of all references, in bytes: four times the usual length of a name for each of
/// them.
const MAX_SIZE: usize = MAX_REFERENCES * (ENTRY + 80);

const CHUNK: usize = 256;

impl References {
    pub(crate) fn get(&self, index: Index) -> Option<&Held> {
        self.chunks.get(index as usize / CHUNK)?.get(index as usize % CHUNK)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, index: Index) -> Option<&mut Held> {
        self.chunks.get_mut(index as usize / CHUNK)?.get_mut(index as usize % CHUNK)?.as_mut()
    }

    pub(super) fn len(&self) -> usize {
        self.by_slot.len()
    }

    /// Returns whether there is room for another reference.
    pub(super) fn has_room(&self, held: &Held) -> bool {
        self.len() < MAX_REFERENCES && self.by_namespace.size() + held.size() <= MAX_SIZE
    }

    /// Returns the reference that makes room for another one of an object in this namespace, if one
    /// does.
    pub(super) fn leaves_for(&self, namespace: &Arc<str>, size: usize) -> Option<Index> {
        self.by_namespace.leaves_for(namespace, size).copied()
    }

    /// Returns the end of the index range. Some indexes before it may be free.
    pub(super) fn end(&self) -> Index {
        let full = self.chunks.len().saturating_sub(1) * CHUNK;
        Index::try_from(full + self.chunks.last().map_or(0, Vec::len)).unwrap_or(Index::MAX)
    }

    pub(super) fn insert(&mut self, namespace: &Arc<str>, held: Held) -> Index {
        let (hash, size) = (self.hasher.hash_one(held.slot), held.size());
        self.unchecked += usize::from(held.state == State::Unchecked);

        let index = match self.free.pop() {
            Some(index) => {
                self.chunks[index as usize / CHUNK][index as usize % CHUNK] = Some(held);
                index
            }
            None => {
                let index = self.end();
                match self.chunks.last_mut().filter(|chunk| chunk.len() < CHUNK) {
                    Some(chunk) => chunk.push(Some(held)),
                    None => {
                        let mut chunk = Vec::with_capacity(CHUNK);
                        chunk.push(Some(held));
                        self.chunks.push(chunk);
                    }
                }

                index
            }
        };

        self.by_namespace.insert(namespace, index, size);
        let Self { by_slot, chunks, hasher, .. } = self;
        by_slot.insert_unique(hash, index, |index| {
            match &chunks[*index as usize / CHUNK][*index as usize % CHUNK] {
                Some(held) => hasher.hash_one(held.slot),
                None => 0, // unreachable: the index contains only references that are in use
            }
        });

        index
    }

    pub(super) fn remove(&mut self, namespace: &Arc<str>, index: Index) -> Option<Held> {
        self.enqueue(index, None);
        let hash = self.hasher.hash_one(self.get(index)?.slot);
        if let Ok(entry) = self.by_slot.find_entry(hash, |other| *other == index) {
            entry.remove();
        }

        self.free.push(index);
        let held = self.chunks[index as usize / CHUNK][index as usize % CHUNK].take()?;
        self.unchecked -= usize::from(held.state == State::Unchecked);
        self.by_namespace.remove(namespace, &index);
        Some(held)
    }

    /// Returns the references of an object.
    pub(crate) fn of(&self, slot: Slot) -> Vec<Index> {
        if self.by_slot.is_empty() {
            return Vec::new();
        }

        let of_slot = |index: &Index| self.get(*index).is_some_and(|held| held.slot == slot);
        let mut found: Vec<Index> =
            self.by_slot.iter_hash(self.hasher.hash_one(slot)).copied().filter(of_slot).collect();
        found.sort_unstable();

        found
    }

    /// Sets when to look up a reference. `None` removes it from the queue.
    pub(crate) fn enqueue(&mut self, index: Index, at: Option<Timestamp>) {
        let old = match at {
            Some(at) => self.queued.insert(index, at),
            None => self.queued.remove(&index),
        };
        if let Some(old) = old {
            self.queue.remove(&(old, index));
        }

        self.queue.extend(at.map(|at| (at, index)));
    }

    /// Returns the references in the queue: all with absent targets, and some others.
    pub(crate) fn queued(&self) -> impl Iterator<Item = (Index, &Held)> {
        self.queued.keys().filter_map(|index| Some((*index, self.get(*index)?)))
    }

    /// Sets what is known about a target.
    pub(crate) fn set_state(&mut self, index: Index, state: State) {
        let Some(held) = self.get_mut(index) else { return };
        let was_unchecked = std::mem::replace(&mut held.state, state) == State::Unchecked;
        self.unchecked -= usize::from(was_unchecked);
    }

    /// Removes and returns the first reference of the queue that is due.
    pub(super) fn take_queued(&mut self, now: Timestamp) -> Option<Index> {
        let (at, index) = self.queue.first().copied().filter(|(at, _)| *at <= now)?;
        self.queue.remove(&(at, index));
        self.queued.remove(&index);
        Some(index)
    }

    /// Returns the next reference of the round. While any are unchecked, only those count.
    pub(crate) fn take_round(&mut self) -> Option<Index> {
        let end = self.end();
        for _ in 0..end {
            let index = if self.cursor < end { self.cursor } else { 0 };
            self.cursor = index + 1;

            let is_wanted = |held: &Held| match self.unchecked {
                0 => !self.queued.contains_key(&index),
                _ => held.state == State::Unchecked,
            };
            if self.get(index).is_some_and(is_wanted) {
                return Some(index);
            }
        }

        None
    }

    /// Returns how many references one step of the round looks up, and the time until the next
    /// step. While some are unchecked, the steps follow each other as fast as reads allow.
    pub(super) fn pace(&self) -> (usize, Span) {
        let len = i64::try_from(self.len().max(1)).unwrap_or(i64::MAX);
        let quota = usize::try_from(len.saturating_mul(STEP.0) / ROUND.0 + 1)
            .unwrap_or(MAX_STEP)
            .min(MAX_STEP);
        if self.unchecked > 0 { (MAX_STEP, STEP) } else { (quota, Span(ROUND.0 / len).max(STEP)) }
    }

    /// Moves all instants to the new setting of the clock.
    pub(super) fn shift(&mut self, by_ms: i64) {
        self.queued.values_mut().for_each(|at| *at = at.shifted(by_ms));
        self.queue = std::mem::take(&mut self.queue)
            .into_iter()
            .map(|(at, i)| (at.shifted(by_ms), i))
            .collect();
        for at in [&mut self.round_due, &mut self.next_ask] {
            *at = at.shifted(by_ms);
        }

        self.due = self.due.map(|due| due.shifted(by_ms));
        for held in self.chunks.iter_mut().flatten().flatten().filter(|held| held.since > 0) {
            held.since = seconds(Timestamp(i64::from(held.since) * 1000).shifted(by_ms));
        }
    }

    /// Returns the fields that name what the operator creates, as `group/Kind path`.
    pub(crate) fn outputs(&self) -> impl Iterator<Item = &String> {
        self.outputs.iter()
    }

    /// Remembers the outputs that an earlier process had learned.
    pub(crate) fn restore_outputs(&mut self, outputs: impl IntoIterator<Item = String>) {
        self.outputs.extend(outputs.into_iter().take(MAX_OUTPUTS));
    }

    /// Returns whether one of these field managers belongs to the operator of a kind.
    pub(crate) fn is_writer(&self, kind: u16, names: &[String]) -> bool {
        self.writers.get(&kind).is_some_and(|known| names.iter().any(|name| known.contains(name)))
    }
}

impl Held {
    pub(super) fn new(slot: Slot, place: Symbol, name: &str, state: State, since: u32) -> Self {
        let (marks, missing) = (Marks::default(), false);
        Self { name: name.into(), slot, place, since, state, marks, missing, unanswered: 0 }
    }

    pub(crate) fn size(&self) -> usize {
        ENTRY + self.name.len()
    }

    /// Returns when the reference appeared, or since when its target is absent.
    pub(crate) fn since(&self) -> Option<Timestamp> {
        (self.since > 0).then(|| Timestamp(i64::from(self.since) * 1000))
    }
}

/// Returns whole seconds since the Unix epoch.
pub(crate) fn seconds(at: Timestamp) -> u32 {
    u32::try_from(at.0 / 1000).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_with_most_references_makes_room_for_another_one() {
        let (hostile, honest): (Arc<str>, Arc<str>) = ("tenant-b".into(), "team-a".into());
        let held = |slot| Held::new(slot, Symbol::default(), &"x".repeat(250), State::Exists, 0);
        let mut references = References::default();
        while references.has_room(&held(1)) {
            references.insert(&hostile, held(1));
        }
        assert_eq!(references.leaves_for(&hostile, held(1).size()), None);

        let leaves = references.leaves_for(&honest, held(2).size()).expect("one that makes room");
        let left = references.remove(&hostile, leaves);
        assert_eq!((left.map(|held| held.slot), references.has_room(&held(2))), (Some(1), true));
    }

    /// The maximum number of bytes that hashbrown needs for an entry of 4 bytes: it doubles its
    /// size when 7 of 8 places are taken.
    const INDEX: usize = 12;

    #[test]
    fn ten_thousand_references_take_at_most_64_bytes_each() {
        let (mut references, namespace) = (References::default(), "team-a".into());
        for number in 0..10_000 {
            let name = format!("credentials-{number:08}");
            assert_eq!(name.len(), 20);

            references.insert(
                &namespace,
                Held::new(number / 4, Symbol::default(), &name, State::Exists, 0),
            );
        }

        let chunks: usize = references
            .chunks
            .iter()
            .map(|chunk| chunk.capacity() * size_of::<Option<Held>>())
            .sum();
        let index = references.by_slot.allocation_size();
        let names = 20 * references.len();

        assert!(index <= INDEX * references.len(), "{index}");

        let each = (chunks + index + names) / references.len();
        assert!(each <= 64, "{each} bytes per reference");
        assert_eq!(
            references.queue.len() + references.queued.len(),
            0,
            "targets that exist are not queued"
        );

        // Removed references make room for others.
        for slot in 0..2_500 {
            assert_eq!(references.of(slot).len(), 4);

            references
                .of(slot)
                .into_iter()
                .for_each(|index| drop(references.remove(&namespace, index)));
        }

        assert_eq!((references.len(), references.free.len()), (0, 10_000));
    }
}
