//! What is watched: kinds, their watches, and per namespace the totals that are kept as objects change.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::learned::Learned;
use super::store::Slot;
use crate::histogram::{Histogram, LAG_BOUNDS};
use crate::observation::{Role, Scope, StatusSchema, WatchId, WatchedKind, Why};
use crate::settings::Settings;
use crate::snapshot::{DeadlineSource, FinalizerOutcome, ObjectState, Outcome};
use crate::time::{Span, Timestamp};

/// One kind, over all of its watches.
#[derive(Debug)]
pub(crate) struct Kind {
    pub(crate) group: Arc<str>,
    pub(crate) kind: Arc<str>,
    pub(crate) resource: String,
    pub(crate) version: String,
    pub(crate) role: Role,
    pub(crate) status: StatusSchema,
    pub(crate) why: Why,
    pub(crate) objects: u64,
    /// Objects that have a status: what most of them have, the others lack.
    pub(crate) with_status: u64,
    pub(crate) learned: Learned,
    pub(crate) acknowledge: Histogram,
    pub(crate) convergence: Histogram,
    pub(crate) unconverged: BTreeSet<(Timestamp, Slot)>,
    pub(crate) conditions: BTreeMap<(Arc<str>, &'static str), u64>,
    pub(crate) flaps: BTreeMap<Arc<str>, u64>,
    pub(crate) phases: BTreeMap<Arc<str>, u64>,
    pub(crate) finalizers: BTreeMap<Arc<str>, FinalizerTotals>,
    /// Objects that worked and fail now although their specs did not change.
    pub(crate) failing: BTreeSet<Slot>,
    pub(crate) failing_since: Option<Timestamp>,
    pub(crate) due: Option<Timestamp>,
    pub(crate) malformed: BTreeSet<Slot>,
    pub(crate) lints: BTreeSet<String>,
}

/// Deletions of one kind that wait, or waited, for one finalizer.
#[derive(Debug, Default)]
pub(crate) struct FinalizerTotals {
    pub(crate) waiting: BTreeSet<(Timestamp, Slot)>,
    pub(crate) removal: Histogram,
    pub(crate) outcomes: [u64; FinalizerOutcome::ALL.len()],
}

/// One kind in one scope.
#[derive(Debug)]
pub(crate) struct Watch {
    pub(crate) id: WatchId,
    pub(crate) kind: u16,
    pub(crate) scope: Scope,
    pub(crate) active: bool,
    pub(crate) missing: Vec<String>,
    pub(crate) objects: u64,
    pub(crate) synced: bool,
    /// The list that is under way, or the last one.
    pub(crate) epoch: u32,
    pub(crate) listing: Option<u64>,
    /// Since when its source fails, when that has lasted long enough to matter.
    pub(crate) blind: Option<Timestamp>,
    /// The newest version of an object seen, and the newest version of anything.
    pub(crate) newest_object: u64,
    pub(crate) newest: u64,
    pub(crate) audit: AuditState,
    pub(crate) namespaces: Vec<NamespaceTotals>,
    pub(crate) namespace_index: BTreeMap<Arc<str>, u32>,
}

/// How an audit of a watch stands.
#[derive(Debug)]
pub(crate) struct AuditState {
    pub(crate) due: Option<Timestamp>,
    /// The server's count at a version that our watch has not reached yet.
    pub(crate) pending: Option<PendingCount>,
    pub(crate) difference: Option<i64>,
    /// Audits in a row that found the same difference.
    pub(crate) agreeing: u32,
    pub(crate) lag: Histogram,
}

/// What the server counted, and when we learnt it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PendingCount {
    pub(crate) at: Timestamp,
    pub(crate) objects: u64,
    pub(crate) version: u64,
    /// The latest event that the answer already contained but the watch had not yet delivered.
    pub(crate) late_event: Option<Timestamp>,
}

/// The totals of one namespace in one watch.
#[derive(Debug)]
pub(crate) struct NamespaceTotals {
    pub(crate) namespace: Arc<str>,
    pub(crate) states: [u64; ObjectState::ALL.len()],
    state_ms: [u64; ObjectState::ALL.len()],
    pub(crate) obligations: [u64; Outcome::ALL.len()],
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
            why: watched.why,
            objects: 0,
            with_status: 0,
            learned: Learned::default(),
            acknowledge: Histogram::default(),
            convergence: Histogram::default(),
            unconverged: BTreeSet::new(),
            conditions: BTreeMap::new(),
            flaps: BTreeMap::new(),
            phases: BTreeMap::new(),
            finalizers: BTreeMap::new(),
            failing: BTreeSet::new(),
            failing_since: None,
            due: None,
            malformed: BTreeSet::new(),
            lints: BTreeSet::new(),
        }
    }

    /// `group/Kind`, or `Kind` in the core group: as settings and checkpoints name it.
    pub(crate) fn name(&self) -> String {
        if self.group.is_empty() { self.kind.to_string() } else { format!("{}/{}", self.group, self.kind) }
    }

    /// The deadline after which a finding comes, and where it is from. A learned one may be shorter or longer than the
    /// default: three times what 95 % need, between a minute and a day.
    pub(crate) fn deadline(&self, settings: &Settings) -> (Span, DeadlineSource) {
        if let Some(configured) = settings.deadlines.get(&self.name()) {
            return (*configured, DeadlineSource::Configured);
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

    /// The deadline at which an obligation counts as late. What is learned never defines a service level: a kind that
    /// got slower would forgive itself.
    pub(crate) fn slo_deadline(&self, settings: &Settings) -> Span {
        settings.deadlines.get(&self.name()).copied().unwrap_or(settings.deadline)
    }

    /// Whether an object without status is one whose status is still to come: most others have one.
    pub(crate) fn expects_status(&self) -> bool {
        !matches!(self.status, StatusSchema::None) && self.with_status > 0 && self.with_status * 2 >= self.objects
    }
}

// === impl Watch ===

impl Watch {
    pub(crate) fn new(watched: &WatchedKind, kind: u16) -> Self {
        Self {
            id: watched.watch.clone(),
            kind,
            scope: watched.scope.clone(),
            active: true,
            missing: Vec::new(),
            objects: 0,
            synced: false,
            epoch: 0,
            listing: None,
            blind: None,
            newest_object: 0,
            newest: 0,
            audit: AuditState {
                due: None,
                pending: None,
                difference: None,
                agreeing: 0,
                lag: Histogram::new(LAG_BOUNDS),
            },
            namespaces: Vec::new(),
            namespace_index: BTreeMap::new(),
        }
    }

    /// The totals of `namespace`, made when there is none yet; past `bound` all further namespaces share the totals
    /// named `_other`, and the answer says so.
    pub(crate) fn totals(&mut self, namespace: &str, bound: usize, now: Timestamp) -> (u32, bool) {
        if let Some(totals) = self.namespace_index.get(namespace) {
            return (*totals, true);
        }
        let fits = self.namespaces.len() < bound;
        let name: Arc<str> = if fits { namespace.into() } else { "_other".into() };
        if let Some(totals) = self.namespace_index.get(&name) {
            return (*totals, fits);
        }
        let totals = u32::try_from(self.namespaces.len()).unwrap_or(u32::MAX);
        self.namespaces.push(NamespaceTotals::new(name.clone(), now));
        self.namespace_index.insert(name, totals);
        (totals, fits)
    }
}

// === impl NamespaceTotals ===

impl NamespaceTotals {
    fn new(namespace: Arc<str>, now: Timestamp) -> Self {
        Self {
            namespace,
            states: Default::default(),
            state_ms: Default::default(),
            obligations: Default::default(),
            counted_to: now,
        }
    }

    /// Brings the object-seconds up to `now`. While `blind`, all objects count as unknown.
    pub(crate) fn count_to(&mut self, now: Timestamp, blind: bool) {
        let elapsed = u64::try_from(now.since(self.counted_to).0).unwrap_or(0);
        for (index, objects) in self.states.iter().enumerate() {
            let state = if blind { ObjectState::Unknown as usize } else { index };
            self.state_ms[state] = self.state_ms[state].saturating_add(objects.saturating_mul(elapsed));
        }
        self.counted_to = self.counted_to.max(now);
    }

    /// Object-seconds up to `now`.
    pub(crate) fn state_seconds(&self, now: Timestamp, blind: bool) -> [f64; ObjectState::ALL.len()] {
        let mut copy = Self { namespace: self.namespace.clone(), ..*self };
        copy.count_to(now, blind);
        copy.state_ms.map(|ms| ms as f64 / 1000.0)
    }
}
