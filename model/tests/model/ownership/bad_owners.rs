//! Owner references as the garbage collector judges them: faults, their healthy twins, and near
//! misses.

use loopwatch_model::observation::{Cause, ObjectAddress, OwnerReference};
use loopwatch_model::time::Span;

use crate::lab::{GROUP, World, at, config_maps, kind, owner, unlearned, web, widget_at};

fn settings_of(namespace: &str) -> ObjectAddress {
    at("", "ConfigMap", namespace, "web-settings")
}

/// Returns a reference to an object that loopwatch has never seen.
fn stranger(name: &str) -> OwnerReference {
    owner(&widget_at("team-a", name), "11111111-0000-4000-8000-000000000000")
}

#[test]
fn an_owner_in_another_namespace_is_found_at_once_and_stays_visible_after_the_collection() {
    let mut world = World::new();
    world.create(&web(), &[]);

    let child = settings_of("team-b");
    world.create(&child, &[world.owner(&web())]);

    assert_eq!(world.lab.findings(), ["CrossNamespaceOwner ConfigMap team-b/web-settings"]);

    let evidence = world.lab.evidence();
    assert!(
        evidence.contains("owner namespace team-a") && evidence.contains("widget-operator"),
        "{evidence}"
    );

    let name = |world: &mut World| {
        let events = world.lab.model.reference_events();
        events
            .iter()
            .map(|e| format!("{}: {} -> {}", e.name(), e.source, e.target))
            .collect::<Vec<_>>()
            .join(", ")
    };

    let both = "ConfigMap team-b/web-settings -> Widget.example.io team-a/web";
    assert_eq!(name(&mut world), format!("cross_namespace_owner_appeared: {both}"));

    world.advance(Span::secs(3));
    world.remove(&child);

    assert_eq!(name(&mut world), format!("cross_namespace_owner_disappeared: {both}"));
    assert!(world.lab.evidence().contains("collected after 3s"), "{}", world.lab.evidence());

    // The operator creates it again, and the garbage collector deletes it again.
    world.create(&child, &[world.owner(&web())]);
    assert!(world.lab.evidence().contains("times 2"), "{}", world.lab.evidence());

    world.remove(&child);
    world.advance(Span::mins(14));

    assert_eq!(world.lab.findings().len(), 1);

    world.advance(Span::mins(2));
    world.lab.assert_no_findings();

    assert_eq!(
        world.lab.snapshot().kinds.iter().flat_map(|kind| kind.totals.hazards).sum::<u64>(),
        2
    );
}

#[test]
fn an_owner_of_another_namespace_that_appears_after_the_child_is_found_too() {
    let mut world = World::new();
    world.create_unseen(&web(), &[]);
    world.create(&settings_of("team-b"), &[world.owner(&web())]);
    world.lab.assert_no_findings();
    world.see(&web());

    assert_eq!(world.lab.findings(), ["CrossNamespaceOwner ConfigMap team-b/web-settings"]);
}

#[test]
fn owners_in_the_same_namespace_or_without_one_are_fine() {
    let mut world = World::new();
    let global = widget_at("", "global");
    world.create(&web(), &[]);
    world.create(&global, &[]);
    world.create(&settings_of("team-a"), &[world.owner(&web()), world.owner(&global)]);
    world.create(&settings_of("team-b"), &[world.owner(&global)]);
    world.advance(Span::hours(1));
    world.lab.assert_no_findings();

    assert_eq!(world.reads.len(), 0);
}

#[test]
fn an_owner_that_never_existed_is_missing() {
    let mut world = World::new();
    let child = settings_of("team-a");
    world.create(&child, &[stranger("gone")]);
    world.lab.assert_no_findings();
    world.advance(Span::secs(3));

    assert_eq!(world.lab.findings(), ["OwnerMissing ConfigMap team-a/web-settings"]);
    assert!(world.lab.evidence().contains("Widget/gone"), "{}", world.lab.evidence());

    world.remove(&child);
    assert!(world.lab.has("OwnerMissing"));
}

#[test]
fn a_child_that_the_garbage_collector_takes_before_the_answer_is_still_found() {
    let mut world = World::new();
    let child = settings_of("team-a");
    world.create(&child, &[stranger("gone")]);
    world.advance(Span(400));
    world.remove(&child);
    world.advance(Span::secs(5));

    assert_eq!(world.lab.findings(), ["OwnerMissing ConfigMap team-a/web-settings"]);
    assert!(world.lab.evidence().contains("collected after"), "{}", world.lab.evidence());
}

#[test]
fn an_owner_whose_event_comes_later_is_fine_and_costs_no_read() {
    let mut world = World::new();
    world.create_unseen(&web(), &[]);
    world.create(&settings_of("team-a"), &[world.owner(&web())]);
    world.advance(Span::secs(1));
    world.see(&web());
    world.advance(Span::mins(10));
    world.lab.assert_no_findings();

    assert_eq!(world.reads.len(), 0);
}

#[test]
fn a_read_that_finds_the_owner_ends_the_doubt_and_one_that_fails_decides_nothing() {
    for cause in [None, Some(Cause::Forbidden), Some(Cause::ServerError)] {
        let mut world = World::new();
        world.create_unseen(&web(), &[]); // its watch never reports it
        world.reads_fail = cause;
        world.create(&settings_of("team-a"), &[world.owner(&web())]);
        world.advance(Span::mins(30));
        world.lab.assert_no_findings();

        // Another read may succeed after a failure of the API server, but not without the
        // permission.
        let expected = if cause == Some(Cause::ServerError) { 3 } else { 1 };
        assert_eq!(world.reads.len(), expected, "{cause:?}");
    }
}

/// Returns a world in which an owner has been replaced a minute ago, with a reference to the old one.
fn replaced() -> (World, OwnerReference) {
    let mut world = World::new();
    world.create(&web(), &[]);

    let old = world.owner(&web());
    world.remove(&web());
    world.create(&web(), &[]);
    world.advance(Span::mins(1));

    (world, old)
}

#[test]
fn an_operator_that_keeps_the_uid_of_a_deleted_object_is_found() {
    let (mut world, old) = replaced();

    let child = settings_of("team-a");
    world.create(&child, &[old]);
    world.advance(Span::secs(3));

    assert_eq!(world.lab.findings(), ["OwnerReplaced ConfigMap team-a/web-settings"]);
}

#[test]
fn a_child_with_an_old_uid_that_is_collected_at_once_is_found() {
    let (mut world, old) = replaced();

    let child = settings_of("team-a");
    world.create(&child, &[old]);
    world.advance(Span(300));
    world.remove(&child);
    world.advance(Span::secs(4));

    assert_eq!(world.lab.findings(), ["OwnerReplaced ConfigMap team-a/web-settings"]);
}

#[test]
fn a_child_that_is_collected_and_created_again_is_one_finding() {
    let (mut world, old) = replaced();
    world.lab.changes();

    let child = settings_of("team-a");
    for _ in 0..30 {
        world.create(&child, std::slice::from_ref(&old));
        world.advance(Span(300));
        world.remove(&child);
        world.advance(Span::mins(2));
    }
    let changes = world.lab.changes();
    assert_eq!(changes, ["Opened OwnerReplaced ConfigMap team-a/web-settings"]);

    world.advance(Span::mins(14));
    world.lab.assert_no_findings();
}

#[test]
fn a_cascade_and_a_recreation_are_no_hazards() {
    let mut world = World::new();
    world.create(&web(), &[]);

    let old = world.owner(&web());
    let (first, late) = (settings_of("team-a"), at("", "ConfigMap", "team-a", "late"));
    world.create(&first, std::slice::from_ref(&old));
    world.remove(&web());
    world.create(&web(), &[]);

    // The operator has not seen the deletion yet.
    world.advance(Span::secs(5));
    world.create(&late, &[old]);
    world.advance(Span::mins(2));
    world.remove(&first);
    world.remove(&late);
    world.advance(Span::mins(10));
    world.lab.assert_no_findings();
}

#[test]
fn children_that_the_garbage_collector_leaves_behind_are_found() {
    let mut world = World::new();
    world.create(&web(), &[]);

    let child = settings_of("team-a");
    world.create(&child, &[world.owner(&web())]);
    world.remove(&web());
    world.advance(Span::secs(299));
    world.lab.assert_no_findings();
    world.advance(Span::secs(3));

    assert_eq!(world.lab.findings(), ["OwnerMissing ConfigMap team-a/web-settings"]);

    world.remove(&child);
    world.advance(Span::mins(16));
    world.lab.assert_no_findings();
}

#[test]
fn a_restart_in_the_middle_of_a_cascade_accuses_nobody() {
    let mut world = World::new();
    world.create(&web(), &[]);

    let child = settings_of("team-a");
    world.create(&child, &[world.owner(&web())]);
    world.remove(&web());
    world.restart();
    world.advance(Span::mins(4));
    world.lab.assert_no_findings();
    world.remove(&child);
    world.advance(Span::mins(10));
    world.lab.assert_no_findings();
}

#[test]
fn a_list_of_children_before_their_owners_accuses_nobody() {
    let mut world = World::unlisted(unlearned(), &[kind(), config_maps()]);
    world.create_unseen(&web(), &[]);
    world.create_unseen(&settings_of("team-a"), &[world.owner(&web())]);

    let maps = config_maps().watch;
    let views =
        vec![world.create_unseen(&at("", "ConfigMap", "team-a", "more"), &[world.owner(&web())])];

    world.lab.list_in(&maps, views);
    world.advance(Span::mins(20)); // the watch of the owners cannot list yet
    world.lab.assert_no_findings();
    world.list();
    world.advance(Span::mins(20));
    world.lab.assert_no_findings();

    assert_eq!(world.reads.len(), 0);
}

#[test]
fn while_the_owners_cannot_be_seen_nothing_is_judged() {
    let mut world = World::new();
    world.lab.fail();
    world.create_unseen(&web(), &[]);
    world.create(&settings_of("team-a"), &[world.owner(&web())]);
    world.advance(Span::mins(1));
    world.lab.recover();
    world.see(&web());
    world.advance(Span::mins(20));

    assert!(!world.lab.has("OwnerMissing"));
}

#[test]
fn an_owner_of_an_unknown_kind_cannot_be_resolved() {
    let mut world = World::new();
    world.unserved.insert("Wodget".into());

    let child = settings_of("team-a");
    let typo = owner(&at(GROUP, "Wodget", "team-a", "web"), "11111111-0000-4000-8000-000000000000");
    world.create(&child, &[typo]);
    world.advance(Span::secs(3));

    assert_eq!(world.lab.findings(), ["OwnerUnresolvable ConfigMap team-a/web-settings"]);
    assert!(world.lab.evidence().contains("reason kind_unknown"), "{}", world.lab.evidence());

    world.advance(Span::hours(1));
    assert!(world.lab.has("OwnerUnresolvable"), "nobody deletes it");

    world.put(&child, |view, _| view.owners.clear());
    world.advance(Span::mins(1));
    world.lab.assert_no_findings();
}

#[test]
fn the_uid_of_another_object_and_a_namespaced_owner_of_a_global_object_are_found() {
    let mut world = World::new();
    world.create(&web(), &[]);

    let mut wrong = world.owner(&web());
    wrong.name = "other".to_owned();
    world.create(&settings_of("team-a"), &[wrong]);
    world.create(&at("", "ConfigMap", "", "global"), &[world.owner(&web())]);

    let found = world.lab.findings();
    assert_eq!(
        found,
        ["OwnerMissing ConfigMap team-a/web-settings", "OwnerUnresolvable ConfigMap global"]
    );
}

#[test]
fn a_missing_owner_beside_one_that_exists_is_no_hazard() {
    let mut world = World::new();
    world.create(&web(), &[]);
    world.create(&settings_of("team-a"), &[world.owner(&web()), stranger("gone")]);
    world.advance(Span::hours(1));
    world.lab.assert_no_findings();
}

#[test]
fn a_cycle_has_one_finding_which_ends_with_it() {
    for length in [1, 3, 1_000] {
        let mut world = World::new();
        let at = |n: usize| widget_at("team-a", &format!("w{n:04}"));
        (0..length).for_each(|n| drop(world.create(&at(n), &[])));

        for n in (0..length).rev() {
            let next = world.owner(&at((n + 1) % length));
            world.put(&at(n), |view, _| view.owners = vec![next]);
        }

        assert_eq!(world.lab.findings(), ["OwnerCycle Widget team-a/w0000"]);
        assert!(
            world.lab.evidence().contains(&format!("length {length}")),
            "{}",
            world.lab.evidence()
        );

        world.restart();
        assert_eq!(world.lab.findings(), ["OwnerCycle Widget team-a/w0000"], "also from a list");

        world.put(&at(length / 2), |view, _| view.owners.clear());
        world.advance(Span::mins(16));
        world.lab.assert_no_findings();
    }
}

#[test]
fn foreign_owners_are_not_judged() {
    let mut world = World::new();
    let foreign = at("other.io", "Thing", "team-a", "x");
    world.create(&web(), &[owner(&foreign, "11111111-0000-4000-8000-000000000000")]);

    let empty = OwnerReference { kind: "Widget".into(), ..OwnerReference::default() };
    world.create(&settings_of("team-a"), &[empty]);
    world.advance(Span::hours(1));
    world.lab.assert_no_findings();

    assert_eq!(world.reads.len(), 1, "one read shows that the kind exists");
}

#[test]
fn a_foreign_kind_that_does_not_exist_is_found_beside_an_owner_that_does() {
    let mut world = World::new();
    world.unserved.insert("Gadget".into());
    world.create(&web(), &[]);

    let gadget = at("gone.io", "Gadget", "team-a", "x");
    let gadget = owner(&gadget, "11111111-0000-4000-8000-000000000000");
    for n in 0..3 {
        let owners = [world.owner(&web()), gadget.clone()];
        world.create(&at("", "ConfigMap", "team-a", &format!("c{n}")), &owners);
    }

    world.advance(Span::secs(1));
    assert_eq!(world.lab.findings().len(), 3, "{:?}", world.lab.findings());
    assert_eq!(world.reads.len(), 1);
}

#[test]
fn bad_owners_of_one_namespace_make_room_for_those_of_others() {
    let mut world = World::new();
    world.create(&web(), &[]);
    for n in 0..5_100 {
        let child = at("", "ConfigMap", "tenant-b", &format!("flood-{n}"));
        world.create(&child, &[world.owner(&web())]);
    }
    let dropped = world.lab.dropped("owner_hazards");
    assert!(dropped >= 100, "{dropped}");

    world.create(&settings_of("team-c"), &[world.owner(&web())]);
    let found = world.lab.findings();
    let expected = "CrossNamespaceOwner ConfigMap team-c/web-settings".to_owned();
    assert!(found.contains(&expected), "{} findings", found.len());
    let flood = found.iter().filter(|finding| finding.contains("tenant-b/")).count();
    assert_eq!(flood, 4_999, "the one that made room is closed");
}

#[test]
fn foreign_kinds_that_one_namespace_names_keep_no_other_unjudged() {
    let mut world = World::new();
    world.unserved.insert("Gadget".into());
    world.create(&web(), &[]);
    for n in 0..1_100 {
        let foreign = at("made.up", &format!("Kind{n}"), "tenant-b", "x");
        let foreign = owner(&foreign, "11111111-0000-4000-8000-000000000000");
        let child = at("", "ConfigMap", "tenant-b", &format!("flood-{n}"));
        world.create(&child, &[foreign]);
    }

    let gadget = at("gone.io", "Gadget", "team-a", "x");
    let gadget = owner(&gadget, "11111111-0000-4000-8000-000000000000");
    world.create(&settings_of("team-a"), &[world.owner(&web()), gadget]);
    (0..10).for_each(|_| world.advance(Span::mins(1)));

    let found = world.lab.findings();
    let expected = "OwnerUnresolvable ConfigMap team-a/web-settings".to_owned();
    assert!(found.contains(&expected), "{found:?}");
}

#[test]
fn ten_thousand_owners_of_one_child_are_bearable() {
    let mut world = World::new();
    let owners: Vec<_> =
        (0..10_000).map(|n| owner(&widget_at("team-a", &n.to_string()), "x")).collect();
    world.create(&settings_of("team-a"), &owners);
    world.advance(Span::mins(1));
    world.remove(&settings_of("team-a"));
}

#[test]
fn owners_beyond_the_limit_of_a_view_may_exist() {
    let mut world = World::new();
    let child = settings_of("team-a");
    let owners: Vec<_> = (0..64).map(|number| stranger(&number.to_string())).collect();
    let mut view = world.create_unseen(&child, &owners);

    view.lints = vec!["many_owners".into()];
    world.put(&child, |known, _| *known = view);
    world.advance(Span::hours(1));
    world.lab.assert_no_findings();

    // Without the others, the garbage collector would delete the child.
    world.put(&child, |view, _| view.lints.clear());
    world.advance(Span::hours(1));

    assert_eq!(world.lab.findings(), ["OwnerMissing ConfigMap team-a/web-settings"]);
}

#[test]
fn a_reference_without_a_kind_or_a_name_proves_nothing() {
    let mut world = World::new();
    world.create(&web(), &[]);

    let whole = world.owner(&web());
    let without = [
        OwnerReference { kind: String::new(), ..whole.clone() },
        OwnerReference { name: String::new(), ..whole.clone() },
        OwnerReference { name: String::new(), ..stranger("gone") },
        OwnerReference { uid: whole.uid.clone(), ..OwnerReference::default() },
        OwnerReference { api_version: String::new(), ..whole },
    ];

    for (number, owner) in without.into_iter().enumerate() {
        world.create(&at("", "ConfigMap", "team-a", &number.to_string()), &[owner]);
    }

    world.advance(Span::hours(1));
    world.lab.assert_no_findings();

    assert_eq!(world.reads.len(), 0);
}
