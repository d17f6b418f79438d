//! Chains of deletions: the last object is found, and one cause raises one alert.

use loopwatch_model::observation::{Cause, ObjectAddress, ObjectView};
use loopwatch_model::time::Span;

use crate::lab::{GROUP, World, at, child, primary, texts, web, widget_at};

/// The address of the child of `web`.
fn db() -> ObjectAddress {
    at("apps", "StatefulSet", "team-a", "web-db")
}

/// Returns a world with a parent and a child that wait for the garbage collector.
fn cascade() -> World {
    let mut world = World::of(&[primary(GROUP, "Widget"), child("apps", "StatefulSet")]);
    for object in [web(), db()] {
        world.healthy(&object, "widget-operator", &[]);
    }

    let parent = world.owner(&web());
    for (object, owners) in [(web(), vec![]), (db(), vec![parent])] {
        world.put(&object, |view, now| {
            view.owners = owners;
            view.deleted = Some(now);
            view.finalizers = vec!["foregroundDeletion".into()];
        });
    }

    world
}

/// Adds the finalizer of another controller, which delays the deletion of an object, too.
fn detach(world: &mut World, object: &ObjectAddress) {
    world.put(object, |view, _| view.finalizers.push("storage.other.com/detach".into()));
}

/// Adds a claim that the child owns. It is being deleted, and no watch shows it.
fn claim(world: &mut World, finalizers: &[&str]) {
    let owner = world.owner(&db());
    let claim = at("", "PersistentVolumeClaim", "team-a", "data-web-db-0");
    world.put_unseen(&claim, |view, now| {
        view.deleted = Some(now);
        view.finalizers = texts(finalizers);
        view.owners = vec![owner];
    });
}

#[test]
fn a_watched_leaf_explains_the_objects_above_it() {
    let mut world = cascade();
    detach(&mut world, &db());
    world.advance(Span::mins(15));

    assert_eq!(
        world.lab.roots(),
        ["FinalizerStuck StatefulSet team-a/web-db"],
        "{:?}",
        world.lab.findings()
    );

    let finding = world.lab.finding("DeletionBlockedByDependent");
    assert_eq!(finding.subject.name(), "web");

    let summary = finding.summary();
    assert!(summary.contains("blocker StatefulSet team-a/web-db"), "{summary}");
    assert!(summary.contains(
        "actor garbage collector, once all blocking dependents are gone, the controller of storage"
    ));
    assert!(summary.contains("chain Widget team-a/web, StatefulSet team-a/web-db"), "{summary}");

    let kinds = world.lab.snapshot().kinds;
    let widgets = kinds.iter().find(|kind| kind.kind == "Widget").expect("the parent's kind");

    assert_eq!(widgets.finalizers["foregroundDeletion"].waiting[4], 1, "blocked_by_dependent");

    // The leaf disappears, and everything else with it.
    world.remove(&db());
    world.lab.assert_no_findings();
}

#[test]
fn an_object_whose_own_controller_waits_for_a_stuck_child_is_blocked_too() {
    let mut world = cascade();
    world.put(&web(), |view, _| view.finalizers = vec!["example.io/cleanup".into()]);
    world.put(&db(), |view, _| {
        view.finalizers = vec!["storage.other.com/detach".into()];
        view.owners[0].blocks_deletion = false;
    });
    world.advance(Span::mins(16));

    assert_eq!(
        world.lab.roots(),
        ["FinalizerStuck StatefulSet team-a/web-db"],
        "{:?}",
        world.lab.findings()
    );
    assert!(world.lab.has("DeletionBlockedByDependent"));

    let alerts = world.lab.model.finding_events().into_iter().filter(|event| {
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
    let mut world = cascade();
    world.put(&web(), |view, _| view.finalizers = vec!["example.io/cleanup".into()]);
    world.put(&db(), |view, _| view.finalizers.clear());

    let children: Vec<ObjectAddress> =
        (0..10).map(|n| at("apps", "StatefulSet", "team-a", &format!("web-{n}"))).collect();
    for child in &children {
        world.owned(child, &web());
        world.put(child, |view, now| view.deleted = Some(now));
    }

    for child in children {
        world.advance(Span::mins(6));
        world.remove(&child);

        assert!(!world.lab.has("FinalizerStuck"), "{:?}", world.lab.findings());
    }

    world.advance(Span::mins(14));
    assert!(!world.lab.has("FinalizerStuck"), "the last one begins the time anew");
    world.advance(Span::mins(2));
    assert!(world.lab.has("FinalizerStuck"));
}

#[test]
fn a_leaf_of_a_kind_that_is_not_watched_is_read_and_only_its_owner_alerts() {
    let mut world = cascade();
    claim(&mut world, &["kubernetes.io/pvc-protection"]);
    world.advance(Span::mins(14));
    world.lab.assert_no_findings();
    world.advance(Span::mins(3));

    assert_eq!(world.lab.roots(), ["DeletionBlockedByDependent StatefulSet team-a/web-db"]);
    assert_eq!(world.lab.findings().len(), 2);

    let finding = world.lab.snapshot().findings.into_iter().find(|f| f.explained_by.is_none());
    let summary = finding.map(|finding| finding.summary()).unwrap_or_default();

    assert!(summary.contains("blocker PersistentVolumeClaim team-a/data-web-db-0"), "{summary}");
    assert!(summary.contains("kube-controller-manager, once no Pod uses the claim"), "{summary}");
}

#[test]
fn dependents_that_disappear_one_by_one_and_pods_in_their_grace_period_block_nothing() {
    let mut world = cascade();
    claim(&mut world, &[]);
    world.advance(Span::mins(40));
    world.lab.assert_no_findings();
}

#[test]
fn dependents_that_nobody_may_read_are_unknown() {
    let mut world = cascade();
    world.reads_fail = Some(Cause::Forbidden);
    world.advance(Span::mins(40));
    world.lab.assert_no_findings();
    world.advance(Span::mins(30));

    assert_eq!(
        world.lab.findings().len(),
        2,
        "the garbage collector makes no progress for an hour"
    );
    assert!(world.lab.findings().iter().all(|finding| finding.starts_with("FinalizerStuck")));
}

#[test]
fn a_blind_watch_raises_nothing() {
    let mut world = cascade();
    detach(&mut world, &db());
    world.lab.fail();
    world.lab.fail_watch(&child("apps", "StatefulSet").watch);
    world.advance(Span::mins(60));

    assert!(world.lab.findings().iter().all(|finding| finding.starts_with("SourceFailing")));
}

#[test]
fn objects_that_own_each_other_do_not_hide_each_other() {
    let mut world = cascade();
    let owner = world.owner(&db());
    world.put(&web(), |view, _| view.owners = vec![owner]);
    for object in [web(), db()] {
        detach(&mut world, &object);
    }

    world.advance(Span::mins(20));

    let stuck =
        world.lab.roots().into_iter().filter(|root| root.starts_with("FinalizerStuck")).count();

    assert_eq!(stuck, 2, "{:?}", world.lab.findings());
}

#[test]
fn a_chain_of_a_thousand_objects_and_ten_thousand_dependents_are_searched_within_limits() {
    let mut world = cascade();
    let parent = world.objects[&web()].clone();
    let mut terminating = |name: String, owner: &ObjectAddress| {
        let (at, owners) = (widget_at("team-a", &name), vec![world.owner(owner)]);
        world.put(&at, |view, _| {
            let (key, uid) = (view.key.clone(), view.uid.clone());
            *view = ObjectView { key, uid, owners, ..parent.clone() };
        });
        at
    };

    let mut owner = web();
    for number in 0..1_000 {
        owner = terminating(format!("link-{number}"), &owner);
    }

    for number in 0..10_000 {
        terminating(format!("leaf-{number}"), &web());
    }

    world.lab.advance(Span::mins(15));
    assert!(world.lab.findings().len() < 20_000);
}

#[test]
fn a_restart_finds_the_same_chain() {
    let mut world = cascade();
    detach(&mut world, &db());
    world.advance(Span::mins(16));

    let roots = world.lab.roots();
    world.restart();
    world.advance(Span::mins(2));

    assert_eq!(world.lab.roots(), roots);
}
