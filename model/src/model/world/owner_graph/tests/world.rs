//! A cluster that changes at random, a loopwatch that does not see everything, and an API server
//! that answers some reads.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::Model;
use crate::model::world::store::Slot;
use crate::observation::*;
use crate::settings::Settings;
use crate::time::{Span, Timestamp};

const NAMESPACES: [&str; 2] = ["team-a", "team-b"];
const KINDS: [(&str, &str, &str); 4] = [
    ("example.io", "Widget", "widgets"),
    ("example.io", "Root", "roots"),
    ("", "ConfigMap", "configmaps"),
    ("apps", "StatefulSet", "statefulsets"),
];

/// Findings are checked with the thresholds that users have.
pub(super) fn settings() -> Settings {
    Settings { learn_after: 0, ..Settings::default() }
}

pub(super) struct World {
    pub(super) model: Model,
    /// The observations since the last restart.
    pub(super) history: Vec<(Timestamp, Observation)>,
    dice: u64,
    now: Timestamp,
    number: u64,
    objects: BTreeMap<ObjectAddress, ObjectView>,
    /// The owners as the model was told of them.
    told: BTreeMap<ObjectAddress, Vec<OwnerReference>>,
    /// Lookups that will be answered, and when.
    reads: Vec<(Timestamp, Probe)>,
    /// Primary objects that lost an owner: they are orphans until somebody deletes them.
    disowned: BTreeSet<ObjectAddress>,
    with_steps: bool,
    is_healthy: bool,
}

fn watched(kind: usize) -> WatchedKind {
    let (group, name, resource) = KINDS[kind];
    let role = if kind < 2 { Role::Primary } else { Role::Child };
    let scope = if kind == 1 { Scope::Cluster } else { Scope::AllNamespaces };
    WatchedKind {
        watch: WatchId::new(group, resource, &scope),
        group: group.into(),
        version: "v1".into(),
        kind: name.into(),
        resource: resource.into(),
        scope,
        role,
        status: StatusSchema::Subresource,
        why: Why::StatusPermission,
        missing: Vec::new(),
        suspected: false,
        filtered: role == Role::Child,
        metadata_only: kind == 2,
        versions: Vec::new(),
    }
}

fn kind_of(at: &ObjectAddress) -> usize {
    KINDS.iter().position(|(_, kind, _)| *kind == at.kind).unwrap_or_default()
}

impl World {
    pub(super) fn new(seed: u64, with_steps: bool) -> Self {
        let mut world = Self {
            model: Model::new(settings()),
            history: Vec::new(),
            dice: seed | 1,
            now: Timestamp(1_767_225_600_000),
            number: 0,
            objects: BTreeMap::new(),
            told: BTreeMap::new(),
            reads: Vec::new(),
            disowned: BTreeSet::new(),
            with_steps,
            is_healthy: false,
        };

        world.discover(None);
        world.list_all();
        world
    }

    /// xorshift64*
    fn roll(&mut self, sides: u64) -> u64 {
        self.dice ^= self.dice >> 12;
        self.dice ^= self.dice << 25;
        self.dice ^= self.dice >> 27;
        self.dice.wrapping_mul(0x2545_f491_4f6c_dd1d) % sides
    }

    fn number(&mut self) -> u64 {
        self.number += 1;
        self.number
    }

    fn tell(&mut self, observation: Observation) {
        self.history.push((self.now, observation.clone()));
        self.model.apply(self.now, observation);
        for probe in self.model.probes() {
            let after = if self.is_healthy { 100 } else { self.roll(90_000) };
            if !matches!(probe, Probe::Count(_)) && (self.is_healthy || self.roll(8) > 0) {
                self.reads.push((self.now.after(Span(after.cast_signed())), probe));
            }
        }
    }

    fn pass(&mut self, ms: u64) {
        self.now = self.now.after(Span(ms.cast_signed()));
        self.tell(Observation::Tick);
        while let Some(next) = self.reads.iter().position(|(due, _)| *due <= self.now) {
            let (_, probe) = self.reads.swap_remove(next);
            let answer = self.answer(&probe);
            self.tell(Observation::Answered { probe, answer });
        }
    }

    fn answer(&mut self, probe: &Probe) -> Answer {
        if !self.is_healthy && self.roll(6) == 0 {
            return Answer::Failed(
                [Cause::Forbidden, Cause::ServerError, Cause::Timeout][self.roll(3) as usize],
            );
        }

        match probe {
            Probe::Read(at)
                if at.kind != "Secret"
                    && !KINDS
                        .iter()
                        .any(|(group, kind, _)| *group == at.group && *kind == at.kind) =>
            {
                Answer::KindUnknown
            }
            Probe::Read(at) => self
                .objects
                .get(at)
                .map_or(Answer::Absent, |view| Answer::Found(Box::new(view.clone()))),
            Probe::Dependents { .. }
            | Probe::Count(_)
            | Probe::Fields { .. }
            | Probe::Profile { .. } => Answer::Failed(Cause::Forbidden),
        }
    }

    /// Discovers the kinds. The account may not watch the `forbidden` one.
    fn discover(&mut self, forbidden: Option<usize>) {
        let mut kinds: Vec<WatchedKind> = (0..4).map(watched).collect();
        if let Some(kind) = forbidden {
            kinds[kind].missing = vec!["list".into(), "watch".into()];
        }

        self.tell(Observation::KindsDiscovered(kinds));
    }

    fn list_all(&mut self) {
        (0..4).for_each(|kind| self.list(kind, true));
    }

    fn list(&mut self, kind: usize, complete: bool) {
        let (watch, epoch) = (watched(kind).watch, self.number());
        self.tell(Observation::ListBegan { watch: watch.clone(), epoch });

        let all: Vec<ObjectAddress> =
            self.objects.keys().filter(|at| kind_of(at) == kind).cloned().collect();
        self.told.retain(|at, _| kind_of(at) != kind || !complete || all.contains(at));
        for at in all {
            if let Some(object) = self.next_view(&at) {
                self.told.insert(at, object.owners.clone());
                self.tell(Observation::Listed { watch: watch.clone(), object });
            }
        }

        if complete {
            let version = self.number().to_string();
            self.tell(Observation::ListEnded { watch, epoch, version });
        }
    }

    fn next_view(&mut self, at: &ObjectAddress) -> Option<Box<ObjectView>> {
        let version = self.number().to_string();
        let view = self.objects.get_mut(at)?;
        view.version = version;
        Some(Box::new(view.clone()))
    }

    /// The watch reports an object as it is, unless the event is lost.
    fn see(&mut self, at: &ObjectAddress) {
        if !self.is_healthy && self.roll(8) == 0 {
            return;
        }

        let Some(object) = self.next_view(at) else { return };
        self.told.insert(at.clone(), object.owners.clone());
        self.tell(Observation::Applied { watch: watched(kind_of(at)).watch, object });
    }

    fn remove(&mut self, at: &ObjectAddress) {
        self.objects.remove(at);
        if self.is_healthy || self.roll(5) > 0 {
            self.told.remove(at);
            let key = ObjectKey { namespace: at.namespace.clone(), name: at.name.clone() };
            let version = self.number().to_string();
            self.tell(Observation::Deleted { watch: watched(kind_of(at)).watch, key, version });
        }
    }

    fn some_address(&mut self) -> ObjectAddress {
        let kind = self.roll(4) as usize;
        let (group, name, _) = KINDS[kind];
        let namespace = if kind == 1 { "" } else { NAMESPACES[self.roll(2) as usize] };
        let number = self.roll(4);

        ObjectAddress {
            group: group.into(),
            kind: name.into(),
            namespace: namespace.into(),
            name: format!("{}-{number}", name.to_lowercase()),
        }
    }

    fn reference_to(&self, at: &ObjectAddress) -> OwnerReference {
        let version =
            if at.group.is_empty() { "v1".to_owned() } else { format!("{}/v1", at.group) };
        let uid = self.objects.get(at).map(|view| view.uid.clone()).unwrap_or_default();
        let (kind, name) = (at.kind.clone(), at.name.clone());

        OwnerReference {
            api_version: version,
            kind,
            name,
            uid,
            controller: true,
            blocks_deletion: true,
        }
    }

    /// An owner reference, valid or not.
    fn some_owner(&mut self, child: &ObjectAddress) -> OwnerReference {
        let existing: Vec<ObjectAddress> = self.objects.keys().cloned().collect();
        let any =
            existing.get(self.roll(existing.len().max(1) as u64) as usize).unwrap_or(child).clone();
        let near = existing
            .iter()
            .find(|at| at.kind == "Widget" && at.namespace == child.namespace)
            .cloned();
        let mut owner = self.reference_to(&any);

        match self.roll(12) {
            0..=4 => owner = near.map_or(owner.clone(), |near| self.reference_to(&near)),
            5 => owner.uid = format!("00000000-0000-4000-9000-{:012x}", self.roll(50)),
            6 => {
                owner = OwnerReference {
                    api_version: "gone.example.io/v1".into(),
                    kind: "Gone".into(),
                    ..owner
                }
            }
            7 => owner.kind = "StatefulSet".into(),
            8 => owner = OwnerReference::default(),
            9 => owner.uid = "malformed".into(),
            10 => owner = self.reference_to(child),
            _ => {}
        }

        owner
    }

    fn create(&mut self, at: &ObjectAddress) {
        let uid = format!("00000000-0000-4000-8000-{:012x}", self.number());
        let owners = (0..self.roll(3)).map(|_| self.some_owner(at)).collect();
        let created = Some(Timestamp(self.now.0 / 1000 * 1000));
        let owns = Owned { spec: true, finalizers: true, ..Owned::default() };
        let manager =
            Manager { name: "widget-operator".into(), time: created, owns, ..Manager::default() };
        let key = ObjectKey { namespace: at.namespace.clone(), name: at.name.clone() };
        let labels = [("app.kubernetes.io/instance".to_owned(), "widget-1".to_owned())].into();

        let managers = vec![manager];
        let hashes = Hashes { spec: self.number(), ..Hashes::default() };
        let view = ObjectView {
            key,
            uid,
            generation: 1,
            created,
            owners,
            managers,
            labels,
            hashes,
            ..ObjectView::default()
        };

        self.objects.insert(at.clone(), view);
        self.see(at);
    }

    pub(super) fn step(&mut self) {
        let at = self.some_address();
        let watch = watched(kind_of(&at)).watch;
        match self.roll(30) {
            // Perhaps in place of another one, whose deletion nobody reports.
            0..=6 => self.create(&at),
            7 | 8 => self.remove(&at),
            9 | 10 => {
                let complete = self.roll(4) > 0;
                self.list(kind_of(&at), complete);
            }
            11..=13 => {
                let ms = self.roll(60_000);
                self.pass(ms);
            }
            14 => (0..20).for_each(|_| self.pass(90_000)),
            15 => {
                let (source, cause) = (SourceId::Watch(watch), Cause::Connection);
                self.tell(Observation::SourceFailed { source, cause, detail: String::new() });
            }
            16 => self.tell(Observation::SourceRecovered { source: SourceId::Watch(watch) }),
            17 => match self.roll(8) {
                0 | 1 => self.restart(),
                2 => self.discover(Some(kind_of(&at))),
                3 => self.discover(None),
                _ => {}
            },
            18 if self.with_steps => {
                let by_ms = self.roll(7_200_000).cast_signed() - 3_600_000;
                self.now = self.now.after(Span(by_ms));
                self.reads.iter_mut().for_each(|(due, _)| *due = due.after(Span(by_ms)));
                self.tell(Observation::ClockStepped { by_ms });
            }
            19 => {
                let deleted = (self.roll(2) == 0).then_some(self.now);
                let name = at.namespace.clone();
                match self.roll(3) {
                    0 => self.tell(Observation::NamespaceGone(name)),
                    _ => self.tell(Observation::NamespaceSeen(NamespaceView {
                        name,
                        deleted,
                        ..NamespaceView::default()
                    })),
                }
            }
            change => self.change(&at, change),
        }

        let ms = self.roll(3_000);
        self.pass(ms);
    }

    fn change(&mut self, at: &ObjectAddress, change: u64) {
        let owners: Vec<OwnerReference> = (0..self.roll(3)).map(|_| self.some_owner(at)).collect();
        let (now, number, roll) = (self.now, self.number(), self.roll(4) as usize);
        let Some(view) = self.objects.get_mut(at) else { return };
        let finalizers =
            ["example.io/cleanup", "foregroundDeletion", "orphan", "other.example.com/x"];

        match change {
            20..=22 => {
                if owners.is_empty() && !view.owners.is_empty() {
                    self.disowned.insert(at.clone());
                }
                view.owners = owners;
            }
            23 => view.finalizers = vec![finalizers[roll].into()],
            24 => {
                view.finalizers.clear();
                if view.deleted.is_some() {
                    return self.remove(at);
                }
            }
            25 | 26 => {
                view.deleted = view.deleted.or(Some(now));
                if view.finalizers.is_empty() && roll < 2 {
                    return self.remove(at);
                }

                view.finalizers.push(finalizers[roll].into());
            }
            27 => {
                let reference = Reference {
                    slot: "spec.secretRef".into(),
                    kind: "Secret".into(),
                    namespace: ["", "team-b"][roll % 2].into(),
                    name_hash: 7 + roll as u64,
                    name: format!("secret-{roll}"),
                    ..Reference::default()
                };

                view.references = vec![reference];
                view.generation += 1;
                view.hashes.spec = number;
            }
            28 => {
                let mark = |key: &str, value: &str| (key.to_owned(), value.to_owned());
                view.annotations = match roll {
                    0 => BTreeMap::new(),
                    1 => [
                        mark("soft-delete/enable", "true"),
                        mark("deleted_at", "2026-01-01T00:00:00Z"),
                    ]
                    .into(),
                    _ => [
                        mark("example.io/owner-kind", "Widget"),
                        mark("example.io/owner-ns", NAMESPACES[roll % 2]),
                        mark("example.io/owner-name", &format!("widget-{roll}")),
                    ]
                    .into(),
                };
            }
            _ => make_ready(view, number),
        }

        self.see(at);
    }

    fn restart(&mut self) {
        let checkpoint = self.model.checkpoint();
        self.model = Model::new(settings());
        self.history.clear();
        self.reads.clear();
        self.told.clear();
        self.tell(Observation::Restored(Box::new(checkpoint)));
        self.discover(None);
        self.list_all();
    }

    /// The slots of the objects that the model knows, with the owners that it was told of last.
    pub(super) fn told_owners(&self) -> Vec<(Slot, Vec<OwnerReference>)> {
        let find = |at: &ObjectAddress| {
            let number = self.model.world.find_watch(&watched(kind_of(at)).watch)?;
            self.model.world.store.find(number, &at.namespace, &at.name)
        };

        self.told.iter().filter_map(|(at, owners)| Some((find(at)?, owners.clone()))).collect()
    }

    /// Repairs or deletes every object, and lets all thresholds pass while the sources see
    /// everything.
    pub(super) fn heal(&mut self) {
        self.is_healthy = true;
        self.reads.clear();

        let all: Vec<ObjectAddress> = self.objects.keys().cloned().collect();
        for at in &all {
            let view = &self.objects[at];
            let was_owned = !view.owners.is_empty() || self.disowned.contains(at);
            if view.deleted.is_some() || (kind_of(at) < 2 && was_owned) {
                self.objects.remove(at);
            }
        }

        for at in &all {
            let widget = self
                .objects
                .keys()
                .find(|o| o.kind == "Widget" && o.namespace == at.namespace)
                .cloned();
            let (owner, number) = (widget.map(|widget| self.reference_to(&widget)), self.number());
            match (self.objects.get_mut(at), owner) {
                (Some(view), owner) if kind_of(at) < 2 || owner.is_some() => {
                    view.annotations.clear();
                    view.references.clear();
                    view.generation += 1;
                    view.hashes.spec = number;
                    view.owners =
                        if kind_of(at) < 2 { Vec::new() } else { owner.into_iter().collect() };
                    make_ready(view, number);
                }
                _ => drop(self.objects.remove(at)),
            }
        }

        self.discover(None);
        self.tell(Observation::NamespacesListed(Vec::new()));
        for kind in 0..4 {
            self.tell(Observation::SourceRecovered {
                source: SourceId::Watch(watched(kind).watch),
            });
        }

        self.list_all();
        (0..600).for_each(|_| self.pass(1_000));
        (0..120).for_each(|_| self.pass(60_000));
        (0..72).for_each(|_| self.pass(3_600_000));
    }
}

fn make_ready(view: &mut ObjectView, number: u64) {
    view.status = StatusShape::Filled;
    view.observed_generation = Some(view.generation);
    view.conditions = vec![Condition {
        r#type: "Ready".into(),
        status: ConditionStatus::True,
        ..Condition::default()
    }];
    (view.hashes.status, view.hashes.settled) = (number, number);
}
