//! A small cluster behind the model: objects with owners in several kinds, and an API server that
//! answers reads.

use std::collections::BTreeMap;

use loopwatch_model::observation::{
    Answer, Cause, ObjectAddress, ObjectKey, ObjectView, Observation, OwnerReference, Probe, Role,
    Scope, WatchId, WatchedKind,
};
use loopwatch_model::settings::Settings;
use loopwatch_model::time::{Span, Timestamp};

use super::steps::{spec_writer, unlearned};
use super::{Lab, kind};

/// A lab whose objects also exist in an API server.
pub struct Cluster {
    pub lab: Lab,
    objects: BTreeMap<ObjectAddress, ObjectView>,
    /// Kinds that the API server does not serve.
    pub unknown_kinds: Vec<String>,
    /// Reads fail with this cause.
    pub reads_fail: Option<Cause>,
    uids: u64,
    /// The number of reads.
    pub reads: u64,
}

/// Returns the watch of `ConfigMap` objects that belong to primary objects.
pub fn config_maps() -> WatchedKind {
    let watch = WatchId::new("", "configmaps", &Scope::AllNamespaces);
    let (group, version) = (String::new(), "v1".to_owned());
    WatchedKind {
        watch,
        group,
        version,
        kind: "ConfigMap".into(),
        resource: "configmaps".into(),
        role: Role::Child,
        filtered: true,
        ..kind()
    }
}

pub fn address(kind: &str, namespace: &str, name: &str) -> ObjectAddress {
    let group = if kind == "ConfigMap" { "" } else { "example.io" };
    ObjectAddress {
        group: group.into(),
        kind: kind.into(),
        namespace: namespace.into(),
        name: name.into(),
    }
}

impl Cluster {
    /// Returns a cluster with empty lists that loopwatch has watched for a while.
    pub fn new() -> Self {
        Self::with(unlearned())
    }

    pub fn with(settings: Settings) -> Self {
        let mut cluster = Self::unlisted(settings);
        cluster.list();
        cluster.advance(Span::mins(10));
        cluster
    }

    pub fn unlisted(settings: Settings) -> Self {
        let mut lab = Lab::unsynced(settings);
        lab.discover(&[kind(), config_maps()]);

        let (objects, unknown_kinds) = Default::default();
        Self { lab, objects, unknown_kinds, reads_fail: None, uids: 0, reads: 0 }
    }

    /// Lists all kinds.
    pub fn list(&mut self) {
        self.list_kinds(&[kind(), config_maps()]);
    }

    /// Lists these kinds.
    pub fn list_kinds(&mut self, kinds: &[WatchedKind]) {
        for watched in kinds {
            let views = self
                .objects
                .iter()
                .filter(|(at, _)| at.kind == watched.kind)
                .map(|(_, v)| v.clone())
                .collect();
            self.lab.list_in(&watched.watch, views);
        }

        self.answer();
    }

    /// Creates an object that the model does not see yet.
    pub fn create_unseen(&mut self, at: &ObjectAddress, owners: &[OwnerReference]) -> ObjectView {
        self.uids += 1;
        let view = ObjectView {
            key: ObjectKey { namespace: at.namespace.clone(), name: at.name.clone() },
            uid: format!("00000000-0000-4000-8000-{:012x}", self.uids),
            generation: 1,
            created: Some(Timestamp(self.lab.now.0 / 1000 * 1000)),
            owners: owners.to_vec(),
            managers: vec![spec_writer("widget-operator", "", self.lab.now)],
            ..ObjectView::default()
        };

        self.objects.insert(at.clone(), view.clone());
        view
    }

    /// Creates an object, and the watch reports it.
    pub fn create(&mut self, at: &ObjectAddress, owners: &[OwnerReference]) -> ObjectView {
        let view = self.create_unseen(at, owners);
        self.see(at);
        view
    }

    /// The watch reports an object as it is.
    pub fn see(&mut self, at: &ObjectAddress) {
        self.lab.version += 1;
        let Some(view) = self.objects.get_mut(at) else { return };
        view.version = self.lab.version.to_string();

        let view = view.clone();
        self.lab.apply_to(&watch_of(at), view);
        self.answer();
    }

    /// Changes an object, and the watch reports it.
    pub fn change(&mut self, at: &ObjectAddress, change: impl FnOnce(&mut ObjectView)) {
        if let Some(view) = self.objects.get_mut(at) {
            change(view);
        }
        self.see(at);
    }

    /// Deletes an object without a report.
    pub fn delete_unseen(&mut self, at: &ObjectAddress) {
        self.objects.remove(at);
    }

    /// Deletes an object, and the watch reports it.
    pub fn delete(&mut self, at: &ObjectAddress) {
        self.delete_unseen(at);
        self.lab.version += 1;

        let key = ObjectKey { namespace: at.namespace.clone(), name: at.name.clone() };
        let version = self.lab.version.to_string();
        self.lab.observe(Observation::Deleted { watch: watch_of(at), key, version });
        self.answer();
    }

    /// Returns a reference to an object as its controller.
    pub fn owner(&self, at: &ObjectAddress) -> OwnerReference {
        let uid = self.objects.get(at).map(|view| view.uid.clone()).unwrap_or_default();
        owner(at, &uid)
    }

    /// Advances in steps of half a second, in which the API server answers reads.
    pub fn advance(&mut self, span: Span) {
        let end = self.lab.now.after(span);
        while self.lab.now < end {
            self.lab.advance(Span(500).min(end.since(self.lab.now)));
            self.answer();
        }
    }

    /// Restarts loopwatch. The new process lists everything.
    pub fn restart(&mut self) {
        self.lab = self.lab.restart();
        self.lab.discover(&[kind(), config_maps()]);
        self.list();
    }

    fn answer(&mut self) {
        for probe in self.lab.model.probes() {
            let Probe::Read(at) = &probe else { continue };
            self.reads += 1;

            let answer = match (self.objects.get(at), self.reads_fail) {
                (_, Some(cause)) => Answer::Failed(cause),
                _ if self.unknown_kinds.contains(&at.kind) => Answer::KindUnknown,
                (Some(view), None) => Answer::Found(Box::new(view.clone())),
                (None, None) => Answer::Absent,
            };

            self.lab.observe(Observation::Answered { probe, answer });
        }
    }
}

pub fn owner(at: &ObjectAddress, uid: &str) -> OwnerReference {
    let version = if at.group.is_empty() { "v1".to_owned() } else { format!("{}/v1", at.group) };
    OwnerReference {
        api_version: version,
        kind: at.kind.clone(),
        name: at.name.clone(),
        uid: uid.to_owned(),
        controller: true,
        blocks_deletion: true,
    }
}

fn watch_of(at: &ObjectAddress) -> WatchId {
    if at.kind == "ConfigMap" { config_maps().watch } else { kind().watch }
}
