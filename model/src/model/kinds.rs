//! Kinds, their watches, and the totals that the model counts as objects change.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::actors::FinalizerWriters;
use super::learned::{Durations, Learned};
use super::orphans::Siblings;
use super::store::Slot;
use super::voices::Voices;
use crate::observation::{ObjectKey, Role, Scope, StatusSchema, WatchId, WatchedKind};
use crate::settings::Settings;
use crate::snapshot::{
    DeadlineSource, EarlierRevisions, FinalizerTotals, KindTotals, NamespaceTotals, ObjectState, WatchTotals,
};
use crate::time::{Span, Timestamp};

/// One kind, over all of its watches.
#[derive(Debug, Default)]
pub(crate) struct Kind {
    pub(crate) group: Arc<str>,
    pub(crate) kind: Arc<str>,
    pub(crate) resource: String,
    pub(crate) version: String,
    pub(crate) role: Role,
    pub(crate) status: StatusSchema,
    /// Nothing shows that this operator serves the kind, so findings about it are only suspected.
    pub(crate) suspected: bool,
    pub(crate) objects: u64,
    pub(crate) voices: Voices,
    /// The kind has been seen to expect a status.
    pub(crate) shows_status: bool,
    /// Silent objects of the list that is being read.
    pub(crate) listed_silent: BTreeSet<Slot>,
    /// Objects of watches that have ended.
    pub(crate) departed: Departed,
    pub(crate) learned: Learned,
    /// What its owned objects have in common.
    pub(crate) siblings: Siblings,
    pub(crate) totals: KindTotals,
    /// What they counted under earlier revisions of the operator; `None` before the first change of revision.
    pub(crate) earlier: Option<Box<EarlierRevisions>>,
    /// Unconverged objects by the time at which they became so.
    pub(crate) unconverged: BTreeSet<(Timestamp, Slot)>,
    pub(crate) finalizers: BTreeMap<Arc<str>, FinalizerWaits>,
    /// The field managers that add and remove finalizers; at most `limits.finalizers`.
    pub(crate) finalizer_writers: BTreeMap<Arc<str>, FinalizerWriters>,
    /// Removal times of an earlier run, until the first deletion that waits for the finalizer.
    pub(crate) restored_removals: BTreeMap<Arc<str>, Durations>,
    /// The latest acknowledgements of spec changes.
    pub(crate) acknowledged: Acknowledgements,
    /// When each controller that writes objects of the kind last did so, by the API server's clock.
    pub(crate) writers: Vec<(Arc<str>, Timestamp)>,
    /// Objects that converged and now fail with the same spec, by the time at which they began to fail.
    pub(crate) failing: BTreeSet<(Timestamp, Slot)>,
    /// When the number of failing objects reached the thresholds.
    pub(crate) failing_since: Option<Timestamp>,
    /// When the timer of the kind is due.
    pub(crate) due: Option<Timestamp>,
    /// Objects with malformed conditions.
    pub(crate) malformed: BTreeSet<Slot>,
    /// The lints of their conditions.
    pub(crate) lints: BTreeSet<String>,
    /// Totals of namespaces that no longer have a place in a watch, so that the counters never go back.
    pub(crate) retired: BTreeMap<Arc<str>, NamespaceTotals>,
}

/// The objects that had converged when their watch ended or lost its permission, each by the fingerprint of its UID and
/// its spec. The same watch or another one may see them again soon, and then knows that they had.
#[derive(Debug, Default)]
pub(crate) struct Departed {
    /// When the last watch ended.
    pub(crate) left: Timestamp,
    /// At most [`MAX_DEPARTED`].
    converged: BTreeSet<u64>,
    /// Those that were no longer converged, and since when.
    regressed: BTreeMap<u64, Timestamp>,
}

/// The latest acknowledgements of spec changes of one kind.
#[derive(Debug, Default)]
pub(crate) struct Acknowledgements {
    /// The latest last, at most [`MAX_ACKNOWLEDGEMENTS`].
    latest: VecDeque<(Timestamp, Slot)>,
}

/// The maximum number of acknowledgements that are remembered per kind.
const MAX_ACKNOWLEDGEMENTS: usize = 64;

/// How long the model remembers objects of a watch that has ended, and findings about them.
pub(crate) const REMEMBERED_FOR: Span = Span::hours(24);

/// The maximum number of departed objects of a kind.
const MAX_DEPARTED: usize = 100_000;

/// Deletions of one kind that wait, or waited, for one finalizer.
#[derive(Debug, Default)]
pub(crate) struct FinalizerWaits {
    pub(crate) waiting: BTreeSet<(Timestamp, Slot)>,
    pub(crate) totals: FinalizerTotals,
    /// How long removals take.
    pub(crate) removals: Durations,
}

/// One kind in one scope.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    pub(crate) id: WatchId,
    pub(crate) kind: u16,
    pub(crate) scope: Scope,
    /// The watch is in the latest list of discovered watches.
    pub(crate) active: bool,
    /// Verbs that the API server denies.
    pub(crate) missing: Vec<String>,
    /// The watch does not report all objects, so audits do not apply.
    pub(crate) filtered: bool,
    /// The watch shows the objects of a dump, which may lack others.
    pub(crate) dumped: bool,
    /// The first list is complete.
    pub(crate) synced: bool,
    pub(crate) totals: WatchTotals,
    /// The number of the current list, or of the last one, as counted by the model.
    pub(crate) epoch: u32,
    /// The source's epoch of the list in progress.
    pub(crate) listing: Option<u64>,
    /// Its source fails.
    pub(crate) failing: bool,
    /// When its source began to fail; set once the failure has lasted for `source_failing_after`. Its objects then count
    /// as unknown.
    pub(crate) blind: Option<Timestamp>,
    /// Since when its objects may be out of date; see `sight.rs`.
    pub(crate) lost_since: Option<Timestamp>,
    /// The end of the grace after blindness.
    pub(crate) grace_until: Timestamp,
    /// The length of that grace.
    pub(crate) grace: Span,
    /// When sight returned last.
    pub(crate) regained: Timestamp,
    /// When the blindness before that began.
    pub(crate) lost: Timestamp,
    /// Its objects have been up to date before.
    pub(crate) seen_before: bool,
    /// Its source has failed, or its permission was gone, since its objects were up to date.
    pub(crate) failed_before: bool,
    /// Objects to review when sight returns.
    pub(crate) postponed: BTreeSet<Slot>,
    /// The next list is read anew, because the kind is read in another way: an equal version does not mean that an
    /// object is unchanged.
    pub(crate) reread: bool,
    /// The number of objects of which the current epoch is known.
    pub(crate) current: u64,
    /// Objects beyond `limits.objects`, by fingerprint, with the epoch in which they were last seen. At most
    /// [`MAX_EXCLUDED`].
    pub(crate) excluded: BTreeMap<u64, u32>,
    /// The newest resource version of an event that changed an object.
    pub(crate) newest_object: u64,
    /// The newest resource version of any event, bookmark or list.
    pub(crate) newest: u64,
    pub(crate) audit: AuditState,
    /// Objects that the source skipped since the beginning of the last list.
    pub(crate) skipped: u32,
    pub(crate) namespaces: Vec<WatchNamespace>,
    pub(crate) namespace_index: BTreeMap<Arc<str>, u32>,
}

/// The maximum number of excluded objects that a watch remembers.
const MAX_EXCLUDED: usize = 100_000;

/// The audit of a watch.
#[derive(Debug, Default)]
pub(crate) struct AuditState {
    pub(crate) due: Option<Timestamp>,
    /// The API server's count at a version that the watch has not reached yet.
    pub(crate) pending: Option<PendingCount>,
    /// Consecutive audits that found the same difference.
    pub(crate) agreeing: u32,
}

/// An object count of the API server at one resource version.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PendingCount {
    /// When the count arrived.
    pub(crate) at: Timestamp,
    pub(crate) objects: u64,
    pub(crate) version: u64,
    /// When the watch delivered the last event that the count already included.
    pub(crate) late_event: Option<Timestamp>,
}

/// The name under which namespaces beyond `limits.namespaces` are counted.
pub(crate) const OTHER: &str = "_other";

/// One namespace of one watch.
#[derive(Debug)]
pub(crate) struct WatchNamespace {
    pub(crate) name: Arc<str>,
    pub(crate) totals: NamespaceTotals,
    /// The instant up to which `state_ms` is counted.
    counted_to: Timestamp,
}

// === impl Kind ===

impl Kind {
    pub(crate) fn new(watched: &WatchedKind) -> Self {
        Self {
            group: watched.group.as_str().into(),
            kind: watched.kind.as_str().into(),
            resource: watched.resource.clone(),
            version: watched.version.clone(),
            role: watched.role,
            status: watched.status,
            ..Self::default()
        }
    }

    /// Returns whether a text names the kind: as `Kind`, `group/Kind` or `Kind.group`.
    pub(crate) fn is_named(&self, text: &str) -> bool {
        let (kind, group) = match (text.split_once('/'), text.split_once('.')) {
            (Some((group, kind)), _) => (kind, Some(group)),
            (None, Some((kind, group))) => (kind, Some(group)),
            (None, None) => (text, None),
        };
        kind.eq_ignore_ascii_case(&self.kind) && group.is_none_or(|group| *group == *self.group)
    }

    /// Returns the name in settings and checkpoints: `group/Kind`, or `Kind` for the core group.
    pub(crate) fn name(&self) -> String {
        if self.group.is_empty() { self.kind.to_string() } else { format!("{}/{}", self.group, self.kind) }
    }

    /// Returns how long an object may take to converge after its creation, or else after an update, before a finding
    /// opens, and where that deadline comes from. A learned deadline is three times the 95th percentile, at most one day
    /// and never less than the default: the next spec change may be the first one of a slower sort.
    pub(crate) fn deadline(&self, settings: &Settings, creation: bool) -> (Span, DeadlineSource) {
        let durations = if creation { &self.learned.creation } else { &self.learned.update };
        self.configured_or_learned(settings, durations)
    }

    /// Returns how long the operator may take to acknowledge a spec change before a finding opens.
    pub(crate) fn acknowledgement_deadline(&self, settings: &Settings) -> Span {
        self.configured_or_learned(settings, &self.learned.acknowledgement).0
    }

    /// Returns the longer one of the deadlines after a creation and after an update, for display.
    pub(crate) fn longest_deadline(&self, settings: &Settings) -> (Span, DeadlineSource) {
        let (creation, update) = (self.deadline(settings, true), self.deadline(settings, false));
        if creation.0 > update.0 { creation } else { update }
    }

    fn configured_or_learned(&self, settings: &Settings, durations: &Durations) -> (Span, DeadlineSource) {
        if let Some(configured) = self.configured_deadline(settings) {
            return (configured, DeadlineSource::Configured);
        }
        let enough = settings.learn_after > 0 && durations.samples() >= u64::from(settings.learn_after);
        let learned = durations.p95().filter(|_| enough).map(|p95| Span(p95.0.saturating_mul(3)).min(Span::hours(24)));
        match learned.filter(|learned| *learned > settings.deadline) {
            Some(learned) => (learned, DeadlineSource::Learned),
            None => (settings.deadline, DeadlineSource::Default),
        }
    }

    /// Returns the deadline that the settings give this kind. As for `--watch`, the name may be in any case, and it may
    /// be the plural.
    fn configured_deadline(&self, settings: &Settings) -> Option<Span> {
        let names_this = |name: &str| {
            let (group, kind) = name.rsplit_once('/').unwrap_or(("", name));
            *group == *self.group
                && (kind.eq_ignore_ascii_case(&self.kind) || kind.eq_ignore_ascii_case(&self.resource))
        };
        settings.deadlines.iter().find(|(name, _)| names_this(name)).map(|(_, span)| *span)
    }

    /// Returns the SLO deadline, after which an obligation counts as late. It is never learned, because a kind that
    /// gets slower would relax its own objective.
    pub(crate) fn slo_deadline(&self, settings: &Settings) -> Span {
        self.configured_deadline(settings).unwrap_or(settings.deadline)
    }
}

impl Kind {
    /// Returns whether each status write increments the generation, so that a higher generation may not mean a spec
    /// change.
    pub(crate) fn generation_is_unreliable(&self) -> bool {
        self.status == StatusSchema::InBody
    }

    /// Moves the totals of a finalizer for which no object waits to those of [`OTHER`]. Returns whether there is room now.
    pub(crate) fn retire_finalizer(&mut self) -> bool {
        let idle = |(name, waits): (&Arc<str>, &FinalizerWaits)| {
            (waits.waiting.is_empty() && **name != *OTHER).then(|| name.clone())
        };
        let Some(retired) = self.finalizers.iter().find_map(idle).and_then(|name| self.finalizers.remove(&name)) else {
            return false;
        };
        self.finalizers.entry(OTHER.into()).or_default().totals.add(&retired.totals);
        true
    }

    /// Moves all own instants by `by_ms` milliseconds. The waits for finalizers begin at deletion timestamps, which the
    /// API server wrote.
    pub(crate) fn rebase(&mut self, by_ms: i64) {
        // The records say which of their instants have moved.
        self.unconverged.clear();
        self.failing.clear();
        self.failing_since = None;
        self.due = self.due.map(|at| at.shifted(by_ms));
        self.departed.rebase(by_ms);
        self.acknowledged.latest.iter_mut().for_each(|(at, _)| *at = at.shifted(by_ms));
    }
}

// === impl Acknowledgements ===

impl Acknowledgements {
    pub(crate) fn note(&mut self, now: Timestamp, slot: Slot) {
        if self.latest.len() >= MAX_ACKNOWLEDGEMENTS {
            self.latest.pop_front();
        }
        self.latest.push_back((now, slot));
    }

    /// Returns the objects whose spec changes were acknowledged after `since`.
    pub(crate) fn since(&self, since: Timestamp) -> impl Iterator<Item = Slot> {
        self.latest.iter().filter(move |(at, _)| *at > since).map(|(_, slot)| *slot)
    }
}

// === impl Departed ===

impl Departed {
    /// Prepares for the objects of a watch that ends now.
    pub(crate) fn begin(&mut self, now: Timestamp) {
        if now >= self.left.after(REMEMBERED_FOR) {
            *self = Self::default();
        }
        self.left = now;
    }

    /// Adds an object that had converged, and perhaps regressed since.
    pub(crate) fn add(&mut self, spec: u64, regressed: Option<Timestamp>) {
        if self.converged.len() >= MAX_DEPARTED {
            *self = Self { left: self.left, ..Self::default() };
        }
        self.converged.insert(spec);
        self.regressed.extend(regressed.map(|since| (spec, since)));
    }

    /// Removes an object that has returned. Returns `None` if it is not known that it had converged, and otherwise since
    /// when it had regressed before it departed.
    pub(crate) fn take(&mut self, spec: u64) -> Option<Option<Timestamp>> {
        self.converged.remove(&spec).then(|| self.regressed.remove(&spec))
    }

    fn rebase(&mut self, by_ms: i64) {
        self.left = self.left.shifted(by_ms);
        self.regressed.values_mut().for_each(|since| *since = since.shifted(by_ms));
    }
}

// === impl Watch ===

impl Watch {
    /// Returns whether the objects of a namespace, or those without one, are in the scope of the watch.
    pub(crate) fn covers(&self, namespace: &str) -> bool {
        self.scope.namespace().is_none_or(|within| within == namespace)
    }

    /// Moves all own instants by `by_ms` milliseconds.
    pub(crate) fn rebase(&mut self, by_ms: i64) {
        let shift = |at: &mut Timestamp| *at = at.shifted(by_ms);
        self.blind.iter_mut().for_each(shift);
        self.lost_since.iter_mut().for_each(shift);
        shift(&mut self.grace_until);
        shift(&mut self.regained);
        shift(&mut self.lost);
        self.audit.due.iter_mut().for_each(shift);
        if let Some(pending) = self.audit.pending.as_mut() {
            shift(&mut pending.at);
            pending.late_event.iter_mut().for_each(shift);
        }
        self.namespaces.iter_mut().for_each(|namespace| shift(&mut namespace.counted_to));
    }

    pub(crate) fn new(watched: &WatchedKind, kind: u16, now: Timestamp) -> Self {
        let (id, scope) = (watched.watch.clone(), watched.scope.clone());
        Self { id, kind, scope, active: true, lost_since: Some(now), ..Self::default() }
    }

    /// Remembers an object that does not fit into the model.
    pub(crate) fn exclude(&mut self, key: &ObjectKey) {
        let fingerprint = fingerprint(key);
        if self.excluded.len() < MAX_EXCLUDED || self.excluded.contains_key(&fingerprint) {
            self.excluded.insert(fingerprint, self.epoch);
        }
    }

    /// Forgets that an object was excluded: it fits now, or is gone.
    pub(crate) fn include(&mut self, key: &ObjectKey) {
        if !self.excluded.is_empty() {
            self.excluded.remove(&fingerprint(key));
        }
    }

    /// Returns the position of `namespace`, adding it if necessary. If `limit` namespaces have objects, further ones
    /// share the position of [`OTHER`], and the second value is then `false`. The third is a namespace that had to make
    /// room, because it has no objects.
    pub(crate) fn namespace(
        &mut self,
        namespace: &str,
        limit: usize,
        now: Timestamp,
    ) -> (u32, bool, Option<WatchNamespace>) {
        if let Some(position) = self.namespace_index.get(namespace) {
            return (*position, true, None);
        }
        let has_room = self.namespaces.len() < limit;
        let empty = if has_room { None } else { self.namespaces.iter().position(WatchNamespace::may_make_room) };
        let fits = has_room || empty.is_some();
        let name: Arc<str> = if fits { namespace.into() } else { OTHER.into() };
        if let Some(position) = self.namespace_index.get(&name) {
            return (*position, fits, None);
        }
        let new = WatchNamespace { name: name.clone(), totals: NamespaceTotals::default(), counted_to: now };
        let (position, evicted) = match empty {
            Some(position) => (position, Some(std::mem::replace(&mut self.namespaces[position], new))),
            None => {
                self.namespaces.push(new);
                (self.namespaces.len() - 1, None)
            }
        };
        if let Some(evicted) = &evicted {
            self.namespace_index.remove(&evicted.name);
        }
        let position = u32::try_from(position).unwrap_or(u32::MAX);
        self.namespace_index.insert(name, position);
        (position, fits, evicted)
    }
}

/// Returns a 64-bit fingerprint of an object's namespace and name (FNV-1a).
fn fingerprint(key: &ObjectKey) -> u64 {
    let bytes = key.namespace.bytes().chain([0xff]).chain(key.name.bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

// === impl WatchNamespace ===

impl WatchNamespace {
    /// Returns whether it stands for several namespaces, and any of these has objects.
    pub(crate) fn is_shared(&self) -> bool {
        *self.name == *OTHER && self.totals.states.iter().any(|objects| *objects > 0)
    }

    fn may_make_room(&self) -> bool {
        *self.name != *OTHER && self.totals.states.iter().all(|objects| *objects == 0)
    }

    /// Adds the time that objects spent in each state up to `now`. While `blind`, all objects count as unknown.
    pub(crate) fn count_to(&mut self, now: Timestamp, blind: bool) {
        let elapsed = u64::try_from(now.since(self.counted_to).0).unwrap_or(0);
        for (index, objects) in self.totals.states.iter().enumerate() {
            let state = if blind { ObjectState::Unknown as usize } else { index };
            let counted = &mut self.totals.state_ms[state];
            *counted = counted.saturating_add(objects.saturating_mul(elapsed));
        }
        self.counted_to = self.counted_to.max(now);
    }

    /// Returns the totals at `now`. While `blind`, all objects are unknown.
    pub(crate) fn at(&self, now: Timestamp, blind: bool) -> NamespaceTotals {
        let mut counted = Self { name: self.name.clone(), totals: self.totals.clone(), ..*self };
        counted.count_to(now, blind);
        if blind {
            let states = &mut counted.totals.states;
            let objects = states.iter().sum();
            *states = Default::default();
            states[ObjectState::Unknown as usize] = objects;
        }
        counted.totals
    }
}
