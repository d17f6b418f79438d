//! The model: all watched objects, and the findings about them.
//!
//! [`Model::apply`] is the only input: it fires the timers that are due, each at its own due time, and then handles the
//! observation. Objects live in `store.rs`. The code that judges an object works on an `ObjectContext`, which also
//! gives access to the object's kind and to the totals of its namespace.
//!
//! The parts are listed in the order in which a newcomer should read them.

// Data.
mod intern; // texts and lists shared by many objects
mod voices; // counts of a kind's objects by what their statuses say
mod store; // all objects
mod graph; // their owners and children
mod learned; // convergence times of a kind
mod kinds; // kinds, watches and their totals
mod timers;
mod detection; // the conclusion of a detector
mod past_events; // for explanations
mod open_findings;
mod reads; // reads of single objects that detectors ask for
mod leases;
mod events; // Kubernetes Events about objects
pub(crate) mod controllers; // signs of life of controllers
pub(crate) mod actors; // of finalizers

// One object.
pub mod reading; // reads its status
mod context; // the data that judging it reads and changes
mod objects; // its creation, updates and removal
mod silence; // statuses that say nothing
mod writers; // who wrote it, and when
mod obligations; // the obligation that a spec change opens
pub(crate) mod traces; // what happened until the obligation ended
mod conditions; // flapping conditions, cycling phases
mod finalizers; // which actor removes them, and how long that usually takes
mod deletion; // the wait for finalizers
mod lost_finalizers; // finalizers that disappear without a deletion
mod judge; // its state, whether its problems are findings, and its next timer
mod detectors; // its problems
mod hazards; // bad owner references, kept for a while
mod links; // its owner references
mod cycles; // of owners
mod doubts; // owners that the model does not know
mod logical_owners; // the owner that its annotations name
mod missing_owners; // whether that owner exists
mod orphans; // whether it should have an owner
mod crossings; // its references to other namespaces
mod references; // its references whose targets may be missing
mod targets; // what references name

// Many objects.
mod relations; // problems that involve several objects
mod workloads; // what objects wait for: workloads that they own
mod dangling; // references to objects that do not exist
mod written; // when ConfigMaps and Secrets were written
mod configurations; // which workloads read them
mod stale; // workloads whose Pods are older than what they read
mod softdelete; // objects that are marked as deleted
mod chains; // of objects that wait for each other's deletion
mod blocked; // deletions that do not end
mod containers; // namespaces and definitions that are being deleted
mod reviews; // subjects to judge although no event arrived

// The operator itself.
mod operator;
mod revisions; // which revision of it is in charge

// Watches, kinds and sources.
mod sight; // what a watch can see
mod watches;
mod sources;
mod skipped; // objects that a source could not read
mod clock; // steps of the clock
pub mod annotated; // annotations that silence findings and set deadlines
mod teams; // of namespaces
pub mod tuning; // rules and annotations that silence findings, or change their severity and deadline

// The output.
mod recent_past; // the last hours, for charts and timelines
mod readiness; // for `/readyz`
mod show;
mod explain; // one object, for people
mod family; // its owners and children, as trees

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use self::configurations::Configurations;
use self::containers::{Container, Containers};
use self::controllers::Controllers;
use self::crossings::Crossings;
use self::detection::Detection;
use self::doubts::Doubts;
use self::events::Events;
use self::graph::Graph;
use self::hazards::Hazards;
use self::intern::{ConditionSet, Interner, Symbol};
use self::kinds::{Kind, OTHER, Watch};
pub use self::leases::LeaderElection;
use self::leases::Leases;
use self::open_findings::{OpenFindings, Raised, Report};
use self::operator::Operator;
use self::orphans::Orphans;
use self::reads::Reads;
use self::recent_past::Points;
use self::references::References;
use self::reviews::Reviews;
use self::revisions::Revisions;
use self::softdelete::SoftDeleted;
use self::sources::{Sources, source_subject};
use self::store::{Slot, Store};
use self::timers::{Timer, Timers};
use self::traces::Traces;
use self::tuning::Tuned;
use crate::checkpoint::{Checkpoint, FinalizerMemory};
use crate::finding::{Evidence, FindingCode, FindingEvent, FindingId, Subject};
use crate::observation::{
    DefinitionView, LeaseView, Observation, PermissionsView, PodView, Probe, Role, SourceId, StatusSchema, WatchId,
};
use crate::settings::Settings;
use crate::time::Timestamp;

/// The maximum number of distinct texts, of condition sets and of finalizer sets. Clusters have far fewer.
const MAX_INTERNED: usize = 50_000;

/// The maximum number of definitions that can be reviewed again.
const MAX_DEFINITIONS: usize = 2_000;

/// The model. [`Model::apply`] is its only input; [`Model::snapshot`], [`Model::finding_events`],
/// [`Model::reference_events`], [`Model::traces`], [`Model::probes`] and [`Model::checkpoint`] are its output.
#[derive(Debug)]
pub struct Model {
    settings: Settings,
    now: Timestamp,

    kinds: Vec<Kind>,
    watches: Vec<Watch>,
    watch_numbers: BTreeMap<WatchId, u16>,
    /// Some of the latest discovered watches do not fit.
    watches_left_out: bool,
    store: Store,
    graph: Graph,
    doubts: Doubts,
    hazards: Hazards,
    orphans: Orphans,
    /// The number of objects with a history, limited by `limits.histories`.
    histories: usize,
    /// Objects with findings, and objects that are overdue or failed.
    unhealthy: BTreeSet<Slot>,
    /// Workloads that have an owner and are not ready.
    unready_workloads: BTreeSet<Slot>,

    texts: Interner<str>,
    condition_sets: Interner<ConditionSet>,
    finalizer_sets: Interner<[Arc<str>]>,
    /// Stands for the finalizer sets that do not fit.
    other_finalizers: Symbol,

    timers: Timers,
    findings_due: Option<Timestamp>,
    reviews: Reviews,
    probes: BTreeSet<Probe>,
    reads: Reads,

    open_findings: OpenFindings,
    points: Points,
    crossings: Crossings,
    traces: Traces,
    references: References,
    /// Objects that annotations mark as deleted, at most [`softdelete::MAX_SOFT_DELETED`].
    soft_deleted: BTreeMap<Slot, SoftDeleted>,
    configurations: Configurations,
    sources: Sources,
    permissions: BTreeMap<String, PermissionsView>,
    leases: Leases,
    events: Events,
    controllers: Controllers,
    operator: Operator,
    revisions: Revisions,
    containers: Containers,
    /// The groups of the primary kinds that the operator surely serves.
    served_groups: BTreeSet<Arc<str>>,
    /// The definitions without a status subresource, by name; at most [`MAX_DEFINITIONS`].
    definitions: BTreeMap<String, DefinitionView>,
    /// The annotations of namespaces, by the name of the namespace; only of those that have any.
    namespaces: BTreeMap<String, Box<annotated::Annotated>>,
    /// The teams of namespaces, by the name of the namespace; only of those that have one.
    teams: BTreeMap<String, String>,
    /// Learned convergence times of an earlier run, by kind.
    restored_learning: BTreeMap<String, Vec<u64>>,
    /// The experience with finalizers of an earlier run, by kind.
    restored_finalizers: BTreeMap<String, Vec<(String, FinalizerMemory)>>,

    /// By limit: how many items exceeded it, and when the last one did.
    dropped: BTreeMap<&'static str, (u64, Timestamp)>,
    observations: BTreeMap<&'static str, u64>,
}

// === impl Model ===

impl Model {
    /// Returns an empty model.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        let mut finalizer_sets: Interner<[Arc<str>]> = Interner::new(MAX_INTERNED, Arc::new([]));
        let other_finalizers = finalizer_sets.acquire([Arc::from(OTHER)].as_slice()).unwrap_or_default();
        Self {
            settings,
            now: Timestamp(0),
            kinds: Vec::new(),
            watches: Vec::new(),
            watch_numbers: BTreeMap::new(),
            watches_left_out: false,
            store: Store::new(),
            graph: Graph::default(),
            doubts: Doubts::default(),
            hazards: Hazards::default(),
            orphans: Orphans::default(),
            histories: 0,
            unhealthy: BTreeSet::new(),
            unready_workloads: BTreeSet::new(),
            texts: Interner::new(MAX_INTERNED, "".into()),
            condition_sets: Interner::new(MAX_INTERNED, Arc::new([])),
            finalizer_sets,
            other_finalizers,
            timers: Timers::default(),
            findings_due: None,
            reviews: Reviews::default(),
            probes: BTreeSet::new(),
            reads: Reads::default(),
            open_findings: OpenFindings::default(),
            points: Points::default(),
            crossings: Crossings::default(),
            traces: Traces::default(),
            references: References::default(),
            soft_deleted: BTreeMap::new(),
            configurations: Configurations::default(),
            sources: Sources::default(),
            permissions: BTreeMap::new(),
            leases: Leases::default(),
            events: Events::default(),
            controllers: Controllers::default(),
            operator: Operator::default(),
            revisions: Revisions::default(),
            containers: Containers::default(),
            served_groups: BTreeSet::new(),
            definitions: BTreeMap::new(),
            namespaces: BTreeMap::new(),
            teams: BTreeMap::new(),
            restored_learning: BTreeMap::new(),
            restored_finalizers: BTreeMap::new(),
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
        if let Observation::ClockStepped { by_ms } = observation {
            // By the old setting, the step happened at `before`.
            let before = at.shifted(by_ms.saturating_neg());
            self.fire_timers(before);
            self.time_passes(before);
            self.now = self.now.max(before);
            self.clock_stepped(by_ms);
        }
        self.fire_timers(at);
        self.time_passes(at);
        self.now = self.now.max(at);
        if let Some(label) = source_label(&observation) {
            *self.observations.entry(label).or_default() += 1;
        }
        self.handle(observation);
        self.finish_step();
    }

    /// Returns when the next timer is due. Until then only observations change the model.
    #[must_use]
    pub fn next_due(&self) -> Option<Timestamp> {
        self.timers.next_due()
    }

    /// Removes and returns the probes that the sources should answer, at most one per watch and a few reads of
    /// objects.
    pub fn probes(&mut self) -> Vec<Probe> {
        let probes = std::mem::take(&mut self.probes);
        for probe in &probes {
            let Probe::Count(watch) = probe else { continue };
            if let Some(number) = self.find_watch(watch).filter(|number| self.watches[*number as usize].active) {
                self.schedule_audit(number);
            }
        }
        probes.into_iter().chain(self.take_reads()).collect()
    }

    /// Removes and returns the finding events since the last call. Only the newest 10,000 are kept.
    pub fn finding_events(&mut self) -> Vec<FindingEvent> {
        self.open_findings.take_events()
    }

    /// Returns what shows which replica leads.
    #[must_use]
    pub fn leader_election(&self) -> LeaderElection {
        let stands_by = |pod: &PodView| !pod.own && pod.deleted.is_none();
        LeaderElection {
            leases: self.leases.held(self.now).map(|row| row.lease.clone()).collect(),
            stands_by: self.operator.view.as_ref().is_some_and(|view| view.pods.iter().any(stands_by)),
        }
    }

    /// Returns the state that should survive a restart.
    #[must_use]
    pub fn checkpoint(&self) -> Checkpoint {
        let mut learned = self.restored_learning.clone();
        let kinds = self.kinds.iter().filter(|kind| !kind.learned.is_empty());
        learned.extend(kinds.map(|kind| (kind.name(), kind.learned.to_numbers())));
        let findings = self.open_findings.start_times();
        let silent = self.open_findings.silent(self.now);
        Checkpoint {
            learned,
            findings: findings.into_iter().map(|(id, since)| (id.to_string(), since)).collect(),
            of_controllers: self.open_findings.of_controllers().map(|id| id.to_string()).collect(),
            silent: silent.into_iter().map(|(id, until)| (id.to_string(), until)).collect(),
            outputs: self.references.outputs().cloned().collect(),
            leases: self.controllers.remembered(),
            finalizers: self.finalizer_memories(),
        }
    }

    fn fire_timers(&mut self, at: Timestamp) {
        while let Some((due, timer)) = self.timers.pop(at) {
            self.time_passes(due);
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
                Timer::Links => self.links_due(),
                Timer::Hazards => self.hazards_due(),
                Timer::Reads => self.reads_due(),
                Timer::References => self.references_due(),
                Timer::Containers => self.containers_due(),
                Timer::Configurations => self.configurations_due(),
                Timer::Operator => self.operator_due(),
                Timer::Findings => {
                    self.findings_due = None;
                    self.hold_limits();
                    self.findings_due();
                }
            }
            self.finish_step();
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
                model.object_deleted(n, &key, &version);
            }),
            Observation::Progressed { watch, version } => {
                self.with_watch(&watch, |model, n| model.version_reached(n, &version, false));
            }
            Observation::Skipped { source, cause } => self.object_skipped(&source, cause),
            Observation::DefinitionSeen(definition) => self.definition_seen(definition),
            Observation::DefinitionGone(name) => self.definition_gone(name),
            Observation::DefinitionsListed(names) => {
                self.retain_containers(|container| match container {
                    Container::Namespace(_) => true,
                    Container::Definition(name) => names.contains(name),
                });
                let gone: Vec<String> = self.definitions.keys().filter(|name| !names.contains(name)).cloned().collect();
                gone.into_iter().for_each(|name| self.definition_gone(name));
            }
            Observation::NamespacesListed(namespaces) => self.namespaces_listed(namespaces),
            Observation::NamespaceSeen(namespace) => self.namespace_seen(namespace),
            Observation::NamespaceGone(name) => self.namespace_gone(&name),
            Observation::PermissionsReviewed(view) => self.permissions_reviewed(view),
            Observation::LeaseSeen(lease) => self.lease_seen(lease),
            Observation::LeaseGone { namespace, name } => {
                self.leases.gone(namespace, name);
                self.review_revision();
                self.reviews.operator = true;
            }
            Observation::LeasesListed { namespace, names } => {
                self.sources.note_success(&SourceId::Lease, self.now);
                self.leases.listed(&namespace, &names);
                self.set_leases_visible(true);
                self.review_revision();
            }
            Observation::EventSeen { watch, event } => self.event_seen(&watch, *event),
            Observation::OperatorSeen(view) => self.operator_seen(*view),
            Observation::MetricsScraped(view) => self.metrics_scraped(*view),
            Observation::ScrapeFailed { instance, cause, detail } => self.scrape_failed(&instance, cause, &detail),
            Observation::ProcessSeen(view) => self.process_seen(*view),
            Observation::ProcessGone { instance } => self.process_gone(&instance),
            Observation::Answered { probe: Probe::Profile { instance, kind }, answer } => {
                self.profiled(&instance, kind, answer);
            }
            Observation::Answered { probe: Probe::Count(watch), answer } => self.count_answered(&watch, &answer),
            Observation::Answered { probe, answer } => self.read_answered(&probe, &answer),
            Observation::SourceFailed { source, .. }
            | Observation::SourceOff { source, .. }
            | Observation::SourceRestricted { source, .. }
            | Observation::SourceRecovered { source }
                if self.has_ended(&source) => {}
            Observation::SourceFailed { source, cause, detail } => self.source_failed(&source, cause, &detail),
            Observation::SourceOff { source, reason } => self.source_off(&source, reason),
            Observation::SourceRecovered { source } => self.source_recovered(&source),
            Observation::SourceRestricted { source, reason } => self.source_restricted(&source, reason),
            Observation::SettingsChanged(settings) => self.settings_changed(*settings),
            Observation::ClockStepped { .. } | Observation::Tick => {} // `apply` has handled the step
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
        self.references.restore_outputs(checkpoint.outputs);
        self.controllers.restore(checkpoint.leases);
        self.restore_finalizers(checkpoint.finalizers);
        let id = |id: &String| Some(FindingId(u64::from_str_radix(id, 16).ok()?));
        let findings = checkpoint.findings.iter().filter_map(|(finding, since)| Some((id(finding)?, *since)));
        // It takes a while to find the explanations again.
        let found_until = self.now.after(self.settings.deadline);
        let silent = checkpoint.silent.iter();
        let silent = silent.filter_map(|(finding, until)| Some((id(finding)?, until.unwrap_or(found_until))));
        self.open_findings.restore(findings.collect(), silent.collect());
        let of_controllers = checkpoint.of_controllers.iter().filter_map(id);
        of_controllers.for_each(|id| self.open_findings.keep_until(id, found_until));
    }

    fn definition_seen(&mut self, definition: DefinitionView) {
        self.note_definition(&definition);
        self.definitions.remove(&definition.name);
        if definition.status == StatusSchema::InBody && self.definitions.len() < MAX_DEFINITIONS {
            self.definitions.insert(definition.name.clone(), definition.clone());
        }
        self.review_definition(definition);
    }

    fn definition_gone(&mut self, name: String) {
        self.definitions.remove(&name);
        self.forget_container(&Container::Definition(name.clone()));
        let subject = Subject::Definition { name };
        self.open_findings.clear(self.now, FindingCode::StatusSubresourceMissing, &subject);
    }

    /// Opens or closes the finding about a definition.
    fn review_definition(&mut self, definition: DefinitionView) {
        let subject = Subject::Definition { name: definition.name };
        if definition.status == StatusSchema::InBody {
            let evidence = Evidence::new().text("kind", definition.kind).text("group", definition.group);
            // The creation time is the best evidence, because loopwatch does not see earlier versions of a definition.
            let (now, since) = (self.now, definition.created.unwrap_or(self.now).min(self.now));
            self.raise(subject, Detection::new(now, FindingCode::StatusSubresourceMissing, since, now, || evidence));
        } else {
            self.open_findings.clear(self.now, FindingCode::StatusSubresourceMissing, &subject);
        }
    }

    fn lease_seen(&mut self, lease: LeaseView) {
        self.sources.note_success(&SourceId::Lease, self.now);
        let renewed = self.leases.is_renewed_by(&lease);
        self.note_leader(&lease);
        if self.controllers.lease_seen(self.now, &lease, renewed, self.settings.owner_absent_after) {
            self.review_deletions();
        }
        if !self.leases.seen(self.now, lease) {
            self.count_dropped("leases");
        }
        self.operator_shows_life();
        self.note_other_leader();
        self.review_beginning();
        self.review_revision();
    }

    /// Opens the finding of a detection, or updates it, unless the settings or annotations disable it. Counts it as
    /// dropped if too many findings are open.
    fn raise(&mut self, subject: Subject, detection: Detection) {
        let Tuned { enabled, severity, is_fixed } = self.tuned(detection.code, &subject);
        if !enabled {
            return self.open_findings.clear(self.now, detection.code, &subject);
        }
        let of_operator = !detection.foreign && self.is_work_of_operator(&subject);
        let Detection { code, since, evidence, weak, confidence, not_before, blocker, .. } = detection;
        let report = Report {
            code,
            subject,
            since,
            severity,
            is_fixed,
            weak,
            confidence,
            evidence,
            not_before,
            blocker,
            of_operator,
        };
        if self.open_findings.raise(self.now, report, self.settings.limits.findings) == Raised::Dropped {
            self.count_dropped("findings");
        }
    }

    /// Returns whether a subject is the operator or a controller of it, an object of one of its kinds, or all of these, or a source
    /// that reads from the operator's processes.
    fn is_work_of_operator(&self, subject: &Subject) -> bool {
        let (group, kind) = match subject {
            Subject::Operator { .. } | Subject::Controller { .. } => return true,
            Subject::Source { .. } => {
                let of_operator = [SourceId::Metrics, SourceId::Process, SourceId::Profiles];
                return of_operator.iter().any(|id| source_subject(id) == *subject);
            }
            Subject::Object { group, kind, .. } | Subject::Kind { group, kind } => (group, kind),
            _ => return false,
        };
        let primary = self.kinds.iter().filter(|kind| kind.role == Role::Primary && !kind.suspected);
        primary.into_iter().any(|known| *known.kind == **kind && *known.group == **group)
    }

    fn acquire_text(&mut self, text: &str) -> Symbol {
        self.texts.acquire(text).unwrap_or_else(|empty| {
            self.count_dropped("texts");
            empty
        })
    }

    fn acquire_conditions(&mut self, conditions: &ConditionSet) -> Symbol {
        self.condition_sets.acquire(conditions).unwrap_or_else(|empty| {
            self.count_dropped("condition_shapes");
            empty
        })
    }

    /// Returns the symbol of a finalizer set. A set that does not fit must not read as empty.
    fn acquire_finalizers(&mut self, finalizers: &[Arc<str>]) -> Symbol {
        self.finalizer_sets.acquire(finalizers).unwrap_or_else(|_| {
            self.count_dropped("finalizer_sets");
            self.finalizer_sets.acquire(&[Arc::from(OTHER)]).unwrap_or(self.other_finalizers)
        })
    }

    /// Returns the finalizers of an object as far as the model knows them.
    fn finalizers_of(&self, slot: Slot) -> Vec<Arc<str>> {
        let Some(record) = self.store.get(slot) else { return Vec::new() };
        match record.hot.as_ref().and_then(|hot| hot.deletion.as_ref()) {
            Some(deletion) => deletion.actors.iter().map(|(finalizer, _)| finalizer.clone()).collect(),
            None if record.finalizers == self.other_finalizers => Vec::new(),
            None => self.finalizer_sets.get(record.finalizers).to_vec(),
        }
    }
}

/// Returns the `source` label of `loopwatch_observations_total`, or `None` for ticks, which are not counted.
const fn source_label(observation: &Observation) -> Option<&'static str> {
    Some(match observation {
        Observation::Restored(_) => "checkpoint",
        Observation::KindsDiscovered(_) | Observation::PermissionsReviewed(_) => "discovery",
        Observation::ListBegan { .. } | Observation::Listed { .. } | Observation::ListEnded { .. } => "list",
        Observation::Applied { .. } | Observation::Deleted { .. } | Observation::Progressed { .. } => "watch",
        Observation::DefinitionSeen(_) | Observation::DefinitionGone(_) | Observation::DefinitionsListed(_) => {
            "definitions"
        }
        Observation::LeaseSeen(_) | Observation::LeaseGone { .. } | Observation::LeasesListed { .. } => "lease",
        Observation::NamespacesListed(_) | Observation::NamespaceSeen(_) | Observation::NamespaceGone(_) => {
            "namespaces"
        }
        Observation::EventSeen { .. } => "events",
        Observation::OperatorSeen(_) => "pods",
        Observation::MetricsScraped(_) | Observation::ScrapeFailed { .. } => "metrics",
        Observation::ProcessSeen(_) | Observation::ProcessGone { .. } => "process",
        Observation::SettingsChanged(_) => "config",
        Observation::Answered { probe: Probe::Profile { .. }, .. } => "profiles",
        Observation::Answered { probe: Probe::Count(_), .. } => "audit",
        Observation::Answered { probe: Probe::Read(_) | Probe::Dependents { .. }, .. } => "reads",
        Observation::SourceFailed { .. }
        | Observation::SourceRecovered { .. }
        | Observation::SourceOff { .. }
        | Observation::SourceRestricted { .. }
        | Observation::Skipped { .. } => "source",
        Observation::ClockStepped { .. } => "clock",
        Observation::Tick => return None,
    })
}
