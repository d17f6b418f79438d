//! Owners that annotations name.

use loopwatch_model::observation::{Cause, ObjectAddress};
use loopwatch_model::settings::Settings;
use loopwatch_model::time::Span;

use super::{create_labelled, with_siblings};
use crate::lab::{Lab, World, config_maps, kind, map, watch, widget_at};

#[test]
fn an_owner_in_annotations_that_vanishes_is_found() {
    let mut world = World::new();
    let (owner, child) = (widget_at("team-b", "hub"), map("spoke"));
    world.create(&owner, &[]);
    world.create(&child, &[]);
    world.put(&child, |view, _| {
        for (key, value) in
            [("owner-ns", "team-b"), ("owner-name", "hub"), ("owner-kind", "Widget")]
        {
            view.annotations.insert(format!("example.io/{key}"), value.into());
        }
    });

    world.advance(Span::mins(20));
    world.lab.assert_no_findings();
    world.remove(&owner);
    world.advance(Span::secs(302));

    assert_eq!(world.lab.findings(), ["LogicalOwnerMissing ConfigMap team-a/spoke"]);

    let evidence = world.lab.evidence();
    assert!(
        evidence.contains("Widget/hub in namespace team-b") && evidence.contains("owner-name"),
        "{evidence}"
    );

    world.create(&owner, &[]);
    world.lab.assert_no_findings();

    // The owner is recreated within the grace.
    world.remove(&owner);
    world.advance(Span::mins(4));
    world.create(&owner, &[]);
    world.advance(Span::mins(20));
    world.lab.assert_no_findings();

    // The object is cleaned up together with its owner.
    world.remove(&owner);
    world.advance(Span::secs(30));
    world.remove(&child);
    world.advance(Span::mins(20));
    world.lab.assert_no_findings();
}

#[test]
fn annotated_owners_of_foreign_kinds_and_unreadable_ones_are_not_judged() {
    let mut world = World::new();
    for (name, kind) in [("a", "Machine"), ("b", "Widget")] {
        world.create(&map(name), &[]);
        world.put(&map(name), |view, _| {
            view.annotations.insert("example.io/owner-name".into(), "hub".into());
            view.annotations.insert("example.io/owner-kind".into(), kind.into());
        });
    }

    world.reads_fail = Some(Cause::Forbidden);
    world.advance(Span::hours(1));
    world.lab.assert_no_findings();
}

/// Marks a child with the owner `team-b/hub`, by annotations with these keys.
fn annotate(world: &mut World, child: &ObjectAddress, [of_kind, namespace, name]: [&str; 3]) {
    world.put(child, |view, _| {
        for (key, value) in [(of_kind, "Widget"), (namespace, "team-b"), (name, "hub")] {
            view.annotations.insert(key.into(), value.into());
        }
    });
}

#[test]
fn the_annotations_of_owners_are_configurable() {
    let settings = Settings {
        owner_kind_annotation: "a.io/for".into(),
        owner_namespace_annotation: "a.io/in".into(),
        owner_name_annotation: "a.io/of".into(),
        ..Settings::default()
    };
    for (settings, expected) in [(settings, 1), (Settings::default(), 0)] {
        let mut world = World::with(settings);
        let owner = widget_at("team-b", "hub");
        world.create(&owner, &[]);
        world.create(&map("spoke"), &[]);
        world.create(&map("incomplete"), &[]);
        annotate(&mut world, &map("spoke"), ["a.io/for", "a.io/in", "a.io/of"]);
        annotate(&mut world, &map("incomplete"), ["a.io/for", "a.io/in", "a.io/other"]);
        world.advance(Span::mins(6));

        world.lab.assert_no_findings();
        world.remove(&owner);
        world.advance(Span::mins(6));

        assert_eq!(world.lab.findings().len(), expected, "{:?}", world.lab.findings());

        if expected > 0 {
            let evidence = world.lab.evidence();
            assert!(
                evidence.contains("Widget/hub in namespace team-b") && evidence.contains("a.io/of"),
                "{evidence}"
            );
        }
    }
}

#[test]
fn the_owner_may_be_listed_after_the_child() {
    for exists in [false, true] {
        let mut world = with_siblings(5);
        create_labelled(&mut world, &map("left"), "departed", |_| ());
        world.create(&map("spoke"), &[]);
        annotate(&mut world, &map("spoke"), ["owner-kind", "owner-ns", "owner-name"]);

        if exists {
            world.create_unseen(&widget_at("team-b", "hub"), &[]);
            world.create_unseen(&widget_at("team-a", "departed"), &[]);
        }

        world.lab = Lab::unsynced(Settings::default());
        world.lab.discover(&[kind(), config_maps()]);
        world.list_kinds(&[config_maps()]);
        world.advance(Span::mins(20));
        world.lab.assert_no_findings(); // the watch of the owner has not listed yet
        world.list_kinds(&[kind()]);
        world.advance(Span::mins(60));

        let expected =
            ["Orphan ConfigMap team-a/left", "LogicalOwnerMissing ConfigMap team-a/spoke"];

        assert_eq!(world.lab.findings(), if exists { &[][..] } else { &expected[..] });
    }
}

#[test]
fn a_finding_about_an_annotated_owner_survives_the_blindness_of_its_watch() {
    let mut world = World::new();
    world.create(&map("spoke"), &[]);
    annotate(&mut world, &map("spoke"), ["owner-kind", "owner-ns", "owner-name"]);
    world.advance(Span::mins(6));

    assert_eq!(world.lab.findings(), ["LogicalOwnerMissing ConfigMap team-a/spoke"]);

    world.lab.fail_watch(&watch());
    world.put(&map("spoke"), |view, _| drop(view.annotations.insert("more".into(), "news".into())));
    world.advance(Span::mins(1));

    assert_eq!(world.lab.findings(), ["LogicalOwnerMissing ConfigMap team-a/spoke"]);

    world.lab.recover_watch(&watch());
    world.create(&widget_at("team-b", "hub"), &[]);
    world.advance(Span::mins(2));
    world.lab.assert_no_findings();
}
