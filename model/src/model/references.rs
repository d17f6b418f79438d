//! The references of primary objects whose target may be missing, and when to look for each target.
//!
//! A reference that appears is looked up soon, and one whose target is absent once a minute. All others are looked up in
//! turn, each about every ten minutes. A target of a watched kind costs no request; all others together cost at most one
//! per second.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::BuildHasher as _;

use hashbrown::{DefaultHashBuilder, HashTable};

use super::Model;
use super::intern::Symbol;
use super::store::Slot;
use super::targets::is_known_output;
use super::timers::Timer;
use super::writers;
use crate::observation::{ObjectAddress, ObjectView, Role};
use crate::time::{Span, Timestamp};

/// The maximum number of references that are kept.
pub(super) const MAX_REFERENCES: usize = 50_000;
/// The shortest time between two steps, of which each may ask for one read.
const STEP: Span = Span::secs(1);
/// The time in which every reference is looked up once.
const ROUND: Span = Span::mins(10);
/// The maximum number of references that one step looks up.
const MAX_STEP: usize = 256;
/// The maximum number of kinds and fields that are known to name what the operator creates.
pub(super) const MAX_OUTPUTS: usize = 1_000;
/// The maximum number of field managers of an operator that are remembered per kind.
const MAX_WRITERS: usize = 8;
/// Separates the parts of a place. No name of a group, a kind or a namespace contains it.
const SEPARATOR: &str = "\0";

/// The position of a reference in [`References`].
pub(crate) type Index = u32;

/// All references.
#[derive(Debug, Default)]
pub(crate) struct References {
    /// In chunks, because a vector that grows needs the old and the new allocation at the same time.
    chunks: Vec<Vec<Option<Held>>>,
    free: Vec<Index>,
    /// By the slot of the object.
    by_slot: HashTable<Index>,
    hasher: DefaultHashBuilder,
    /// The references to look up at an instant: those that are new, and those whose target is absent.
    queue: BTreeSet<(Timestamp, Index)>,
    queued: BTreeMap<Index, Timestamp>,
    /// The reference that the round looks up next.
    cursor: Index,
    /// The number of references that wait for the round to look them up for the first time.
    unchecked: usize,
    /// When the round looks up the next one.
    round_due: Timestamp,
    /// Whether the round comes before the queue in the next step.
    round_first: bool,
    /// The instant before which no further read is asked for.
    next_ask: Timestamp,
    /// When the timer is due.
    pub(super) due: Option<Timestamp>,
    /// The fields that name what the operator creates, as `group/Kind path`.
    outputs: BTreeSet<String>,
    /// The field managers that write the statuses of each kind.
    writers: BTreeMap<u16, BTreeSet<String>>,
}

/// One reference.
#[derive(Debug)]
pub(crate) struct Held {
    /// The name of the target.
    name: Box<str>,
    /// The object with the reference.
    pub(crate) slot: Slot,
    /// Group, kind, namespace and path, which many references have in common.
    place: Symbol,
    /// When the reference appeared, or since when its target is absent, in seconds since the Unix epoch; 0 if unknown.
    pub(crate) since: u32,
    pub(crate) state: State,
    /// A read has been asked for.
    pub(crate) asked: bool,
    /// The target was absent for all of the time after which that is a finding.
    pub(crate) missing: bool,
    /// The number of reads in a row that gave no answer.
    pub(crate) unanswered: u8,
}

// The memory budget is 64 bytes per reference: with 12 bytes in the index and a name of 20 bytes.
const _: () = assert!(size_of::<Option<Held>>() <= 32, "a reference has grown past its budget");

/// What is known about the target of a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// It waits for the round to look it up for the first time.
    Unchecked,
    /// It has been asked for, or is about to be.
    New,
    Exists,
    Absent,
    /// It could not be looked up.
    Unknown,
}

/// How the lookup of a reference went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lookup {
    /// A read was asked for.
    Asked,
    Done,
}

const CHUNK: usize = 256;

// === impl References ===

impl References {
    pub(crate) fn get(&self, index: Index) -> Option<&Held> {
        self.chunks.get(index as usize / CHUNK)?.get(index as usize % CHUNK)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, index: Index) -> Option<&mut Held> {
        self.chunks.get_mut(index as usize / CHUNK)?.get_mut(index as usize % CHUNK)?.as_mut()
    }

    fn len(&self) -> usize {
        self.by_slot.len()
    }

    /// Returns the end of the range of indexes. Some before it may be free.
    fn end(&self) -> Index {
        let full = self.chunks.len().saturating_sub(1) * CHUNK;
        Index::try_from(full + self.chunks.last().map_or(0, Vec::len)).unwrap_or(Index::MAX)
    }

    fn insert(&mut self, held: Held) -> Index {
        let hash = self.hasher.hash_one(held.slot);
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
        let Self { by_slot, chunks, hasher, .. } = self;
        by_slot.insert_unique(hash, index, |index| match &chunks[*index as usize / CHUNK][*index as usize % CHUNK] {
            Some(held) => hasher.hash_one(held.slot),
            None => 0, // unreachable: the index contains only references that are in use
        });
        index
    }

    fn remove(&mut self, index: Index) -> Option<Held> {
        self.enqueue(index, None);
        let hash = self.hasher.hash_one(self.get(index)?.slot);
        if let Ok(entry) = self.by_slot.find_entry(hash, |other| *other == index) {
            entry.remove();
        }
        self.free.push(index);
        let held = self.chunks[index as usize / CHUNK][index as usize % CHUNK].take()?;
        self.unchecked -= usize::from(held.state == State::Unchecked);
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

    /// Moves a reference in the queue; `None` takes it out.
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

    /// Returns the references in the queue: all whose target is absent, and some others.
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
    fn take_queued(&mut self, now: Timestamp) -> Option<Index> {
        let (at, index) = self.queue.first().copied().filter(|(at, _)| *at <= now)?;
        self.queue.remove(&(at, index));
        self.queued.remove(&index);
        Some(index)
    }

    /// Returns the next reference of the round; only unchecked ones while there are any.
    fn take_round(&mut self) -> Option<Index> {
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

    /// Returns how many references one step of the round looks up, and the time until the next step. While some are
    /// unchecked, the steps follow each other as fast as reads allow.
    fn pace(&self) -> (usize, Span) {
        let len = i64::try_from(self.len().max(1)).unwrap_or(i64::MAX);
        let quota = usize::try_from(len.saturating_mul(STEP.0) / ROUND.0 + 1).unwrap_or(MAX_STEP).min(MAX_STEP);
        if self.unchecked > 0 { (MAX_STEP, STEP) } else { (quota, Span(ROUND.0 / len).max(STEP)) }
    }

    /// Moves all instants to the new setting of the clock.
    pub(crate) fn clock_stepped(&mut self, by_ms: i64) {
        self.queued.values_mut().for_each(|at| *at = at.shifted(by_ms));
        self.queue = std::mem::take(&mut self.queue).into_iter().map(|(at, i)| (at.shifted(by_ms), i)).collect();
        for at in [&mut self.round_due, &mut self.next_ask] {
            *at = at.shifted(by_ms);
        }
        self.due = self.due.map(|due| due.shifted(by_ms)); // the caller moves the timers
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

    /// Returns whether the operator of a kind writes with one of these field managers.
    pub(crate) fn is_writer(&self, kind: u16, names: &[String]) -> bool {
        self.writers.get(&kind).is_some_and(|known| names.iter().any(|name| known.contains(name)))
    }
}

// === impl Held ===

impl Held {
    fn new(slot: Slot, place: Symbol, name: &str, state: State, since: u32) -> Self {
        let (asked, missing) = (false, false);
        Self { name: name.into(), slot, place, since, state, asked, missing, unanswered: 0 }
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

// === impl Model ===

impl Model {
    /// Takes the references of a version of an object with a new spec. `live` tells that the spec changed just now.
    pub(crate) fn update_references(&mut self, slot: Slot, view: &ObjectView, live: bool) {
        let Some(record) = self.store.get(slot) else { return };
        let kind = self.watches[record.watch as usize].kind;
        let is_primary = self.kinds[kind as usize].role == Role::Primary;
        let mut old = self.references.of(slot);
        if old.is_empty() && (view.references.is_empty() || !is_primary) {
            return;
        }
        let (state, since) = if live { (State::New, seconds(self.now)) } else { (State::Unchecked, 0) };
        for reference in view.references.iter().filter(|reference| is_primary && !reference.optional) {
            let Some(address) = self.address_of(reference, &view.key.namespace) else { continue };
            if self.is_output(kind, &reference.slot) {
                continue;
            }
            let place = self.acquire_place(&address, &reference.slot);
            let same = |index: &Index| {
                self.references.get(*index).is_some_and(|held| held.place == place && *held.name == *address.name)
            };
            if let Some(position) = old.iter().position(same) {
                old.swap_remove(position);
                self.texts.release(place);
            } else {
                self.add_reference(Held::new(slot, place, &address.name, state, since));
            }
        }
        old.into_iter().for_each(|index| self.remove_reference(index));
        self.set_references_timer();
    }

    fn acquire_place(&mut self, address: &ObjectAddress, path: &str) -> Symbol {
        let ObjectAddress { group, kind, namespace, .. } = address;
        self.acquire_text(&[group.as_str(), kind, namespace, path].join(SEPARATOR))
    }

    fn add_reference(&mut self, held: Held) {
        if held.place == Symbol::default() {
            return; // too many texts, which is counted
        }
        if self.references.len() >= MAX_REFERENCES {
            self.texts.release(held.place);
            return self.count_dropped("references");
        }
        let is_new = held.state == State::New;
        let index = self.references.insert(held);
        if is_new {
            self.references.enqueue(index, Some(self.now));
        }
    }

    fn remove_reference(&mut self, index: Index) {
        if let Some(held) = self.references.remove(index) {
            self.texts.release(held.place);
        }
    }

    /// Forgets the references of an object.
    pub(crate) fn remove_references(&mut self, slot: Slot) {
        self.references.of(slot).into_iter().for_each(|index| self.remove_reference(index));
    }

    /// Remembers the field manager that writes the status of an object with references.
    pub(crate) fn note_writer(&mut self, slot: Slot, view: &ObjectView) {
        let Some(writer) = writers::status_writer(view).filter(|_| !view.references.is_empty()) else { return };
        let Some(record) = self.store.get(slot) else { return };
        let known = self.references.writers.entry(self.watches[record.watch as usize].kind).or_default();
        if known.len() < MAX_WRITERS && !known.contains(&writer.name) && writers::is_controller(view, &writer.name) {
            known.insert(writer.name.clone());
        }
    }

    /// Returns the address of the target of a reference, and the path of its field.
    pub(crate) fn target_of(&self, index: Index) -> Option<(ObjectAddress, String)> {
        let held = self.references.get(index)?;
        let mut parts = self.texts.get(held.place).splitn(4, SEPARATOR).map(str::to_owned);
        let (group, kind, namespace) = (parts.next()?, parts.next()?, parts.next()?);
        Some((ObjectAddress { group, kind, namespace, name: held.name.to_string() }, parts.next()?))
    }

    /// Returns whether a field names an object that the operator creates.
    fn is_output(&self, kind: u16, path: &str) -> bool {
        let state = &self.kinds[kind as usize];
        is_known_output(&state.group, &state.kind, path)
            || (!self.references.outputs.is_empty() && self.references.outputs.contains(&output(&state.name(), path)))
    }

    /// Remembers that a field of a kind names objects that the operator creates, and forgets its references.
    pub(crate) fn learn_output(&mut self, kind: u16, path: &str) {
        if self.references.outputs.len() >= MAX_OUTPUTS {
            return self.count_dropped("outputs");
        }
        self.references.outputs.insert(output(&self.kinds[kind as usize].name(), path));
        for index in 0..self.references.end() {
            let Some(slot) = self.references.get(index).map(|held| held.slot) else { continue };
            let of_kind = self.store.get(slot).is_some_and(|record| self.watches[record.watch as usize].kind == kind);
            if of_kind && self.target_of(index).is_some_and(|(_, of_path)| of_path == path) {
                self.remove_reference(index);
                self.reviews.objects.insert(slot);
            }
        }
    }

    /// Looks up all references that nobody has looked up yet, without regard to the rate of reads: for a dump, in which all
    /// answers are at hand, and in which time does not pass.
    pub fn look_up_all_references(&mut self) {
        while self.references.unchecked > 0 {
            let Some(index) = self.references.take_round() else { break };
            self.look_up(index);
        }
        self.finish_step();
    }

    /// Handles the timer: looks up the references that are due, until one needs a read.
    pub(crate) fn references_due(&mut self) {
        self.references.due = None;
        let now = self.now;
        let round_is_due = self.references.round_due <= now;
        let (quota, every) = self.references.pace();
        if round_is_due {
            self.references.round_due = now.after(every);
        }
        let mut round = if round_is_due { quota } else { 0 };
        let mut round_first = std::mem::replace(&mut self.references.round_first, false);
        for _ in 0..MAX_STEP {
            let from_round =
                (round_first && round > 0) || self.references.queue.first().is_none_or(|(at, _)| *at > now);
            let next = if !from_round {
                self.references.take_queued(now)
            } else if round > 0 {
                round -= 1;
                self.references.take_round()
            } else {
                None
            };
            let Some(index) = next else { break };
            round_first = false;
            if self.look_up(index) == Lookup::Asked {
                self.references.next_ask = now.after(STEP);
                self.references.round_first = !from_round && round_is_due;
                break;
            }
        }
        self.set_references_timer();
    }

    pub(super) fn set_references_timer(&mut self) {
        let references = &self.references;
        let queued = references.queue.first().map(|(at, _)| *at);
        let round = (references.len() > 0).then_some(references.round_due);
        let due = queued.into_iter().chain(round).min().map(|due| due.max(references.next_ask));
        // A timer that is due now would fire again within the same step.
        let due = due.map(|due| due.max(self.now.after(Span(1))));
        let old = std::mem::replace(&mut self.references.due, due);
        self.timers.set(Timer::References, old, due);
    }
}

/// Returns the entry of an output.
fn output(kind: &str, path: &str) -> String {
    format!("{kind} {path}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that hashbrown needs at most for an entry of 4 bytes: it grows when 7 of 8 places are taken, to the double.
    const INDEX: usize = 12;

    #[test]
    fn ten_thousand_references_take_at_most_64_bytes_each() {
        let mut references = References::default();
        for number in 0..10_000 {
            let name = format!("credentials-{number:08}");
            assert_eq!(name.len(), 20);
            references.insert(Held::new(number / 4, Symbol::default(), &name, State::Exists, 0));
        }
        let chunks: usize = references.chunks.iter().map(|chunk| chunk.capacity() * size_of::<Option<Held>>()).sum();
        let index = references.by_slot.allocation_size();
        let names = 20 * references.len();
        assert!(index <= INDEX * references.len(), "{index}");
        let each = (chunks + index + names) / references.len();
        assert!(each <= 64, "{each} bytes per reference");
        assert_eq!(references.queue.len() + references.queued.len(), 0, "targets that exist are not queued");
        // What is removed makes room.
        for slot in 0..2_500 {
            assert_eq!(references.of(slot).len(), 4);
            references.of(slot).into_iter().for_each(|index| drop(references.remove(index)));
        }
        assert_eq!((references.len(), references.free.len()), (0, 10_000));
    }
}
