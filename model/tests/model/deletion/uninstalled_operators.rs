//! Operators that are uninstalled, rolled or renamed while their objects are deleted.

use loopwatch_model::observation::Observation;
use loopwatch_model::time::Span;

use crate::lab::{FINALIZER, GROUP, World, at, primary, status_by, web};

/// Handles two deletions as a kubebuilder operator does: status, then the finalizer.
fn clean_up_twice(world: &mut World, manager: &str) {
    for name in ["old-1", "old-2", "old-3"] {
        let old = at(GROUP, "Widget", "team-a", name);
        world.healthy(&old, manager, &[FINALIZER, "keep.example.io/other"]);
        world.advance(Span::mins(1));
        world.put(&old, |view, now| view.deleted = Some(now));
        world.advance(Span::secs(20));
        world.put(&old, |view, now| {
            view.finalizers.remove(0);
            view.managers.retain(|m| m.subresource != "status");
            view.managers.push(status_by(manager, now));
            view.hashes.settled += 1;
        });

        world.advance(Span::secs(1));
        world.remove(&old);
    }
}

#[test]
fn a_kubebuilder_operator_named_manager_is_uninstalled_after_it_has_cleaned_up_before() {
    for manager in ["manager", "widget-operator"] {
        let mut world = World::new();
        world.lead("6ab5f5a3.example.io", "widget-operator-7d9f8c6b5-x2x4v_1", 2);
        clean_up_twice(&mut world, manager);
        world.healthy(&web(), manager, &[FINALIZER]);
        world.lead("6ab5f5a3.example.io", "widget-operator-7d9f8c6b5-x2x4v_1", 2);
        world.delete(&web());
        world.lab.observe(Observation::LeaseGone {
            namespace: "ops".into(),
            name: "6ab5f5a3.example.io".into(),
        });

        world.advance(Span::mins(8));
        assert_eq!(world.lab.findings(), ["FinalizerOwnerAbsent Widget team-a/web"], "{manager}");
    }
}

#[test]
fn the_recreate_rollout_of_an_operator_is_no_absence() {
    let mut world = World::new();
    world.healthy(&web(), "widget-operator", &[FINALIZER]);
    world.lead("widget-operator-lock", "widget-operator-7d9f8c6b5-x2x4v_1", 3);
    world.delete(&web());
    world.advance(Span::mins(4));
    world.renew("widget-operator-lock", "widget-operator-5c6d7e8f9-abcde_2");
    world.advance(Span::secs(30));
    world.remove(&web());

    world.advance(Span::mins(10));
    world.lab.assert_no_findings();
}

#[test]
fn a_leader_election_that_moves_to_another_lease_in_an_upgrade_is_no_absence() {
    let mut world = World::new();
    world.healthy(&web(), "manager", &[FINALIZER]);
    world.lead("6ab5f5a3.example.io", "widget-operator-7d9f8c6b5-x2x4v_1", 3);
    world.delete(&web());

    for _ in 0..12 {
        world.advance(Span::mins(1));
        world.renew("widget-operator-leader", "widget-operator-5c6d7e8f9-abcde_2");
    }

    assert!(!world.lab.has("FinalizerOwnerAbsent"), "{:?}", world.lab.findings());
}

#[test]
fn cert_manager_is_gone_while_challenges_are_deleted() {
    let group = "acme.cert-manager.io";
    let challenge = at(group, "Challenge", "team-a", "web-1");
    let finalizer = "acme.cert-manager.io/finalizer";
    let mut world =
        World::of(&[primary(group, "Challenge"), primary("cert-manager.io", "Certificate")]);

    world.healthy(&challenge, "cert-manager-challenges", &[finalizer]);
    world.lead(
        "cert-manager-controller",
        "cert-manager-6d9f8c6b5-x2x4v-external-cert-manager-controller",
        3,
    );
    world.delete(&challenge);
    world.advance(Span::mins(8));

    assert_eq!(world.lab.findings(), ["FinalizerOwnerAbsent Challenge team-a/web-1"]);
}

#[test]
fn an_operator_that_was_scaled_to_zero_and_back_is_absent_only_meanwhile() {
    let mut world = World::new();
    world.lead("6ab5f5a3.example.io", "widget-operator-7d9f8c6b5-x2x4v_1", 2);
    world.healthy(&web(), "manager", &[FINALIZER]);
    world.delete(&web());
    world.advance(Span::mins(7));

    assert!(world.lab.has("FinalizerOwnerAbsent"));

    world.lead("6ab5f5a3.example.io", "widget-operator-7d9f8c6b5-zzzzz_1", 1);
    assert!(!world.lab.has("FinalizerOwnerAbsent"), "{:?}", world.lab.findings());
}

#[test]
fn the_absence_of_an_operator_is_found_again_after_a_restart_of_loopwatch() {
    let mut world = World::new();
    world.lead("6ab5f5a3.example.io", "widget-operator-7d9f8c6b5-x2x4v_1", 2);
    clean_up_twice(&mut world, "manager");
    world.healthy(&web(), "manager", &[FINALIZER]);
    world.lead("6ab5f5a3.example.io", "widget-operator-7d9f8c6b5-x2x4v_1", 2);
    world.delete(&web());
    world.advance(Span::mins(8));
    world.restart();

    world.lab.observe(Observation::LeasesListed { namespace: "ops".into(), names: Vec::new() });
    world.advance(Span::mins(8));

    assert_eq!(world.lab.findings(), ["FinalizerOwnerAbsent Widget team-a/web"]);
}

#[test]
fn the_memory_of_a_renamed_operator_does_not_name_the_old_manager() {
    // After the upgrade, the new field manager adds the finalizers of new objects.
    let mut world = World::new();
    clean_up_twice(&mut world, "old-operator");
    for name in ["n1", "n2", "n3", "n4", "n5"] {
        let new = at(GROUP, "Widget", "team-a", name);
        world.healthy(&new, "new-operator", &[FINALIZER, "keep.example.io/other"]);
        world.advance(Span::mins(1));
        world.put(&new, |view, now| view.deleted = Some(now));
        world.advance(Span::secs(20));
        world.put(&new, |view, now| {
            view.finalizers.remove(0);
            view.managers.retain(|m| m.subresource != "status");
            view.managers.push(status_by("new-operator", now));
            view.hashes.settled += 1;
        });

        world.advance(Span::secs(1));
        world.remove(&new);
    }

    world.healthy(&web(), "new-operator", &[FINALIZER]);
    world.delete(&web());
    world.advance(Span::mins(16));

    let actor = world.lab.finding("FinalizerStuck").evidence.0["actor"].to_string();
    assert!(actor.contains("new-operator"), "{actor}");
}

#[test]
fn an_upgrade_that_renames_the_manager_names_the_new_one_at_once() {
    let mut world = World::new();
    clean_up_twice(&mut world, "old-operator");
    world.healthy(&web(), "new-operator", &[FINALIZER]);
    world.delete(&web());
    world.advance(Span::mins(16));

    let actor = world.lab.finding("FinalizerStuck").evidence.0["actor"].to_string();
    assert!(actor.contains("new-operator"), "{actor}");
}

#[test]
fn the_lease_of_the_old_release_that_stays_behind_after_a_rename_is_no_absence() {
    let mut world = World::new();
    world.lead("old-operator-lock", "old-operator-7d9f8c6b5-x2x4v_1", 2);
    clean_up_twice(&mut world, "old-operator");

    // The release is renamed; the new one has no leader election and works.
    world.advance(Span::mins(10));
    world.healthy(&web(), "new-operator", &[FINALIZER]);
    world.delete(&web());

    for n in 0..10 {
        world.advance(Span::mins(1));
        world.healthy(
            &at(GROUP, "Widget", "team-a", &format!("x{n}")),
            "new-operator",
            &[FINALIZER],
        );
    }

    assert!(!world.lab.has("FinalizerOwnerAbsent"), "{:?}", world.lab.findings());
}

#[test]
fn an_object_from_before_the_rename_of_the_manager_belongs_to_the_new_one() {
    let mut world = World::new();
    world.lead("old-operator-lock", "old-operator-7d9f8c6b5-x2x4v_1", 2);
    clean_up_twice(&mut world, "old-operator");
    world.healthy(&web(), "old-operator", &[FINALIZER]);
    world.advance(Span::mins(10));
    world.put(&web(), |view, now| view.managers.push(status_by("new-operator", now)));
    world.advance(Span::mins(1));
    world.delete(&web());

    world.advance(Span::mins(16));
    assert_eq!(world.lab.findings(), ["FinalizerStuck Widget team-a/web"]);
}
