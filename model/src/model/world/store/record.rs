//! The record of one object: a small cold part, and the hot part if it has one.

use std::hash::{Hash as _, Hasher as _};
use std::sync::Arc;

use crate::finding::FindingCode;
use crate::model::status::coverage::StatusSummary;
use crate::model::status::reading::{Reason, Verdict};
use crate::model::world::intern::Symbol;
use crate::model::world::owner_graph::Owner;
use crate::model::world::store::hot::{Deletion, HotRecord, Obligation, Unconverged};
use crate::snapshot::ObjectState;
use crate::time::Timestamp;

/// The cold part, kept for every object.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) uid: u128,
    pub(crate) namespace: Arc<str>,
    pub(crate) name: Box<str>,
    /// The resource version as a number; see [`version_number`].
    pub(crate) version: u64,
    pub(crate) generation: Generation,
    /// `status.observedGeneration`; 0 if there is none.
    pub(crate) observed: Generation,
    /// Fingerprint of the spec; see `Hashes::spec`.
    pub(crate) spec_hash: u64,
    /// Fingerprint of the status without timestamps and heartbeats.
    pub(crate) stable_status_hash: u64,
    /// When the object entered its state.
    pub(crate) since: Timestamp,
    /// `None` if there are none. See [`Record::owners`].
    pub(crate) owners: Option<Box<Owners>>,
    pub(crate) hot: Option<Box<HotRecord>>,
    /// Seconds since the Unix epoch; 0 if unknown.
    pub(crate) created: u32,
    /// When a person created the object, or last changed its spec or resumed it, in seconds since
    /// the Unix epoch; 0 if unknown. See [`Record::spec_change`].
    pub(crate) spec_changed: u32,
    /// The duration of the last convergence.
    pub(crate) last_convergence_secs: u32,
    /// Index of its namespace in the watch's `namespaces`.
    pub(crate) namespace_index: u32,
    /// The watch's epoch when the object was last seen. An object with an older epoch was not in
    /// the last list.
    pub(crate) epoch: u32,
    pub(crate) phase: Symbol,
    pub(crate) conditions: Symbol,
    pub(crate) finalizers: Symbol,
    pub(crate) watch: u16,
    pub(crate) state: ObjectState,
    pub(crate) reason: Reason,
    pub(crate) verdict: Verdict,
    /// What the status says, or why it says nothing.
    pub(crate) silence: StatusSummary,
    pub(crate) flags: Flags,
}

// The memory budget: at 144 bytes per record, 100,000 idle objects take 14 MB, not counting names
// and the index.
const _: () = assert!(size_of::<Option<Record>>() <= 144, "a record has grown past its budget");

/// A generation, in four bytes: the API server counts spec changes from 1. Larger ones than
/// 4,294,967,295, which only a status can claim, are that number; 0 and less are none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Generation(u32);

/// The owners of an object. A record has a thin pointer to them, because most objects have none.
#[derive(Debug)]
pub(crate) struct Owners(pub(crate) Box<[Owner]>);

/// Boolean properties of an object, as a set of [`Flag`]s.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Flags(u16);

/// A boolean property of an object.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Flag {
    /// The object has converged with its current spec at least once, or may have (outcome
    /// `unknown`).
    SpecConverged,
    /// `last_convergence_secs` is a measured time.
    ConvergenceTimed,
    /// The status is not empty.
    HasStatus,
    /// The object's status is still silent, and the object was and is expected to say more.
    SilentStatusMatters,
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
    /// The status has said nothing but converged since the last spec change, so the rollout may yet
    /// begin.
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

impl Generation {
    pub(crate) fn of(number: i64) -> Self {
        Self(number.clamp(0, u32::MAX.into()) as u32)
    }

    pub(crate) fn number(self) -> i64 {
        self.0.into()
    }

    /// Returns the number, unless there is none.
    pub(crate) fn some(self) -> Option<i64> {
        (self.0 > 0).then(|| self.number())
    }
}

impl Record {
    pub(crate) fn owners(&self) -> &[Owner] {
        self.owners.as_ref().map(|owners| &*owners.0).unwrap_or_default()
    }

    /// Returns whether somebody has marked the object as critical.
    pub(crate) fn is_critical(&self) -> bool {
        let annotated = self.hot.as_ref().and_then(|hot| hot.annotated.as_ref());
        annotated.is_some_and(|annotated| annotated.is_critical)
    }

    /// Returns the hot part, which it creates if necessary.
    pub(crate) fn hot_mut(&mut self) -> &mut HotRecord {
        self.hot.get_or_insert_with(Box::default)
    }

    /// Sets the open findings and the due time of the timer, and frees the hot part if nothing
    /// needs it any more, unless it is to be `kept`.
    pub(crate) fn set_findings_and_due(
        &mut self,
        findings: Vec<FindingCode>,
        due: Option<Timestamp>,
        kept: bool,
    ) {
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

    /// Returns whether this version is newer than that of a watch event. Versions from lists cannot
    /// be compared like this: after a cluster is restored from a backup, they are lower than
    /// before.
    pub(crate) fn is_newer_than(&self, version: u64) -> bool {
        version != 0 && version < self.version
    }

    /// Returns when a person created the object, or last changed its spec or resumed it, in whole
    /// seconds, if loopwatch knows it.
    pub(crate) fn spec_change(&self) -> Option<Timestamp> {
        (self.spec_changed > 0).then(|| Timestamp(i64::from(self.spec_changed) * 1000))
    }

    /// Sets the time of the last spec change. `dated` tells whether the API server wrote it.
    pub(crate) fn set_spec_change(&mut self, at: Option<Timestamp>, dated: bool) {
        self.flags.set(Flag::SpecDated, dated);
        self.spec_changed = at.and_then(|at| u32::try_from(at.0 / 1000).ok()).unwrap_or(0);
    }

    /// Returns a fingerprint of the object with its current spec, if anything identifies the spec.
    /// The generation does so unless status writes increment it.
    pub(crate) fn spec_identity(&self, unreliable_generation: bool) -> Option<u64> {
        let generation = self.generation.number();
        let by_generation = generation > 0 && !unreliable_generation;
        let spec = if by_generation { generation.unsigned_abs() } else { self.spec_hash };
        let mut hasher = std::hash::DefaultHasher::new(); // the same in every process
        (self.uid, by_generation, spec).hash(&mut hasher);

        (spec != 0).then(|| hasher.finish())
    }

    /// Moves all instants of loopwatch's own clock by `by_ms` milliseconds. The beginning of a
    /// deletion is an instant of the API server, but the time for which it has lasted stays the
    /// same.
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
            hot.failure.iter_mut().for_each(|failure| shift(&mut failure.since));
        }

        let deletion = hot.deletion.as_deref_mut().into_iter().flat_map(Deletion::instants);

        deletion.for_each(shift);
        if let Some(history) = hot.history.as_mut() {
            history.phases.iter_mut().for_each(|(at, _)| shift(at));
            let changes = history.transitions.iter_mut().flat_map(|t| &mut t.changes);
            changes.for_each(shift);
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
        self.hot.as_ref()?.deletion.as_deref()
    }

    pub(crate) fn obligation(&self) -> Option<&Obligation> {
        self.unconverged()?.obligation.as_ref()
    }

    pub(crate) fn created(&self) -> Option<Timestamp> {
        (self.created > 0).then(|| Timestamp(i64::from(self.created) * 1000))
    }
}

impl Flags {
    pub(crate) fn has(self, flag: Flag) -> bool {
        self.0 >> flag as u16 & 1 == 1
    }

    pub(crate) fn set(&mut self, flag: Flag, on: bool) {
        self.0 = self.0 & !(1 << flag as u16) | u16::from(on) << flag as u16;
    }
}
