//! Objects without an owner: faults, their healthy twins, and near misses.

use loopwatch_model::observation::{Cause, ObjectView};
use loopwatch_model::settings::Settings;
use loopwatch_model::time::Span;

use super::{create_labelled, with_siblings};
use crate::lab::{World, map, web, widget_at};

/// Returns a world with a widget and its child.
fn with_child() -> World {
    let mut world = World::new();
    world.create(&web(), &[]);
    world.create(&map("web-settings"), &[world.owner(&web())]);
    world
}

#[test]
fn a_child_that_loses_its_owner_is_an_orphan_after_a_while() {
    let mut world = with_child();
    world.put(&map("web-settings"), |view, _| view.owners.clear());
    world.advance(Span::secs(299));
    world.lab.assert_no_findings();
    world.advance(Span::secs(2));

    assert_eq!(world.lab.roots(), ["Orphan ConfigMap team-a/web-settings"]);

    let evidence = world.lab.evidence();
    assert!(
        evidence.contains("former owner Widget/web") && evidence.contains("owner_removed"),
        "{evidence}"
    );
    assert_eq!(world.reads.len(), 1, "one read has confirmed it");

    let owner = world.owner(&web());
    world.put(&map("web-settings"), |view, _| view.owners.push(owner));
    world.lab.assert_no_findings();
}

#[test]
fn a_child_that_changes_its_owner_is_no_orphan() {
    let mut world = with_child();
    let other = widget_at("team-a", "other");
    world.create(&other, &[]);
    world.put(&map("web-settings"), |view, _| view.owners.clear());
    world.advance(Span::mins(4));

    let owner = world.owner(&other);
    world.put(&map("web-settings"), |view, _| view.owners.push(owner));
    world.advance(Span::mins(30));
    world.lab.assert_no_findings();
}

#[test]
fn a_deletion_with_orphan_policy_releases_the_children() {
    for owner_first in [true, false] {
        let mut world = with_child();
        let orphan = |world: &mut World| {
            let now = world.lab.now;
            world.put(&web(), |view, _| {
                (view.deleted, view.finalizers) = (Some(now), vec!["orphan".into()])
            });
        };

        if owner_first {
            orphan(&mut world);
        }

        world.put(&map("web-settings"), |view, _| view.owners.clear());
        if !owner_first {
            orphan(&mut world);
        }

        world.advance(Span::secs(1));
        world.remove(&web());
        world.advance(Span::mins(6));

        assert_eq!(world.lab.findings(), ["Orphan ConfigMap team-a/web-settings"]);
        assert_eq!(world.lab.snapshot().findings[0].confidence.as_str(), "suspected");
        assert!(world.lab.evidence().contains("reason released"), "{}", world.lab.evidence());
    }
}

#[test]
fn a_read_that_fails_or_contradicts_accuses_nobody() {
    for cause in [Cause::Forbidden, Cause::ServerError] {
        let mut world = with_child();
        world.reads_fail = Some(cause);
        world.put(&map("web-settings"), |view, _| view.owners.clear());
        world.advance(Span::mins(20));
        world.lab.assert_no_findings();
        world.reads_fail = None;
        world.advance(Span::mins(12));

        assert!(world.lab.has("Orphan"), "the model tries again");
    }

    let mut world = with_child();
    world.put(&map("web-settings"), |view, _| view.owners.clear());
    world.objects.remove(&map("web-settings"));
    world.advance(Span::mins(20));
    world.lab.assert_no_findings();
}

#[test]
fn an_object_whose_label_names_an_owner_that_is_gone_is_an_orphan() {
    let mut world = with_siblings(5);
    create_labelled(&mut world, &map("left"), "departed", |_| ());
    // The instance that its label names exists, so the operator keeps the object on purpose.
    create_labelled(&mut world, &map("kept"), "w3", |_| ());
    world.advance(Span::mins(6));

    assert_eq!(world.lab.roots(), ["Orphan ConfigMap team-a/left"]);
    assert!(world.lab.evidence().contains("former owner departed"), "{}", world.lab.evidence());
}

#[test]
fn four_siblings_prove_nothing_and_the_operators_own_objects_are_none_of_them() {
    let mut world = with_siblings(4);
    create_labelled(&mut world, &map("left"), "departed", |_| ());
    world.advance(Span::mins(30));
    world.lab.assert_no_findings();

    let mut world = with_siblings(19);
    world.create(&map("ca-bundle"), &[]);
    world.create(&map("lock"), &[]);
    world.advance(Span::mins(30));
    world.lab.assert_no_findings();
}

#[test]
fn an_exception_among_many_siblings_is_only_suspected() {
    let other = |view: &mut ObjectView| {
        view.labels.clear();
        view.labels.insert("app.kubernetes.io/managed-by".into(), "widget-operator".into());
    };
    let mut world = with_siblings(20);

    create_labelled(&mut world, &map("odd"), "", other);
    world.advance(Span::mins(6));

    assert_eq!(world.lab.findings(), ["Orphan ConfigMap team-a/odd"]);
    assert_eq!(world.lab.snapshot().findings[0].confidence.as_str(), "suspected");

    // Several of them are the rule, not an exception.
    create_labelled(&mut world, &map("odd-2"), "", other);
    world.advance(Span::mins(6));
    world.put(&map("odd"), |_, _| ());
    world.lab.assert_no_findings();
}

#[test]
fn while_the_owners_cannot_be_seen_labels_prove_nothing() {
    let mut world = with_siblings(5);
    create_labelled(&mut world, &map("left"), "departed", |_| ());
    world.lab.fail();
    world.advance(Span::mins(20));

    assert!(!world.lab.has("Orphan"));
}

#[test]
fn allowed_kinds_and_namespaces_are_no_orphans() {
    let rules = r#"{"findings":{"Orphan":[{"kinds":{"include":["ConfigMap"]},"namespaces":{"include":["team-*"]},"enabled":false}]}}"#;
    let settings: Settings = serde_json::from_str(rules).expect("settings");
    let mut world = World::with(settings);
    world.create(&web(), &[]);
    world.create(&map("web-settings"), &[world.owner(&web())]);
    world.put(&map("web-settings"), |view, _| view.owners.clear());
    world.advance(Span::mins(30));
    world.lab.assert_no_findings();
}

#[test]
fn a_restart_keeps_and_raises_no_orphan_without_a_reason() {
    let mut world = with_siblings(5);
    create_labelled(&mut world, &map("left"), "departed", |_| ());
    world.put(&map("c0"), |view, _| view.owners.clear());
    world.advance(Span::mins(6));

    assert_eq!(
        world.lab.findings(),
        ["Orphan ConfigMap team-a/c0", "Orphan ConfigMap team-a/left"]
    );

    world.restart();
    world.advance(Span::mins(30));

    assert_eq!(
        world.lab.findings(),
        ["Orphan ConfigMap team-a/c0", "Orphan ConfigMap team-a/left"]
    );
}
