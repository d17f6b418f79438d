//! Everything known, and what follows from it.
//!
//! [`Model::apply`] is the only door: first the timers fire that are due, each at its own due time, then the fact is
//! taken. Objects live in a [`store`]; whoever judges one has it on a [`desk`] together with the totals that it counts
//! in. Read the parts in this order.

mod intern;
mod kinds;
mod learned;
mod store;
mod timers;

mod context;
mod objects;
pub mod reading;

mod conditions;
mod deletion;
mod judge;
mod obligations;

mod open_findings;
mod show;
mod sources;
mod watches;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use self::intern::{Interner, Shape, Symbol};
use self::kinds::{Kind, Watch};
use self::open_findings::OpenFindings;
use self::sources::Sources;
use self::store::{Slot, Store};
use self::timers::{Timer, Timers};
use crate::checkpoint::Checkpoint;
use crate::finding::{Evidence, FindingCode, FindingEvent, FindingId, Subject};
use crate::observation::{
    DefinitionView, LeaseView, Observation, PermissionsView, Probe, SourceId, StatusSchema, WatchId,
};
use crate::settings::Settings;
use crate::time::Timestamp;

/// Values kept once per text, condition shape and finalizer set; far more than any cluster has.
const SHARED_VALUES: usize = 50_000;

/// Leases kept: one per controller of the operator, with room for careless scopes.
const LEASES: usize = 1_000;

/// Everything known, and what follows from it.
#[derive(Debug)]
pub struct Model {
    settings: Settings,
    now: Timestamp,

    kinds: Vec<Kind>,
    watches: Vec<Watch>,
    watch_of: BTreeMap<WatchId, u16>,
    store: Store,
    /// Objects with a history.
    histories: usize,
    /// Objects that listings of single objects show.
    unhealthy: BTreeSet<Slot>,

    texts: Interner<str>,
    shapes: Interner<Shape>,
    sets: Interner<[Arc<str>]>,

    timers: Timers,
    limits_due: Option<Timestamp>,
    probes: BTreeSet<Probe>,

    open_findings: OpenFindings,
    sources: Sources,
    permissions: BTreeMap<String, PermissionsView>,
    leases: BTreeMap<(String, String), LeaseView>,
    restored_learning: BTreeMap<String, Vec<u64>>,

    /// How much did not fit, and when that was last so.
    dropped: BTreeMap<&'static str, (u64, Timestamp)>,
    observations: BTreeMap<&'static str, u64>,
}

// === impl Model ===

impl Model {
    /// An empty model.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            now: Timestamp(0),
            kinds: Vec::new(),
            watches: Vec::new(),
            watch_of: BTreeMap::new(),
            store: Store::new(),
            histories: 0,
            unhealthy: BTreeSet::new(),
            texts: Interner::new(SHARED_VALUES, "".into()),
            shapes: Interner::new(SHARED_VALUES, Arc::new([])),
            sets: Interner::new(SHARED_VALUES, Arc::new([])),
            timers: Timers::default(),
            limits_due: None,
            probes: BTreeSet::new(),
            open_findings: OpenFindings::default(),
            sources: Sources::default(),
            permissions: BTreeMap::new(),
            leases: BTreeMap::new(),
            restored_learning: BTreeMap::new(),
            dropped: BTreeMap::new(),
            observations: BTreeMap::new(),
        }
    }

    /// The settings in force.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Takes one fact. Never waits, never fails. Timers that are due at or before `at` fire first, each at its due
    /// time; an `at` before an earlier one counts as that one.
    pub fn apply(&mut self, at: Timestamp, observation: Observation) {
        self.fire_until(at);
        self.now = self.now.max(at);
        match observation {
            Observation::Tick => {}
            other => self.take_fact(other),
        }
    }

    /// When the next timer is due: until then nothing changes without an observation.
    #[must_use]
    pub fn next_due(&self) -> Option<Timestamp> {
        self.timers.next()
    }

    /// What the model wants to know next; bounded by the number of watches, each asked once.
    pub fn probes(&mut self) -> Vec<Probe> {
        std::mem::take(&mut self.probes).into_iter().collect()
    }

    /// What was found and what no longer holds, since the last call; bounded, the oldest go first.
    pub fn finding_events(&mut self) -> Vec<FindingEvent> {
        self.open_findings.finding_events()
    }

    /// What should outlive a restart.
    #[must_use]
    pub fn checkpoint(&self) -> Checkpoint {
        let learned = self.kinds.iter().filter(|kind| kind.learned.samples() > 0);
        Checkpoint {
            learned: learned.map(|kind| (kind.name(), kind.learned.to_numbers())).collect(),
            findings: self.open_findings.iter().map(|finding| (finding.id.to_string(), finding.since)).collect(),
        }
    }

    fn fire_until(&mut self, at: Timestamp) {
        while let Some((due, timer)) = self.timers.pop(at) {
            self.now = self.now.max(due);
            match timer {
                Timer::Object(slot) => {
                    if let Some(hot) = self.store.get_mut(slot).and_then(|record| record.hot.as_mut()) {
                        hot.due = None;
                    }
                    self.review(slot);
                }
                Timer::Kind(number) => {
                    self.kinds[number as usize].due = None;
                    self.review_kind(number);
                }
                Timer::Source(number) => self.source_due(number),
                Timer::Audit(number) => self.audit_due(number),
                Timer::Limits => self.limits_due(),
            }
        }
    }

    fn take_fact(&mut self, fact: Observation) {
        *self.observations.entry(word(&fact)).or_default() += 1;
        match fact {
            Observation::Restored(checkpoint) => self.restore(*checkpoint),
            Observation::KindsDiscovered(list) => {
                self.sources.heard(&SourceId::Discovery, self.now);
                self.discovered(&list);
            }
            Observation::ListBegan { watch, epoch } => self.of_watch(&watch, |model, n| model.list_began(n, epoch)),
            Observation::Listed { watch, object } => self.of_watch(&watch, |model, n| model.observe(n, *object, false)),
            Observation::ListEnded { watch, epoch, version } => {
                self.of_watch(&watch, |model, n| model.list_ended(n, epoch, &version));
            }
            Observation::Applied { watch, object } => self.of_watch(&watch, |model, n| {
                model.reach(n, &object.version, true);
                model.observe(n, *object, true);
            }),
            Observation::Deleted { watch, key, version } => self.of_watch(&watch, |model, n| {
                model.reach(n, &version, true);
                model.observe_deleted(n, &key);
            }),
            Observation::Progressed { watch, version } => {
                self.of_watch(&watch, |model, n| model.reach(n, &version, false));
            }
            Observation::DefinitionSeen(definition) => self.definition_seen(definition),
            Observation::DefinitionGone(name) => {
                self.open_findings.clear(
                    self.now,
                    FindingCode::StatusSubresourceMissing,
                    &Subject::Definition { name },
                );
            }
            Observation::PermissionsReviewed(view) => self.permissions_reviewed(view),
            Observation::LeaseSeen(lease) => self.lease_seen(lease),
            Observation::Answered { probe, answer } => self.answered(&probe, &answer),
            Observation::SourceFailed { source, cause, detail } => self.source_failed(&source, cause, &detail),
            Observation::SourceRecovered { source } => self.source_recovered(&source),
            // Spans across a step are off by so much; deadlines are minutes, so a corrected clock is no alarm.
            Observation::ClockStepped { .. } | Observation::Tick => {}
        }
    }

    /// What a watch says, when it is one that was discovered.
    fn of_watch(&mut self, id: &WatchId, take: impl FnOnce(&mut Self, u16)) {
        let Some(number) = self.watch(id).filter(|number| self.watches[*number as usize].active) else { return };
        self.sources.heard(&SourceId::Watch(id.clone()), self.now);
        take(self, number);
    }

    fn restore(&mut self, checkpoint: Checkpoint) {
        for kind in &mut self.kinds {
            if let Some(numbers) = checkpoint.learned.get(&kind.name()) {
                kind.learned = learned::Learned::from_numbers(numbers);
            }
        }
        self.restored_learning = checkpoint.learned;
        let ids = checkpoint.findings.into_iter();
        let readable = ids.filter_map(|(id, since)| Some((FindingId(u64::from_str_radix(&id, 16).ok()?), since)));
        self.open_findings.restore(readable.collect());
    }

    fn definition_seen(&mut self, definition: DefinitionView) {
        let subject = Subject::Definition { name: definition.name };
        if definition.status == StatusSchema::InBody {
            let evidence = Evidence::new().text("kind", definition.kind).text("group", definition.group);
            // The creation is the best evidence: loopwatch does not see earlier versions of a definition.
            let since = definition.created.unwrap_or(self.now).min(self.now);
            self.raise(since, FindingCode::StatusSubresourceMissing, subject, evidence);
        } else {
            self.open_findings.clear(self.now, FindingCode::StatusSubresourceMissing, &subject);
        }
    }

    fn lease_seen(&mut self, lease: LeaseView) {
        self.sources.heard(&SourceId::Lease, self.now);
        let key = (lease.namespace.clone(), lease.name.clone());
        if self.leases.len() >= LEASES && !self.leases.contains_key(&key) {
            return self.drop_one("leases");
        }
        self.leases.insert(key, lease);
    }

    /// Opens a finding, or renews it; what does not fit is counted.
    fn raise(&mut self, since: Timestamp, code: FindingCode, subject: Subject, evidence: Evidence) {
        if !self.open_findings.raise(self.now, since, code, subject, evidence, self.settings.limits.findings) {
            self.drop_one("findings");
        }
    }

    fn text(&mut self, text: &str) -> Symbol {
        self.texts.intern(text).unwrap_or_else(|empty| {
            self.drop_one("texts");
            empty
        })
    }

    fn shape(&mut self, shape: &Shape) -> Symbol {
        self.shapes.intern(shape).unwrap_or_else(|empty| {
            self.drop_one("condition_shapes");
            empty
        })
    }

    fn set(&mut self, finalizers: &[Arc<str>]) -> Symbol {
        self.sets.intern(finalizers).unwrap_or_else(|empty| {
            self.drop_one("finalizer_sets");
            empty
        })
    }
}

/// As the `source` label of `observations_total`.
const fn word(fact: &Observation) -> &'static str {
    match fact {
        Observation::Restored(_) => "checkpoint",
        Observation::KindsDiscovered(_) | Observation::PermissionsReviewed(_) => "discovery",
        Observation::ListBegan { .. } | Observation::Listed { .. } | Observation::ListEnded { .. } => "list",
        Observation::Applied { .. } | Observation::Deleted { .. } | Observation::Progressed { .. } => "watch",
        Observation::DefinitionSeen(_) | Observation::DefinitionGone(_) => "definitions",
        Observation::LeaseSeen(_) => "lease",
        Observation::Answered { .. } => "audit",
        Observation::SourceFailed { .. } | Observation::SourceRecovered { .. } => "source",
        Observation::ClockStepped { .. } => "clock",
        Observation::Tick => "tick",
    }
}
