//! Lists, restarts and steps of the clock while everything is healthy raise nothing.

use loopwatch_model::time::Span;

use crate::lab::{FINALIZER, World, map, ready, reference, web};

#[test]
fn a_step_of_the_clock_finds_no_orphan_dangling_or_missing_owner_early() {
    for by in [Span::hours(1), Span::hours(-1)] {
        let mut world = World::new();
        world.healthy(&web(), "widget-operator", &[]);
        world.owned(&map("web-settings"), &web());
        world.put(&map("web-settings"), |view, _| view.owners.clear());
        world.put(&map("logical"), |view, _| {
            view.annotations.insert("example.io/owner-kind".into(), "Widget".into());
            view.annotations.insert("example.io/owner-name".into(), "gone".into());
        });

        world.put(&web(), |view, _| {
            view.hashes.spec = 9;
            view.references = vec![reference("", "Secret", "spec.db.secretRef", "db")];
        });
        world.advance(Span::secs(20));
        world.lab.step_clock(by);
        world.advance(Span::secs(60));
        world.lab.assert_no_findings();

        world.advance(Span::mins(7));
        assert!(
            world.lab.has("Orphan") && world.lab.has("LogicalOwnerMissing"),
            "{by}: {:?}",
            world.lab.findings()
        );
        assert!(world.lab.has("DanglingReference"), "{by}: {:?}", world.lab.findings());
    }
}

#[test]
fn a_relist_after_410_gone_raises_nothing() {
    let mut world = World::new();
    world.labelled(25);
    world.healthy(&web(), "widget-operator", &[FINALIZER]);
    world.advance(Span::mins(5));

    for _ in 0..3 {
        world.list();
        world.advance(Span::mins(5));
    }

    world.lab.assert_no_findings();
}

#[test]
fn a_restart_while_everything_is_healthy_raises_nothing() {
    let mut world = World::new();
    world.labelled(25);
    world.healthy(&web(), "widget-operator", &[FINALIZER]);
    world.advance(Span::mins(5));
    world.restart();
    world.advance(Span::mins(30));
    world.lab.assert_no_findings();
}

#[test]
fn a_restore_of_etcd_goes_back_to_older_versions() {
    let mut world = World::new();
    world.healthy(&web(), "widget-operator", &[FINALIZER]);
    world.owned(&map("m"), &web());

    let backup = world.objects.clone();
    let version = world.lab.version;
    world.advance(Span::mins(5));
    world.put(&web(), |view, now| ready(view, "widget-operator", now));
    world.remove(&map("m"));
    world.advance(Span::mins(5));
    world.objects = backup;
    world.lab.version = version;

    for kind in world.kinds.clone() {
        world.lab.fail_watch(&kind.watch);
    }

    world.advance(Span::secs(20));
    for kind in world.kinds.clone() {
        world.lab.recover_watch(&kind.watch);
    }

    world.list();
    world.advance(Span::mins(20));
    world.lab.assert_no_findings();
    world.delete(&web());
    world.advance(Span::mins(16));

    assert_eq!(world.lab.findings(), ["FinalizerStuck Widget team-a/web"]);
}
