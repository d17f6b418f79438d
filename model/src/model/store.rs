//! The store of all objects: a small cold record for each, plus a hot part for the few that are unconverged, being
//! deleted or have a history.
//!
//! Most objects of a large cluster are idle, so memory is dominated by the cold records.

use std::collections::VecDeque;
use std::hash::{BuildHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use hashbrown::{DefaultHashBuilder, HashTable};

use super::actors::Actor;
use super::annotated::Annotated;
use super::graph::Owner;
use super::intern::Symbol;
use super::reading::{Reason, Verdict};
use super::voices::Silence;
use crate::finding::FindingCode;
use crate::snapshot::{DeadlineSource, ObjectState, Outcome};
use crate::time::{Span, Timestamp};

/// The position of an object in the store.
pub(crate) type Slot = u32;

/// The cold part, kept for every object.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) uid: u128,
    pub(crate) namespace: Arc<str>,
    pub(crate) name: Box<str>,
    /// The resource version as a number; see [`version_number`].
    pub(crate) version: u64,
    pub(crate) generation: i64,
    /// `status.observedGeneration`; 0 if there is none.
    pub(crate) observed: i64,
    /// Fingerprint of the spec; see `Hashes::spec`.
    pub(crate) spec_hash: u64,
    /// Fingerprint of the status without timestamps and heartbeats.
    pub(crate) stable_status_hash: u64,
    /// When the object entered its state.
    pub(crate) since: Timestamp,
    pub(crate) owners: Option<Box<[Owner]>>,
    pub(crate) hot: Option<Box<HotRecord>>,
    /// Seconds since the Unix epoch; 0 if unknown.
    pub(crate) created: u32,
    /// When a person created the object, or last changed its spec or resumed it, in seconds since the Unix epoch; 0 if
    /// unknown. See [`Record::spec_change`].
    pub(crate) spec_changed: u32,
    /// The duration of the last convergence.
    pub(crate) last_convergence_secs: u32,
    /// Index of its namespace in the watch's `namespaces`.
    pub(crate) namespace_index: u32,
    /// The watch's epoch when the object was last seen. An object with an older epoch was not in the last list.
    pub(crate) epoch: u32,
    pub(crate) phase: Symbol,
    pub(crate) conditions: Symbol,
    pub(crate) finalizers: Symbol,
    pub(crate) watch: u16,
    pub(crate) state: ObjectState,
    pub(crate) reason: Reason,
    pub(crate) verdict: Verdict,
    /// What the status says, or why it says nothing.
    pub(crate) silence: Silence,
    pub(crate) flags: Flags,
}

// The memory budget: at 160 bytes per record, 100,000 idle objects take 16 MB, not counting names and the index.
const _: () = assert!(size_of::<Option<Record>>() <= 160, "a record has grown past its budget");

/// Boolean properties of an object, as a set of [`Flag`]s.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Flags(u16);

/// A boolean property of an object.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Flag {
    /// The object has converged with its current spec at least once, or may have (outcome `unknown`).
    SpecConverged,
    /// `last_convergence_secs` is a measured time.
    ConvergenceTimed,
    /// The status is not empty.
    HasStatus,
    /// The object is as silent as before, and was expected to say more. It still is.
    SilenceMatters,
    /// The model counts the object towards `limits.histories`.
    HasHistory,
    MalformedConditions,
    /// The kind's totals count the object's phase.
    PhaseCounted,
    /// The kind's totals count the object's conditions.
    ConditionsCounted,
    /// The model has judged the object, so its state is not just the initial one.
    Judged,
    /// The object has no managed fields, so nothing shows when its spec was written.
    Undated,
    /// The status never said anything but converged since the last spec change, so the rollout may begin yet.
    ConvergedUnseen,
    /// The object entered its state at an instant that the API server wrote.
    SinceDated,
    /// The API server wrote when the spec last changed.
    SpecDated,
    /// The object had regressed when somebody paused it.
    RegressedBeforePause,
    /// The object has more owners than loopwatch knows.
    OwnersCut,
}

/// The hot part, kept while an object is unconverged, being deleted, or has a history, findings, or annotations that tune
/// findings.
#[derive(Debug, Default)]
pub(crate) struct HotRecord {
    /// When the object's timer is due.
    pub(crate) due: Option<Timestamp>,
    /// The part of the status that decided the verdict.
    pub(crate) signal: String,
    /// The message of the deciding condition.
    pub(crate) message: String,
    pub(crate) unconverged: Option<Unconverged>,
    pub(crate) deletion: Option<Deletion>,
    pub(crate) history: Option<Box<History>>,
    /// Since when the kind counts the object as failing.
    pub(crate) failing_since: Option<Timestamp>,
    /// When the object entered its phase, if loopwatch, or an earlier process that found it stuck, saw that.
    pub(crate) phase_since: Option<Timestamp>,
    /// The annotations of the object that tune findings about it.
    pub(crate) annotated: Option<Box<Annotated>>,
    /// The findings about the object that are open, or wait for room.
    pub(crate) findings: Vec<FindingCode>,
}

/// The state of an object that is expected to converge and has not.
#[derive(Debug, Default)]
pub(crate) struct Unconverged {
    /// When the object became unconverged. A newer spec does not reset this.
    pub(crate) since: Timestamp,
    /// The obligation that the current spec opened; `None` after a regression.
    pub(crate) obligation: Option<Obligation>,
    /// The first spec change that the operator has not acknowledged. A newer spec does not reset this, so loopwatch
    /// finds a dead operator although something keeps changing the spec.
    pub(crate) unacknowledged_since: Option<Timestamp>,
    /// The status says that the object is not ready, about whichever spec.
    pub(crate) unready: bool,
    /// When the object stopped being converged without a spec change.
    pub(crate) regressed_since: Option<Timestamp>,
    /// The conditions have turned since the regression began, although the object has not recovered.
    pub(crate) restless: bool,
    /// The end of the deadline of the last spec change, if the regression began before it: the rollout of that change
    /// may have begun late. For an object that was resumed, the end of its deadline.
    pub(crate) rollout_until: Option<Timestamp>,
    /// The end of the deadline of the first spec change after the regression, which may repair the object.
    pub(crate) mended_by: Option<Timestamp>,
    /// When the current work began: at the first spec change or retry since the last rejection. A newer spec does not
    /// reset this, so loopwatch finds an object that never gets ready although something keeps changing its spec.
    pub(crate) working_since: Timestamp,
    /// The last write of the status according to the managed fields.
    pub(crate) last_status_write: Option<Timestamp>,
    /// The start times come from the times in the object, and not from when loopwatch saw it.
    pub(crate) dated: bool,
    /// The fingerprint of the last spec that converged, and how long that took.
    pub(crate) last_converged: Option<(u64, Span)>,
    /// An earlier process found that the object does not recover with this spec, which had converged before.
    pub(crate) not_recovered: bool,
    /// The last status write since the spec change.
    pub(crate) status_written: Option<Timestamp>,
    /// The field manager that wrote the status last, even if that was before the spec change.
    pub(crate) status_writer: String,
}

/// The operator's obligation to acknowledge one spec change and to converge.
#[derive(Clone, Debug)]
pub(crate) struct Obligation {
    pub(crate) opened: Timestamp,
    /// When the finding about a missed deadline opens.
    pub(crate) deadline: Timestamp,
    pub(crate) deadline_source: DeadlineSource,
    /// When the obligation counts as late. A learned deadline never moves this.
    pub(crate) slo_deadline: Timestamp,
    /// `opened` comes from timestamps of the object, with a resolution of one second: histograms leave it out.
    pub(crate) backfilled: bool,
    /// The spec is the object's first one.
    pub(crate) creation: bool,
    /// No person asked for this: the operator changed the spec itself, or the object was resumed or runs again. The
    /// obligation has deadlines, but it counts towards no total.
    pub(crate) uncounted: bool,
    /// A failure is a regression and no answer to the spec, because no person asked for anything new: the operator changed
    /// the spec itself, or somebody resumed an object that had converged or regressed.
    pub(crate) unasked: bool,
    /// A part of it happened while the watch was blind, so its times are neither measured nor learned.
    pub(crate) unmeasured: bool,
    /// The status said converged all along, so it may be about the earlier spec.
    pub(crate) stale: bool,
    pub(crate) acknowledged: Option<Timestamp>,
    /// When the status began to say converged.
    pub(crate) converged_since: Option<Timestamp>,
    /// When the status began to say failed.
    pub(crate) failed_since: Option<Timestamp>,
    /// The status says converged but may describe the old spec: it has no `observedGeneration`, and no write of it has
    /// been seen since the spec change.
    pub(crate) unconfirmed: bool,
    /// The outcome, once it has been counted.
    pub(crate) outcome: Option<Outcome>,
}

/// The deletion of an object.
#[derive(Debug)]
pub(crate) struct Deletion {
    pub(crate) since: Timestamp,
    /// The last progress that loopwatch saw.
    pub(crate) last_progress: Option<Timestamp>,
    /// Fingerprints of the phases and conditions that the object has shown since. Returning to one is no progress.
    pub(crate) shown: Vec<u64>,
    /// Each finalizer with the actor that should remove it, in the order of `metadata.finalizers`.
    pub(crate) actors: Vec<(Arc<str>, Actor)>,
    /// The newest write in the managed fields, by the API server's clock.
    pub(crate) newest_write: Option<Timestamp>,
    /// The controller of a finalizer was found absent during the deletion, so its duration shows nothing.
    pub(crate) was_abandoned: bool,
    /// When an absent controller was back. It needs time from then on.
    pub(crate) resumed: Option<Timestamp>,
    /// The deletion has counted as timed out.
    pub(crate) timed_out: bool,
}

/// Recent changes of an object's phase and conditions without a spec change, and of its finalizers.
#[derive(Debug, Default)]
pub(crate) struct History {
    pub(crate) phases: VecDeque<(Timestamp, Arc<str>)>,
    pub(crate) transitions: Vec<Transitions>,
    /// Finalizers that were removed although the object was not being deleted, and added again.
    pub(crate) finalizers: VecDeque<FinalizerChange>,
}

/// A change of the finalizers of an object that is not being deleted.
#[derive(Debug)]
pub(crate) struct FinalizerChange {
    pub(crate) finalizer: Arc<str>,
    pub(crate) at: Timestamp,
    /// Removed, or else added again.
    pub(crate) removed: bool,
    /// The field manager that did it, if it is known.
    pub(crate) by: Option<Arc<str>>,
    /// Another writer than the controller of the finalizer removed it.
    pub(crate) lost: bool,
}

/// The recent transitions of one condition.
#[derive(Debug)]
pub(crate) struct Transitions {
    pub(crate) condition: Arc<str>,
    pub(crate) times: VecDeque<Timestamp>,
    /// The reasons of the transitions, at most two.
    pub(crate) reasons: Vec<String>,
}

/// All objects, by slot and by watch, namespace and name.
#[derive(Debug)]
pub(crate) struct Store {
    /// Chunks rather than one vector: a vector that grows needs the old and the new allocation at the same time.
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
            None => 0, // unreachable: the index contains only slots that are in use
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

// === impl Record ===

impl Record {
    /// Returns the hot part, which it creates if necessary.
    pub(crate) fn hot_mut(&mut self) -> &mut HotRecord {
        self.hot.get_or_insert_with(Box::default)
    }

    /// Sets the open findings and the due time of the timer, and frees the hot part if nothing needs it any more, unless
    /// it is to be `kept`.
    pub(crate) fn set_findings_and_due(&mut self, findings: Vec<FindingCode>, due: Option<Timestamp>, kept: bool) {
        let Some(hot) = self.hot.as_mut() else { return };
        let waits = due.is_some() || hot.unconverged.is_some() || hot.deletion.is_some();
        let idle = !waits && findings.is_empty() && hot.annotated.is_none();
        hot.findings = findings;
        hot.due = due;
        if due.is_none() {
            hot.history = None; // without a timer, every entry has left its window
        }
        if idle && !kept {
            self.hot = None;
        }
    }

    /// Returns whether this version is newer than that of a watch event. Versions of lists do not compare with it: those of
    /// a cluster that was restored from a backup are lower than before.
    pub(crate) fn is_newer_than(&self, version: u64) -> bool {
        version != 0 && version < self.version
    }

    /// Returns when a person created the object, or last changed its spec or resumed it, in whole seconds, if loopwatch
    /// knows it.
    pub(crate) fn spec_change(&self) -> Option<Timestamp> {
        (self.spec_changed > 0).then(|| Timestamp(i64::from(self.spec_changed) * 1000))
    }

    /// Sets the time of the last spec change. `dated` tells whether the API server wrote it.
    pub(crate) fn set_spec_change(&mut self, at: Option<Timestamp>, dated: bool) {
        self.flags.set(Flag::SpecDated, dated);
        self.spec_changed = at.and_then(|at| u32::try_from(at.0 / 1000).ok()).unwrap_or(0);
    }

    /// Returns a fingerprint of the object with its current spec, if anything identifies that. The generation does so
    /// unless status writes increment it.
    pub(crate) fn spec_identity(&self, unreliable_generation: bool) -> Option<u64> {
        let by_generation = self.generation > 0 && !unreliable_generation;
        let spec = if by_generation { self.generation.unsigned_abs() } else { self.spec_hash };
        let mut hasher = std::hash::DefaultHasher::new(); // the same in every process
        (self.uid, by_generation, spec).hash(&mut hasher);
        (spec != 0).then(|| hasher.finish())
    }

    /// Moves all own instants by `by_ms` milliseconds. The beginning of a deletion is an instant of the API server.
    pub(crate) fn rebase(&mut self, by_ms: i64) {
        let shift = |at: &mut Timestamp| *at = at.shifted(by_ms);
        if !self.flags.has(Flag::SinceDated) {
            shift(&mut self.since);
        }
        if !self.flags.has(Flag::SpecDated) {
            self.set_spec_change(self.spec_change().map(|at| at.shifted(by_ms)), false);
        }
        let Some(hot) = self.hot.as_mut() else { return };
        [&mut hot.due, &mut hot.phase_since].into_iter().flatten().for_each(shift);
        if !hot.unconverged.as_ref().is_some_and(|unconverged| unconverged.dated) {
            hot.failing_since.iter_mut().for_each(shift);
        }
        let deletion = hot.deletion.iter_mut().flat_map(|d| [&mut d.last_progress, &mut d.resumed]);
        deletion.flatten().for_each(shift);
        if let Some(history) = hot.history.as_mut() {
            history.phases.iter_mut().for_each(|(at, _)| shift(at));
            history.transitions.iter_mut().flat_map(|t| &mut t.times).for_each(shift);
            history.finalizers.iter_mut().for_each(|change| shift(&mut change.at));
        }
        hot.unconverged.iter_mut().for_each(|unconverged| unconverged.rebase(by_ms));
    }

    pub(crate) fn unconverged(&self) -> Option<&Unconverged> {
        self.hot.as_ref()?.unconverged.as_ref()
    }

    pub(crate) fn unconverged_mut(&mut self) -> Option<&mut Unconverged> {
        self.hot.as_mut()?.unconverged.as_mut()
    }

    /// Returns the deletion, if the object is being deleted.
    pub(crate) fn deletion(&self) -> Option<&Deletion> {
        self.hot.as_ref()?.deletion.as_ref()
    }

    pub(crate) fn obligation(&self) -> Option<&Obligation> {
        self.unconverged()?.obligation.as_ref()
    }

    pub(crate) fn created(&self) -> Option<Timestamp> {
        (self.created > 0).then(|| Timestamp(i64::from(self.created) * 1000))
    }
}

// === impl Unconverged ===

impl Unconverged {
    fn rebase(&mut self, by_ms: i64) {
        let shift = |at: &mut Timestamp| *at = at.shifted(by_ms);
        if !self.dated {
            shift(&mut self.since);
            shift(&mut self.working_since);
            [&mut self.unacknowledged_since, &mut self.regressed_since].into_iter().flatten().for_each(shift);
        }
        [&mut self.rollout_until, &mut self.mended_by, &mut self.status_written].into_iter().flatten().for_each(shift);
        if let Some(obligation) = self.obligation.as_mut() {
            let Obligation { opened, deadline, slo_deadline, acknowledged, converged_since, failed_since, .. } =
                obligation;
            if !self.dated {
                [opened, deadline, slo_deadline].into_iter().for_each(shift);
            }
            [acknowledged, converged_since, failed_since].into_iter().flatten().for_each(shift);
        }
    }
}

// === impl Flags ===

impl Flags {
    pub(crate) fn has(self, flag: Flag) -> bool {
        self.0 >> flag as u16 & 1 == 1
    }

    pub(crate) fn set(&mut self, flag: Flag, on: bool) {
        self.0 = self.0 & !(1 << flag as u16) | u16::from(on) << flag as u16;
    }
}

/// Returns a resource version as a number, or 0 if it is not one. Numeric versions of one resource can be compared
/// (KEP-5504).
pub(crate) fn version_number(version: &str) -> u64 {
    version.parse().unwrap_or(0)
}

/// The number of an empty UID, which tells no objects apart.
pub(crate) const NO_UID: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;

/// Returns a UID as a number: the 128 bits of a UUID, or the fingerprint of any other text.
pub(crate) fn uid_number(text: &str) -> u128 {
    let mut value = 0_u128;
    let mut digits = 0;
    for byte in text.bytes().filter(|byte| *byte != b'-') {
        let Some(digit) = char::from(byte).to_digit(16) else { return fingerprint(text) };
        value = value << 4 | u128::from(digit);
        digits += 1;
    }
    if digits == 32 && text.len() == 36 { value } else { fingerprint(text) }
}

/// Formats the number of a UID as a UUID.
pub(crate) fn uid_text(uid: u128) -> String {
    let hex = format!("{uid:032x}");
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

/// Returns the 128-bit FNV-1a hash (draft-eastlake-fnv).
fn fingerprint(text: &str) -> u128 {
    text.bytes()
        .fold(NO_UID, |hash, byte| (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b))
}
