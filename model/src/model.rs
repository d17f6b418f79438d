//! The model: all watched objects, and the findings about them.
//!
//! [`Model::apply`] is the only input: it fires the timers that are due, each at its own due time,
//! and then handles the observation. The tour begins in `apply.rs`, where each observation goes to
//! its part. Objects live in `store.rs`, and `objects.rs` takes one version of an object through
//! the parts. The code that judges an object works on an `ObjectContext`, which also gives access
//! to the object's kind and to the totals of its namespace.
//!
//! The parts are listed in the order in which a newcomer should read them.

// The input.
mod apply; // what one observation does

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
mod definitions; // of custom resources: whether they have a status subresource
mod skipped; // objects that a source could not read
mod clock; // steps of the clock
pub mod annotated; // annotations that silence findings and set deadlines
mod teams; // of namespaces
// Rules and annotations that silence findings, or change their severity and deadline.
pub mod tuning;

// The output.
mod checkpoints; // what survives a restart
mod recent_past; // the last hours, for charts and timelines
mod readiness; // for `/readyz`
mod show;
mod explain; // one object, for people
mod family; // its owners and children, as trees

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use self::configurations::Configurations;
use self::containers::Containers;
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
use self::timers::Timers;
use self::traces::Traces;
use self::tuning::Tuned;
use crate::checkpoint::FinalizerMemory;
use crate::finding::{FindingEvent, Subject};
use crate::observation::{DefinitionView, PermissionsView, Probe, Role, SourceId, WatchId};
use crate::settings::Settings;
use crate::time::Timestamp;

/// The maximum number of distinct texts, of condition sets and of finalizer sets. Clusters have far
/// fewer.
const MAX_INTERNED: usize = 50_000;

/// The model. [`Model::apply`] is its only input; [`Model::snapshot`], [`Model::finding_events`],
/// [`Model::reference_events`], [`Model::traces`], [`Model::probes`] and [`Model::checkpoint`] are
/// its output.
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
        let other_finalizers =
            finalizer_sets.acquire([Arc::from(OTHER)].as_slice()).unwrap_or_default();
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

    /// Returns when the next timer is due. Until then only observations change the model.
    #[must_use]
    pub fn next_due(&self) -> Option<Timestamp> {
        self.timers.next_due()
    }

    /// Removes and returns the probes that the sources should answer, at most one per watch and a
    /// few reads of objects.
    pub fn probes(&mut self) -> Vec<Probe> {
        let probes = std::mem::take(&mut self.probes);
        for probe in &probes {
            let Probe::Count(watch) = probe else { continue };
            if let Some(number) =
                self.find_watch(watch).filter(|number| self.watches[*number as usize].active)
            {
                self.schedule_audit(number);
            }
        }

        probes.into_iter().chain(self.take_reads()).collect()
    }

    /// Removes and returns the finding events since the last call. Only the newest 10,000 are kept.
    pub fn finding_events(&mut self) -> Vec<FindingEvent> {
        self.open_findings.take_events()
    }

    /// Opens the finding of a detection, or updates it, unless the settings or annotations disable
    /// it. Counts it as dropped if too many findings are open.
    fn raise(&mut self, subject: Subject, detection: Detection) {
        let Tuned { enabled, severity, is_fixed } = self.tuned(detection.code, &subject);
        if !enabled {
            return self.open_findings.clear(self.now, detection.code, &subject);
        }

        let of_operator = !detection.foreign && self.is_work_of_operator(&subject);
        let Detection {
            code,
            since,
            evidence,
            weak,
            confidence,
            not_before,
            blocker,
            waited_since,
            ..
        } = detection;

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
            waited_since,
            of_operator,
        };

        if self.open_findings.raise(self.now, report, self.settings.limits.findings)
            == Raised::Dropped
        {
            self.count_dropped("findings");
        }
    }

    /// Returns whether a subject is the operator or a controller of it, an object of one of its
    /// kinds, or all of these, or a source that reads from the operator's processes.
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

        let primary =
            self.kinds.iter().filter(|kind| kind.role == Role::Primary && !kind.suspected);
        primary.into_iter().any(|known| *known.kind == **kind && *known.group == **group)
    }
}
