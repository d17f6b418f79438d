//! Workloads whose Pods are older than the ConfigMaps and Secrets that they read only when they
//! start.

use loopwatch_model::finding::Confidence;
use loopwatch_model::observation::{
    Answer, Cause, Condition, ConditionStatus, Dependent, Fact, FactValue, Hashes, Manager,
    ObjectKey, ObjectView, Observation, Owned, OwnerReference, Probe, Role, StartupRead,
    StatusShape, WatchId, WatchedKind,
};
use loopwatch_model::settings::Settings;
use loopwatch_model::time::{Span, Timestamp};

use crate::lab::{Lab, Widget, kind, unlearned};

const FINDING: &str = "StaleConfiguration Deployment team-a/app";

/// A Deployment with one Pod, which reads a ConfigMap when it starts.
struct World {
    lab: Lab,
    deployment: ObjectView,
    map: ObjectView,
    pods: Vec<ObjectView>,
    /// Whether loopwatch watches ConfigMaps.
    watched: bool,
    /// The number of reads of the ConfigMap.
    map_reads: u32,
    /// All reads fail.
    refused: bool,
    /// The number of reads of dependents.
    reads: u32,
}

fn child(group: &str, kind_name: &str, resource: &str) -> WatchedKind {
    let watch = if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") };
    let (group, kind_name, resource) =
        (group.to_owned(), kind_name.to_owned(), resource.to_owned());
    let watch = WatchId(watch.into());

    WatchedKind {
        watch,
        group,
        kind: kind_name,
        resource,
        role: Role::Child,
        filtered: true,
        ..kind()
    }
}

fn deployments() -> WatchedKind {
    child("apps", "Deployment", "deployments")
}

fn config_maps() -> WatchedKind {
    child("", "ConfigMap", "configmaps")
}

fn kinds(watched: bool) -> Vec<WatchedKind> {
    let further = if watched { Some(config_maps()) } else { None };
    [kind(), deployments()].into_iter().chain(further).collect()
}

fn object(name: &str, created: Timestamp) -> ObjectView {
    let owner = OwnerReference {
        api_version: "example.io/v1".into(),
        kind: "Widget".into(),
        name: "web".into(),
        uid: Widget::new("web", created).view(1).uid,
        ..OwnerReference::default()
    };
    ObjectView {
        key: ObjectKey { namespace: "team-a".into(), name: name.into() },
        uid: format!("uid-{name}"),
        created: Some(created),
        owners: vec![owner],
        ..ObjectView::default()
    }
}

fn wrote(name: &str, time: Timestamp, owns: Owned) -> Manager {
    Manager { name: name.into(), time: Some(time), owns, ..Manager::default() }
}

fn data(time: Timestamp) -> Manager {
    wrote("widget-operator", time, Owned { spec: true, ..Owned::default() })
}

fn reads_all(name: &str) -> StartupRead {
    StartupRead { name: name.into(), whole: true, ..StartupRead::default() }
}

fn deployment(created: Timestamp) -> ObjectView {
    let count = |path: &str| Fact { path: path.into(), value: FactValue::Number(1) };
    let facts =
        ["spec.replicas", "status.replicas", "status.updatedReplicas", "status.readyReplicas"];
    let progressing = Condition {
        r#type: "Progressing".into(),
        status: ConditionStatus::True,
        reason: "NewReplicaSetAvailable".into(),
        ..Condition::default()
    };

    ObjectView {
        generation: 1,
        observed_generation: Some(1),
        status: StatusShape::Filled,
        facts: facts.map(count).into_iter().chain([count("status.availableReplicas")]).collect(),
        conditions: vec![progressing],
        hashes: Hashes { spec: 1, status: 1, settled: 1 },
        startup: vec![reads_all("settings")],
        ..object("app", created)
    }
}

/// A Pod whose status was last written a moment after its creation.
fn pod(name: &str, created: Timestamp) -> ObjectView {
    let status = Owned { status: true, ..Owned::default() };
    ObjectView {
        managers: vec![wrote("kubelet", created.after(Span::secs(3)), status)],
        ..object(name, created)
    }
}

impl World {
    fn new() -> Self {
        Self::with(unlearned())
    }

    fn with(settings: Settings) -> Self {
        Self::of(settings, true)
    }

    /// A world in which no watch shows the ConfigMap.
    fn unwatched() -> Self {
        Self::of(unlearned(), false)
    }

    fn of(settings: Settings, watched: bool) -> Self {
        let mut lab = Lab::with(settings);
        let widget = Widget::new("web", lab.now);
        let now = lab.now;
        lab.apply(&widget);
        lab.apply(widget.clone().ready());
        lab.discover(&kinds(watched));

        let map =
            ObjectView { managers: vec![data(now)], marks_hash: 7, ..object("settings", now) };
        let pods = vec![pod("app-1", now)];
        let mut world = Self {
            lab,
            deployment: deployment(now),
            map,
            pods,
            watched,
            map_reads: 0,
            refused: false,
            reads: 0,
        };

        world.list();
        world.advance(Span::hours(1));
        world.lab.assert_no_findings();
        world
    }

    fn list(&mut self) {
        let (deployment, map) = (self.deployment.clone(), self.map.clone());
        self.lab.list_in(&deployments().watch, vec![deployment]);
        if self.watched {
            self.lab.list_in(&config_maps().watch, vec![map]);
        }

        self.answer();
    }

    fn see_map(&mut self) {
        let view = self.map.clone();
        let view = self.versioned(view);
        if self.watched {
            self.lab.apply_to(&config_maps().watch, view);
        }

        self.answer();
    }

    fn see_deployment(&mut self) {
        let view = self.deployment.clone();
        let view = self.versioned(view);
        self.lab.apply_to(&deployments().watch, view);
        self.answer();
    }

    fn versioned(&mut self, view: ObjectView) -> ObjectView {
        self.lab.version += 1;
        ObjectView { version: self.lab.version.to_string(), ..view }
    }

    /// Somebody writes the data of the ConfigMap now.
    fn write(&mut self) {
        self.map.managers = vec![data(self.lab.now)];
        self.see_map();
    }

    /// A rollout replaces the Pods.
    fn roll(&mut self) {
        self.deployment.generation += 1;
        self.deployment.hashes.spec += 1;
        self.see_deployment();
        self.advance(Span::secs(5));
        self.pods = vec![pod("app-2", self.lab.now)];
        self.advance(Span::secs(5));
        self.deployment.observed_generation = Some(self.deployment.generation);
        self.deployment.hashes.settled += 1;
        self.see_deployment();
    }

    fn advance(&mut self, span: Span) {
        let end = self.lab.now.after(span);
        while self.lab.now < end {
            self.lab.advance(Span(500).min(end.since(self.lab.now)));
            self.answer();
        }
    }

    fn answer(&mut self) {
        for probe in self.lab.model.probes() {
            if let Probe::Read(address) = &probe {
                self.map_reads +=
                    u32::from(address.kind == "ConfigMap" && address.name == "settings");
                let answer = match (self.refused, address.name.as_str()) {
                    (true, _) => Answer::Failed(Cause::Forbidden),
                    (false, "settings") => Answer::Found(Box::new(self.map.clone())),
                    (false, _) => Answer::Absent,
                };

                self.lab.observe(Observation::Answered { probe, answer });
                continue;
            }

            let Probe::Dependents { owner, .. } = &probe else { continue };
            self.reads += 1;

            let dependent = |group: &str, kind: &str, object: ObjectView| Dependent {
                group: group.into(),
                kind: kind.into(),
                object,
            };
            let set = |name: &str, revision: &str| {
                let mut set = object(name, self.deployment.created.unwrap_or_default());
                set.annotations.insert("deployment.kubernetes.io/revision".into(), revision.into());
                dependent("apps", "ReplicaSet", set)
            };

            let found = match owner.kind.as_str() {
                "Deployment" => {
                    vec![set("app-old", "9"), set("app-new", "10"), set("app-odd", "x")]
                }
                "ReplicaSet" if owner.name == "app-new" => {
                    self.pods.iter().map(|pod| dependent("", "Pod", pod.clone())).collect()
                }
                _ => Vec::new(),
            };

            let answer = if self.refused {
                Answer::Failed(Cause::Forbidden)
            } else {
                Answer::Dependents { found, complete: true }
            };

            self.lab.observe(Observation::Answered { probe, answer });
        }
    }

    fn restart(&mut self) {
        self.lab = self.lab.restart();
        self.lab.discover(&kinds(self.watched));

        let web = self.lab.view(Widget::new("web", self.lab.now).ready());
        self.lab.list_views(vec![web]);
        self.list();
    }

    fn counted(&self) -> u64 {
        let kinds = self.lab.snapshot().kinds;
        kinds
            .iter()
            .find(|kind| kind.kind == "Deployment")
            .map_or(0, |kind| kind.stale_configuration)
    }
}

#[test]
fn pods_that_are_older_than_their_configuration_are_stale_until_they_are_replaced() {
    let mut world = World::new();
    let written = world.lab.now;
    world.write();
    world.advance(Span::secs(599));
    world.lab.assert_no_findings();

    assert_eq!(
        (world.reads, world.counted()),
        (0, 0),
        "the Pods are read only once they may be stale"
    );

    world.advance(Span::secs(6));
    assert_eq!((world.lab.findings(), world.counted()), (vec![FINDING.to_owned()], 1));
    assert_eq!(world.lab.since("StaleConfiguration"), written);
    assert_eq!(world.lab.finding("StaleConfiguration").confidence, Confidence::Confirmed);

    let evidence = world.lab.evidence();
    assert!(
        evidence.contains("configuration ConfigMap settings") && evidence.contains("pods 1"),
        "{evidence}"
    );

    world.advance(Span::hours(3));
    assert_eq!(world.lab.findings(), [FINDING], "the Pods are still the same");
    assert!(world.reads <= 2 * 20, "{} reads", world.reads);

    world.roll();
    world.advance(Span::secs(10));
    world.lab.assert_no_findings();

    assert_eq!(world.counted(), 0);

    let reads = world.reads;
    world.advance(Span::hours(3));

    assert_eq!(world.reads, reads, "nothing is left to check");
}

#[test]
fn a_workload_that_rolls_after_the_change_is_fine() {
    for wait in [Span::secs(2), Span::mins(9)] {
        let mut world = World::new();
        world.write();
        world.advance(wait);
        world.roll();
        world.advance(Span::hours(1));
        world.lab.assert_no_findings();

        assert!(world.reads <= 2, "{} reads", world.reads);
    }
}

#[test]
fn pods_that_may_have_started_after_the_change_prove_nothing() {
    let mut world = World::new();
    world.write();
    world.advance(Span::mins(1));

    // The kubelet has started the container again.
    world.pods[0].managers[0].time = Some(world.lab.now);
    world.advance(Span::hours(1));
    world.lab.assert_no_findings();

    let now = world.lab.now;
    for odd in [
        ObjectView { managers: Vec::new(), ..pod("app-1", now) },
        ObjectView { deleted: Some(now), ..pod("app-1", now) },
        ObjectView { created: None, managers: Vec::new(), ..pod("app-1", now) },
    ] {
        let mut world = World::new();
        world.pods = vec![odd];
        world.advance(Span::mins(1));
        world.write();
        world.advance(Span::hours(1));
        world.lab.assert_no_findings();
    }
}

#[test]
fn other_configuration_and_a_write_at_the_creation_do_not_count() {
    // The Pods mount it as a volume, which the kubelet updates.
    let mut world = World::new();
    world.deployment.startup = vec![reads_all("other")];
    world.see_deployment();
    world.write();
    world.advance(Span::hours(1));
    world.lab.assert_no_findings();

    // The ConfigMap was created again: nobody knows whether its data is another.
    let mut world = World::new();
    world.map.uid = "uid-again".into();
    world.map.created = Some(world.lab.now);
    world.write();
    world.advance(Span::hours(1));
    world.lab.assert_no_findings();

    assert_eq!(world.reads, 0);
}

#[test]
fn a_write_that_may_be_of_metadata_is_only_suspected_and_so_is_a_part_of_the_keys() {
    let confidence = |change: &dyn Fn(&mut World)| {
        let mut world = World::new();
        change(&mut world);
        world.advance(Span::mins(11));
        world.lab.finding("StaleConfiguration").confidence
    };

    let relabel = |world: &mut World| {
        world.map.marks_hash = 8;
        world.write();
    };

    assert_eq!(confidence(&relabel), Confidence::Suspected);

    let by_kubectl = |world: &mut World| {
        world.map.marks_hash = 8;
        let owns = Owned { spec: true, only_data: true, ..Owned::default() };
        world.map.managers.push(wrote("kubectl-edit", world.lab.now, owns));
        world.see_map();
    };

    assert_eq!(confidence(&by_kubectl), Confidence::Confirmed);

    let one_key = |world: &mut World| {
        world.deployment.startup[0].whole = false;
        world.see_deployment();
        world.write();
    };

    assert_eq!(confidence(&one_key), Confidence::Suspected);
}

#[test]
fn new_labels_neither_renew_nor_end_a_finding() {
    let mut world = World::new();
    let written = world.lab.now;
    world.write();

    for marks in 10..40 {
        world.advance(Span::mins(1));
        world.map.marks_hash = marks;
        world.write();

        assert_eq!(world.lab.findings().len(), usize::from(marks >= 20), "{marks}");
    }

    assert_eq!(world.lab.since("StaleConfiguration"), written);
    assert_eq!(world.lab.finding("StaleConfiguration").confidence, Confidence::Confirmed);
}

#[test]
fn a_rollout_in_progress_waits_and_pods_that_cannot_be_read_accuse_nobody() {
    let mut world = World::new();
    world.write();
    world.deployment.generation = 2;
    world.deployment.hashes.spec = 2;
    world.see_deployment();
    world.advance(Span::hours(1));

    assert!(!world.lab.has("StaleConfiguration"));
    assert_eq!(world.reads, 0);

    let mut world = World::new();
    world.refused = true;
    world.write();
    world.advance(Span::hours(2));
    world.lab.assert_no_findings();

    assert!(world.reads <= 12, "{} reads", world.reads);

    world.refused = false;
    world.advance(Span::mins(11));

    assert_eq!(world.lab.findings(), [FINDING]);

    world.refused = true;
    world.advance(Span::hours(1));

    assert_eq!(world.lab.findings(), [FINDING], "nothing shows that it is over");
}

#[test]
fn a_blind_watch_changes_nothing() {
    let mut world = World::new();
    world.write();
    world.advance(Span::mins(5));
    world.lab.fail_watch(&deployments().watch);
    world.advance(Span::hours(1));

    assert!(!world.lab.has("StaleConfiguration"));

    world.lab.recover_watch(&deployments().watch);
    world.list();
    world.advance(Span::mins(5));

    assert!(world.lab.has("StaleConfiguration"));

    world.lab.fail_watch(&config_maps().watch);
    world.advance(Span::hours(1));

    assert!(world.lab.has("StaleConfiguration"));
}

#[test]
fn a_restart_keeps_the_finding_and_its_start() {
    let mut world = World::new();
    let written = world.lab.now;
    world.write();
    world.advance(Span::mins(20));
    world.restart();
    world.advance(Span::secs(5));

    assert_eq!(
        (world.lab.findings(), world.lab.since("StaleConfiguration")),
        (vec![FINDING.to_owned()], written)
    );

    // Nobody has seen the version before, so the write may have been one of the labels.
    assert_eq!(world.lab.finding("StaleConfiguration").confidence, Confidence::Suspected);

    world.roll();
    world.advance(Span::secs(10));
    world.lab.assert_no_findings();
}

#[test]
fn a_workload_without_configuration_or_owner_of_it_costs_nothing() {
    let mut world = World::new();
    world.write();
    world.advance(Span::mins(11));
    world.lab.version += 1;

    let (key, version) = (world.map.key.clone(), world.lab.version.to_string());
    world.lab.observe(Observation::Deleted { watch: config_maps().watch, key, version });
    world.lab.assert_no_findings();

    assert_eq!(world.counted(), 0);

    let mut world = World::new();
    world.write();
    world.advance(Span::mins(11));
    world.lab.version += 1;

    let (key, version) = (world.deployment.key.clone(), world.lab.version.to_string());
    world.lab.observe(Observation::Deleted { watch: deployments().watch, key, version });
    world.advance(Span::hours(1));
    world.lab.assert_no_findings();

    assert_eq!(world.counted(), 0);
}

#[test]
fn a_step_of_the_clock_keeps_the_ages() {
    let mut world = World::new();
    world.write();
    world.advance(Span::mins(11));
    world.lab.step_clock(Span::hours(-1));
    world.advance(Span::hours(2));

    assert_eq!(world.lab.findings(), [FINDING]);
}

#[test]
fn configuration_that_no_watch_shows_is_read_now_and_then() {
    let mut world = World::unwatched();
    assert!((5..=7).contains(&world.map_reads), "{} reads in an hour", world.map_reads);

    let written = world.lab.now;
    world.write();
    world.advance(Span::mins(21));

    assert_eq!(
        (world.lab.findings(), world.lab.since("StaleConfiguration")),
        (vec![FINDING.to_owned()], written)
    );
    assert_eq!(world.lab.finding("StaleConfiguration").confidence, Confidence::Confirmed);

    world.restart();
    world.advance(Span::secs(30));
    world.lab.assert_no_findings();
    world.advance(Span::mins(2));

    assert_eq!(
        (world.lab.findings(), world.lab.since("StaleConfiguration")),
        (vec![FINDING.to_owned()], written)
    );

    world.roll();
    world.advance(Span::mins(1));
    world.lab.assert_no_findings();
}

#[test]
fn configuration_that_was_created_again_or_cannot_be_read_is_unknown() {
    let mut world = World::unwatched();
    world.map.uid = "uid-again".into();
    world.map.created = Some(world.lab.now);
    world.write();
    world.advance(Span::hours(1));
    world.lab.assert_no_findings();

    let mut world = World::unwatched();
    world.refused = true;
    world.write();
    world.advance(Span::hours(1));
    world.lab.assert_no_findings();

    // Nobody answers.
    let mut world = World::unwatched();
    world.write();

    let mut asked = 0;
    for _ in 0..3600 {
        world.lab.advance(Span::secs(1));
        asked +=
            world.lab.model.probes().iter().filter(|probe| matches!(probe, Probe::Read(_))).count();
    }

    world.lab.assert_no_findings();
    assert!(asked <= 15, "{asked} probes");
}

#[test]
fn the_number_of_workloads_is_limited() {
    let mut world = World::new();
    let now = world.lab.now;
    world.lab.begin_list(&deployments().watch);

    for n in 0..20_001 {
        let view = ObjectView { uid: format!("u-{n}"), ..deployment(now) };
        let key = ObjectKey { namespace: "team-a".into(), name: format!("app-{n}") };
        world.lab.listed(&deployments().watch, ObjectView { key, ..view });
    }

    world.lab.end_list(&deployments().watch);
    assert_eq!(world.lab.findings(), ["LimitReached limit configurations"]);
}

#[test]
fn configuration_that_changes_again_and_again_is_stale_since_the_first_change() {
    let mut world = World::new();
    let first = world.lab.now;
    for n in 0..10 {
        world.write();
        world.advance(Span::mins(4));

        assert_eq!(world.lab.findings().len(), usize::from(n >= 2), "{n}");
    }

    assert_eq!(world.lab.since("StaleConfiguration"), first);
    assert!(
        world.lab.evidence().contains("configuration ConfigMap settings,"),
        "{}",
        world.lab.evidence()
    );

    world.roll();
    world.advance(Span::mins(20));
    world.lab.assert_no_findings();
}
