//! A simulated cluster: objects of any kinds, an API server that answers reads, and loopwatch.

use std::collections::{BTreeMap, BTreeSet};

use loopwatch_model::observation::{
    Answer, Cause, Condition, ConditionStatus, Dependent, Hashes, LeaseView, Manager,
    NamespaceView, ObjectAddress, ObjectKey, ObjectView, Observation, Owned, OwnerReference, Probe,
    Reference, Role, Scope, StatusShape, WatchId, WatchedKind,
};
use loopwatch_model::settings::Settings;
use loopwatch_model::time::{Span, Timestamp};

use super::Lab;
use super::steps::unlearned;

pub const GROUP: &str = "example.io";

pub const FINALIZER: &str = "example.io/cleanup";

/// A cluster with any kinds, an API server that answers reads, and loopwatch.
pub struct World {
    pub lab: Lab,
    pub watched: Vec<WatchedKind>,
    pub objects: BTreeMap<ObjectAddress, ObjectView>,
    pub cluster_scoped: BTreeSet<String>,
    pub unserved: BTreeSet<String>,
    pub refuses: BTreeSet<String>,
    pub reads_fail: Option<Cause>,
    pub silent: bool,
    pub uids: u64,
    pub reads: u64,
}

pub fn watched(role: Role, group: &str, kind: &str, scope: Scope) -> WatchedKind {
    let resource = format!("{}s", kind.to_lowercase());
    WatchedKind {
        watch: WatchId::new(group, &resource, &scope),
        group: group.into(),
        kind: kind.into(),
        resource,
        scope,
        role,
        filtered: role == Role::Child,
        ..super::kind()
    }
}

pub fn primary(group: &str, kind: &str) -> WatchedKind {
    watched(Role::Primary, group, kind, Scope::AllNamespaces)
}

pub fn child(group: &str, kind: &str) -> WatchedKind {
    watched(Role::Child, group, kind, Scope::AllNamespaces)
}

pub fn at(group: &str, kind: &str, namespace: &str, name: &str) -> ObjectAddress {
    ObjectAddress {
        group: group.into(),
        kind: kind.into(),
        namespace: namespace.into(),
        name: name.into(),
    }
}

pub fn web() -> ObjectAddress {
    at(GROUP, "Widget", "team-a", "web")
}

pub fn map(name: &str) -> ObjectAddress {
    at("", "ConfigMap", "team-a", name)
}

pub fn spec_by(name: &str, time: Timestamp) -> Manager {
    Manager {
        name: name.into(),
        time: Some(time),
        owns: Owned { spec: true, ..Owned::default() },
        ..Manager::default()
    }
}

pub fn status_by(name: &str, time: Timestamp) -> Manager {
    Manager {
        name: name.into(),
        subresource: "status".into(),
        time: Some(time),
        owns: Owned { status: true, ..Owned::default() },
        ..Manager::default()
    }
}

pub fn finalizers_by(name: &str, time: Timestamp, finalizers: &[&str]) -> Manager {
    Manager {
        name: name.into(),
        time: Some(time),
        owns: Owned { finalizers: true, ..Owned::default() },
        finalizers: finalizers.iter().map(|f| (*f).to_owned()).collect(),
        ..Manager::default()
    }
}

pub fn ready(view: &mut ObjectView, manager: &str, now: Timestamp) {
    view.observed_generation = Some(view.generation);
    view.status = StatusShape::Filled;
    view.conditions = vec![Condition {
        r#type: "Ready".into(),
        status: ConditionStatus::True,
        reason: "AsExpected".into(),
        ..Condition::default()
    }];

    view.hashes = Hashes { spec: 1, status: 7, settled: 7 };
    view.managers.retain(|m| m.subresource != "status");
    view.managers.push(status_by(manager, now));
}

pub fn reference(group: &str, kind: &str, path: &str, name: &str) -> Reference {
    Reference {
        slot: path.into(),
        group: group.into(),
        kind: kind.into(),
        name_hash: name.bytes().fold(1, |h, b| h * 31 + u64::from(b)),
        name: name.into(),
        ..Reference::default()
    }
}

impl World {
    pub fn new(kinds: &[WatchedKind]) -> Self {
        Self::with(unlearned(), kinds)
    }

    pub fn with(settings: Settings, kinds: &[WatchedKind]) -> Self {
        let mut world = Self {
            lab: Lab::unsynced(settings),
            watched: kinds.to_vec(),
            objects: BTreeMap::new(),
            cluster_scoped: kinds
                .iter()
                .filter(|k| k.scope == Scope::Cluster)
                .map(|k| k.kind.clone())
                .collect(),
            unserved: BTreeSet::new(),
            refuses: BTreeSet::new(),
            reads_fail: None,
            silent: false,
            uids: 0,
            reads: 0,
        };

        world.lab.discover(kinds);
        world.list();
        world.run(Span::mins(10));
        world
    }

    pub fn widgets() -> Self {
        Self::new(&[primary(GROUP, "Widget"), child("", "ConfigMap")])
    }

    pub fn watch_of(&self, address: &ObjectAddress) -> Option<WatchId> {
        let covers = |k: &&WatchedKind| {
            k.group == address.group
                && k.kind == address.kind
                && k.missing.is_empty()
                && k.scope.namespace().is_none_or(|only| only == address.namespace)
        };
        self.watched.iter().find(covers).map(|kind| kind.watch.clone())
    }

    pub fn list(&mut self) {
        for kind in self.watched.clone().iter().filter(|kind| kind.missing.is_empty()) {
            let of = |(address, _): &(&ObjectAddress, &ObjectView)| {
                self.watch_of(address) == Some(kind.watch.clone())
            };
            let views = self.objects.iter().filter(of).map(|(_, view)| view.clone()).collect();

            self.lab.list_in(&kind.watch, views);
        }

        self.answer();
    }

    pub fn restart(&mut self) {
        self.lab = self.lab.restart();
        self.lab.discover(&self.watched.clone());
        self.list();
    }

    /// Changes or creates an object without an event.
    pub fn quiet(
        &mut self,
        address: &ObjectAddress,
        change: impl FnOnce(&mut ObjectView, Timestamp),
    ) {
        let now = self.lab.now;
        if !self.objects.contains_key(address) {
            self.uids += 1;
            let view = ObjectView {
                key: ObjectKey { namespace: address.namespace.clone(), name: address.name.clone() },
                uid: format!("00000000-0000-4000-8000-{:012x}", self.uids),
                generation: 1,
                created: Some(Timestamp(now.0 / 1000 * 1000)),
                managers: vec![spec_by("kubectl", now)],
                ..ObjectView::default()
            };

            self.objects.insert(address.clone(), view);
        }

        if let Some(view) = self.objects.get_mut(address) {
            change(view, now);
            self.lab.version += 1;
            view.version = self.lab.version.to_string();
        }
    }

    /// Changes or creates an object, and the watch reports it.
    pub fn put(
        &mut self,
        address: &ObjectAddress,
        change: impl FnOnce(&mut ObjectView, Timestamp),
    ) {
        self.quiet(address, change);
        self.see(address);
    }

    pub fn see(&mut self, address: &ObjectAddress) {
        if let Some((watch, view)) = self.watch_of(address).zip(self.objects.get(address).cloned())
        {
            self.lab.apply_to(&watch, view);
        }
        self.answer();
    }

    pub fn rm(&mut self, address: &ObjectAddress) {
        self.objects.remove(address);
        self.lab.version += 1;
        if let Some(watch) = self.watch_of(address) {
            let key =
                ObjectKey { namespace: address.namespace.clone(), name: address.name.clone() };
            self.lab.observe(Observation::Deleted {
                watch,
                key,
                version: self.lab.version.to_string(),
            });
        }

        self.answer();
    }

    pub fn delete(&mut self, address: &ObjectAddress) {
        let waits = self.objects.get(address).is_some_and(|view| !view.finalizers.is_empty());
        if waits {
            self.put(address, |view, now| view.deleted = Some(now))
        } else {
            self.rm(address)
        }
    }

    pub fn owner(&self, address: &ObjectAddress) -> OwnerReference {
        OwnerReference {
            api_version: if address.group.is_empty() {
                "v1".into()
            } else {
                format!("{}/v1", address.group)
            },
            kind: address.kind.clone(),
            name: address.name.clone(),
            uid: self.objects.get(address).map(|view| view.uid.clone()).unwrap_or_default(),
            controller: true,
            blocks_deletion: true,
        }
    }

    pub fn owned(&mut self, address: &ObjectAddress, by: &ObjectAddress) {
        let owner = self.owner(by);
        self.put(address, |view, now| {
            view.owners = vec![owner];
            view.managers = vec![spec_by("widget-operator", now)];
        });
    }

    /// A healthy object with the finalizer of its operator.
    pub fn healthy(&mut self, address: &ObjectAddress, manager: &str, finalizers: &[&str]) {
        self.put(address, |view, now| {
            view.finalizers = finalizers.iter().map(|f| (*f).to_owned()).collect();
            if !finalizers.is_empty() {
                view.managers.push(finalizers_by(manager, now, finalizers));
            }
        });
        self.run(Span::secs(1));
        self.put(address, |view, now| ready(view, manager, now));
    }

    pub fn run(&mut self, span: Span) {
        let end = self.lab.now.after(span);
        let step = if span > Span::mins(2) { Span::secs(5) } else { Span(500) };
        while self.lab.now < end {
            self.lab.advance(step.min(end.since(self.lab.now)));
            self.answer();
        }
    }

    pub fn answer(&mut self) {
        if self.silent {
            return;
        }
        for probe in self.lab.model.probes() {
            let answer = match &probe {
                Probe::Read(address) => self.read(address),
                Probe::Dependents { uid, owner } => self.dependents(owner, uid),
                Probe::Count(_) | Probe::Profile { .. } => continue,
            };

            self.reads += 1;
            self.lab.observe(Observation::Answered { probe, answer });
        }
    }

    pub fn read(&self, address: &ObjectAddress) -> Answer {
        if let Some(cause) = self.reads_fail {
            return Answer::Failed(cause);
        }

        if self.unserved.contains(&address.kind) {
            return Answer::KindUnknown;
        }

        if self.refuses.contains(&address.kind) {
            return Answer::Failed(Cause::Forbidden);
        }

        let mut address = address.clone();
        if self.cluster_scoped.contains(&address.kind) {
            address.namespace.clear();
        } else if address.namespace.is_empty() {
            return Answer::Failed(Cause::Invalid);
        }

        self.objects
            .get(&address)
            .map_or(Answer::Absent, |view| Answer::Found(Box::new(view.clone())))
    }

    pub fn dependents(&self, _owner: &ObjectAddress, uid: &str) -> Answer {
        if let Some(cause) = self.reads_fail {
            return Answer::Failed(cause);
        }

        let of = |(_, view): &(&ObjectAddress, &ObjectView)| {
            view.owners.iter().any(|owner| owner.uid == uid)
        };
        let found = self.objects.iter().filter(of).map(|(address, view)| Dependent {
            group: address.group.clone(),
            kind: address.kind.clone(),
            object: view.clone(),
        });

        Answer::Dependents { found: found.collect(), complete: true }
    }

    /// The leader of an operator renews its lease every minute for a while.
    pub fn lead(&mut self, name: &str, holder: &str, minutes: i64) {
        for _ in 0..minutes {
            self.run(Span::mins(1));
            self.renew(name, holder);
        }
    }

    pub fn renew(&mut self, name: &str, holder: &str) {
        let now = self.lab.now;
        self.lab.observe(Observation::LeaseSeen(LeaseView {
            namespace: "ops".into(),
            name: name.into(),
            holder: holder.into(),
            renewed: Some(now),
            written: Some(now),
            duration: Some(Span::secs(15)),
            ..LeaseView::default()
        }));
        self.lab.observe(Observation::LeasesListed {
            namespace: "ops".into(),
            names: vec![name.into()],
        });
    }

    pub fn delete_namespace(&mut self, name: &str, conditions: &[&str]) {
        let conditions = conditions.iter().map(|c| Condition {
            r#type: (*c).into(),
            status: ConditionStatus::True,
            ..Condition::default()
        });
        let view = NamespaceView {
            name: name.into(),
            deleted: Some(self.lab.now),
            conditions: conditions.collect(),
            ..NamespaceView::default()
        };

        self.lab.observe(Observation::NamespaceSeen(view));
    }

    pub fn assert_quiet(&self) {
        self.lab.assert_no_findings();
    }
}
