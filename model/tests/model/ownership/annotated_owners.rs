//! Owners that annotations name, in other scopes and during outages.

use loopwatch_model::observation::{Role, Scope};
use loopwatch_model::time::Span;

use crate::lab::{GROUP, World, at, child, map, primary, watched, web};

#[test]
fn an_annotated_owner_that_goes_with_the_namespace_of_both_is_not_missed() {
    let mut world = World::new();
    world.healthy(&web(), "widget-operator", &[]);
    world.put(&map("web-settings"), |view, _| {
        view.annotations.insert("example.io/owner-kind".into(), "Widget".into());
        view.annotations.insert("example.io/owner-name".into(), "web".into());
    });
    world.advance(Span::mins(5));
    world.delete_namespace("team-a", &["NamespaceContentRemaining"]);

    world.remove(&web());
    world.advance(Span::mins(20));

    assert!(!world.lab.has("LogicalOwnerMissing"), "{:?}", world.lab.findings());
}

#[test]
fn a_cluster_scoped_object_whose_annotations_name_a_namespaced_owner_without_its_namespace_is_not_judged()
 {
    // World API annotates each Node with the kind and the name of the MachineSet above it.
    let group = "world.x-k8s.io";
    let mut world = World::of(&[
        primary(group, "MachineSet"),
        watched(Role::Child, "", "Node", Scope::Cluster),
    ]);

    world.healthy(&at(group, "MachineSet", "clusters", "md-0"), "manager", &[]);
    world.put(&at("", "Node", "", "ip-10-0-0-1"), |view, _| {
        view.annotations.insert("world.x-k8s.io/owner-kind".into(), "MachineSet".into());
        view.annotations.insert("world.x-k8s.io/owner-name".into(), "md-0".into());
        view.annotations.insert("world.x-k8s.io/cluster-namespace".into(), "clusters".into());
    });
    world.advance(Span::mins(30));
    world.lab.assert_no_findings();
}

#[test]
fn an_annotated_owner_without_namespace_may_be_cluster_scoped() {
    let mut world = World::of(&[
        watched(Role::Primary, GROUP, "Tenant", Scope::Cluster),
        child("", "ConfigMap"),
    ]);
    let tenant = at(GROUP, "Tenant", "", "acme");

    world.healthy(&tenant, "tenant-operator", &[]);
    world.put(&map("acme-settings"), |view, _| {
        view.annotations.insert("example.io/owner-kind".into(), "Tenant".into());
        view.annotations.insert("example.io/owner-name".into(), "acme".into());
    });
    world.advance(Span::mins(30));
    world.lab.assert_no_findings();

    assert_eq!(world.reads.len(), 0, "the watch shows the owner");

    world.remove(&tenant);
    world.advance(Span::mins(7));

    assert_eq!(world.lab.findings(), ["LogicalOwnerMissing ConfigMap team-a/acme-settings"]);
}

#[test]
fn an_annotated_owner_that_vanishes_during_an_outage_is_found_after_it() {
    let mut world = World::new();
    world.healthy(&web(), "widget-operator", &[]);

    let child = at("", "ConfigMap", "team-b", "m");
    world.put(&child, |view, _| {
        view.annotations.insert("example.io/owner-kind".into(), "Widget".into());
        view.annotations.insert("example.io/owner-namespace".into(), "team-a".into());
        view.annotations.insert("example.io/owner-name".into(), "web".into());
    });
    world.advance(Span::mins(5));
    world.objects.remove(&web());

    world.list();
    world.advance(Span::mins(12));

    assert_eq!(world.lab.findings(), ["LogicalOwnerMissing ConfigMap team-b/m"]);

    world.healthy(&web(), "widget-operator", &[]);
    world.advance(Span::secs(10));
    world.lab.assert_no_findings();
}
