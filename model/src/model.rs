//! The model: all watched objects, and the findings about them.
//!
//! [`Model::apply`] is the only input: it fires the timers that are due, each at its own due time, and then handles the
//! observation. Objects live in `store.rs`. The code that judges an object works on an `ObjectContext`, which also
//! gives access to the object's kind and to the totals of its namespace.
//!
//! The parts are listed in the order in which a newcomer should read them.

// Data.
mod intern; // texts and lists shared by many objects
mod store; // all objects
mod learned; // convergence times of a kind
mod kinds; // kinds, watches and their totals
mod timers;
mod open_findings;

// One object.
pub mod reading; // reads its status
mod context; // the data that judging it reads and changes
mod objects; // its creation, updates and removal
mod obligations; // the obligation that a spec change opens
mod conditions; // flapping conditions, cycling phases
mod deletion; // finalizers
mod judge; // its state, findings and next timer

// Watches, kinds and sources.
mod watches;
mod sources;
mod skipped; // objects that a source could not read

// The output.
mod show;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use self::intern::{ConditionSet, Interner, Symbol};
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

/// The maximum number of distinct texts, of condition sets and of finalizer sets. Clusters have far fewer.
const MAX_INTERNED: usize = 50_000;

/// The maximum number of leases. An operator usually has one per controller, but the watched namespaces may contain
/// others.
const MAX_LEASES: usize = 1_000;

/// The model. [`Model::apply`] is its only input; [`Model::snapshot`], [`Model::finding_events`], [`Model::probes`] and
/// [`Model::checkpoint`] are its output.
#[derive(Debug)]
pub struct Model {
    settings: Settings,
    now: Timestamp,

    kinds: Vec<Kind>,
    watches: Vec<Watch>,
    watch_numbers: BTreeMap<WatchId, u16>,
    store: Store,
    /// The number of objects with a history, limited by `limits.histories`.
    histories: usize,
    /// Objects with findings, and objects that are overdue or failed.
    unhealthy: BTreeSet<Slot>,

    texts: Interner<str>,
    condition_sets: Interner<ConditionSet>,
    finalizer_sets: Interner<[Arc<str>]>,

    timers: Timers,
    limits_due: Option<Timestamp>,
    probes: BTreeSet<Probe>,

    open_findings: OpenFindings,
    sources: Sources,
    permissions: BTreeMap<String, PermissionsView>,
    leases: BTreeMap<(String, String), LeaseView>,
    /// Learned convergence times of an earlier run, by kind.
    restored_learning: BTreeMap<String, Vec<u64>>,

    /// By limit: how many items exceeded it, and when the last one did.
    dropped: BTreeMap<&'static str, (u64, Timestamp)>,
    observations: BTreeMap<&'static str, u64>,
}

// === impl Model ===

impl Model {
    /// Returns an empty model.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            now: Timestamp(0),
            kinds: Vec::new(),
            watches: Vec::new(),
            watch_numbers: BTreeMap::new(),
            store: Store::new(),
            histories: 0,
            unhealthy: BTreeSet::new(),
            texts: Interner::new(MAX_INTERNED, "".into()),
            condition_sets: Interner::new(MAX_INTERNED, Arc::new([])),
            finalizer_sets: Interner::new(MAX_INTERNED, Arc::new([])),
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

    /// Returns the settings.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Handles one observation. Timers that are due at or before `at` fire first, each at its due time. The model's
    /// time never goes back: an `at` before the current time counts as the current time.
    pub fn apply(&mut self, at: Timestamp, observation: Observation) {
        self.fire_timers(at);
        self.now = self.now.max(at);
        if let Some(label) = source_label(&observation) {
            *self.observations.entry(label).or_default() += 1;
        }
        self.handle(observation);
    }

    /// Returns when the next timer is due. Until then only observations change the model.
    #[must_use]
    pub fn next_due(&self) -> Option<Timestamp> {
        self.timers.next_due()
    }

    /// Removes and returns the probes that the sources should answer, at most one per watch.
    pub fn probes(&mut self) -> Vec<Probe> {
        std::mem::take(&mut self.probes).into_iter().collect()
    }

    /// Removes and returns the finding events since the last call. Only the newest 10,000 are kept.
    pub fn finding_events(&mut self) -> Vec<FindingEvent> {
        self.open_findings.take_events()
    }

    /// Returns the state that should survive a restart.
    #[must_use]
    pub fn checkpoint(&self) -> Checkpoint {
        let learned = self.kinds.iter().filter(|kind| kind.learned.samples() > 0);
        Checkpoint {
            learned: learned.map(|kind| (kind.name(), kind.learned.to_numbers())).collect(),
            findings: self.open_findings.iter().map(|finding| (finding.id.to_string(), finding.since)).collect(),
        }
    }

    fn fire_timers(&mut self, at: Timestamp) {
        while let Some((due, timer)) = self.timers.pop(at) {
            self.now = self.now.max(due);
            match timer {
                Timer::Object(slot) => {
                    if let Some(hot) = self.store.get_mut(slot).and_then(|record| record.hot.as_mut()) {
                        hot.due = None;
                    }
                    self.review_object(slot);
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

    fn handle(&mut self, observation: Observation) {
        match observation {
            Observation::Restored(checkpoint) => self.restore(*checkpoint),
            Observation::KindsDiscovered(list) => {
                self.sources.note_success(&SourceId::Discovery, self.now);
                self.kinds_discovered(&list);
            }
            Observation::ListBegan { watch, epoch } => self.with_watch(&watch, |model, n| model.list_began(n, epoch)),
            Observation::Listed { watch, object } => {
                self.with_watch(&watch, |model, n| model.object_seen(n, *object, false))
            }
            Observation::ListEnded { watch, epoch, version } => {
                self.with_watch(&watch, |model, n| model.list_ended(n, epoch, &version));
            }
            Observation::Applied { watch, object } => self.with_watch(&watch, |model, n| {
                model.version_reached(n, &object.version, true);
                model.object_seen(n, *object, true);
            }),
            Observation::Deleted { watch, key, version } => self.with_watch(&watch, |model, n| {
                model.version_reached(n, &version, true);
                model.object_deleted(n, &key);
            }),
            Observation::Progressed { watch, version } => {
                self.with_watch(&watch, |model, n| model.version_reached(n, &version, false));
            }
            Observation::Skipped { source, cause } => self.object_skipped(&source, cause),
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
            Observation::Answered { probe, answer } => self.probe_answered(&probe, &answer),
            Observation::SourceFailed { source, cause, detail } => self.source_failed(&source, cause, &detail),
            Observation::SourceRecovered { source } => self.source_recovered(&source),
            // Durations measured across a step are wrong by its size, which is usually small compared with deadlines of
            // minutes.
            Observation::ClockStepped { .. } | Observation::Tick => {}
        }
    }

    /// Handles an observation of a watch. Ignores it if the watch is not in the latest list of discovered watches.
    fn with_watch(&mut self, id: &WatchId, handle: impl FnOnce(&mut Self, u16)) {
        let Some(number) = self.find_watch(id).filter(|number| self.watches[*number as usize].active) else { return };
        self.sources.note_success(&SourceId::Watch(id.clone()), self.now);
        handle(self, number);
    }

    fn restore(&mut self, checkpoint: Checkpoint) {
        for kind in &mut self.kinds {
            if let Some(numbers) = checkpoint.learned.get(&kind.name()) {
                kind.learned = learned::Learned::from_numbers(numbers);
            }
        }
        self.restored_learning = checkpoint.learned;
        let findings = checkpoint.findings.into_iter();
        let valid = findings.filter_map(|(id, since)| Some((FindingId(u64::from_str_radix(&id, 16).ok()?), since)));
        self.open_findings.restore(valid.collect());
    }

    fn definition_seen(&mut self, definition: DefinitionView) {
        let subject = Subject::Definition { name: definition.name };
        if definition.status == StatusSchema::InBody {
            let evidence = Evidence::new().text("kind", definition.kind).text("group", definition.group);
            // The creation time is the best evidence, because loopwatch does not see earlier versions of a definition.
            let since = definition.created.unwrap_or(self.now).min(self.now);
            self.raise(since, FindingCode::StatusSubresourceMissing, subject, evidence);
        } else {
            self.open_findings.clear(self.now, FindingCode::StatusSubresourceMissing, &subject);
        }
    }

    fn lease_seen(&mut self, lease: LeaseView) {
        self.sources.note_success(&SourceId::Lease, self.now);
        let key = (lease.namespace.clone(), lease.name.clone());
        if self.leases.len() >= MAX_LEASES && !self.leases.contains_key(&key) {
            return self.count_dropped("leases");
        }
        self.leases.insert(key, lease);
    }

    /// Opens a finding, or updates its evidence. Counts it as dropped if too many findings are open.
    fn raise(&mut self, since: Timestamp, code: FindingCode, subject: Subject, evidence: Evidence) {
        if !self.open_findings.raise(self.now, since, code, subject, evidence, self.settings.limits.findings) {
            self.count_dropped("findings");
        }
    }

    fn intern_text(&mut self, text: &str) -> Symbol {
        self.texts.intern(text).unwrap_or_else(|empty| {
            self.count_dropped("texts");
            empty
        })
    }

    fn intern_conditions(&mut self, conditions: &ConditionSet) -> Symbol {
        self.condition_sets.intern(conditions).unwrap_or_else(|empty| {
            self.count_dropped("condition_shapes");
            empty
        })
    }

    fn intern_finalizers(&mut self, finalizers: &[Arc<str>]) -> Symbol {
        self.finalizer_sets.intern(finalizers).unwrap_or_else(|empty| {
            self.count_dropped("finalizer_sets");
            empty
        })
    }
}

/// Returns the `source` label of `loopwatch_observations_total`, or `None` for ticks, which are not counted.
const fn source_label(observation: &Observation) -> Option<&'static str> {
    Some(match observation {
        Observation::Restored(_) => "checkpoint",
        Observation::KindsDiscovered(_) | Observation::PermissionsReviewed(_) => "discovery",
        Observation::ListBegan { .. } | Observation::Listed { .. } | Observation::ListEnded { .. } => "list",
        Observation::Applied { .. } | Observation::Deleted { .. } | Observation::Progressed { .. } => "watch",
        Observation::DefinitionSeen(_) | Observation::DefinitionGone(_) => "definitions",
        Observation::LeaseSeen(_) => "lease",
        Observation::Answered { .. } => "audit",
        Observation::SourceFailed { .. } | Observation::SourceRecovered { .. } | Observation::Skipped { .. } => {
            "source"
        }
        Observation::ClockStepped { .. } => "clock",
        Observation::Tick => return None,
    })
}
