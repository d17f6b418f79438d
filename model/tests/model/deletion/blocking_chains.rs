//! Chains of deletions: the last object is found, and one cause raises one alert.

use loopwatch_model::model::Model;
use loopwatch_model::observation::{
    Answer, Cause, Dependent, ObjectKey, ObjectView, Observation, OwnerReference, Probe, Role,
    WatchId, WatchedKind,
};
use loopwatch_model::time::Span;

use crate::lab::{Lab, kind, other_kind};

fn uid(number: u64) -> String {
    format!("00000000-0000-4000-8000-{number:012x}")
}

fn owner(kind: &str, name: &str, number: u64) -> OwnerReference {
    let (kind, name, uid) = (kind.to_owned(), name.to_owned(), uid(number));
    let api_version = if kind == "StatefulSet" { "apps/v1" } else { "example.io/v1" };
    OwnerReference {
        api_version: api_version.into(),
        kind,
        name,
        uid,
        controller: true,
        blocks_deletion: true,
    }
}

fn child_kind() -> WatchedKind {
    let watch = WatchId("statefulsets.apps".into());
    let (group, resource) = ("apps".into(), "statefulsets".into());
    WatchedKind {
        watch,
        group,
        kind: "StatefulSet".into(),
        resource,
        role: Role::Child,
        ..other_kind("StatefulSet")
    }
}

/// A lab with a parent and a child that wait for the garbage collector.
struct Cascade {
    lab: Lab,
    parent: ObjectView,
    child: ObjectView,
}

impl Cascade {
    fn new() -> Self {
        let mut lab = Lab::new();
        lab.discover(&[kind(), child_kind()]);
        lab.list_in(&child_kind().watch, Vec::new());

        let widget = lab.converged("web");
        let mut parent = lab.view(&widget);
        parent.uid = uid(1);
        parent.deleted = Some(lab.now);
        parent.finalizers = vec!["foregroundDeletion".into()];
        parent.managers[1].finalizers.clear();

        let child = ObjectView {
            key: ObjectKey { namespace: "team-a".into(), name: "web-db".into() },
            uid: uid(2),
            owners: vec![owner("Widget", "web", 1)],
            ..parent.clone()
        };

        let mut cascade = Self { lab, parent, child };
        cascade.apply();
        cascade
    }

    fn apply(&mut self) {
        for (watch, object) in
            [(kind().watch, &mut self.parent), (child_kind().watch, &mut self.child)]
        {
            self.lab.version += 1;
            object.version = self.lab.version.to_string();
            self.lab.apply_to(&watch, object.clone());
        }
    }

    /// Answers the probes for dependents.
    fn answer(&mut self, answer: &Answer) -> usize {
        let probes = self.lab.model.probes().into_iter();
        let probes: Vec<Probe> =
            probes.filter(|probe| matches!(probe, Probe::Dependents { .. })).collect();
        let count = probes.len();

        for probe in probes {
            let Probe::Dependents { uid: asked, .. } = &probe else { continue };
            let answer = if *asked == uid(2) { answer.clone() } else { dependents(Vec::new()) };
            self.lab.observe(Observation::Answered { probe, answer });
        }

        count
    }

    fn run(&mut self, minutes: i64, answer: &Answer) {
        for _ in 0..minutes * 4 {
            self.lab.advance(Span::secs(15));
            while self.answer(answer) > 0 {
                self.lab.advance(Span::secs(1));
            }
        }
    }
}

fn dependents(found: Vec<Dependent>) -> Answer {
    Answer::Dependents { found, complete: true }
}

fn claim(cascade: &Cascade, finalizers: &[&str]) -> Dependent {
    let object = ObjectView {
        key: ObjectKey { namespace: "team-a".into(), name: "data-web-db-0".into() },
        uid: uid(3),
        deleted: cascade.parent.deleted,
        finalizers: finalizers.iter().map(|f| (*f).to_owned()).collect(),
        owners: vec![owner("StatefulSet", "web-db", 2)],
        ..ObjectView::default()
    };
    Dependent { group: String::new(), kind: "PersistentVolumeClaim".into(), object }
}

#[test]
fn a_watched_leaf_explains_the_objects_above_it() {
    let mut cascade = Cascade::new();
    cascade.child.finalizers.push("storage.other.com/detach".into());
    cascade.apply();
    cascade.run(15, &dependents(Vec::new()));

    assert_eq!(
        cascade.lab.roots(),
        ["FinalizerStuck StatefulSet team-a/web-db"],
        "{:?}",
        cascade.lab.findings()
    );

    let finding = cascade.lab.finding("DeletionBlockedByDependent");
    assert_eq!(finding.subject.name(), "web");

    let summary = finding.summary();
    assert!(summary.contains("blocker StatefulSet team-a/web-db"), "{summary}");
    assert!(summary.contains(
        "actor garbage collector, once all blocking dependents are gone, the controller of storage"
    ));
    assert!(summary.contains("chain Widget team-a/web, StatefulSet team-a/web-db"), "{summary}");

    let kinds = cascade.lab.snapshot().kinds;
    let widgets = kinds.iter().find(|kind| kind.kind == "Widget").expect("the parent's kind");

    assert_eq!(widgets.finalizers["foregroundDeletion"].waiting[4], 1, "blocked_by_dependent");

    // The leaf goes, and with it everything.
    let key = cascade.child.key.clone();
    let watch = child_kind().watch;
    cascade.lab.version += 1;

    let version = cascade.lab.version.to_string();
    cascade.lab.observe(Observation::Deleted { watch, key, version });
    cascade.lab.assert_no_findings();
}

#[test]
fn an_object_whose_own_controller_waits_for_a_stuck_child_is_blocked_too() {
    let mut cascade = Cascade::new();
    cascade.parent.finalizers = vec!["example.io/cleanup".into()];
    cascade.child.finalizers = vec!["storage.other.com/detach".into()];
    cascade.child.owners[0].blocks_deletion = false;
    cascade.apply();
    cascade.run(16, &dependents(Vec::new()));

    assert_eq!(
        cascade.lab.roots(),
        ["FinalizerStuck StatefulSet team-a/web-db"],
        "{:?}",
        cascade.lab.findings()
    );
    assert!(cascade.lab.has("DeletionBlockedByDependent"));

    let alerts = cascade.lab.model.finding_events().into_iter().filter(|event| {
        let opened = event.change == loopwatch_model::finding::Change::Opened;
        opened && event.finding.explained_by.is_none() && event.finding.code.name() != "CleanupSlow"
    });
    let alerts: Vec<String> = alerts
        .map(|e| format!("{} {} {}", e.at, e.finding.code.name(), e.finding.subject))
        .collect();

    assert_eq!(alerts.len(), 1, "not even for a moment: {alerts:?}");
}

#[test]
fn dependents_that_disappear_are_progress() {
    let mut cascade = Cascade::new();
    cascade.parent.finalizers = vec!["example.io/cleanup".into()];
    cascade.child.finalizers.clear();
    cascade.apply();

    let mut children: Vec<ObjectView> = (0..10).map(|_| cascade.child.clone()).collect();
    for (number, child) in (10_u64..).zip(&mut children) {
        child.uid = uid(number);
        child.key.name = format!("web-{number}");
        cascade.lab.apply_to(&child_kind().watch, child.clone());
    }

    for child in children {
        cascade.lab.advance(Span::mins(6));
        cascade.lab.version += 1;

        let (watch, version) = (child_kind().watch, cascade.lab.version.to_string());
        cascade.lab.observe(Observation::Deleted { watch, key: child.key, version });

        assert!(!cascade.lab.has("FinalizerStuck"), "{:?}", cascade.lab.findings());
    }

    cascade.lab.advance(Span::mins(8));
    assert!(cascade.lab.has("FinalizerStuck"));
}

#[test]
fn a_leaf_of_a_kind_that_is_not_watched_is_read_and_only_its_owner_alerts() {
    let mut cascade = Cascade::new();
    let found = dependents(vec![claim(&cascade, &["kubernetes.io/pvc-protection"])]);
    cascade.run(14, &found);
    cascade.lab.assert_no_findings();
    cascade.run(3, &found);

    assert_eq!(cascade.lab.roots(), ["DeletionBlockedByDependent StatefulSet team-a/web-db"]);
    assert_eq!(cascade.lab.findings().len(), 2);

    let finding = cascade.lab.snapshot().findings.into_iter().find(|f| f.explained_by.is_none());
    let summary = finding.map(|finding| finding.summary()).unwrap_or_default();

    assert!(summary.contains("blocker PersistentVolumeClaim team-a/data-web-db-0"), "{summary}");
    assert!(summary.contains("kube-controller-manager, once no Pod uses the claim"), "{summary}");
}

#[test]
fn dependents_that_disappear_one_by_one_and_pods_in_their_grace_period_block_nothing() {
    let mut cascade = Cascade::new();
    let waiting = dependents(vec![claim(&cascade, &[])]);
    cascade.run(40, &waiting);
    cascade.lab.assert_no_findings();
}

#[test]
fn dependents_that_nobody_may_read_are_unknown() {
    let mut cascade = Cascade::new();
    cascade.run(40, &Answer::Failed(Cause::Forbidden));
    cascade.lab.assert_no_findings();
    cascade.run(30, &Answer::Failed(Cause::Forbidden));

    assert_eq!(
        cascade.lab.findings().len(),
        2,
        "the garbage collector makes no progress for an hour"
    );
    assert!(cascade.lab.findings().iter().all(|finding| finding.starts_with("FinalizerStuck")));
}

#[test]
fn a_blind_watch_raises_nothing() {
    let mut cascade = Cascade::new();
    cascade.child.finalizers.push("storage.other.com/detach".into());
    cascade.apply();
    cascade.lab.fail();
    cascade.lab.fail_watch(&child_kind().watch);
    cascade.run(60, &dependents(Vec::new()));

    assert!(cascade.lab.findings().iter().all(|finding| finding.starts_with("SourceFailing")));
}

#[test]
fn objects_that_own_each_other_do_not_hide_each_other() {
    let mut cascade = Cascade::new();
    cascade.parent.owners = vec![owner("StatefulSet", "web-db", 2)];
    for object in [&mut cascade.parent, &mut cascade.child] {
        object.finalizers.push("storage.other.com/detach".into());
    }

    cascade.apply();
    cascade.run(20, &dependents(Vec::new()));

    let stuck =
        cascade.lab.roots().into_iter().filter(|root| root.starts_with("FinalizerStuck")).count();

    assert_eq!(stuck, 2, "{:?}", cascade.lab.findings());
}

#[test]
fn a_chain_of_a_thousand_objects_and_ten_thousand_dependents_are_searched_within_limits() {
    let mut cascade = Cascade::new();
    for number in 0..1_000 {
        let mut link = cascade.parent.clone();
        link.key.name = format!("link-{number}");
        link.uid = uid(10 + number);
        link.owners = vec![owner("Widget", "link", if number == 0 { 1 } else { 9 + number })];
        cascade.lab.apply_view(link);
    }

    for number in 0..10_000 {
        let mut leaf = cascade.parent.clone();
        leaf.key.name = format!("leaf-{number}");
        leaf.uid = uid(5_000 + number);
        leaf.owners = vec![owner("Widget", "web", 1)];
        cascade.lab.apply_view(leaf);
    }

    cascade.lab.advance(Span::mins(15));
    assert!(cascade.lab.findings().len() < 20_000);
}

#[test]
fn a_restart_finds_the_same_chain() {
    let mut cascade = Cascade::new();
    cascade.child.finalizers.push("storage.other.com/detach".into());
    cascade.apply();
    cascade.run(16, &dependents(Vec::new()));

    let (checkpoint, roots) = (cascade.lab.model.checkpoint(), cascade.lab.roots());
    cascade.lab.model = Model::new(cascade.lab.model.settings().clone());
    cascade.lab.observe(Observation::Restored(Box::new(checkpoint)));
    cascade.lab.discover(&[kind(), child_kind()]);
    cascade.lab.list_in(&kind().watch, vec![cascade.parent.clone()]);
    cascade.lab.list_in(&child_kind().watch, vec![cascade.child.clone()]);
    cascade.lab.advance(Span::mins(2));

    assert_eq!(cascade.lab.roots(), roots);
}
