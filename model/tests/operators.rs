//! Stories of real operators and of what happens to clusters: upgrades, backups, GitOps, outages.
//! Each tells what a person on call would expect of the findings about deletion, ownership and
//! references.

mod lab;

use std::collections::{BTreeMap, BTreeSet};

use lab::Lab;
use lab::steps::unlearned;
use loopwatch_model::observation::{
    Answer, Cause, Condition, ConditionStatus, DefinitionView, Dependent, Hashes, LeaseView,
    Manager, NamespaceView, ObjectAddress, ObjectKey, ObjectView, Observation, Owned,
    OwnerReference, Probe, Reference, Role, Scope, SourceId, StatusShape, WatchId, WatchedKind,
};
use loopwatch_model::settings::Settings;
use loopwatch_model::time::{Span, Timestamp};

const GROUP: &str = "example.io";
const FINALIZER: &str = "example.io/cleanup";

/// A cluster with any kinds, an API server that answers reads, and loopwatch.
struct World {
    lab: Lab,
    watched: Vec<WatchedKind>,
    objects: BTreeMap<ObjectAddress, ObjectView>,
    cluster_scoped: BTreeSet<String>,
    unserved: BTreeSet<String>,
    refuses: BTreeSet<String>,
    reads_fail: Option<Cause>,
    silent: bool,
    uids: u64,
    reads: u64,
}

fn watched(role: Role, group: &str, kind: &str, scope: Scope) -> WatchedKind {
    let resource = format!("{}s", kind.to_lowercase());
    WatchedKind {
        watch: WatchId::new(group, &resource, &scope),
        group: group.into(),
        kind: kind.into(),
        resource,
        scope,
        role,
        filtered: role == Role::Child,
        ..lab::kind()
    }
}

fn primary(group: &str, kind: &str) -> WatchedKind {
    watched(Role::Primary, group, kind, Scope::AllNamespaces)
}

fn child(group: &str, kind: &str) -> WatchedKind {
    watched(Role::Child, group, kind, Scope::AllNamespaces)
}

fn at(group: &str, kind: &str, namespace: &str, name: &str) -> ObjectAddress {
    ObjectAddress {
        group: group.into(),
        kind: kind.into(),
        namespace: namespace.into(),
        name: name.into(),
    }
}

fn web() -> ObjectAddress {
    at(GROUP, "Widget", "team-a", "web")
}

fn map(name: &str) -> ObjectAddress {
    at("", "ConfigMap", "team-a", name)
}

fn spec_by(name: &str, time: Timestamp) -> Manager {
    Manager {
        name: name.into(),
        time: Some(time),
        owns: Owned { spec: true, ..Owned::default() },
        ..Manager::default()
    }
}

fn status_by(name: &str, time: Timestamp) -> Manager {
    Manager {
        name: name.into(),
        subresource: "status".into(),
        time: Some(time),
        owns: Owned { status: true, ..Owned::default() },
        ..Manager::default()
    }
}

fn finalizers_by(name: &str, time: Timestamp, finalizers: &[&str]) -> Manager {
    Manager {
        name: name.into(),
        time: Some(time),
        owns: Owned { finalizers: true, ..Owned::default() },
        finalizers: finalizers.iter().map(|f| (*f).to_owned()).collect(),
        ..Manager::default()
    }
}

fn ready(view: &mut ObjectView, manager: &str, now: Timestamp) {
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

fn reference(group: &str, kind: &str, path: &str, name: &str) -> Reference {
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
    fn new(kinds: &[WatchedKind]) -> Self {
        Self::with(unlearned(), kinds)
    }

    fn with(settings: Settings, kinds: &[WatchedKind]) -> Self {
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

    fn widgets() -> Self {
        Self::new(&[primary(GROUP, "Widget"), child("", "ConfigMap")])
    }

    fn watch_of(&self, address: &ObjectAddress) -> Option<WatchId> {
        let covers = |k: &&WatchedKind| {
            k.group == address.group
                && k.kind == address.kind
                && k.missing.is_empty()
                && k.scope.namespace().is_none_or(|only| only == address.namespace)
        };
        self.watched.iter().find(covers).map(|kind| kind.watch.clone())
    }

    fn list(&mut self) {
        for kind in self.watched.clone().iter().filter(|kind| kind.missing.is_empty()) {
            let of = |(address, _): &(&ObjectAddress, &ObjectView)| {
                self.watch_of(address) == Some(kind.watch.clone())
            };
            let views = self.objects.iter().filter(of).map(|(_, view)| view.clone()).collect();

            self.lab.list_in(&kind.watch, views);
        }

        self.answer();
    }

    fn restart(&mut self) {
        self.lab = self.lab.restart();
        self.lab.discover(&self.watched.clone());
        self.list();
    }

    /// Changes or creates an object without an event.
    fn quiet(&mut self, address: &ObjectAddress, change: impl FnOnce(&mut ObjectView, Timestamp)) {
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
    fn put(&mut self, address: &ObjectAddress, change: impl FnOnce(&mut ObjectView, Timestamp)) {
        self.quiet(address, change);
        self.see(address);
    }

    fn see(&mut self, address: &ObjectAddress) {
        if let Some((watch, view)) = self.watch_of(address).zip(self.objects.get(address).cloned())
        {
            self.lab.apply_to(&watch, view);
        }
        self.answer();
    }

    fn rm(&mut self, address: &ObjectAddress) {
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

    fn delete(&mut self, address: &ObjectAddress) {
        let waits = self.objects.get(address).is_some_and(|view| !view.finalizers.is_empty());
        if waits {
            self.put(address, |view, now| view.deleted = Some(now))
        } else {
            self.rm(address)
        }
    }

    fn owner(&self, address: &ObjectAddress) -> OwnerReference {
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

    fn owned(&mut self, address: &ObjectAddress, by: &ObjectAddress) {
        let owner = self.owner(by);
        self.put(address, |view, now| {
            view.owners = vec![owner];
            view.managers = vec![spec_by("widget-operator", now)];
        });
    }

    /// A healthy object with the finalizer of its operator.
    fn healthy(&mut self, address: &ObjectAddress, manager: &str, finalizers: &[&str]) {
        self.put(address, |view, now| {
            view.finalizers = finalizers.iter().map(|f| (*f).to_owned()).collect();
            if !finalizers.is_empty() {
                view.managers.push(finalizers_by(manager, now, finalizers));
            }
        });
        self.run(Span::secs(1));
        self.put(address, |view, now| ready(view, manager, now));
    }

    fn run(&mut self, span: Span) {
        let end = self.lab.now.after(span);
        let step = if span > Span::mins(2) { Span::secs(5) } else { Span(500) };
        while self.lab.now < end {
            self.lab.advance(step.min(end.since(self.lab.now)));
            self.answer();
        }
    }

    fn answer(&mut self) {
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

    fn read(&self, address: &ObjectAddress) -> Answer {
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

    fn dependents(&self, _owner: &ObjectAddress, uid: &str) -> Answer {
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
    fn lead(&mut self, name: &str, holder: &str, minutes: i64) {
        for _ in 0..minutes {
            self.run(Span::mins(1));
            self.renew(name, holder);
        }
    }

    fn renew(&mut self, name: &str, holder: &str) {
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

    fn delete_namespace(&mut self, name: &str, conditions: &[&str]) {
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

    fn assert_quiet(&self) {
        self.lab.assert_no_findings();
    }
}

// Finalizers: who removes them.

/// Handles two deletions as a kubebuilder operator does: status, then the finalizer.
fn clean_up_twice(world: &mut World, manager: &str) {
    for name in ["old-1", "old-2", "old-3"] {
        let old = at(GROUP, "Widget", "team-a", name);
        world.healthy(&old, manager, &[FINALIZER, "keep.example.io/other"]);
        world.run(Span::mins(1));
        world.put(&old, |view, now| view.deleted = Some(now));
        world.run(Span::secs(20));
        world.put(&old, |view, now| {
            view.finalizers.remove(0);
            view.managers.retain(|m| m.subresource != "status");
            view.managers.push(status_by(manager, now));
            view.hashes.settled += 1;
        });

        world.run(Span::secs(1));
        world.rm(&old);
    }
}

#[test]
fn a_kubebuilder_operator_named_manager_is_uninstalled_after_it_has_cleaned_up_before() {
    for manager in ["manager", "widget-operator"] {
        let mut world = World::widgets();
        world.lead("6ab5f5a3.example.io", "widget-operator-7d9f8c6b5-x2x4v_1", 2);
        clean_up_twice(&mut world, manager);
        world.healthy(&web(), manager, &[FINALIZER]);
        world.lead("6ab5f5a3.example.io", "widget-operator-7d9f8c6b5-x2x4v_1", 2);
        world.delete(&web());
        world.lab.observe(Observation::LeaseGone {
            namespace: "ops".into(),
            name: "6ab5f5a3.example.io".into(),
        });

        world.run(Span::mins(8));
        assert_eq!(world.lab.findings(), ["FinalizerOwnerAbsent Widget team-a/web"], "{manager}");
    }
}

#[test]
fn a_backup_operator_that_cleans_up_at_the_same_time_as_the_owner_writes_its_status_keeps_its_finalizer()
 {
    let mut world = World::widgets();
    let backup = "backup.other.com/snapshot";
    for name in ["old-1", "old-2", "old-3"] {
        let old = at(GROUP, "Widget", "team-a", name);
        world.healthy(&old, "widget-operator", &[FINALIZER]);
        world.put(&old, |view, now| {
            view.finalizers.push(backup.into());
            view.managers.push(finalizers_by("backup-agent", now, &[backup]));
        });
        world.run(Span::mins(1));
        world.put(&old, |view, now| view.deleted = Some(now));

        // The operator says "Deleting"; within the same second the backup agent lets go.
        world.put(&old, |view, now| {
            view.managers.retain(|m| m.subresource != "status");
            view.managers.push(status_by("widget-operator", now));
            view.hashes.settled += 1;
        });
        world.run(Span(500));
        world.put(&old, |view, _| {
            view.finalizers.retain(|f| f != backup);
            view.managers.retain(|m| m.name != "backup-agent");
        });

        world.run(Span::secs(5));
        world.rm(&old);
    }

    world.healthy(&web(), "widget-operator", &[]);
    world.put(&web(), |view, now| {
        view.finalizers = vec![backup.into()];
        view.managers.push(finalizers_by("backup-agent", now, &[backup]));
    });
    world.delete(&web());
    world.run(Span::mins(16));

    let actor = world.lab.finding("FinalizerStuck").evidence.0["actor"].to_string();
    assert!(!actor.contains("widget-operator"), "{actor}");
}

#[test]
fn an_operator_upgrade_that_renames_manager_and_finalizer_loses_nothing() {
    let mut world = World::widgets();
    for n in 0..5 {
        world.healthy(
            &at(GROUP, "Widget", "team-a", &format!("w{n}")),
            "manager",
            &["widget.example.io/finalizer"],
        );
    }

    world.run(Span::mins(5));
    for n in 0..5 {
        // The new version migrates the finalizer before it writes any status.
        world.put(&at(GROUP, "Widget", "team-a", &format!("w{n}")), |view, now| {
            view.finalizers = vec!["example.io/widget-protection".into()];
            view.managers.retain(|m| m.finalizers.is_empty());
            view.managers.push(finalizers_by(
                "widget-operator",
                now,
                &["example.io/widget-protection"],
            ));
        });
        world.run(Span::secs(1));
    }

    world.run(Span::mins(5));
    world.assert_quiet();
}

#[test]
fn two_operators_that_are_both_called_manager_overwrite_each_others_finalizers() {
    let mut world = World::widgets();
    world.healthy(&web(), "manager", &[FINALIZER]);
    world.run(Span::mins(5));

    // The second one updates an old copy, and the first one repairs that.
    world.put(&web(), |view, now| {
        view.finalizers = vec!["backup.other.com/snapshot".into()];
        view.managers.retain(|m| m.finalizers.is_empty());
        view.managers.push(finalizers_by("manager", now, &["backup.other.com/snapshot"]));
    });
    world.run(Span::secs(2));
    world.put(&web(), |view, now| {
        view.finalizers.push(FINALIZER.into());
        view.managers.retain(|m| m.finalizers.is_empty());
        view.managers.push(finalizers_by(
            "manager",
            now,
            &["backup.other.com/snapshot", FINALIZER],
        ));
    });

    world.run(Span::secs(2));
    assert_eq!(world.lab.findings(), ["FinalizerLost Widget team-a/web"]);
}

#[test]
fn an_operator_that_swaps_its_own_finalizers_by_feature_loses_nothing() {
    let mut world = World::widgets();
    world.healthy(&web(), "manager", &[FINALIZER]);
    world.run(Span::mins(5));

    for finalizer in ["example.io/backup", FINALIZER] {
        world.put(&web(), |view, now| {
            view.finalizers = vec![finalizer.into()];
            view.managers.retain(|m| m.finalizers.is_empty());
            view.managers.push(finalizers_by("manager", now, &[finalizer]));
        });
        world.run(Span::mins(10));
    }

    world.assert_quiet();
}

#[test]
fn the_service_controller_lets_go_of_a_load_balancer_when_the_type_changes() {
    let mut world = World::new(&[primary(GROUP, "Widget"), child("", "Service")]);
    world.healthy(&web(), "widget-operator", &[]);

    let service = at("", "Service", "team-a", "web");
    world.owned(&service, &web());

    let finalizer = "service.kubernetes.io/load-balancer-cleanup";
    world.put(&service, |view, now| {
        view.finalizers = vec![finalizer.into()];
        view.managers.push(finalizers_by("cloud-controller-manager", now, &[finalizer]));
    });
    world.run(Span::mins(5));
    world.put(&service, |view, now| {
        view.hashes.spec = 2;
        view.managers[0].time = Some(now);
    });

    world.put(&service, |view, _| {
        view.finalizers.clear();
        view.managers.truncate(1);
    });
    world.run(Span::mins(30));
    world.assert_quiet();
}

#[test]
fn a_job_controller_lets_go_of_finished_pods_without_deletion() {
    let mut world = World::new(&[primary(GROUP, "Widget"), child("", "Pod")]);
    world.healthy(&web(), "widget-operator", &[]);

    let pod = at("", "Pod", "team-a", "web-1");
    world.owned(&pod, &web());

    let finalizer = "batch.kubernetes.io/job-tracking";
    world.put(&pod, |view, _| view.finalizers = vec![finalizer.into()]);
    world.put(&pod, |view, now| {
        view.finalizers.clear();
        view.managers.push(status_by("kube-controller-manager", now));
    });
    world.run(Span::mins(30));
    world.assert_quiet();
}

#[test]
fn argo_cd_prunes_an_application_whose_finalizer_a_person_removes_in_the_ui() {
    let app = at("argoproj.io", "Application", "argocd", "shop");
    let mut world = World::new(&[primary("argoproj.io", "Application")]);
    let finalizer = "resources-finalizer.argocd.argoproj.io";
    world.put(&app, |view, _| {
        view.finalizers = vec![finalizer.into()];
        view.managers[0].finalizers = vec![finalizer.into()];
        view.managers[0].name = "kubectl-client-side-apply".into();
    });

    world.put(&app, |view, now| ready(view, "argocd-application-controller", now));
    world.run(Span::mins(5));
    world.put(&app, |view, now| {
        view.finalizers.clear();
        view.generation += 1;
        view.hashes.spec = 2;
        view.managers[0].finalizers.clear();
        view.managers.push(spec_by("argocd-server", now));
    });

    world.run(Span::mins(1));
    assert!(!world.lab.has("FinalizerLost"), "{:?}", world.lab.findings());
}

#[test]
fn argo_cd_names_itself_as_the_actor_of_its_finalizer_on_a_pruned_application() {
    let app = at("argoproj.io", "Application", "argocd", "shop");
    let mut world = World::new(&[primary("argoproj.io", "Application")]);
    world.put(&app, |view, _| {
        view.finalizers = vec!["resources-finalizer.argocd.argoproj.io".into()];
        view.managers[0].name = "helm".into();
    });
    world.put(&app, |view, now| ready(view, "argocd-application-controller", now));
    world.delete(&app);

    world.run(Span::mins(16));
    let actor = world.lab.finding("FinalizerStuck").evidence.0["actor"].to_string();

    assert!(actor.contains("argocd-application-controller"), "{actor}");
}

#[test]
fn the_recreate_rollout_of_an_operator_is_no_absence() {
    let mut world = World::widgets();
    world.healthy(&web(), "widget-operator", &[FINALIZER]);
    world.lead("widget-operator-lock", "widget-operator-7d9f8c6b5-x2x4v_1", 3);
    world.delete(&web());
    world.run(Span::mins(4));
    world.renew("widget-operator-lock", "widget-operator-5c6d7e8f9-abcde_2");
    world.run(Span::secs(30));
    world.rm(&web());

    world.run(Span::mins(10));
    world.assert_quiet();
}

#[test]
fn a_leader_election_that_moves_to_another_lease_in_an_upgrade_is_no_absence() {
    let mut world = World::widgets();
    world.healthy(&web(), "manager", &[FINALIZER]);
    world.lead("6ab5f5a3.example.io", "widget-operator-7d9f8c6b5-x2x4v_1", 3);
    world.delete(&web());

    for _ in 0..12 {
        world.run(Span::mins(1));
        world.renew("widget-operator-leader", "widget-operator-5c6d7e8f9-abcde_2");
    }

    assert!(!world.lab.has("FinalizerOwnerAbsent"), "{:?}", world.lab.findings());
}

#[test]
fn cert_manager_is_gone_while_challenges_are_deleted() {
    let group = "acme.cert-manager.io";
    let challenge = at(group, "Challenge", "team-a", "web-1");
    let finalizer = "acme.cert-manager.io/finalizer";
    let mut world =
        World::new(&[primary(group, "Challenge"), primary("cert-manager.io", "Certificate")]);

    world.healthy(&challenge, "cert-manager-challenges", &[finalizer]);
    world.lead(
        "cert-manager-controller",
        "cert-manager-6d9f8c6b5-x2x4v-external-cert-manager-controller",
        3,
    );
    world.delete(&challenge);
    world.run(Span::mins(8));

    assert_eq!(world.lab.findings(), ["FinalizerOwnerAbsent Challenge team-a/web-1"]);
}

#[test]
fn cert_manager_cleans_up_a_challenge_within_seconds() {
    let group = "acme.cert-manager.io";
    let mut world = World::new(&[primary(group, "Challenge"), primary(group, "Order")]);
    let order = at(group, "Order", "team-a", "web");
    world.healthy(&order, "cert-manager-orders", &[]);

    for n in 0..30 {
        let challenge = at(group, "Challenge", "team-a", &format!("web-{n}"));
        world.owned(&challenge, &order);
        world.put(&challenge, |view, now| {
            view.finalizers = vec!["acme.cert-manager.io/finalizer".into()];
            view.managers.push(finalizers_by(
                "cert-manager-challenges",
                now,
                &["acme.cert-manager.io/finalizer"],
            ));
        });

        world.run(Span::secs(10));
        world.delete(&challenge);
        world.run(Span::secs(2));
        world.rm(&challenge);
    }

    world.run(Span::mins(30));
    world.assert_quiet();
}

/// A machine of Cluster API that owns the machine of its infrastructure.
fn capi_machine() -> (World, ObjectAddress, ObjectAddress) {
    let (group, of_cloud) = ("cluster.x-k8s.io", "infrastructure.cluster.x-k8s.io");
    let machine = at(group, "Machine", "clusters", "md-0-abc");
    let mut world = World::new(&[primary(group, "Machine"), primary(of_cloud, "AWSMachine")]);
    let infra = at(of_cloud, "AWSMachine", "clusters", "md-0-abc");

    world.healthy(&machine, "manager", &["machine.cluster.x-k8s.io"]);
    world.healthy(&infra, "manager", &["awsmachine.infrastructure.cluster.x-k8s.io"]);

    let owner = world.owner(&machine);
    world.put(&infra, |view, _| view.owners = vec![owner]);
    (world, machine, infra)
}

#[test]
fn a_capi_machine_waits_for_its_drain_and_then_goes() {
    let (mut world, machine, infra) = capi_machine();
    world.delete(&machine);

    // A drain with a strict disruption budget: its condition counts down.
    for n in 0..4 {
        world.run(Span::secs(60));
        world.put(&machine, |view, now| {
            ready(view, "manager", now);
            view.conditions[0].status = ConditionStatus::False;
            view.conditions[0].reason = format!("Draining{n}");
            view.hashes.settled += n + 1;
        });
    }

    world.delete(&infra);
    world.run(Span::secs(20));
    world.rm(&infra);
    world.rm(&machine);
    world.assert_quiet();
}

#[test]
fn a_capi_machine_whose_cloud_instance_does_not_go_names_the_infrastructure() {
    let (mut world, machine, infra) = capi_machine();
    world.delete(&machine);
    world.delete(&infra);
    world.run(Span::mins(20));

    assert_eq!(world.lab.roots(), ["FinalizerStuck AWSMachine clusters/md-0-abc"]);
}

#[test]
fn a_namespace_full_of_finalizers_goes_within_minutes() {
    let mut world = World::widgets();
    let all: Vec<ObjectAddress> =
        (0..40).map(|n| at(GROUP, "Widget", "team-a", &format!("w{n}"))).collect();
    for one in &all {
        world.healthy(one, "widget-operator", &[FINALIZER]);
    }

    world
        .delete_namespace("team-a", &["NamespaceContentRemaining", "NamespaceFinalizersRemaining"]);
    for one in &all {
        world.delete(one);
    }

    for one in &all {
        world.run(Span::secs(5));
        world.rm(one);
    }

    world.lab.observe(Observation::NamespaceGone("team-a".into()));
    world.run(Span::mins(30));
    world.assert_quiet();
}

// Namespaces and definitions.

#[test]
fn a_namespace_that_waits_for_a_pod_with_a_long_grace_period_is_not_blocked_by_live_objects() {
    let mut world = World::widgets();
    world.healthy(&web(), "widget-operator", &[FINALIZER]);

    // Kubernetes 1.33 deletes Pods first, so nobody has asked the widget to go yet.
    world.delete_namespace("team-a", &["NamespaceContentRemaining"]);
    world.run(Span::mins(40));
    world.assert_quiet();
}

#[test]
fn a_namespace_that_is_created_and_deleted_again_while_loopwatch_is_blind_begins_anew() {
    let mut world = World::widgets();
    world.delete_namespace("team-a", &["NamespaceFinalizersRemaining"]);
    world.run(Span::mins(30));
    world.lab.observe(Observation::SourceFailed {
        source: SourceId::Namespaces,
        cause: Cause::Connection,
        detail: String::new(),
    });

    world.run(Span::mins(1));
    world.lab.observe(Observation::SourceRecovered { source: SourceId::Namespaces });
    world.healthy(&web(), "widget-operator", &[FINALIZER]);
    world.delete_namespace("team-a", &["NamespaceFinalizersRemaining"]);
    world.delete(&web());
    world.run(Span::secs(5));

    assert!(!world.lab.has("NamespaceStuck"), "{:?}", world.lab.findings());
}

/// A widget that refers to a Secret.
fn with_secret() -> (World, ObjectAddress) {
    let mut world = World::widgets();
    let secret = at("", "Secret", "team-a", "db");
    world.quiet(&secret, |_, _| {});
    world.healthy(&web(), "widget-operator", &[FINALIZER]);
    world.put(&web(), |view, _| {
        view.hashes.spec = 3;
        view.references = vec![reference("", "Secret", "spec.db.secretRef", "db")];
    });

    (world, secret)
}

#[test]
fn a_secret_that_goes_with_its_namespace_dangles_from_nobody() {
    let (mut world, secret) = with_secret();
    world.put(&web(), |view, now| ready(view, "widget-operator", now));
    world.run(Span::mins(10));
    world.delete_namespace("team-a", &["NamespaceContentRemaining"]);
    world.objects.remove(&secret);
    world.run(Span::mins(25));

    assert!(!world.lab.has("DanglingReference"), "{:?}", world.lab.findings());
}

#[test]
fn children_that_lose_their_owner_while_their_namespace_is_deleted_are_no_orphans() {
    let mut world = World::widgets();
    world.healthy(&web(), "widget-operator", &[]);
    world.owned(&map("web-settings"), &web());
    world.run(Span::mins(5));
    world.delete_namespace("team-a", &["NamespaceContentRemaining"]);
    world.put(&map("web-settings"), |view, _| view.owners.clear());
    world.run(Span::mins(20));

    assert!(!world.lab.has("Orphan"), "{:?}", world.lab.findings());
}

#[test]
fn an_annotated_owner_that_goes_with_the_namespace_of_both_is_not_missed() {
    let mut world = World::widgets();
    world.healthy(&web(), "widget-operator", &[]);
    world.put(&map("web-settings"), |view, _| {
        view.annotations.insert("example.io/owner-kind".into(), "Widget".into());
        view.annotations.insert("example.io/owner-name".into(), "web".into());
    });
    world.run(Span::mins(5));
    world.delete_namespace("team-a", &["NamespaceContentRemaining"]);

    world.rm(&web());
    world.run(Span::mins(20));

    assert!(!world.lab.has("LogicalOwnerMissing"), "{:?}", world.lab.findings());
}

#[test]
fn a_definition_that_goes_with_its_objects_is_quiet() {
    let mut world = World::widgets();
    world.healthy(&web(), "widget-operator", &[FINALIZER]);

    let definition = DefinitionView {
        name: "widgets.example.io".into(),
        deleted: Some(world.lab.now),
        ..DefinitionView::default()
    };

    world.lab.observe(Observation::DefinitionSeen(definition));
    world.delete(&web());
    world.run(Span::secs(30));
    world.rm(&web());
    world.lab.observe(Observation::DefinitionGone("widgets.example.io".into()));
    world.run(Span::mins(30));
    world.assert_quiet();
}

#[test]
fn a_definition_that_is_deleted_again_after_a_reinstallation_begins_anew() {
    let mut world = World::widgets();
    let delete = |world: &mut World| {
        let deleted = Some(world.lab.now);
        let view = DefinitionView {
            name: "widgets.example.io".into(),
            deleted,
            ..DefinitionView::default()
        };

        world.lab.observe(Observation::DefinitionSeen(view));
    };

    delete(&mut world);
    world.run(Span::mins(30));
    world.healthy(&web(), "widget-operator", &[FINALIZER]);
    delete(&mut world); // the events in between were lost
    world.delete(&web());
    world.run(Span::secs(5));

    assert!(!world.lab.has("DefinitionStuck"), "{:?}", world.lab.findings());
}

// Owners.

#[test]
fn a_statefulset_that_is_recreated_with_orphan_policy_adopts_its_pods() {
    let mut world =
        World::new(&[primary(GROUP, "Widget"), child("apps", "StatefulSet"), child("", "Pod")]);
    world.healthy(&web(), "widget-operator", &[]);

    let (set, pod) = (at("apps", "StatefulSet", "team-a", "web"), at("", "Pod", "team-a", "web-0"));
    world.owned(&set, &web());
    world.owned(&pod, &set);
    world.run(Span::mins(5));
    world.put(&set, |view, now| {
        (view.deleted, view.finalizers) = (Some(now), vec!["orphan".into()])
    });
    world.put(&pod, |view, _| view.owners.clear());

    world.rm(&set);
    world.run(Span::secs(3));
    world.owned(&set, &web());
    world.run(Span::secs(2));

    let owner = world.owner(&set);
    world.put(&pod, |view, _| view.owners = vec![owner]);
    world.run(Span::mins(30));
    world.assert_quiet();
}

#[test]
fn kubectl_replace_force_creates_an_owner_again_before_its_children_are_collected() {
    let mut world = World::widgets();
    world.healthy(&web(), "widget-operator", &[]);
    for n in 0..20 {
        world.owned(&map(&format!("m{n}")), &web());
    }

    world.run(Span::mins(5));
    world.rm(&web());
    world.healthy(&web(), "widget-operator", &[]);
    world.run(Span::secs(20));

    for n in 0..20 {
        world.rm(&map(&format!("m{n}")));
        world.owned(&map(&format!("m{n}")), &web());
    }

    world.run(Span::mins(30));
    world.assert_quiet();
}

#[test]
fn a_crossplane_composite_is_cluster_scoped_and_owns_namespaced_objects() {
    let group = "apiextensions.example.org";
    let mut world = World::new(&[
        watched(Role::Primary, group, "XDatabase", Scope::Cluster),
        primary(group, "Database"),
        child("", "Secret"),
    ]);
    let (composite, secret) =
        (at(group, "XDatabase", "", "db-x1"), at("", "Secret", "team-a", "db-conn"));

    world.healthy(
        &composite,
        "apiextensions.crossplane.io/composite",
        &["composite.apiextensions.crossplane.io"],
    );
    world.owned(&secret, &composite);
    world.run(Span::mins(20));
    world.assert_quiet();
}

#[test]
fn an_owner_of_an_unwatched_cluster_scoped_kind_of_the_operator_exists() {
    let mut world = World::widgets();
    world.cluster_scoped.insert("WidgetClass".into());

    let class = at(GROUP, "WidgetClass", "", "gold");
    world.quiet(&class, |_, _| {});
    world.owned(&map("class-settings"), &class);
    world.run(Span::mins(20));
    world.assert_quiet();

    assert!(world.reads <= 3, "{}", world.reads);
}

#[test]
fn an_owner_in_a_namespace_that_is_not_watched_is_read() {
    let of = |ns: &str| watched(Role::Primary, GROUP, "Widget", Scope::Namespace(ns.into()));
    let mut world = World::new(&[of("team-a"), of("team-b"), child("", "ConfigMap")]);
    let other = at(GROUP, "Widget", "team-c", "web");
    world.quiet(&other, |_, _| {});

    let child = at("", "ConfigMap", "team-c", "web-settings");
    world.owned(&child, &other);
    world.run(Span::mins(20));
    world.assert_quiet();
}

#[test]
fn an_owner_that_never_existed_is_found_after_an_outage_of_reads() {
    let mut world = World::widgets();
    world.healthy(&web(), "widget-operator", &[]);

    let mut ghost = world.owner(&web());
    ghost.uid = "11111111-0000-4000-8000-000000000000".into();
    ghost.name = "ghost".into();
    world.reads_fail = Some(Cause::ServerError);
    world.put(&map("ghost-settings"), |view, _| view.owners = vec![ghost]);
    world.run(Span::mins(3));
    world.assert_quiet();
    world.reads_fail = None;

    world.run(Span::mins(30));
    assert_eq!(world.lab.findings(), ["OwnerMissing ConfigMap team-a/ghost-settings"]);
}

#[test]
fn a_kind_that_loopwatch_may_not_read_is_never_accused_and_rarely_read() {
    let mut world = World::widgets();
    world.refuses.insert("Widget".into());
    world.healthy(&web(), "widget-operator", &[]);

    for n in 0..20 {
        let mut ghost = world.owner(&web());
        ghost.uid = format!("11111111-0000-4000-8000-{n:012x}");
        ghost.name = format!("ghost-{n}");
        world.put(&map(&format!("m{n}")), |view, _| view.owners = vec![ghost]);
    }

    world.run(Span::hours(2));
    world.assert_quiet();

    assert!(world.reads <= 40, "{}", world.reads);
}

#[test]
fn an_outage_in_the_middle_of_a_cascade_accuses_nobody() {
    let mut world = World::widgets();
    world.healthy(&web(), "widget-operator", &[]);
    for n in 0..50 {
        world.owned(&map(&format!("m{n}")), &web());
    }

    world.run(Span::mins(5));
    world.rm(&web());
    for kind in world.watched.clone() {
        world.lab.fail_watch(&kind.watch);
    }

    world.run(Span::mins(1));
    world.objects.clear();
    for kind in world.watched.clone() {
        world.lab.recover_watch(&kind.watch);
    }

    world.list();
    world.run(Span::mins(30));
    world.assert_quiet();
}

#[test]
fn a_cascade_of_ten_thousand_raises_nothing() {
    let mut world = World::widgets();
    world.healthy(&web(), "widget-operator", &["foregroundDeletion"]);

    let owner = world.owner(&web());
    let maps: Vec<ObjectAddress> = (0..10_000).map(|n| map(&format!("m{n}"))).collect();
    for map in &maps {
        world.put(map, |view, _| view.owners = vec![owner.clone()]);
    }

    world.delete(&web());
    for (n, map) in maps.iter().enumerate() {
        world.rm(map);
        if n % 200 == 0 {
            world.run(Span::secs(10));
        }
    }

    world.rm(&web());
    world.run(Span::mins(20));

    assert_eq!(world.lab.changes(), Vec::<String>::new());
}

#[test]
fn the_only_stuck_child_among_thousands_is_the_blocker() {
    let mut world = World::widgets();
    world.healthy(&web(), "widget-operator", &["foregroundDeletion"]);

    let owner = world.owner(&web());
    let maps: Vec<ObjectAddress> = (0..2_000).map(|n| map(&format!("m{n:04}"))).collect();
    for (n, map) in maps.iter().enumerate() {
        world.put(map, |view, _| {
            view.owners = vec![owner.clone()];
            view.finalizers = vec![
                if n == 1_500 { "storage.other.com/detach" } else { "foregroundDeletion" }.into(),
            ];
        });
    }

    world.delete(&web());
    for map in &maps {
        world.delete(map);
    }

    world.run(Span::mins(17));
    assert!(
        world.lab.roots().contains(&"FinalizerStuck ConfigMap team-a/m1500".to_owned()),
        "{:?}",
        world.lab.roots().iter().take(5).collect::<Vec<_>>()
    );

    let blocked = world.lab.snapshot().findings.into_iter().find(|f| f.subject.name() == "web");
    let summary = blocked.map(|f| format!("{} {}", f.code.name(), f.summary())).unwrap_or_default();

    assert!(summary.contains("m1500"), "{summary}");
}

#[test]
fn an_operator_that_hands_children_over_to_another_owner_orphans_nobody() {
    let mut world = World::widgets();
    let next = at(GROUP, "Widget", "team-a", "next");
    world.healthy(&web(), "widget-operator", &[]);
    world.healthy(&next, "widget-operator", &[]);
    world.owned(&map("shared"), &web());
    world.run(Span::mins(5));

    let both = vec![world.owner(&web()), world.owner(&next)];
    world.put(&map("shared"), |view, _| view.owners = both);
    world.rm(&web());

    let only = world.owner(&next);
    world.put(&map("shared"), |view, _| view.owners = vec![only]);
    world.run(Span::mins(30));
    world.assert_quiet();
}

#[test]
fn an_owner_that_owns_itself_is_a_cycle() {
    let mut world = World::widgets();
    world.healthy(&web(), "widget-operator", &[]);

    let owner = world.owner(&web());
    world.put(&web(), |view, _| view.owners = vec![owner]);
    world.run(Span::secs(5));

    assert_eq!(world.lab.findings(), ["OwnerCycle Widget team-a/web"]);
}

// Orphans and logical owners.

/// Creates widgets, each with a child whose label has the name of its owner.
fn labelled(world: &mut World, count: usize) {
    for n in 0..count {
        let name = format!("w{n}");
        let owner = at(GROUP, "Widget", "team-a", &name);
        world.healthy(&owner, "widget-operator", &[]);
        world.owned(&map(&name), &owner);

        let (reference, label) = (world.owner(&owner), name.clone());
        world.rm(&map(&name));
        world.put(&map(&name), |view, now| {
            view.owners = vec![reference];
            view.managers = vec![spec_by("widget-operator", now)];
            view.labels.insert("example.io/widget".into(), label);
        });
    }
}

#[test]
fn a_copy_of_a_child_in_another_namespace_has_an_owner_elsewhere() {
    let mut world = World::widgets();
    labelled(&mut world, 25);

    // Owner references cannot cross namespaces, so the operator only labels the copy.
    world.put(&at("", "ConfigMap", "clients", "w3-copy"), |view, now| {
        view.managers = vec![spec_by("widget-operator", now)];
        view.labels.insert("example.io/widget".into(), "w3".into());
    });
    world.run(Span::mins(30));

    let confirmed: Vec<String> =
        world.lab.roots().into_iter().filter(|f| f.contains("w3-copy")).collect();
    let suspected =
        world.lab.snapshot().findings.iter().all(|f| f.confidence.as_str() == "suspected");

    assert!(suspected, "{confirmed:?}");
}

#[test]
fn a_label_that_is_cut_to_63_characters_still_names_its_owner() {
    let mut world = World::widgets();
    labelled(&mut world, 25);

    let long = "a".repeat(80);
    world.healthy(&at(GROUP, "Widget", "team-a", &long), "widget-operator", &[]);
    world.put(&map("long-settings"), |view, now| {
        view.managers = vec![spec_by("widget-operator", now)];
        view.labels.insert("example.io/widget".into(), long[..63].into());
    });
    world.run(Span::mins(30));
    world.assert_quiet();
}

#[test]
fn velero_restores_children_without_owners_and_the_operator_adopts_them() {
    let mut world = World::widgets();
    labelled(&mut world, 25);
    world.put(&map("w3"), |view, now| {
        view.managers.push(spec_by("velero-server", now));
    });

    let gone = at(GROUP, "Widget", "team-a", "w3");
    world.rm(&gone);
    world.rm(&map("w3"));
    world.run(Span::mins(10));
    world.put(&map("w3"), |view, now| {
        view.managers = vec![spec_by("velero-server", now)];
        view.labels.insert("example.io/widget".into(), "w3".into());
    });

    world.run(Span::mins(2));
    world.healthy(&gone, "widget-operator", &[]);

    let owner = world.owner(&gone);
    world.put(&map("w3"), |view, _| view.owners = vec![owner]);
    world.run(Span::mins(30));
    world.assert_quiet();
}

#[test]
fn a_cluster_scoped_object_whose_annotations_name_a_namespaced_owner_without_its_namespace_is_not_judged()
 {
    // Cluster API annotates each Node with the kind and the name of the MachineSet above it.
    let group = "cluster.x-k8s.io";
    let mut world = World::new(&[
        primary(group, "MachineSet"),
        watched(Role::Child, "", "Node", Scope::Cluster),
    ]);

    world.healthy(&at(group, "MachineSet", "clusters", "md-0"), "manager", &[]);
    world.put(&at("", "Node", "", "ip-10-0-0-1"), |view, _| {
        view.annotations.insert("cluster.x-k8s.io/owner-kind".into(), "MachineSet".into());
        view.annotations.insert("cluster.x-k8s.io/owner-name".into(), "md-0".into());
        view.annotations.insert("cluster.x-k8s.io/cluster-namespace".into(), "clusters".into());
    });
    world.run(Span::mins(30));
    world.assert_quiet();
}

#[test]
fn an_annotated_owner_without_namespace_may_be_cluster_scoped() {
    let mut world = World::new(&[
        watched(Role::Primary, GROUP, "Tenant", Scope::Cluster),
        child("", "ConfigMap"),
    ]);
    let tenant = at(GROUP, "Tenant", "", "acme");

    world.healthy(&tenant, "tenant-operator", &[]);
    world.put(&map("acme-settings"), |view, _| {
        view.annotations.insert("example.io/owner-kind".into(), "Tenant".into());
        view.annotations.insert("example.io/owner-name".into(), "acme".into());
    });
    world.run(Span::mins(30));
    world.assert_quiet();

    assert_eq!(world.reads, 0, "the watch shows the owner");

    world.rm(&tenant);
    world.run(Span::mins(7));

    assert_eq!(world.lab.findings(), ["LogicalOwnerMissing ConfigMap team-a/acme-settings"]);
}

#[test]
fn a_child_that_lost_its_owner_just_before_a_restart_is_no_false_orphan() {
    let mut world = World::widgets();
    world.healthy(&web(), "widget-operator", &[]);
    world.owned(&map("web-settings"), &web());
    world.put(&map("web-settings"), |view, _| view.owners.clear());
    world.run(Span::mins(1));
    world.restart();

    let owner = world.owner(&web());
    world.put(&map("web-settings"), |view, _| view.owners = vec![owner]);
    world.run(Span::mins(30));
    world.assert_quiet();
}

#[test]
fn a_restart_keeps_an_open_orphan() {
    let mut world = World::widgets();
    world.healthy(&web(), "widget-operator", &[]);
    world.owned(&map("web-settings"), &web());
    world.put(&map("web-settings"), |view, _| view.owners.clear());
    world.run(Span::mins(7));

    assert_eq!(world.lab.findings(), ["Orphan ConfigMap team-a/web-settings"]);

    world.restart();
    world.run(Span::mins(10));

    assert_eq!(world.lab.findings(), ["Orphan ConfigMap team-a/web-settings"]);
}

// References.

#[test]
fn a_cluster_scoped_object_that_does_not_say_the_namespace_of_its_target_is_not_judged() {
    let mut world = World::new(&[
        watched(Role::Primary, GROUP, "Gateway", Scope::Cluster),
        primary(GROUP, "Policy"),
    ]);

    world.healthy(&at(GROUP, "Policy", "gateways", "strict"), "gateway-operator", &[]);
    let gateway = at(GROUP, "Gateway", "", "public");
    world.put(&gateway, |view, now| {
        view.references = vec![reference(GROUP, "Policy", "spec.policyRef", "strict")];
        ready(view, "gateway-operator", now);
    });
    world.run(Span::mins(15));
    world.assert_quiet();
}

#[test]
fn a_missing_target_is_found_after_an_outage_of_reads() {
    let mut world = World::widgets();
    world.reads_fail = Some(Cause::ServerError);
    world.put(&web(), |view, _| {
        view.hashes.spec = 1;
        view.references = vec![reference("", "Secret", "spec.db.secretRef", "db")];
    });
    world.run(Span::mins(8));

    assert!(!world.lab.has("DanglingReference"), "{:?}", world.lab.findings());

    world.reads_fail = None;
    world.run(Span::mins(25));

    assert!(world.lab.has("DanglingReference"), "{:?}", world.lab.findings());
}

#[test]
fn cert_manager_issues_the_secret_of_a_certificate_late() {
    let mut world = World::new(&[
        primary("cert-manager.io", "Certificate"),
        primary("acme.cert-manager.io", "Order"),
    ]);
    let certificate = at("cert-manager.io", "Certificate", "team-a", "web");

    world.put(&certificate, |view, _| {
        view.references = vec![reference("", "Secret", "spec.secretName", "web-tls")];
        view.hashes.spec = 1;
    });
    world.run(Span::mins(9));

    assert!(!world.lab.has("DanglingReference"), "{:?}", world.lab.findings());
}

#[test]
fn an_object_that_is_pruned_together_with_its_secret_is_quiet() {
    let (mut world, secret) = with_secret();
    world.put(&web(), |view, now| ready(view, "widget-operator", now));
    world.run(Span::mins(15));
    world.objects.remove(&secret);
    world.delete(&web());
    world.run(Span::mins(4));
    world.rm(&web());
    world.run(Span::mins(10));
    world.assert_quiet();
}

// Clock, restart, relist.

#[test]
fn a_step_of_the_clock_finds_no_orphan_dangling_or_missing_owner_early() {
    for by in [Span::hours(1), Span::hours(-1)] {
        let mut world = World::widgets();
        world.healthy(&web(), "widget-operator", &[]);
        world.owned(&map("web-settings"), &web());
        world.put(&map("web-settings"), |view, _| view.owners.clear());
        world.put(&map("logical"), |view, _| {
            view.annotations.insert("example.io/owner-kind".into(), "Widget".into());
            view.annotations.insert("example.io/owner-name".into(), "gone".into());
        });

        world.put(&web(), |view, _| {
            view.hashes.spec = 9;
            view.references = vec![reference("", "Secret", "spec.db.secretRef", "db")];
        });
        world.run(Span::secs(20));
        world.lab.step_clock(by);
        world.run(Span::secs(60));
        world.assert_quiet();

        world.run(Span::mins(7));
        assert!(
            world.lab.has("Orphan") && world.lab.has("LogicalOwnerMissing"),
            "{by}: {:?}",
            world.lab.findings()
        );
        assert!(world.lab.has("DanglingReference"), "{by}: {:?}", world.lab.findings());
    }
}

#[test]
fn a_relist_after_410_gone_raises_nothing() {
    let mut world = World::widgets();
    labelled(&mut world, 25);
    world.healthy(&web(), "widget-operator", &[FINALIZER]);
    world.run(Span::mins(5));

    for _ in 0..3 {
        world.list();
        world.run(Span::mins(5));
    }

    world.assert_quiet();
}

#[test]
fn a_restart_while_everything_is_healthy_raises_nothing() {
    let mut world = World::widgets();
    labelled(&mut world, 25);
    world.healthy(&web(), "widget-operator", &[FINALIZER]);
    world.run(Span::mins(5));
    world.restart();
    world.run(Span::mins(30));
    world.assert_quiet();
}

#[test]
fn a_restart_in_the_middle_of_a_slow_cleanup_keeps_its_age() {
    let mut world = World::widgets();
    world.healthy(&web(), "widget-operator", &[FINALIZER]);
    world.delete(&web());
    world.run(Span::mins(10));

    assert_eq!(world.lab.findings(), ["CleanupSlow Widget team-a/web"]);

    world.restart();
    world.run(Span::mins(7));

    assert_eq!(world.lab.findings(), ["FinalizerStuck Widget team-a/web"]);
}

#[test]
fn a_finalizer_that_is_removed_while_loopwatch_is_down_is_not_lost() {
    let mut world = World::widgets();
    world.healthy(&web(), "widget-operator", &[FINALIZER]);
    world.run(Span::mins(5));
    world.quiet(&web(), |view, now| {
        view.finalizers.clear();
        view.managers.retain(|m| m.finalizers.is_empty());
        view.hashes.spec = 8;
        view.managers[0].time = Some(now);
    });

    world.restart();
    world.run(Span::mins(5));

    assert!(!world.lab.has("FinalizerLost"), "{:?}", world.lab.findings());
}

// Soft deletion.

#[test]
fn a_soft_deleted_object_in_a_namespace_that_is_deleted_is_not_forgotten() {
    let mut world = World::widgets();
    world.healthy(&web(), "widget-operator", &[]);

    let at = world.lab.ago(Span::hours(23));
    world.put(&web(), |view, _| {
        view.annotations.insert("soft-delete/enable".into(), "true".into());
        view.annotations.insert("deleted_at".into(), at.to_string());
    });
    world.delete_namespace("team-a", &["NamespaceContentRemaining"]);
    world.run(Span::hours(2));

    assert!(!world.lab.has("SoftDeleteLingering"), "{:?}", world.lab.findings());
}

// More of what happens to clusters.

#[test]
fn a_finalizer_that_only_differs_in_its_order_is_not_lost() {
    let mut world = World::widgets();
    world.healthy(&web(), "manager", &[FINALIZER, "backup.other.com/snapshot"]);
    world.run(Span::mins(1));

    for _ in 0..6 {
        world.put(&web(), |view, _| view.finalizers.reverse());
        world.run(Span::secs(10));
    }

    world.assert_quiet();
}

#[test]
fn two_operators_that_overwrite_each_other_for_minutes_flap() {
    let mut world = World::widgets();
    world.healthy(&web(), "manager", &[FINALIZER]);
    for _ in 0..5 {
        for finalizer in ["backup.other.com/snapshot", FINALIZER] {
            world.put(&web(), |view, now| {
                view.finalizers = vec![finalizer.into()];
                view.managers.retain(|m| m.finalizers.is_empty());
                view.managers.push(finalizers_by("manager", now, &[finalizer]));
            });
            world.run(Span::secs(5));
        }
    }

    assert_eq!(world.lab.roots(), ["FinalizerFlapping Widget team-a/web"]);
}

#[test]
fn a_person_removes_the_finalizer_of_a_dead_operator_by_hand_and_the_object_goes() {
    let mut world = World::widgets();
    world.lead("6ab5f5a3.example.io", "widget-operator-7d9f8c6b5-x2x4v_1", 2);
    world.healthy(&web(), "manager", &[FINALIZER]);
    world.lead("6ab5f5a3.example.io", "widget-operator-7d9f8c6b5-x2x4v_1", 2);
    world.delete(&web());
    world.run(Span::mins(8));

    assert_eq!(world.lab.findings(), ["FinalizerOwnerAbsent Widget team-a/web"]);

    world.rm(&web());
    world.assert_quiet();
}

#[test]
fn an_operator_that_was_scaled_to_zero_and_back_is_absent_only_meanwhile() {
    let mut world = World::widgets();
    world.lead("6ab5f5a3.example.io", "widget-operator-7d9f8c6b5-x2x4v_1", 2);
    world.healthy(&web(), "manager", &[FINALIZER]);
    world.delete(&web());
    world.run(Span::mins(7));

    assert!(world.lab.has("FinalizerOwnerAbsent"));

    world.lead("6ab5f5a3.example.io", "widget-operator-7d9f8c6b5-zzzzz_1", 1);
    assert!(!world.lab.has("FinalizerOwnerAbsent"), "{:?}", world.lab.findings());
}

#[test]
fn the_absence_of_an_operator_is_found_again_after_a_restart_of_loopwatch() {
    let mut world = World::widgets();
    world.lead("6ab5f5a3.example.io", "widget-operator-7d9f8c6b5-x2x4v_1", 2);
    clean_up_twice(&mut world, "manager");
    world.healthy(&web(), "manager", &[FINALIZER]);
    world.lead("6ab5f5a3.example.io", "widget-operator-7d9f8c6b5-x2x4v_1", 2);
    world.delete(&web());
    world.run(Span::mins(8));
    world.restart();

    world.lab.observe(Observation::LeasesListed { namespace: "ops".into(), names: Vec::new() });
    world.run(Span::mins(8));

    assert_eq!(world.lab.findings(), ["FinalizerOwnerAbsent Widget team-a/web"]);
}

#[test]
fn a_pod_with_a_grace_period_of_an_hour_is_no_slow_cleanup() {
    let mut world = World::new(&[primary(GROUP, "Widget"), child("", "Pod")]);
    world.healthy(&web(), "widget-operator", &["foregroundDeletion"]);

    let pod = at("", "Pod", "team-a", "web-0");
    world.owned(&pod, &web());
    world.put(&pod, |view, now| {
        view.finalizers = vec!["example.io/drain".into()];
        (view.deleted, view.grace) = (Some(now.after(Span::hours(1))), Some(Span::hours(1)));
    });
    world.delete(&web());
    world.run(Span::mins(50));
    world.assert_quiet();
}

/// A widget with a claim that is being deleted and that a Pod still uses.
fn with_claim_in_use() -> World {
    let mut world = World::new(&[primary(GROUP, "Widget"), child("apps", "StatefulSet")]);
    world.healthy(&web(), "widget-operator", &["foregroundDeletion"]);

    let claim = at("", "PersistentVolumeClaim", "team-a", "data-web-0");
    let owner = world.owner(&web());
    world.quiet(&claim, |view, now| {
        view.owners = vec![owner];
        view.finalizers = vec!["kubernetes.io/pvc-protection".into()];
        view.deleted = Some(now);
    });

    world
}

#[test]
fn a_pvc_in_use_blocks_the_foreground_deletion_of_its_owner() {
    let mut world = with_claim_in_use();
    world.delete(&web());
    world.run(Span::mins(18));

    assert_eq!(world.lab.findings(), ["DeletionBlockedByDependent Widget team-a/web"]);

    let summary = world.lab.finding("DeletionBlockedByDependent").summary();
    assert!(summary.contains("data-web-0"), "{summary}");
}

#[test]
fn the_dependents_of_a_deletion_are_read_again_after_an_outage() {
    let mut world = with_claim_in_use();
    world.delete(&web());
    world.reads_fail = Some(Cause::ServerError);
    world.run(Span::mins(18));
    world.assert_quiet();
    world.reads_fail = None;
    world.run(Span::mins(15));

    assert_eq!(world.lab.findings(), ["DeletionBlockedByDependent Widget team-a/web"]);
}

#[test]
fn an_object_whose_foreground_deletion_only_waits_for_a_healthy_claim_is_not_blocked() {
    // The claim is kept by its retention policy and does not block.
    let mut world = World::new(&[primary(GROUP, "Widget"), child("apps", "StatefulSet")]);
    world.healthy(&web(), "widget-operator", &["foregroundDeletion"]);

    let claim = at("", "PersistentVolumeClaim", "team-a", "data-web-0");
    let mut owner = world.owner(&web());
    owner.blocks_deletion = false;
    world.quiet(&claim, |view, _| {
        view.owners = vec![owner];
        view.finalizers = vec!["kubernetes.io/pvc-protection".into()];
    });
    world.delete(&web());

    world.run(Span::secs(30));
    world.rm(&web());
    world.run(Span::mins(20));
    world.assert_quiet();
}

#[test]
fn an_olm_upgrade_replaces_the_owner_of_a_deployment() {
    let group = "operators.coreos.com";
    let mut world =
        World::new(&[primary(group, "ClusterServiceVersion"), child("apps", "Deployment")]);
    let (old, new) = (
        at(group, "ClusterServiceVersion", "ops", "shop.v1"),
        at(group, "ClusterServiceVersion", "ops", "shop.v2"),
    );

    world.healthy(&old, "olm", &["operators.coreos.com/csv-cleanup"]);
    let deployment = at("apps", "Deployment", "ops", "shop-operator");
    world.owned(&deployment, &old);
    world.run(Span::mins(5));
    world.healthy(&new, "olm", &["operators.coreos.com/csv-cleanup"]);

    let owner = world.owner(&new);
    world.put(&deployment, |view, _| view.owners = vec![owner]);
    world.delete(&old);
    world.run(Span::secs(20));
    world.rm(&old);
    world.run(Span::mins(30));
    world.assert_quiet();
}

#[test]
fn an_owner_deleted_while_its_operator_creates_a_child_from_a_stale_cache_is_no_hazard() {
    let mut world = World::widgets();
    world.healthy(&web(), "widget-operator", &[]);

    let owner = world.owner(&web());
    world.rm(&web());
    world.run(Span::secs(1));
    world.put(&map("late"), |view, _| view.owners = vec![owner]);
    world.run(Span::secs(20));
    world.rm(&map("late"));
    world.run(Span::mins(20));
    world.assert_quiet();
}

#[test]
fn a_manifest_that_was_copied_with_its_owner_references_is_missing_its_owner() {
    let mut world = World::widgets();
    world.healthy(&web(), "widget-operator", &[]);

    let mut copied = world.owner(&web());
    copied.uid = "22222222-0000-4000-8000-000000000000".into();
    world.put(&map("copied"), |view, _| view.owners = vec![copied]);
    world.run(Span::secs(4));

    assert_eq!(world.lab.findings(), ["OwnerReplaced ConfigMap team-a/copied"]);

    world.rm(&map("copied"));
    world.run(Span::mins(16));
    world.assert_quiet();
}

#[test]
fn a_watch_limited_to_one_namespace_does_not_miss_a_cluster_scoped_owner() {
    let of = |role, kind: &str| {
        watched(
            role,
            if kind == "Widget" { GROUP } else { "" },
            kind,
            Scope::Namespace("team-a".into()),
        )
    };

    let mut world = World::new(&[of(Role::Primary, "Widget"), of(Role::Child, "ConfigMap")]);
    world.cluster_scoped.insert("WidgetClass".into());

    let class = at(GROUP, "WidgetClass", "", "gold");
    world.quiet(&class, |_, _| {});
    world.owned(&map("class-settings"), &class);
    world.run(Span::mins(20));
    world.assert_quiet();
}

#[test]
fn orphans_by_the_hundreds_after_a_gitops_mistake_are_all_found() {
    let mut world = World::widgets();
    world.healthy(&web(), "widget-operator", &[]);
    for n in 0..300 {
        world.owned(&map(&format!("m{n}")), &web());
    }

    world.run(Span::mins(1));
    for n in 0..300 {
        world.put(&map(&format!("m{n}")), |view, _| view.owners.clear());
    }

    (0..5).for_each(|_| world.run(Span::mins(2)));
    assert_eq!(world.lab.findings().iter().filter(|f| f.starts_with("Orphan")).count(), 300);
}

#[test]
fn an_orphan_that_cannot_be_read_in_an_outage_is_found_after_it() {
    let mut world = World::widgets();
    world.healthy(&web(), "widget-operator", &[]);
    world.owned(&map("m"), &web());
    world.put(&map("m"), |view, _| view.owners.clear());
    world.reads_fail = Some(Cause::Timeout);
    world.run(Span::mins(10));
    world.assert_quiet();
    world.reads_fail = None;

    world.run(Span::mins(15));
    assert_eq!(world.lab.findings(), ["Orphan ConfigMap team-a/m"]);
}

#[test]
fn a_dangling_reference_is_healed_by_external_secrets() {
    let mut world = World::widgets();
    world.put(&web(), |view, _| {
        view.hashes.spec = 1;
        view.references = vec![reference("", "Secret", "spec.db.secretRef", "db")];
    });
    world.run(Span::mins(5));

    assert!(world.lab.has("DanglingReference"), "{:?}", world.lab.findings());

    world.quiet(&at("", "Secret", "team-a", "db"), |view, _| {
        view.managers[0].name = "external-secrets".into()
    });
    world.run(Span::mins(2));

    assert!(!world.lab.has("DanglingReference"), "{:?}", world.lab.findings());
}

#[test]
fn a_dangling_reference_to_a_watched_primary_that_is_recreated_is_short() {
    let mut world = World::new(&[primary(GROUP, "Widget"), primary(GROUP, "WidgetClass")]);
    let class = at(GROUP, "WidgetClass", "team-a", "gold");
    world.healthy(&class, "widget-operator", &[]);
    world.put(&web(), |view, _| {
        view.hashes.spec = 1;
        view.references = vec![reference(GROUP, "WidgetClass", "spec.classRef", "gold")];
    });
    world.put(&web(), |view, now| ready(view, "widget-operator", now));

    world.run(Span::mins(5));
    world.rm(&class);
    world.run(Span::secs(90));
    world.healthy(&class, "widget-operator", &[]);
    world.run(Span::mins(10));
    world.assert_quiet();
}

#[test]
fn a_crossplane_claim_waits_for_its_composite_and_both_go() {
    let group = "platform.example.org";
    let mut world = World::new(&[
        watched(Role::Primary, group, "XDatabase", Scope::Cluster),
        primary(group, "Database"),
    ]);
    let (claim, composite) =
        (at(group, "Database", "team-a", "db"), at(group, "XDatabase", "", "db-x1"));

    world.healthy(
        &claim,
        "apiextensions.crossplane.io/claim",
        &["finalizer.apiextensions.crossplane.io"],
    );
    world.healthy(
        &composite,
        "apiextensions.crossplane.io/composite",
        &["composite.apiextensions.crossplane.io"],
    );

    world.delete(&claim);
    world.delete(&composite);
    world.run(Span::mins(3));
    world.rm(&composite);
    world.run(Span::secs(2));
    world.rm(&claim);
    world.run(Span::mins(20));
    world.assert_quiet();
}

#[test]
fn an_operator_upgrade_while_two_versions_fight_is_a_suspected_loss() {
    let mut world = World::widgets();
    world.healthy(&web(), "old-operator", &["example.io/old"]);
    world.run(Span::mins(5));
    world.put(&web(), |view, now| {
        view.finalizers = vec!["example.io/new".into()];
        view.managers.retain(|m| m.finalizers.is_empty());
        view.managers.push(finalizers_by("new-operator", now, &["example.io/new"]));
    });

    world.run(Span::secs(3));
    world.put(&web(), |view, now| {
        view.finalizers.push("example.io/old".into());
        view.managers.push(finalizers_by("old-operator", now, &["example.io/old"]));
    });

    assert_eq!(world.lab.findings(), ["FinalizerLost Widget team-a/web"]);
    assert_eq!(world.lab.finding("FinalizerLost").confidence.as_str(), "suspected");
}

#[test]
fn a_namespace_that_cannot_list_the_objects_of_a_broken_conversion_webhook_is_blocked_by_them() {
    let mut world = World::widgets();
    world.healthy(&web(), "widget-operator", &[FINALIZER]);
    world.delete_namespace(
        "team-a",
        &["NamespaceDeletionContentFailure", "NamespaceContentRemaining"],
    );
    world.run(Span::mins(16));

    assert_eq!(world.lab.findings(), ["NamespaceStuck Namespace team-a"]);
}

#[test]
fn a_namespace_that_waits_for_pods_and_then_for_a_finalizer_is_stuck() {
    let mut world = World::widgets();
    world.healthy(&web(), "widget-operator", &[FINALIZER]);
    world.delete_namespace("team-a", &["NamespaceContentRemaining"]);
    world.run(Span::mins(20));
    world.delete(&web());
    world.run(Span::mins(16));

    assert_eq!(world.lab.roots(), ["FinalizerStuck Widget team-a/web"]);
    assert!(world.lab.has("NamespaceStuck"), "{:?}", world.lab.findings());
}

#[test]
fn an_outage_of_the_api_server_during_a_slow_cleanup_does_not_hide_it() {
    let mut world = World::widgets();
    world.healthy(&web(), "widget-operator", &[FINALIZER]);
    world.delete(&web());
    world.run(Span::mins(2));

    for kind in world.watched.clone() {
        world.lab.fail_watch(&kind.watch);
    }

    world.run(Span::mins(30));
    assert!(
        world.lab.findings().iter().all(|f| f.starts_with("SourceFailing")),
        "{:?}",
        world.lab.findings()
    );

    for kind in world.watched.clone() {
        world.lab.recover_watch(&kind.watch);
    }

    world.list();
    world.run(Span::mins(3));

    assert_eq!(world.lab.findings(), ["FinalizerStuck Widget team-a/web"]);
}

#[test]
fn a_kind_that_becomes_forbidden_does_not_make_its_children_orphans() {
    let mut world = World::widgets();
    labelled(&mut world, 25);

    let mut kinds = world.watched.clone();
    kinds[0].missing = vec!["list".into(), "watch".into()];
    world.watched = kinds.clone();
    world.refuses.insert("Widget".into());
    world.lab.discover(&kinds);
    world.put(&map("extra"), |view, now| {
        view.managers = vec![spec_by("widget-operator", now)];
        view.labels.insert("example.io/widget".into(), "hidden".into());
    });

    world.run(Span::mins(30));
    let bad: Vec<String> =
        world.lab.findings().into_iter().filter(|f| f.contains("ConfigMap")).collect();

    assert_eq!(bad, Vec::<String>::new());
}

#[test]
fn a_watch_that_leaves_the_scope_closes_its_hazards() {
    let mut world = World::widgets();
    world.healthy(&web(), "widget-operator", &[]);

    let other = at("", "ConfigMap", "team-b", "m");
    world.owned(&other, &web());

    assert_eq!(world.lab.findings(), ["CrossNamespaceOwner ConfigMap team-b/m"]);

    let only = vec![world.watched[0].clone()];
    world.watched.clone_from(&only);
    world.lab.discover(&only);
    world.run(Span::mins(20));
    world.assert_quiet();
}

#[test]
fn a_foreign_kind_that_is_installed_again_makes_its_owners_resolvable() {
    let mut world = World::widgets();
    world.healthy(&web(), "widget-operator", &[]);
    world.unserved.insert("Gadget".into());

    let mut foreign = world.owner(&web());
    foreign.api_version = "gadgets.other.com/v1".into();
    foreign.kind = "Gadget".into();
    foreign.uid = "33333333-0000-4000-8000-000000000000".into();

    let own = world.owner(&web());
    world.put(&map("m"), |view, _| view.owners = vec![own, foreign]);
    world.run(Span::mins(1));

    assert_eq!(world.lab.findings(), ["OwnerUnresolvable ConfigMap team-a/m"]);

    world.unserved.clear();
    (0..30).for_each(|_| world.run(Span::mins(2)));
    world.assert_quiet();
}

#[test]
fn a_kind_of_the_operator_that_is_installed_again_makes_its_owners_resolvable() {
    let mut world = World::widgets();
    world.unserved.insert("WidgetSet".into());

    let set = at(GROUP, "WidgetSet", "team-a", "all");
    world.quiet(&set, |_, _| {});
    world.owned(&map("m"), &set);
    world.run(Span::mins(1));

    assert_eq!(world.lab.findings(), ["OwnerUnresolvable ConfigMap team-a/m"]);

    world.unserved.clear();
    (0..30).for_each(|_| world.run(Span::mins(2)));
    world.assert_quiet();
}

#[test]
fn a_restore_of_etcd_goes_back_to_older_versions() {
    let mut world = World::widgets();
    world.healthy(&web(), "widget-operator", &[FINALIZER]);
    world.owned(&map("m"), &web());

    let backup = world.objects.clone();
    let version = world.lab.version;
    world.run(Span::mins(5));
    world.put(&web(), |view, now| ready(view, "widget-operator", now));
    world.rm(&map("m"));
    world.run(Span::mins(5));
    world.objects = backup;
    world.lab.version = version;

    for kind in world.watched.clone() {
        world.lab.fail_watch(&kind.watch);
    }

    world.run(Span::secs(20));
    for kind in world.watched.clone() {
        world.lab.recover_watch(&kind.watch);
    }

    world.list();
    world.run(Span::mins(20));
    world.assert_quiet();
    world.delete(&web());
    world.run(Span::mins(16));

    assert_eq!(world.lab.findings(), ["FinalizerStuck Widget team-a/web"]);
}

#[test]
fn a_missing_owner_is_the_same_finding_after_a_restart() {
    let mut world = World::widgets();
    world.healthy(&web(), "widget-operator", &[]);

    let mut ghost = world.owner(&web());
    (ghost.uid, ghost.name) = ("11111111-0000-4000-8000-000000000000".into(), "ghost".into());
    world.put(&map("m"), |view, _| view.owners = vec![ghost]);
    world.run(Span::mins(1));

    let since = world.lab.since("OwnerMissing");
    world.run(Span::mins(30));
    world.restart();
    world.run(Span::mins(10));

    assert_eq!(world.lab.findings(), ["OwnerMissing ConfigMap team-a/m"]);
    assert_eq!(world.lab.since("OwnerMissing"), since);
}

#[test]
fn an_owner_in_another_namespace_is_the_same_finding_after_a_restart() {
    let mut world = World::widgets();
    world.healthy(&web(), "widget-operator", &[]);
    world.owned(&at("", "ConfigMap", "team-b", "m"), &web());

    let since = world.lab.since("CrossNamespaceOwner");
    world.run(Span::mins(30));
    world.restart();
    world.run(Span::mins(10));

    assert_eq!(world.lab.findings(), ["CrossNamespaceOwner ConfigMap team-b/m"]);
    assert_eq!(world.lab.since("CrossNamespaceOwner"), since);
}

#[test]
fn an_annotated_owner_that_vanishes_during_an_outage_is_found_after_it() {
    let mut world = World::widgets();
    world.healthy(&web(), "widget-operator", &[]);

    let child = at("", "ConfigMap", "team-b", "m");
    world.put(&child, |view, _| {
        view.annotations.insert("example.io/owner-kind".into(), "Widget".into());
        view.annotations.insert("example.io/owner-namespace".into(), "team-a".into());
        view.annotations.insert("example.io/owner-name".into(), "web".into());
    });
    world.run(Span::mins(5));
    world.objects.remove(&web());

    world.list();
    world.run(Span::mins(12));

    assert_eq!(world.lab.findings(), ["LogicalOwnerMissing ConfigMap team-b/m"]);

    world.healthy(&web(), "widget-operator", &[]);
    world.run(Span::secs(10));
    world.assert_quiet();
}

#[test]
fn a_terminating_child_of_a_missing_owner_is_no_hazard() {
    let mut world = World::widgets();
    world.healthy(&web(), "widget-operator", &[]);
    world.owned(&map("m"), &web());
    world.put(&map("m"), |view, _| view.finalizers = vec!["backup.other.com/snapshot".into()]);
    world.run(Span::mins(5));
    world.rm(&web());
    world.run(Span::secs(2));
    world.delete(&map("m"));

    world.run(Span::mins(4));
    world.rm(&map("m"));
    world.run(Span::mins(20));
    world.assert_quiet();
}

#[test]
fn a_deletion_that_is_blocked_by_a_child_is_unblocked_when_the_child_is_handed_over() {
    let mut world = World::widgets();
    world.healthy(&web(), "widget-operator", &["foregroundDeletion"]);
    world.owned(&map("m"), &web());
    world.put(&map("m"), |view, _| view.finalizers = vec!["storage.other.com/detach".into()]);
    world.delete(&web());
    world.delete(&map("m"));
    world.run(Span::mins(17));

    assert!(world.lab.has("DeletionBlockedByDependent"), "{:?}", world.lab.findings());

    world.put(&map("m"), |view, _| view.owners.clear());
    world.run(Span::secs(2));

    assert!(!world.lab.has("DeletionBlockedByDependent"), "{:?}", world.lab.findings());
}

#[test]
fn a_cross_namespace_owner_reference_that_is_corrected_ends() {
    let mut world = World::widgets();
    world.healthy(&web(), "widget-operator", &[]);

    let child = at("", "ConfigMap", "team-b", "m");
    world.owned(&child, &web());
    world.put(&child, |view, _| view.owners.clear());
    world.run(Span::mins(16));

    assert!(!world.lab.has("CrossNamespaceOwner"), "{:?}", world.lab.findings());
}

#[test]
fn the_memory_of_a_renamed_operator_does_not_name_the_old_manager() {
    // After the upgrade, the new field manager adds the finalizers of new objects.
    let mut world = World::widgets();
    clean_up_twice(&mut world, "old-operator");
    for name in ["n1", "n2", "n3", "n4", "n5"] {
        let new = at(GROUP, "Widget", "team-a", name);
        world.healthy(&new, "new-operator", &[FINALIZER, "keep.example.io/other"]);
        world.run(Span::mins(1));
        world.put(&new, |view, now| view.deleted = Some(now));
        world.run(Span::secs(20));
        world.put(&new, |view, now| {
            view.finalizers.remove(0);
            view.managers.retain(|m| m.subresource != "status");
            view.managers.push(status_by("new-operator", now));
            view.hashes.settled += 1;
        });

        world.run(Span::secs(1));
        world.rm(&new);
    }

    world.healthy(&web(), "new-operator", &[FINALIZER]);
    world.delete(&web());
    world.run(Span::mins(16));

    let actor = world.lab.finding("FinalizerStuck").evidence.0["actor"].to_string();
    assert!(actor.contains("new-operator"), "{actor}");
}

#[test]
fn an_upgrade_that_renames_the_manager_names_the_new_one_at_once() {
    let mut world = World::widgets();
    clean_up_twice(&mut world, "old-operator");
    world.healthy(&web(), "new-operator", &[FINALIZER]);
    world.delete(&web());
    world.run(Span::mins(16));

    let actor = world.lab.finding("FinalizerStuck").evidence.0["actor"].to_string();
    assert!(actor.contains("new-operator"), "{actor}");
}

#[test]
fn the_lease_of_the_old_release_that_stays_behind_after_a_rename_is_no_absence() {
    let mut world = World::widgets();
    world.lead("old-operator-lock", "old-operator-7d9f8c6b5-x2x4v_1", 2);
    clean_up_twice(&mut world, "old-operator");

    // The release is renamed; the new one has no leader election and works.
    world.run(Span::mins(10));
    world.healthy(&web(), "new-operator", &[FINALIZER]);
    world.delete(&web());

    for n in 0..10 {
        world.run(Span::mins(1));
        world.healthy(
            &at(GROUP, "Widget", "team-a", &format!("x{n}")),
            "new-operator",
            &[FINALIZER],
        );
    }

    assert!(!world.lab.has("FinalizerOwnerAbsent"), "{:?}", world.lab.findings());
}

#[test]
fn an_object_from_before_the_rename_of_the_manager_belongs_to_the_new_one() {
    let mut world = World::widgets();
    world.lead("old-operator-lock", "old-operator-7d9f8c6b5-x2x4v_1", 2);
    clean_up_twice(&mut world, "old-operator");
    world.healthy(&web(), "old-operator", &[FINALIZER]);
    world.run(Span::mins(10));
    world.put(&web(), |view, now| view.managers.push(status_by("new-operator", now)));
    world.run(Span::mins(1));
    world.delete(&web());

    world.run(Span::mins(16));
    assert_eq!(world.lab.findings(), ["FinalizerStuck Widget team-a/web"]);
}
