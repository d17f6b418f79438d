//! Children that are deleted and created again and again.

use loopwatch_model::finding::{Finding, FindingCode};
use loopwatch_model::observation::{ObjectAddress, OwnerReference};
use loopwatch_model::time::Span;

use super::found;
use crate::lab::{World, at, map, spec_by, web};

fn recreation(world: &World) -> Option<Finding> {
    found(&world.lab, FindingCode::RecreateLoop)
}

/// Lets the operator create a child, which disappears again after a while, `times` times.
fn come_and_go(
    world: &mut World,
    child: &ObjectAddress,
    owner: &OwnerReference,
    lives: Span,
    times: u32,
) {
    for _ in 0..times {
        world.create(child, std::slice::from_ref(owner));
        world.advance(lives);
        world.remove(child);
        world.advance(Span::secs(2));
    }
}

#[test]
fn a_child_that_disappears_and_comes_back_is_in_a_loop() {
    let mut world = World::new();
    world.create(&web(), &[]);
    let owner = world.owner(&web());
    come_and_go(&mut world, &map("settings"), &owner, Span::secs(10), 3);
    assert_eq!(recreation(&world), None, "it has come back twice");

    come_and_go(&mut world, &map("settings"), &owner, Span::secs(10), 1);
    let found = recreation(&world).expect("a finding, although the child is absent");
    assert_eq!(found.subject.to_string(), "ConfigMap team-a/settings");
    assert!(found.summary().contains("manager widget-operator"), "{}", found.summary());
    assert!(found.explained_by.is_none());

    world.create(&map("settings"), &[owner]);
    world.advance(Span::mins(12));
    assert_eq!(recreation(&world), None, "it stays");
}

#[test]
fn an_owner_in_another_namespace_explains_the_loop() {
    let mut world = World::new();
    world.create(&web(), &[]);
    let owner = world.owner(&web());
    let child = at("", "ConfigMap", "team-b", "settings");
    come_and_go(&mut world, &child, &owner, Span::secs(3), 5);

    let found = recreation(&world).expect("a finding");
    assert!(found.explained_by.is_some());
    assert_eq!(world.lab.roots(), ["CrossNamespaceOwner ConfigMap team-b/settings"]);
}

#[test]
fn a_child_that_lives_for_minutes_or_returns_late_is_no_loop() {
    let mut world = World::new();
    world.create(&web(), &[]);
    let owner = world.owner(&web());
    come_and_go(&mut world, &map("nightly"), &owner, Span::mins(3), 8);
    assert_eq!(recreation(&world), None);

    for _ in 0..8 {
        come_and_go(&mut world, &map("late"), &owner, Span::secs(5), 1);
        world.advance(Span::secs(70));
    }
    assert_eq!(recreation(&world), None);
}

#[test]
fn a_child_of_a_person_or_with_another_owner_or_spec_each_time_is_no_loop() {
    let mut world = World::new();
    world.create(&web(), &[]);
    let owner = world.owner(&web());
    for turn in 0..8_u64 {
        let (person, spec) = (map("of-a-person"), map("with-another-spec"));
        for child in [&person, &spec] {
            world.create_unseen(child, std::slice::from_ref(&owner));
        }
        world.put(&person, |view, now| view.managers = vec![spec_by("kubectl-create", now)]);
        world.put(&spec, |view, _| view.hashes.spec = turn + 1);
        world.create(
            &map("of-another-owner"),
            &[OwnerReference {
                uid: format!("22222222-0000-4000-8000-{turn:012}"),
                ..owner.clone()
            }],
        );

        world.advance(Span::secs(5));
        for child in ["of-a-person", "with-another-spec", "of-another-owner"] {
            world.remove(&map(child));
        }
        world.advance(Span::secs(2));
    }

    assert_eq!(recreation(&world), None);
}

#[test]
fn many_children_that_are_deleted_once_leave_nothing_behind() {
    let mut world = World::new();
    world.create(&web(), &[]);
    let owner = world.owner(&web());
    for number in 0..600 {
        come_and_go(&mut world, &map(&format!("c{number}")), &owner, Span(10), 1);
    }

    assert_eq!(recreation(&world), None);
    world.advance(Span::mins(2));
    come_and_go(&mut world, &map("settings"), &owner, Span::secs(10), 4);
    assert!(recreation(&world).is_some());
}
