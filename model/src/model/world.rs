//! Everything that the model knows about the cluster, without any conclusion: what exists, since
//! when, and what to look at next. The parts read it, and each has a narrow way to change it.

pub mod annotations; // of objects and namespaces, that tune findings
pub(crate) mod agenda; // what to review next, and when
pub(crate) mod blindness; // when visibility is lost, and when it returns
pub(crate) mod controller_names; // of leases, field managers and domains
pub(crate) mod crowd; // items by group, of which the largest makes room
pub(crate) mod data_writes; // when the data of ConfigMaps and Secrets was written
pub(crate) mod departed; // objects that had converged when they left
pub(crate) mod field_managers; // who wrote an object, and when
pub(crate) mod finalizer_actors; // who removes finalizers
pub(crate) mod intern; // texts and lists that many objects share
pub(crate) mod kinds; // kinds, their watches and their totals
pub(crate) mod limits; // what had no room
pub(crate) mod lookups; // reads of single objects that detectors ask for
pub(crate) mod namespaces; // their annotations, their teams, and whether they are being deleted
pub(crate) mod object_lookups; // how detectors ask
pub(crate) mod owner_graph; // the owners and children of objects
pub(crate) mod owners; // and children of objects
pub(crate) mod reference_events; // references between namespaces that appear or disappear
pub(crate) mod reviews; // of many subjects
pub(crate) mod shared_values; // the values that an object shares with others
pub(crate) mod visibility; // whether a watch is up to date
pub(crate) mod served_versions; // of kinds
pub(crate) mod sources; // where observations come from, and whether they fail
pub(crate) mod store; // all objects
pub(crate) mod symbols; // of one version of an object
pub(crate) mod subjects; // what findings are about
pub(crate) mod timers;
pub(crate) mod watches; // which one shows which objects

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use self::agenda::Agenda;
use self::crowd::Crowd;
use self::departed::Departed;
use self::kinds::{Kind, Watch};
use self::limits::Dropped;
use self::lookups::Lookups;
use self::namespaces::Namespaces;
use self::owner_graph::OwnerGraph;
use self::reference_events::ReferenceEvents;
use self::served_versions::ServedVersions;
use self::shared_values::SharedValues;
use self::sources::Sources;
use self::store::{Deletion, Record, Slot, Store};
use crate::checkpoint::FinalizerMemory;
use crate::finding::FindingCode;
use crate::model::world::limits::Limit;
use crate::observation::{Permission, PermissionsView, WatchId};
use crate::reference::{
    ObjectName, ReferenceChange, ReferenceEvent, ReferenceEventId, ReferenceForm,
};
use crate::settings::Settings;
use crate::snapshot::ObjectState;
use crate::time::Timestamp;

/// Everything that the model knows about the cluster.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) settings: Settings,
    pub(crate) now: Timestamp,
    /// Whether a report on this instant is all that is wanted.
    pub(crate) looks_once: bool,

    pub(crate) kinds: Vec<Kind>,
    pub(crate) watches: Vec<Watch>,
    pub(crate) watch_numbers: BTreeMap<WatchId, u16>,
    /// Some of the latest discovered watches do not fit.
    pub(crate) watches_left_out: bool,
    /// The groups of the primary kinds that the operator surely serves.
    pub(crate) served_groups: BTreeSet<Arc<str>>,
    pub(crate) served_versions: ServedVersions,
    pub(crate) sources: Sources,
    /// What the account may do, by namespace; empty for the whole cluster.
    pub(crate) permissions: BTreeMap<String, PermissionsView>,

    pub(crate) store: Store,
    /// The number of changes that the watches have shown, of objects of all kinds.
    pub(crate) changes: u64,
    /// Objects that had converged when they left.
    pub(crate) departed: Departed,
    pub(crate) graph: OwnerGraph,
    pub(crate) shared: SharedValues,
    pub(crate) namespaces: Namespaces,
    /// The objects with a history, by namespace. At most `limits.histories`.
    pub(crate) histories: Crowd<Arc<str>, Slot>,
    /// Objects with findings, and objects that are overdue or failed.
    pub(crate) unhealthy: BTreeSet<Slot>,
    /// Workloads that have an owner and are not ready.
    pub(crate) unready_workloads: BTreeSet<Slot>,
    /// Somebody has scaled the operator to zero, so nothing is expected of it.
    pub(crate) operator_stopped: bool,
    /// When the last known outage of the operator ended; the last of all instants while it lasts.
    pub(crate) operator_failed: Timestamp,

    pub(crate) agenda: Agenda,
    pub(crate) lookups: Lookups,
    pub(crate) dropped: Dropped,
    pub(crate) reference_events: ReferenceEvents,
    pub(crate) restored: Restored,
}

/// What an earlier process had learned about kinds that the model does not know yet.
#[derive(Debug, Default)]
pub(crate) struct Restored {
    /// Convergence times, by kind.
    pub(crate) learning: BTreeMap<String, Vec<u64>>,
    /// The permissions that the account has or had, by namespace.
    pub(crate) permissions: BTreeMap<String, Vec<Permission>>,
    /// The stays in phases by kind.
    pub(crate) phases: BTreeMap<String, BTreeMap<String, Vec<u64>>>,
    /// The experience with finalizers, by kind.
    pub(crate) finalizers: BTreeMap<String, Vec<(String, FinalizerMemory)>>,
}

impl World {
    /// Returns whether all permissions of the operator are known, in every namespace.
    pub(crate) fn knows_permissions(&self) -> bool {
        let is_known = |view: &PermissionsView| !view.incomplete && view.granted_left_out == 0;
        let grants = self.permissions.values().any(|view| !view.granted.is_empty());
        grants && self.permissions.contains_key("") && self.permissions.values().all(is_known)
    }

    pub(crate) fn new(settings: Settings) -> Self {
        let limits = settings.limits.clone();
        Self {
            settings,
            now: Timestamp(0),
            looks_once: false,
            kinds: Vec::new(),
            watches: Vec::new(),
            watch_numbers: BTreeMap::new(),
            watches_left_out: false,
            served_groups: BTreeSet::new(),
            served_versions: ServedVersions::default(),
            sources: Sources::default(),
            permissions: BTreeMap::new(),
            store: Store::new(),
            changes: 0,
            departed: Departed::default(),
            graph: OwnerGraph::default(),
            shared: SharedValues::new(&limits),
            namespaces: Namespaces::default(),
            histories: Crowd::default(),
            unhealthy: BTreeSet::new(),
            unready_workloads: BTreeSet::new(),
            operator_stopped: false,
            operator_failed: Timestamp(0),
            agenda: Agenda::default(),
            lookups: Lookups::default(),
            dropped: Dropped::default(),
            reference_events: ReferenceEvents::default(),
            restored: Restored::default(),
        }
    }
}

impl World {
    /// Returns the state of an object: unknown while its watch is blind, because the stored state
    /// may be out of date.
    pub(crate) fn state_of(&self, record: &Record) -> ObjectState {
        if self.watches[record.watch as usize].blindness.blind.is_some() {
            ObjectState::Unknown
        } else {
            record.state
        }
    }

    pub(crate) fn has_open(&self, code: FindingCode, slot: Slot) -> bool {
        let hot = self.store.get(slot).and_then(|record| record.hot.as_ref());
        hot.is_some_and(|hot| hot.findings.contains(&code))
    }

    /// Returns an object that is being deleted.
    pub(crate) fn terminating(&self, slot: Slot) -> Option<(&Record, &Deletion)> {
        let record = self.store.get(slot)?;
        Some((record, record.deletion()?))
    }
}

impl World {
    /// Counts an item that was dropped because of a limit.
    pub(crate) fn count_dropped(&mut self, limit: Limit) {
        self.dropped.count(limit);
    }
}

impl World {
    /// Queues the event that an object's reference to `target` at `path` has changed.
    pub(crate) fn push_reference_event(
        &mut self,
        slot: Slot,
        version: u64,
        (form, change): (ReferenceForm, ReferenceChange),
        path: String,
        target: ObjectName,
    ) {
        let Some(record) = self.store.get(slot) else { return };
        let (kind, uid) = (self.kind_of(record.watch), store::uid_text(record.uid));
        let source = ObjectName {
            group: kind.group.to_string(),
            kind: kind.kind.to_string(),
            namespace: record.namespace.to_string(),
            name: record.name.to_string(),
        };

        let (id, at) = (ReferenceEventId(0), self.now);
        let event =
            ReferenceEvent { id, at, change, form, source, path, target }.identified(&uid, version);
        if self.reference_events.push(event) {
            self.count_dropped(Limit::ReferenceEvents);
        }
    }
}
