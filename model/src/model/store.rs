//! The objects: a cold record each, small enough for a hundred thousand of them, and a hot part for the few that are
//! changing, waiting or being deleted.

use std::collections::VecDeque;
use std::hash::BuildHasher;
use std::sync::Arc;

use hashbrown::{DefaultHashBuilder, HashTable};

use super::intern::Symbol;
use super::reading::{Reason, Verdict};
use crate::snapshot::{DeadlineSource, ObjectState, Outcome};
use crate::time::{Span, Timestamp};

/// Where an object is in the store.
pub(crate) type Slot = u32;

/// What is kept of every object.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) uid: u128,
    pub(crate) namespace: Arc<str>,
    pub(crate) name: Box<str>,
    /// See [`order`].
    pub(crate) version: u64,
    pub(crate) generation: i64,
    /// 0 stands for none.
    pub(crate) observed: i64,
    pub(crate) spec: u64,
    pub(crate) settled: u64,
    /// When the state began.
    pub(crate) since: Timestamp,
    pub(crate) owners: Option<Box<[Owner]>>,
    pub(crate) hot: Option<Box<Hot>>,
    /// Seconds since 1970; 0 stands for none.
    pub(crate) created: u32,
    /// How long the last convergence took, in seconds.
    pub(crate) took: u32,
    /// Position in the watch's namespaces.
    pub(crate) totals: u32,
    /// The list in which it was last seen.
    pub(crate) epoch: u32,
    pub(crate) phase: Symbol,
    pub(crate) shape: Symbol,
    pub(crate) finalizers: Symbol,
    pub(crate) watch: u16,
    pub(crate) state: ObjectState,
    pub(crate) reason: Reason,
    pub(crate) verdict: Verdict,
    pub(crate) flags: Flags,
}

/// The budget of the design: 160 bytes a record, so that 100,000 idle objects take 16 MB and their index.
const _: () = assert!(size_of::<Option<Record>>() <= 160, "a record has grown past its budget");

/// Yes-or-no facts about an object.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Flags {
    /// The current spec has converged at some time.
    pub(crate) settled: bool,
    /// It has a status.
    pub(crate) has_status: bool,
    /// It is counted among those with a history.
    pub(crate) history: bool,
    /// Its conditions are malformed.
    pub(crate) malformed: bool,
}

/// One owner.
#[derive(Debug)]
pub(crate) struct Owner {
    pub(crate) kind: Symbol,
    pub(crate) name: Box<str>,
}

/// What is kept of an object that is changing, waiting or being deleted.
#[derive(Debug, Default)]
pub(crate) struct Hot {
    /// When it is next looked at without an event.
    pub(crate) due: Option<Timestamp>,
    /// The words its status was judged on.
    pub(crate) signal: String,
    /// What the deciding condition says.
    pub(crate) message: String,
    pub(crate) unconverged: Option<Unconverged>,
    pub(crate) deletion: Option<Deletion>,
    pub(crate) history: Option<Box<History>>,
    /// Which findings are open on it, by their codes.
    pub(crate) findings: u64,
}

/// An object that is not as its spec asks.
#[derive(Debug)]
pub(crate) struct Unconverged {
    /// Since when; a newer spec does not reset it.
    pub(crate) since: Timestamp,
    /// What the current spec asks for.
    pub(crate) obligation: Option<Obligation>,
    /// Since when the goal is lost although the spec did not change.
    pub(crate) regressed: Option<Timestamp>,
    /// An earlier spec that converged, and how long that took.
    pub(crate) good: Option<(u64, Span)>,
    /// The last status write since the spec changed.
    pub(crate) status_written: Option<Timestamp>,
    /// Who wrote the status last, whenever that was.
    pub(crate) status_writer: String,
}

/// One spec that the operator owes an answer to.
#[derive(Clone, Debug)]
pub(crate) struct Obligation {
    pub(crate) opened: Timestamp,
    /// When the finding comes.
    pub(crate) deadline: Timestamp,
    pub(crate) deadline_source: DeadlineSource,
    /// When it counts as late: never a learned deadline.
    pub(crate) late_at: Timestamp,
    /// Its beginning was read from timestamps with a resolution of one second: kept out of histograms.
    pub(crate) backfilled: bool,
    pub(crate) acknowledged: Option<Timestamp>,
    /// Since when the status says converged.
    pub(crate) reached: Option<Timestamp>,
    /// Since when the status says failed.
    pub(crate) answered: Option<Timestamp>,
    /// The status says converged, but nobody has written it since the spec changed and it names no generation.
    pub(crate) stale: bool,
    /// How it was counted.
    pub(crate) counted: Option<Outcome>,
}

/// An object that is being deleted.
#[derive(Debug)]
pub(crate) struct Deletion {
    pub(crate) since: Timestamp,
    pub(crate) last_progress: Timestamp,
    /// Who should remove each finalizer, in their order.
    pub(crate) actors: Vec<(Arc<str>, String)>,
    pub(crate) stuck: bool,
}

/// What an object did lately without a change of its spec.
#[derive(Debug, Default)]
pub(crate) struct History {
    pub(crate) phases: VecDeque<(Timestamp, Symbol)>,
    pub(crate) transitions: Vec<Transitions>,
}

/// The latest transitions of one condition.
#[derive(Debug)]
pub(crate) struct Transitions {
    pub(crate) condition: Arc<str>,
    pub(crate) times: VecDeque<Timestamp>,
    /// The reasons given, at most two.
    pub(crate) reasons: Vec<String>,
}

/// All objects, found by slot or by watch and name.
#[derive(Debug)]
pub(crate) struct Store {
    /// Chunks rather than one vector: doubling a vector of records would double the peak.
    chunks: Vec<Vec<Option<Record>>>,
    free: Vec<Slot>,
    index: HashTable<Slot>,
    hasher: DefaultHashBuilder,
}

const CHUNK: usize = 1024;

// === impl Store ===

impl Store {
    pub(crate) fn new() -> Self {
        Self { chunks: Vec::new(), free: Vec::new(), index: HashTable::new(), hasher: DefaultHashBuilder::default() }
    }

    pub(crate) fn len(&self) -> usize {
        self.index.len()
    }

    /// One past the last slot in use.
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
            self.get(*slot).is_some_and(|r| r.watch == watch && *r.name == *name && *r.namespace == *namespace)
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
        index.insert_unique(hash, slot, |slot| match &chunks[*slot as usize / CHUNK][*slot as usize % CHUNK] {
            Some(r) => hasher.hash_one((r.watch, &*r.namespace, &*r.name)),
            None => 0, // never: the index holds used slots only
        });
        slot
    }

    pub(crate) fn remove(&mut self, slot: Slot) -> Option<Record> {
        let hash = self.hash(self.get(slot)?);
        if let Ok(entry) = self.index.find_entry(hash, |other| *other == slot) {
            entry.remove();
        }
        self.free.push(slot);
        self.chunks[slot as usize / CHUNK][slot as usize % CHUNK].take()
    }

    pub(crate) fn slots(&self) -> impl Iterator<Item = (Slot, &Record)> {
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

// === impl Record ===

impl Record {
    /// The hot part, made when it is not there yet.
    pub(crate) fn hot_mut(&mut self) -> &mut Hot {
        self.hot.get_or_insert_with(Box::default)
    }

    /// Notes what is open on the object and when it is next looked at; frees the hot part when nothing in it matters.
    pub(crate) fn set_findings_and_due(&mut self, findings: u64, due: Option<Timestamp>) {
        let Some(hot) = self.hot.as_mut() else { return };
        hot.findings = findings;
        hot.due = due;
        if due.is_none() {
            hot.history = None; // every entry has left its window
        }
        if due.is_none() && findings == 0 && hot.unconverged.is_none() && hot.deletion.is_none() {
            self.hot = None;
        }
    }

    pub(crate) fn unconverged(&self) -> Option<&Unconverged> {
        self.hot.as_ref()?.unconverged.as_ref()
    }

    pub(crate) fn obligation(&self) -> Option<&Obligation> {
        self.unconverged()?.obligation.as_ref()
    }

    pub(crate) fn created(&self) -> Option<Timestamp> {
        (self.created > 0).then(|| Timestamp(i64::from(self.created) * 1000))
    }
}

/// A resource version as a number that can be compared (KEP-5504 allows that among one resource); 0 when it is none.
pub(crate) fn order(version: &str) -> u64 {
    version.parse().unwrap_or(0)
}

/// A UID as a number: its 128 bits, or for anything that is not a UUID a fingerprint of the text.
pub(crate) fn uid(text: &str) -> u128 {
    let mut value = 0_u128;
    let mut digits = 0;
    for byte in text.bytes().filter(|byte| *byte != b'-') {
        let Some(digit) = char::from(byte).to_digit(16) else { return fingerprint(text) };
        value = value << 4 | u128::from(digit);
        digits += 1;
    }
    if digits == 32 && text.len() == 36 { value } else { fingerprint(text) }
}

/// A UID as text again.
pub(crate) fn uid_text(uid: u128) -> String {
    let hex = format!("{uid:032x}");
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

/// FNV-1a with 128 bits.
fn fingerprint(text: &str) -> u128 {
    text.bytes().fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, |hash, byte| {
        (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b)
    })
}
