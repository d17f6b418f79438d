//! Kinds, their watches, and the totals that the model counts as objects change.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::learned::Learned;
use super::store::Slot;
use crate::observation::{Role, Scope, StatusSchema, WatchId, WatchedKind};
use crate::settings::Settings;
use crate::snapshot::{DeadlineSource, FinalizerTotals, KindTotals, NamespaceTotals, ObjectState, WatchTotals};
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
    pub(crate) objects: u64,
    /// Objects that have a status. See [`Kind::expects_status`].
    pub(crate) with_status: u64,
    pub(crate) learned: Learned,
    pub(crate) totals: KindTotals,
    /// Unconverged objects by the time at which they became so.
    pub(crate) unconverged: BTreeSet<(Timestamp, Slot)>,
    pub(crate) finalizers: BTreeMap<Arc<str>, FinalizerWaits>,
    /// Objects that converged and now fail with the same spec.
    pub(crate) failing: BTreeSet<Slot>,
    /// When the number of failing objects reached the thresholds.
    pub(crate) failing_since: Option<Timestamp>,
    /// When the timer of the kind is due.
    pub(crate) due: Option<Timestamp>,
    /// Objects with malformed conditions.
    pub(crate) malformed: BTreeSet<Slot>,
    /// The lints of their conditions.
    pub(crate) lints: BTreeSet<String>,
}

/// Deletions of one kind that wait, or waited, for one finalizer.
#[derive(Debug, Default)]
pub(crate) struct FinalizerWaits {
    pub(crate) waiting: BTreeSet<(Timestamp, Slot)>,
    pub(crate) totals: FinalizerTotals,
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
    /// The first list is complete.
    pub(crate) synced: bool,
    pub(crate) totals: WatchTotals,
    /// The number of the current list, or of the last one, as counted by the model.
    pub(crate) epoch: u32,
    /// The source's epoch of the list in progress.
    pub(crate) listing: Option<u64>,
    /// When its source began to fail; set once the failure has lasted for `source_failing_after`.
    pub(crate) blind: Option<Timestamp>,
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

    /// Returns the name in settings and checkpoints: `group/Kind`, or `Kind` for the core group.
    pub(crate) fn name(&self) -> String {
        if self.group.is_empty() { self.kind.to_string() } else { format!("{}/{}", self.group, self.kind) }
    }

    /// Returns the deadline after which a finding opens, and where it comes from. A learned deadline may be shorter or
    /// longer than the default: three times the 95th percentile, between one minute and one day.
    pub(crate) fn deadline(&self, settings: &Settings) -> (Span, DeadlineSource) {
        if let Some(configured) = self.configured_deadline(settings) {
            return (configured, DeadlineSource::Configured);
        }
        let enough = settings.learn_after > 0 && self.learned.samples() >= u64::from(settings.learn_after);
        match self.learned.p95().filter(|_| enough) {
            Some(p95) => {
                let thrice = Span(p95.0.saturating_mul(3));
                (thrice.clamp(Span::mins(1), Span::hours(24)), DeadlineSource::Learned)
            }
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

    /// Returns whether an object without a status is expected to get one, because at least half of the objects of the
    /// kind have one.
    pub(crate) fn expects_status(&self) -> bool {
        !matches!(self.status, StatusSchema::None) && self.with_status > 0 && self.with_status * 2 >= self.objects
    }
}

// === impl Watch ===

impl Watch {
    pub(crate) fn new(watched: &WatchedKind, kind: u16) -> Self {
        Self { id: watched.watch.clone(), kind, scope: watched.scope.clone(), active: true, ..Self::default() }
    }

    /// Returns the position of `namespace`, adding it if necessary. Namespaces beyond `limit` share the position of
    /// `_other`, and the second value is then `false`.
    pub(crate) fn namespace(&mut self, namespace: &str, limit: usize, now: Timestamp) -> (u32, bool) {
        if let Some(position) = self.namespace_index.get(namespace) {
            return (*position, true);
        }
        let fits = self.namespaces.len() < limit;
        let name: Arc<str> = if fits { namespace.into() } else { "_other".into() };
        if let Some(position) = self.namespace_index.get(&name) {
            return (*position, fits);
        }
        let position = u32::try_from(self.namespaces.len()).unwrap_or(u32::MAX);
        self.namespaces.push(WatchNamespace {
            name: name.clone(),
            totals: NamespaceTotals::default(),
            counted_to: now,
        });
        self.namespace_index.insert(name, position);
        (position, fits)
    }
}

// === impl WatchNamespace ===

impl WatchNamespace {
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
