//! Owners that no watch shows: loopwatch reads them, and a failed read causes no finding.

use loopwatch_model::observation::{Cause, Role, Scope};
use loopwatch_model::time::Span;

use crate::lab::{GROUP, World, at, child, map, primary, watched, web};

#[test]
fn a_crossplane_composite_is_cluster_scoped_and_owns_namespaced_objects() {
    let group = "apiextensions.example.org";
    let mut world = World::of(&[
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
    world.advance(Span::mins(20));
    world.lab.assert_no_findings();
}

#[test]
fn an_owner_of_an_unwatched_cluster_scoped_kind_of_the_operator_exists() {
    let mut world = World::new();
    world.cluster_scoped.insert("WidgetClass".into());

    let class = at(GROUP, "WidgetClass", "", "gold");
    world.put_unseen(&class, |_, _| {});
    world.owned(&map("class-settings"), &class);
    world.advance(Span::mins(20));
    world.lab.assert_no_findings();

    assert!(world.reads.len() <= 3, "{}", world.reads.len());
}

#[test]
fn an_owner_in_a_namespace_that_is_not_watched_is_read() {
    let of = |ns: &str| watched(Role::Primary, GROUP, "Widget", Scope::Namespace(ns.into()));
    let mut world = World::of(&[of("team-a"), of("team-b"), child("", "ConfigMap")]);
    let other = at(GROUP, "Widget", "team-c", "web");
    world.put_unseen(&other, |_, _| {});

    let child = at("", "ConfigMap", "team-c", "web-settings");
    world.owned(&child, &other);
    world.advance(Span::mins(20));
    world.lab.assert_no_findings();
}

#[test]
fn an_owner_that_never_existed_is_found_after_an_outage_of_reads() {
    let mut world = World::new();
    world.healthy(&web(), "widget-operator", &[]);

    let mut ghost = world.owner(&web());
    ghost.uid = "11111111-0000-4000-8000-000000000000".into();
    ghost.name = "ghost".into();
    world.reads_fail = Some(Cause::ServerError);
    world.put(&map("ghost-settings"), |view, _| view.owners = vec![ghost]);
    world.advance(Span::mins(3));
    world.lab.assert_no_findings();
    world.reads_fail = None;

    world.advance(Span::mins(30));
    assert_eq!(world.lab.findings(), ["OwnerMissing ConfigMap team-a/ghost-settings"]);
}

#[test]
fn a_kind_that_loopwatch_may_not_read_is_never_accused_and_rarely_read() {
    let mut world = World::new();
    world.refused.insert("Widget".into());
    world.healthy(&web(), "widget-operator", &[]);

    for n in 0..20 {
        let mut ghost = world.owner(&web());
        ghost.uid = format!("11111111-0000-4000-8000-{n:012x}");
        ghost.name = format!("ghost-{n}");
        world.put(&map(&format!("m{n}")), |view, _| view.owners = vec![ghost]);
    }

    world.advance(Span::hours(2));
    world.lab.assert_no_findings();

    assert!(world.reads.len() <= 40, "{}", world.reads.len());
}

#[test]
fn a_manifest_that_was_copied_with_its_owner_references_is_missing_its_owner() {
    let mut world = World::new();
    world.healthy(&web(), "widget-operator", &[]);

    let mut copied = world.owner(&web());
    copied.uid = "22222222-0000-4000-8000-000000000000".into();
    world.put(&map("copied"), |view, _| view.owners = vec![copied]);
    world.advance(Span::secs(4));

    assert_eq!(world.lab.findings(), ["OwnerReplaced ConfigMap team-a/copied"]);

    world.remove(&map("copied"));
    world.advance(Span::mins(16));
    world.lab.assert_no_findings();
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

    let mut world = World::of(&[of(Role::Primary, "Widget"), of(Role::Child, "ConfigMap")]);
    world.cluster_scoped.insert("WidgetClass".into());

    let class = at(GROUP, "WidgetClass", "", "gold");
    world.put_unseen(&class, |_, _| {});
    world.owned(&map("class-settings"), &class);
    world.advance(Span::mins(20));
    world.lab.assert_no_findings();
}

#[test]
fn a_foreign_kind_that_is_installed_again_makes_its_owners_resolvable() {
    let mut world = World::new();
    world.healthy(&web(), "widget-operator", &[]);
    world.unserved.insert("Gadget".into());

    let mut foreign = world.owner(&web());
    foreign.api_version = "gadgets.other.com/v1".into();
    foreign.kind = "Gadget".into();
    foreign.uid = "33333333-0000-4000-8000-000000000000".into();

    let own = world.owner(&web());
    world.put(&map("m"), |view, _| view.owners = vec![own, foreign]);
    world.advance(Span::mins(1));

    assert_eq!(world.lab.findings(), ["OwnerUnresolvable ConfigMap team-a/m"]);

    world.unserved.clear();
    (0..30).for_each(|_| world.advance(Span::mins(2)));
    world.lab.assert_no_findings();
}

#[test]
fn a_kind_of_the_operator_that_is_installed_again_makes_its_owners_resolvable() {
    let mut world = World::new();
    world.unserved.insert("WidgetSet".into());

    let set = at(GROUP, "WidgetSet", "team-a", "all");
    world.put_unseen(&set, |_, _| {});
    world.owned(&map("m"), &set);
    world.advance(Span::mins(1));

    assert_eq!(world.lab.findings(), ["OwnerUnresolvable ConfigMap team-a/m"]);

    world.unserved.clear();
    (0..30).for_each(|_| world.advance(Span::mins(2)));
    world.lab.assert_no_findings();
}

#[test]
fn a_missing_owner_is_the_same_finding_after_a_restart() {
    let mut world = World::new();
    world.healthy(&web(), "widget-operator", &[]);

    let mut ghost = world.owner(&web());
    (ghost.uid, ghost.name) = ("11111111-0000-4000-8000-000000000000".into(), "ghost".into());
    world.put(&map("m"), |view, _| view.owners = vec![ghost]);
    world.advance(Span::mins(1));

    let since = world.lab.since("OwnerMissing");
    world.advance(Span::mins(30));
    world.restart();
    world.advance(Span::mins(10));

    assert_eq!(world.lab.findings(), ["OwnerMissing ConfigMap team-a/m"]);
    assert_eq!(world.lab.since("OwnerMissing"), since);
}
