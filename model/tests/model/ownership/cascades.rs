//! Owners that are deleted, replaced and created again, as real operators and tools do.

use loopwatch_model::observation::ObjectAddress;
use loopwatch_model::time::Span;

use crate::lab::{GROUP, World, at, child, map, primary, spec_by, web};

#[test]
fn a_statefulset_that_is_recreated_with_orphan_policy_adopts_its_pods() {
    let mut world =
        World::of(&[primary(GROUP, "Widget"), child("apps", "StatefulSet"), child("", "Pod")]);
    world.healthy(&web(), "widget-operator", &[]);

    let (set, pod) = (at("apps", "StatefulSet", "team-a", "web"), at("", "Pod", "team-a", "web-0"));
    world.owned(&set, &web());
    world.owned(&pod, &set);
    world.advance(Span::mins(5));
    world.put(&set, |view, now| {
        (view.deleted, view.finalizers) = (Some(now), vec!["orphan".into()])
    });
    world.put(&pod, |view, _| view.owners.clear());

    world.remove(&set);
    world.advance(Span::secs(3));
    world.owned(&set, &web());
    world.advance(Span::secs(2));

    let owner = world.owner(&set);
    world.put(&pod, |view, _| view.owners = vec![owner]);
    world.advance(Span::mins(30));
    world.lab.assert_no_findings();
}

#[test]
fn kubectl_replace_force_creates_an_owner_again_before_its_children_are_collected() {
    let mut world = World::new();
    world.healthy(&web(), "widget-operator", &[]);
    for n in 0..20 {
        world.owned(&map(&format!("m{n}")), &web());
    }

    world.advance(Span::mins(5));
    world.remove(&web());
    world.healthy(&web(), "widget-operator", &[]);
    world.advance(Span::secs(20));

    for n in 0..20 {
        world.remove(&map(&format!("m{n}")));
        world.owned(&map(&format!("m{n}")), &web());
    }

    world.advance(Span::mins(30));
    world.lab.assert_no_findings();
}

#[test]
fn an_outage_in_the_middle_of_a_cascade_accuses_nobody() {
    let mut world = World::new();
    world.healthy(&web(), "widget-operator", &[]);
    for n in 0..50 {
        world.owned(&map(&format!("m{n}")), &web());
    }

    world.advance(Span::mins(5));
    world.remove(&web());
    for kind in world.kinds.clone() {
        world.lab.fail_watch(&kind.watch);
    }

    world.advance(Span::mins(1));
    world.objects.clear();
    for kind in world.kinds.clone() {
        world.lab.recover_watch(&kind.watch);
    }

    world.list();
    world.advance(Span::mins(30));
    world.lab.assert_no_findings();
}

#[test]
fn a_cascade_of_ten_thousand_raises_nothing() {
    let mut world = World::new();
    world.healthy(&web(), "widget-operator", &["foregroundDeletion"]);

    let owner = world.owner(&web());
    let maps: Vec<ObjectAddress> = (0..10_000).map(|n| map(&format!("m{n}"))).collect();
    for map in &maps {
        world.put(map, |view, _| view.owners = vec![owner.clone()]);
    }

    world.delete(&web());
    for (n, map) in maps.iter().enumerate() {
        world.remove(map);
        if n % 200 == 0 {
            world.advance(Span::secs(10));
        }
    }

    world.remove(&web());
    world.advance(Span::mins(20));

    assert_eq!(world.lab.changes(), Vec::<String>::new());
}

#[test]
fn an_operator_that_hands_children_over_to_another_owner_orphans_nobody() {
    let mut world = World::new();
    let next = at(GROUP, "Widget", "team-a", "next");
    world.healthy(&web(), "widget-operator", &[]);
    world.healthy(&next, "widget-operator", &[]);
    world.owned(&map("shared"), &web());
    world.advance(Span::mins(5));

    let both = vec![world.owner(&web()), world.owner(&next)];
    world.put(&map("shared"), |view, _| view.owners = both);
    world.remove(&web());

    let only = world.owner(&next);
    world.put(&map("shared"), |view, _| view.owners = vec![only]);
    world.advance(Span::mins(30));
    world.lab.assert_no_findings();
}

#[test]
fn an_owner_that_owns_itself_is_a_cycle() {
    let mut world = World::new();
    world.healthy(&web(), "widget-operator", &[]);

    let owner = world.owner(&web());
    world.put(&web(), |view, _| view.owners = vec![owner]);
    world.advance(Span::secs(5));

    assert_eq!(world.lab.findings(), ["OwnerCycle Widget team-a/web"]);
}

#[test]
fn an_olm_upgrade_replaces_the_owner_of_a_deployment() {
    let group = "operators.coreos.com";
    let mut world =
        World::of(&[primary(group, "ClusterServiceVersion"), child("apps", "Deployment")]);
    let (old, new) = (
        at(group, "ClusterServiceVersion", "ops", "shop.v1"),
        at(group, "ClusterServiceVersion", "ops", "shop.v2"),
    );

    world.healthy(&old, "olm", &["operators.coreos.com/csv-cleanup"]);
    let deployment = at("apps", "Deployment", "ops", "shop-operator");
    world.owned(&deployment, &old);
    world.advance(Span::mins(5));
    world.healthy(&new, "olm", &["operators.coreos.com/csv-cleanup"]);

    let owner = world.owner(&new);
    world.put(&deployment, |view, _| view.owners = vec![owner]);
    world.delete(&old);
    world.advance(Span::secs(20));
    world.remove(&old);
    world.advance(Span::mins(30));
    world.lab.assert_no_findings();
}

#[test]
fn an_owner_deleted_while_its_operator_creates_a_child_from_a_stale_cache_is_no_hazard() {
    let mut world = World::new();
    world.healthy(&web(), "widget-operator", &[]);

    let owner = world.owner(&web());
    world.remove(&web());
    world.advance(Span::secs(1));
    world.put(&map("late"), |view, _| view.owners = vec![owner]);
    world.advance(Span::secs(20));
    world.remove(&map("late"));
    world.advance(Span::mins(20));
    world.lab.assert_no_findings();
}

#[test]
fn a_kind_that_becomes_forbidden_does_not_make_its_children_orphans() {
    let mut world = World::new();
    world.labelled(25);

    let mut kinds = world.kinds.clone();
    kinds[0].missing = vec!["list".into(), "watch".into()];
    world.kinds = kinds.clone();
    world.refused.insert("Widget".into());
    world.lab.discover(&kinds);
    world.put(&map("extra"), |view, now| {
        view.managers = vec![spec_by("widget-operator", now)];
        view.labels.insert("example.io/widget".into(), "hidden".into());
    });

    world.advance(Span::mins(30));
    let bad: Vec<String> =
        world.lab.findings().into_iter().filter(|f| f.contains("ConfigMap")).collect();

    assert_eq!(bad, Vec::<String>::new());
}

#[test]
fn a_watch_that_leaves_the_scope_closes_its_hazards() {
    let mut world = World::new();
    world.healthy(&web(), "widget-operator", &[]);

    let other = at("", "ConfigMap", "team-b", "m");
    world.owned(&other, &web());

    assert_eq!(world.lab.findings(), ["CrossNamespaceOwner ConfigMap team-b/m"]);

    let only = vec![world.kinds[0].clone()];
    world.kinds.clone_from(&only);
    world.lab.discover(&only);
    world.advance(Span::mins(20));
    world.lab.assert_no_findings();
}

#[test]
fn an_owner_in_another_namespace_is_the_same_finding_after_a_restart() {
    let mut world = World::new();
    world.healthy(&web(), "widget-operator", &[]);
    world.owned(&at("", "ConfigMap", "team-b", "m"), &web());

    let since = world.lab.since("CrossNamespaceOwner");
    world.advance(Span::mins(30));
    world.restart();
    world.advance(Span::mins(10));

    assert_eq!(world.lab.findings(), ["CrossNamespaceOwner ConfigMap team-b/m"]);
    assert_eq!(world.lab.since("CrossNamespaceOwner"), since);
}

#[test]
fn a_terminating_child_of_a_missing_owner_is_no_hazard() {
    let mut world = World::new();
    world.healthy(&web(), "widget-operator", &[]);
    world.owned(&map("m"), &web());
    world.put(&map("m"), |view, _| view.finalizers = vec!["backup.other.com/snapshot".into()]);
    world.advance(Span::mins(5));
    world.remove(&web());
    world.advance(Span::secs(2));
    world.delete(&map("m"));

    world.advance(Span::mins(4));
    world.remove(&map("m"));
    world.advance(Span::mins(20));
    world.lab.assert_no_findings();
}

#[test]
fn a_cross_namespace_owner_reference_that_is_corrected_ends() {
    let mut world = World::new();
    world.healthy(&web(), "widget-operator", &[]);

    let child = at("", "ConfigMap", "team-b", "m");
    world.owned(&child, &web());
    world.put(&child, |view, _| view.owners.clear());
    world.advance(Span::mins(16));

    assert!(!world.lab.has("CrossNamespaceOwner"), "{:?}", world.lab.findings());
}
