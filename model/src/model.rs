//! The model: all watched objects, and the findings about them.
//!
//! [`Model::apply`] is the only input: it fires the timers that are due, each at its own due time,
//! and then handles the observation. The tour begins in `apply.rs`, where each observation goes to
//! its part. Objects live in `store.rs`, and `objects.rs` takes one version of an object through
//! the parts. The code that judges an object works on an `ObjectContext`, which also gives access
//! to the object's kind and to the totals of its namespace.
//!
//! The parts are listed in the order in which a newcomer should read them.

pub(crate) mod status;
pub(crate) mod world;
pub(crate) mod findings;
mod visibility;
mod kube_events; // Kubernetes Events about objects
pub(crate) mod traces; // what happened during an obligation or a deletion
mod convergence;
mod deletion;
mod ownership;
mod references;
mod configuration;
pub(crate) mod operator;
mod steps;
mod output;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use self::configuration::consumers::Configurations;
use self::deletion::soft_deletion::SoftDeleted;
use self::deletion::terminating_scopes::Containers;
use self::findings::detection::Detection;
use self::findings::open_findings::{OpenFindings, Raised, Report};
pub use self::findings::tuning;
use self::findings::tuning::Tuned;
use self::kube_events::Events;
use self::operator::Operator;
use self::operator::controllers::Controllers;
pub use self::operator::leases::LeaderElection;
use self::operator::leases::Leases;
use self::operator::revisions::Revisions;
use self::output::recent_past::Points;
use self::ownership::bad_owners::Hazards;
use self::ownership::orphans::Orphans;
use self::ownership::unverified_owners::Doubts;
use self::references::cross_namespace::Crossings;
pub(crate) use self::references::lookups::References;
pub use self::status::reading;
use self::steps::finish::Reviews;
use self::traces::Traces;
use self::visibility::sources::{Sources, source_subject};
pub use self::world::annotations as annotated;
use self::world::intern::{ConditionSet, Interner, Symbol};
use self::world::kinds::{Kind, OTHER, Watch};
use self::world::lookups::Reads;
use self::world::owner_graph::Graph;
use self::world::store::{Slot, Store};
use self::world::timers::Timers;
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
    namespaces: BTreeMap<String, Box<world::annotations::Annotated>>,
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
