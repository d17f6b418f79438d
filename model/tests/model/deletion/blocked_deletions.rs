//! Deletions that wait for other objects, and slow ones, as real operators cause them.

use loopwatch_model::observation::{Cause, ConditionStatus, ObjectAddress, Role, Scope};
use loopwatch_model::time::Span;

use crate::lab::{
    FINALIZER, GROUP, World, at, child, finalizers_by, map, primary, ready, watched, web,
};

#[test]
fn cert_manager_cleans_up_a_challenge_within_seconds() {
    let group = "acme.cert-manager.io";
    let mut world = World::of(&[primary(group, "Challenge"), primary(group, "Order")]);
    let order = at(group, "Order", "team-a", "web");
    world.healthy(&order, "cert-manager-orders", &[]);

    for n in 0..30 {
        let challenge = at(group, "Challenge", "team-a", &format!("web-{n}"));
        world.owned(&challenge, &order);
        world.put(&challenge, |view, now| {
            view.finalizers = vec!["acme.cert-manager.io/finalizer".into()];
            view.managers.push(finalizers_by(
                "cert-manager-challenges",
                now,
                &["acme.cert-manager.io/finalizer"],
            ));
        });

        world.advance(Span::secs(10));
        world.delete(&challenge);
        world.advance(Span::secs(2));
        world.remove(&challenge);
    }

    world.advance(Span::mins(30));
    world.lab.assert_no_findings();
}

/// A machine of World API that owns the machine of its infrastructure.
fn capi_machine() -> (World, ObjectAddress, ObjectAddress) {
    let (group, of_cloud) = ("world.x-k8s.io", "infrastructure.world.x-k8s.io");
    let machine = at(group, "Machine", "clusters", "md-0-abc");
    let mut world = World::of(&[primary(group, "Machine"), primary(of_cloud, "AWSMachine")]);
    let infra = at(of_cloud, "AWSMachine", "clusters", "md-0-abc");

    world.healthy(&machine, "manager", &["machine.world.x-k8s.io"]);
    world.healthy(&infra, "manager", &["awsmachine.infrastructure.world.x-k8s.io"]);

    let owner = world.owner(&machine);
    world.put(&infra, |view, _| view.owners = vec![owner]);
    (world, machine, infra)
}

#[test]
fn a_capi_machine_waits_for_its_drain_and_then_goes() {
    let (mut world, machine, infra) = capi_machine();
    world.delete(&machine);

    // A drain with a strict disruption budget: its condition counts down.
    for n in 0..4 {
        world.advance(Span::secs(60));
        world.put(&machine, |view, now| {
            ready(view, "manager", now);
            view.conditions[0].status = ConditionStatus::False;
            view.conditions[0].reason = format!("Draining{n}");
            view.hashes.settled += n + 1;
        });
    }

    world.delete(&infra);
    world.advance(Span::secs(20));
    world.remove(&infra);
    world.remove(&machine);
    world.lab.assert_no_findings();
}

#[test]
fn a_capi_machine_whose_cloud_instance_does_not_go_names_the_infrastructure() {
    let (mut world, machine, infra) = capi_machine();
    world.delete(&machine);
    world.delete(&infra);
    world.advance(Span::mins(20));

    assert_eq!(world.lab.roots(), ["FinalizerStuck AWSMachine clusters/md-0-abc"]);
}

#[test]
fn the_only_stuck_child_among_thousands_is_the_blocker() {
    let mut world = World::new();
    world.healthy(&web(), "widget-operator", &["foregroundDeletion"]);

    let owner = world.owner(&web());
    let maps: Vec<ObjectAddress> = (0..2_000).map(|n| map(&format!("m{n:04}"))).collect();
    for (n, map) in maps.iter().enumerate() {
        world.put(map, |view, _| {
            view.owners = vec![owner.clone()];
            view.finalizers = vec![
                if n == 1_500 { "storage.other.com/detach" } else { "foregroundDeletion" }.into(),
            ];
        });
    }

    world.delete(&web());
    for map in &maps {
        world.delete(map);
    }

    world.advance(Span::mins(17));
    assert!(
        world.lab.roots().contains(&"FinalizerStuck ConfigMap team-a/m1500".to_owned()),
        "{:?}",
        world.lab.roots().iter().take(5).collect::<Vec<_>>()
    );

    let blocked = world.lab.snapshot().findings.into_iter().find(|f| f.subject.name() == "web");
    let summary = blocked.map(|f| format!("{} {}", f.code.name(), f.summary())).unwrap_or_default();

    assert!(summary.contains("m1500"), "{summary}");
}

#[test]
fn a_restart_in_the_middle_of_a_slow_cleanup_keeps_its_age() {
    let mut world = World::new();
    world.healthy(&web(), "widget-operator", &[FINALIZER]);
    world.delete(&web());
    world.advance(Span::mins(10));

    assert_eq!(world.lab.findings(), ["CleanupSlow Widget team-a/web"]);

    world.restart();
    world.advance(Span::mins(7));

    assert_eq!(world.lab.findings(), ["FinalizerStuck Widget team-a/web"]);
}

#[test]
fn a_pod_with_a_grace_period_of_an_hour_is_no_slow_cleanup() {
    let mut world = World::of(&[primary(GROUP, "Widget"), child("", "Pod")]);
    world.healthy(&web(), "widget-operator", &["foregroundDeletion"]);

    let pod = at("", "Pod", "team-a", "web-0");
    world.owned(&pod, &web());
    world.put(&pod, |view, now| {
        view.finalizers = vec!["example.io/drain".into()];
        (view.deleted, view.grace) = (Some(now.after(Span::hours(1))), Some(Span::hours(1)));
    });
    world.delete(&web());
    world.advance(Span::mins(50));
    world.lab.assert_no_findings();
}

/// A widget with a claim that is being deleted and that a Pod still uses.
fn with_claim_in_use() -> World {
    let mut world = World::of(&[primary(GROUP, "Widget"), child("apps", "StatefulSet")]);
    world.healthy(&web(), "widget-operator", &["foregroundDeletion"]);

    let claim = at("", "PersistentVolumeClaim", "team-a", "data-web-0");
    let owner = world.owner(&web());
    world.put_unseen(&claim, |view, now| {
        view.owners = vec![owner];
        view.finalizers = vec!["kubernetes.io/pvc-protection".into()];
        view.deleted = Some(now);
    });

    world
}

#[test]
fn a_pvc_in_use_blocks_the_foreground_deletion_of_its_owner() {
    let mut world = with_claim_in_use();
    world.delete(&web());
    world.advance(Span::mins(18));

    assert_eq!(world.lab.findings(), ["DeletionBlockedByDependent Widget team-a/web"]);

    let summary = world.lab.finding("DeletionBlockedByDependent").summary();
    assert!(summary.contains("data-web-0"), "{summary}");
}

#[test]
fn the_dependents_of_a_deletion_are_read_again_after_an_outage() {
    let mut world = with_claim_in_use();
    world.delete(&web());
    world.reads_fail = Some(Cause::ServerError);
    world.advance(Span::mins(18));
    world.lab.assert_no_findings();
    world.reads_fail = None;
    world.advance(Span::mins(15));

    assert_eq!(world.lab.findings(), ["DeletionBlockedByDependent Widget team-a/web"]);
}

#[test]
fn an_object_whose_foreground_deletion_only_waits_for_a_healthy_claim_is_not_blocked() {
    // The claim is kept by its retention policy and does not block.
    let mut world = World::of(&[primary(GROUP, "Widget"), child("apps", "StatefulSet")]);
    world.healthy(&web(), "widget-operator", &["foregroundDeletion"]);

    let claim = at("", "PersistentVolumeClaim", "team-a", "data-web-0");
    let mut owner = world.owner(&web());
    owner.blocks_deletion = false;
    world.put_unseen(&claim, |view, _| {
        view.owners = vec![owner];
        view.finalizers = vec!["kubernetes.io/pvc-protection".into()];
    });
    world.delete(&web());

    world.advance(Span::secs(30));
    world.remove(&web());
    world.advance(Span::mins(20));
    world.lab.assert_no_findings();
}

#[test]
fn a_crossplane_claim_waits_for_its_composite_and_both_go() {
    let group = "platform.example.org";
    let mut world = World::of(&[
        watched(Role::Primary, group, "XDatabase", Scope::Cluster),
        primary(group, "Database"),
    ]);
    let (claim, composite) =
        (at(group, "Database", "team-a", "db"), at(group, "XDatabase", "", "db-x1"));

    world.healthy(
        &claim,
        "apiextensions.crossplane.io/claim",
        &["finalizer.apiextensions.crossplane.io"],
    );
    world.healthy(
        &composite,
        "apiextensions.crossplane.io/composite",
        &["composite.apiextensions.crossplane.io"],
    );

    world.delete(&claim);
    world.delete(&composite);
    world.advance(Span::mins(3));
    world.remove(&composite);
    world.advance(Span::secs(2));
    world.remove(&claim);
    world.advance(Span::mins(20));
    world.lab.assert_no_findings();
}

#[test]
fn an_outage_of_the_api_server_during_a_slow_cleanup_does_not_hide_it() {
    let mut world = World::new();
    world.healthy(&web(), "widget-operator", &[FINALIZER]);
    world.delete(&web());
    world.advance(Span::mins(2));

    for kind in world.kinds.clone() {
        world.lab.fail_watch(&kind.watch);
    }

    world.advance(Span::mins(30));
    assert!(
        world.lab.findings().iter().all(|f| f.starts_with("SourceFailing")),
        "{:?}",
        world.lab.findings()
    );

    for kind in world.kinds.clone() {
        world.lab.recover_watch(&kind.watch);
    }

    world.list();
    world.advance(Span::mins(3));

    assert_eq!(world.lab.findings(), ["FinalizerStuck Widget team-a/web"]);
}

#[test]
fn a_deletion_that_is_blocked_by_a_child_is_unblocked_when_the_child_is_handed_over() {
    let mut world = World::new();
    world.healthy(&web(), "widget-operator", &["foregroundDeletion"]);
    world.owned(&map("m"), &web());
    world.put(&map("m"), |view, _| view.finalizers = vec!["storage.other.com/detach".into()]);
    world.delete(&web());
    world.delete(&map("m"));
    world.advance(Span::mins(17));

    assert!(world.lab.has("DeletionBlockedByDependent"), "{:?}", world.lab.findings());

    world.put(&map("m"), |view, _| view.owners.clear());
    world.advance(Span::secs(2));

    assert!(!world.lab.has("DeletionBlockedByDependent"), "{:?}", world.lab.findings());
}
