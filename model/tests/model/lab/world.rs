//! A simulated cluster: objects of any kinds, an API server that answers reads, and loopwatch.

mod answers; // of the API server
pub mod operators; // what operators do

use std::collections::{BTreeMap, BTreeSet};

use loopwatch_model::observation::{
    Cause, ObjectAddress, ObjectKey, ObjectView, OwnerReference, Scope, WatchId, WatchedKind,
};
use loopwatch_model::settings::Settings;
use loopwatch_model::time::{Span, Timestamp};

use super::{Lab, config_maps, kind, owner, spec_by, unlearned};

/// The objects of a cluster, and a lab that sees those of watched kinds.
pub struct World {
    pub lab: Lab,
    pub kinds: Vec<WatchedKind>,
    pub objects: BTreeMap<ObjectAddress, ObjectView>,
    /// Kinds whose objects have no namespace.
    pub cluster_scoped: BTreeSet<String>,
    /// Kinds that the API server does not serve.
    pub unserved: BTreeSet<String>,
    /// Kinds that loopwatch may not read.
    pub refused: BTreeSet<String>,
    /// Reads fail with this cause.
    pub reads_fail: Option<Cause>,
    /// Nobody answers reads.
    pub silent: bool,
    /// The addresses that were read.
    pub reads: Vec<ObjectAddress>,
    /// The number of searches for dependents.
    pub searches: u64,
    uids: u64,
}

impl World {
    /// Returns a world with empty lists of widgets and `ConfigMaps` that loopwatch has watched for a
    /// while.
    pub fn new() -> Self {
        Self::with(unlearned())
    }

    pub fn with(settings: Settings) -> Self {
        Self::unlisted(settings, &[kind(), config_maps()]).watched_for_a_while()
    }

    /// Returns a world with these kinds.
    pub fn of(kinds: &[WatchedKind]) -> Self {
        Self::unlisted(unlearned(), kinds).watched_for_a_while()
    }

    pub fn unlisted(settings: Settings, kinds: &[WatchedKind]) -> Self {
        let mut world = Self::around(Lab::unsynced(settings), kinds);
        world.lab.discover(kinds);
        world
    }

    /// Returns a world around a lab that watches these kinds.
    pub fn around(lab: Lab, kinds: &[WatchedKind]) -> Self {
        let cluster_scoped = kinds.iter().filter(|kind| kind.scope == Scope::Cluster);
        Self {
            lab,
            kinds: kinds.to_vec(),
            objects: BTreeMap::new(),
            cluster_scoped: cluster_scoped.map(|kind| kind.kind.clone()).collect(),
            unserved: BTreeSet::new(),
            refused: BTreeSet::new(),
            reads_fail: None,
            silent: false,
            reads: Vec::new(),
            searches: 0,
            uids: 0,
        }
    }

    fn watched_for_a_while(mut self) -> Self {
        self.list();
        self.advance(Span::mins(10));
        self
    }

    /// Changes or creates an object, and its watch reports it.
    pub fn put(&mut self, at: &ObjectAddress, change: impl FnOnce(&mut ObjectView, Timestamp)) {
        self.put_unseen(at, change);
        self.see(at);
    }

    /// Changes or creates an object that its watch does not report yet.
    pub fn put_unseen(
        &mut self,
        at: &ObjectAddress,
        change: impl FnOnce(&mut ObjectView, Timestamp),
    ) {
        let (now, version) = (self.lab.now, self.lab.next_version());
        let view = self.objects.entry(at.clone()).or_insert_with(|| {
            self.uids += 1;
            created(at, self.uids, now)
        });

        change(view, now);
        view.version = version.to_string();
    }

    /// The operator creates an object, and its watch reports it.
    pub fn create(&mut self, at: &ObjectAddress, owners: &[OwnerReference]) -> ObjectView {
        let view = self.create_unseen(at, owners);
        self.see(at);
        view
    }

    /// The operator creates an object that its watch does not report yet.
    pub fn create_unseen(&mut self, at: &ObjectAddress, owners: &[OwnerReference]) -> ObjectView {
        self.put_unseen(at, |view, now| {
            view.owners = owners.to_vec();
            view.managers = vec![spec_by("widget-operator", now)];
        });

        self.objects[at].clone()
    }

    /// The watch reports an object as it is.
    pub fn see(&mut self, at: &ObjectAddress) {
        if let Some((watch, view)) = self.watch_of(at).zip(self.objects.get(at).cloned()) {
            self.lab.apply_to(&watch, view);
        }
        self.answer();
    }

    /// Deletes an object, which stays while it has finalizers.
    pub fn delete(&mut self, at: &ObjectAddress) {
        let waits = self.objects.get(at).is_some_and(|view| !view.finalizers.is_empty());
        if waits { self.put(at, |view, now| view.deleted = Some(now)) } else { self.remove(at) }
    }

    /// Removes an object, and its watch reports it.
    pub fn remove(&mut self, at: &ObjectAddress) {
        self.objects.remove(at);
        if let Some(watch) = self.watch_of(at) {
            self.lab.delete_from(&watch, key(at));
        }
        self.answer();
    }

    /// Lists all kinds.
    pub fn list(&mut self) {
        self.list_kinds(&self.kinds.clone());
    }

    /// Lists these kinds, as far as loopwatch may.
    pub fn list_kinds(&mut self, kinds: &[WatchedKind]) {
        for kind in kinds.iter().filter(|kind| kind.missing.is_empty()) {
            let watch = Some(kind.watch.clone());
            let listed = self.objects.iter().filter(|(at, _)| self.watch_of(at) == watch);
            let views = listed.map(|(_, view)| view.clone()).collect();
            self.lab.list_in(&kind.watch, views);
        }

        self.answer();
    }

    /// Restarts loopwatch. The new process lists everything.
    pub fn restart(&mut self) {
        self.lab = self.lab.restored();
        self.lab.discover(&self.kinds);
        self.list();
    }

    /// Advances in small steps, in which the API server answers reads.
    pub fn advance(&mut self, span: Span) {
        let end = self.lab.now.after(span);
        let step = if span > Span::mins(10) { Span::secs(1) } else { Span(500) };
        while self.lab.now < end {
            self.lab.advance(step.min(end.since(self.lab.now)));
            self.answer();
        }
    }

    /// Returns a reference to an object as its controller.
    pub fn owner(&self, of: &ObjectAddress) -> OwnerReference {
        let uid = self.objects.get(of).map(|view| view.uid.clone()).unwrap_or_default();
        owner(of, &uid)
    }

    /// Returns the watch that shows an object, if loopwatch may watch it.
    pub fn watch_of(&self, at: &ObjectAddress) -> Option<WatchId> {
        let covers = |kind: &&WatchedKind| {
            (&kind.group, &kind.kind) == (&at.group, &at.kind)
                && kind.missing.is_empty()
                && kind.scope.namespace().is_none_or(|only| only == at.namespace)
        };
        self.kinds.iter().find(covers).map(|kind| kind.watch.clone())
    }
}

fn created(at: &ObjectAddress, number: u64, now: Timestamp) -> ObjectView {
    ObjectView {
        key: key(at),
        uid: format!("00000000-0000-4000-8000-{number:012x}"),
        generation: 1,
        created: Some(Timestamp(now.0 / 1000 * 1000)),
        managers: vec![spec_by("kubectl", now)],
        ..ObjectView::default()
    }
}

fn key(at: &ObjectAddress) -> ObjectKey {
    ObjectKey { namespace: at.namespace.clone(), name: at.name.clone() }
}
