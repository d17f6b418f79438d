//! Objects that lose their owner, as happens in real clusters.

use loopwatch_model::observation::Cause;
use loopwatch_model::time::Span;

use crate::lab::{GROUP, World, at, map, spec_by, web};

#[test]
fn children_that_lose_their_owner_while_their_namespace_is_deleted_are_no_orphans() {
    let mut world = World::new();
    world.healthy(&web(), "widget-operator", &[]);
    world.owned(&map("web-settings"), &web());
    world.advance(Span::mins(5));
    world.lab.delete_namespace("team-a", &["NamespaceContentRemaining"]);
    world.put(&map("web-settings"), |view, _| view.owners.clear());
    world.advance(Span::mins(20));

    assert!(!world.lab.has("Orphan"), "{:?}", world.lab.findings());
}

#[test]
fn a_copy_of_a_child_in_another_namespace_has_an_owner_elsewhere() {
    let mut world = World::new();
    world.labelled(25);

    // Owner references cannot cross namespaces, so the operator only labels the copy.
    world.put(&at("", "ConfigMap", "clients", "w3-copy"), |view, now| {
        view.managers = vec![spec_by("widget-operator", now)];
        view.labels.insert("example.io/widget".into(), "w3".into());
    });
    world.advance(Span::mins(30));

    let confirmed: Vec<String> =
        world.lab.roots().into_iter().filter(|f| f.contains("w3-copy")).collect();
    let suspected =
        world.lab.snapshot().findings.iter().all(|f| f.confidence.as_str() == "suspected");

    assert!(suspected, "{confirmed:?}");
}

#[test]
fn a_label_that_is_cut_to_63_characters_still_names_its_owner() {
    let mut world = World::new();
    world.labelled(25);

    let long = "a".repeat(80);
    world.healthy(&at(GROUP, "Widget", "team-a", &long), "widget-operator", &[]);
    world.put(&map("long-settings"), |view, now| {
        view.managers = vec![spec_by("widget-operator", now)];
        view.labels.insert("example.io/widget".into(), long[..63].into());
    });
    world.advance(Span::mins(30));
    world.lab.assert_no_findings();
}

#[test]
fn velero_restores_children_without_owners_and_the_operator_adopts_them() {
    let mut world = World::new();
    world.labelled(25);
    world.put(&map("w3"), |view, now| {
        view.managers.push(spec_by("velero-server", now));
    });

    let gone = at(GROUP, "Widget", "team-a", "w3");
    world.remove(&gone);
    world.remove(&map("w3"));
    world.advance(Span::mins(10));
    world.put(&map("w3"), |view, now| {
        view.managers = vec![spec_by("velero-server", now)];
        view.labels.insert("example.io/widget".into(), "w3".into());
    });

    world.advance(Span::mins(2));
    world.healthy(&gone, "widget-operator", &[]);

    let owner = world.owner(&gone);
    world.put(&map("w3"), |view, _| view.owners = vec![owner]);
    world.advance(Span::mins(30));
    world.lab.assert_no_findings();
}

#[test]
fn a_child_that_lost_its_owner_just_before_a_restart_is_no_false_orphan() {
    let mut world = World::new();
    world.healthy(&web(), "widget-operator", &[]);
    world.owned(&map("web-settings"), &web());
    world.put(&map("web-settings"), |view, _| view.owners.clear());
    world.advance(Span::mins(1));
    world.restart();

    let owner = world.owner(&web());
    world.put(&map("web-settings"), |view, _| view.owners = vec![owner]);
    world.advance(Span::mins(30));
    world.lab.assert_no_findings();
}

#[test]
fn a_restart_keeps_an_open_orphan() {
    let mut world = World::new();
    world.healthy(&web(), "widget-operator", &[]);
    world.owned(&map("web-settings"), &web());
    world.put(&map("web-settings"), |view, _| view.owners.clear());
    world.advance(Span::mins(7));

    assert_eq!(world.lab.findings(), ["Orphan ConfigMap team-a/web-settings"]);

    world.restart();
    world.advance(Span::mins(10));

    assert_eq!(world.lab.findings(), ["Orphan ConfigMap team-a/web-settings"]);
}

#[test]
fn orphans_by_the_hundreds_after_a_gitops_mistake_are_all_found() {
    let mut world = World::new();
    world.healthy(&web(), "widget-operator", &[]);
    for n in 0..300 {
        world.owned(&map(&format!("m{n}")), &web());
    }

    world.advance(Span::mins(1));
    for n in 0..300 {
        world.put(&map(&format!("m{n}")), |view, _| view.owners.clear());
    }

    (0..5).for_each(|_| world.advance(Span::mins(2)));
    assert_eq!(world.lab.findings().iter().filter(|f| f.starts_with("Orphan")).count(), 300);
}

#[test]
fn an_orphan_that_cannot_be_read_in_an_outage_is_found_after_it() {
    let mut world = World::new();
    world.healthy(&web(), "widget-operator", &[]);
    world.owned(&map("m"), &web());
    world.put(&map("m"), |view, _| view.owners.clear());
    world.reads_fail = Some(Cause::Timeout);
    world.advance(Span::mins(10));
    world.lab.assert_no_findings();
    world.reads_fail = None;

    world.advance(Span::mins(15));
    assert_eq!(world.lab.findings(), ["Orphan ConfigMap team-a/m"]);
}
