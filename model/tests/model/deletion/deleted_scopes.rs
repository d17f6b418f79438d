//! Namespaces and definitions that are deleted and created again, as happens in real clusters.

use loopwatch_model::observation::{Cause, DefinitionView, ObjectAddress, Observation, SourceId};
use loopwatch_model::time::Span;

use crate::lab::{FINALIZER, GROUP, World, at, web};

#[test]
fn a_namespace_full_of_finalizers_goes_within_minutes() {
    let mut world = World::new();
    let all: Vec<ObjectAddress> =
        (0..40).map(|n| at(GROUP, "Widget", "team-a", &format!("w{n}"))).collect();
    for one in &all {
        world.healthy(one, "widget-operator", &[FINALIZER]);
    }

    world
        .lab
        .delete_namespace("team-a", &["NamespaceContentRemaining", "NamespaceFinalizersRemaining"]);
    for one in &all {
        world.delete(one);
    }

    for one in &all {
        world.advance(Span::secs(5));
        world.remove(one);
    }

    world.lab.observe(Observation::NamespaceGone("team-a".into()));
    world.advance(Span::mins(30));
    world.lab.assert_no_findings();
}

#[test]
fn a_namespace_that_waits_for_a_pod_with_a_long_grace_period_is_not_blocked_by_live_objects() {
    let mut world = World::new();
    world.healthy(&web(), "widget-operator", &[FINALIZER]);

    // Kubernetes 1.33 deletes Pods first, so nobody has requested the deletion of the widget yet.
    world.lab.delete_namespace("team-a", &["NamespaceContentRemaining"]);
    world.advance(Span::mins(40));
    world.lab.assert_no_findings();
}

#[test]
fn a_namespace_that_is_created_and_deleted_again_while_loopwatch_is_blind_begins_anew() {
    let mut world = World::new();
    world.lab.delete_namespace("team-a", &["NamespaceFinalizersRemaining"]);
    world.advance(Span::mins(30));
    world.lab.fail_source(&SourceId::Namespaces, Cause::Connection);

    world.advance(Span::mins(1));
    world.lab.recover_source(&SourceId::Namespaces);
    world.healthy(&web(), "widget-operator", &[FINALIZER]);
    world.lab.delete_namespace("team-a", &["NamespaceFinalizersRemaining"]);
    world.delete(&web());
    world.advance(Span::secs(5));

    assert!(!world.lab.has("NamespaceStuck"), "{:?}", world.lab.findings());
}

#[test]
fn a_definition_that_goes_with_its_objects_is_quiet() {
    let mut world = World::new();
    world.healthy(&web(), "widget-operator", &[FINALIZER]);

    let definition = DefinitionView {
        name: "widgets.example.io".into(),
        deleted: Some(world.lab.now),
        ..DefinitionView::default()
    };

    world.lab.observe(Observation::DefinitionSeen(definition));
    world.delete(&web());
    world.advance(Span::secs(30));
    world.remove(&web());
    world.lab.observe(Observation::DefinitionGone("widgets.example.io".into()));
    world.advance(Span::mins(30));
    world.lab.assert_no_findings();
}

#[test]
fn a_definition_that_is_deleted_again_after_a_reinstallation_begins_anew() {
    let mut world = World::new();
    let delete = |world: &mut World| {
        let deleted = Some(world.lab.now);
        let view = DefinitionView {
            name: "widgets.example.io".into(),
            deleted,
            ..DefinitionView::default()
        };

        world.lab.observe(Observation::DefinitionSeen(view));
    };

    delete(&mut world);
    world.advance(Span::mins(30));
    world.healthy(&web(), "widget-operator", &[FINALIZER]);
    delete(&mut world); // the events in between were lost
    world.delete(&web());
    world.advance(Span::secs(5));

    assert!(!world.lab.has("DefinitionStuck"), "{:?}", world.lab.findings());
}

#[test]
fn a_soft_deleted_object_in_a_namespace_that_is_deleted_is_not_forgotten() {
    let mut world = World::new();
    world.healthy(&web(), "widget-operator", &[]);

    let at = world.lab.ago(Span::hours(23));
    world.put(&web(), |view, _| {
        view.annotations.insert("soft-delete/enable".into(), "true".into());
        view.annotations.insert("deleted_at".into(), at.to_string());
    });
    world.lab.delete_namespace("team-a", &["NamespaceContentRemaining"]);
    world.advance(Span::hours(2));

    assert!(!world.lab.has("SoftDeleteLingering"), "{:?}", world.lab.findings());
}

#[test]
fn a_namespace_that_cannot_list_the_objects_of_a_broken_conversion_webhook_is_blocked_by_them() {
    let mut world = World::new();
    world.healthy(&web(), "widget-operator", &[FINALIZER]);
    world.lab.delete_namespace(
        "team-a",
        &["NamespaceDeletionContentFailure", "NamespaceContentRemaining"],
    );
    world.advance(Span::mins(16));

    assert_eq!(world.lab.findings(), ["NamespaceStuck Namespace team-a"]);
}

#[test]
fn a_namespace_that_waits_for_pods_and_then_for_a_finalizer_is_stuck() {
    let mut world = World::new();
    world.healthy(&web(), "widget-operator", &[FINALIZER]);
    world.lab.delete_namespace("team-a", &["NamespaceContentRemaining"]);
    world.advance(Span::mins(20));
    world.delete(&web());
    world.advance(Span::mins(16));

    assert_eq!(world.lab.roots(), ["FinalizerStuck Widget team-a/web"]);
    assert!(world.lab.has("NamespaceStuck"), "{:?}", world.lab.findings());
}
