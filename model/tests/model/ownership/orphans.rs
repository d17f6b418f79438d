//! Objects without an owner: faults, their healthy twins, and near misses.

use loopwatch_model::finding::Confidence;
use loopwatch_model::observation::{Cause, ObjectAddress, ObjectView};
use loopwatch_model::settings::{Limits, Settings};
use loopwatch_model::time::Span;

use super::{create_labelled, create_siblings, with_siblings};
use crate::lab::pods::Op;
use crate::lab::{World, at, child, kind, map, spec_by, status_by, unlearned, web, widget_at};

/// The operator creates an object without an owner reference, whose label names a widget that is
/// deleted later.
fn leave(world: &mut World, at: &ObjectAddress, owner: &str) {
    let widget = widget_at("team-a", owner);
    world.create(&widget, &[]);
    create_labelled(world, at, owner, |_| ());
    world.remove(&widget);
}

/// Returns a world with a widget and its child.
fn with_child() -> World {
    let mut world = World::new();
    world.create(&web(), &[]);
    world.create(&map("web-settings"), &[world.owner(&web())]);
    world
}

#[test]
fn a_child_that_loses_its_owner_is_an_orphan_after_a_while() {
    let mut world = with_child();
    world.put(&map("web-settings"), |view, _| view.owners.clear());
    world.advance(Span::secs(299));
    world.lab.assert_no_findings();
    world.advance(Span::secs(2));

    assert_eq!(world.lab.roots(), ["Orphan ConfigMap team-a/web-settings"]);

    let evidence = world.lab.evidence();
    assert!(
        evidence.contains("former owner Widget.example.io/web")
            && evidence.contains("owner_removed"),
        "{evidence}"
    );
    assert_eq!(world.reads.len(), 1, "one read has confirmed it");

    let owner = world.owner(&web());
    world.put(&map("web-settings"), |view, _| view.owners.push(owner));
    world.lab.assert_no_findings();
}

#[test]
fn objects_without_an_owner_in_one_namespace_make_room_for_those_of_others() {
    let limits = Limits { objects: 1_000, ..Limits::default() };
    let mut world = World::with(Settings { limits, ..unlearned() });
    create_siblings(&mut world, 5, map);
    for number in 0..200 {
        let at = at("", "ConfigMap", "tenant-b", &format!("flood-{number}"));
        create_labelled(&mut world, &at, "nobody", |_| ());
    }
    let dropped = world.lab.dropped("orphan_candidates");
    assert!(dropped > 10, "{dropped}");

    leave(&mut world, &map("left"), "gone");
    assert_eq!(world.lab.dropped("orphan_candidates"), dropped + 1, "one makes room");
    world.advance(Span::mins(6));
    let found = world.lab.findings();
    assert!(found.contains(&"Orphan ConfigMap team-a/left".to_owned()), "{found:?}");
}

#[test]
fn labels_beyond_a_kibibyte_are_not_kept() {
    let mut world = with_siblings(4);
    create_labelled(&mut world, &map("fat"), "nobody", |view| {
        view.labels.extend((0..20).map(|n| (format!("zoo-{n:02}"), "x".repeat(63))));
    });
    assert_eq!(world.lab.dropped("object_names"), 1);
}

#[test]
fn a_child_that_changes_its_owner_is_no_orphan() {
    let mut world = with_child();
    let other = widget_at("team-a", "other");
    world.create(&other, &[]);
    world.put(&map("web-settings"), |view, _| view.owners.clear());
    world.advance(Span::mins(4));

    let owner = world.owner(&other);
    world.put(&map("web-settings"), |view, _| view.owners.push(owner));
    world.advance(Span::mins(30));
    world.lab.assert_no_findings();
}

#[test]
fn a_deletion_with_orphan_policy_releases_the_children() {
    for owner_first in [true, false] {
        let mut world = with_child();
        let orphan = |world: &mut World| {
            let now = world.lab.now;
            world.put(&web(), |view, _| {
                (view.deleted, view.finalizers) = (Some(now), vec!["orphan".into()])
            });
        };

        if owner_first {
            orphan(&mut world);
        }

        world.put(&map("web-settings"), |view, _| view.owners.clear());
        if !owner_first {
            orphan(&mut world);
        }

        world.advance(Span::secs(1));
        world.remove(&web());
        world.advance(Span::mins(6));

        assert_eq!(world.lab.findings(), ["Orphan ConfigMap team-a/web-settings"]);
        assert_eq!(world.lab.snapshot().findings[0].confidence.as_str(), "suspected");
        assert!(world.lab.evidence().contains("reason released"), "{}", world.lab.evidence());
    }
}

#[test]
fn a_read_that_fails_or_contradicts_accuses_nobody() {
    for cause in [Cause::Forbidden, Cause::ServerError] {
        let mut world = with_child();
        world.reads_fail = Some(cause);
        world.put(&map("web-settings"), |view, _| view.owners.clear());
        world.advance(Span::mins(20));
        world.lab.assert_no_findings();
        world.reads_fail = None;
        world.advance(Span::mins(12));

        assert!(world.lab.has("Orphan"), "the model tries again");
    }

    let mut world = with_child();
    world.put(&map("web-settings"), |view, _| view.owners.clear());
    world.objects.remove(&map("web-settings"));
    world.advance(Span::mins(20));
    world.lab.assert_no_findings();
}

#[test]
fn an_object_whose_label_names_an_owner_that_is_gone_is_an_orphan() {
    let mut world = with_siblings(5);
    leave(&mut world, &map("left"), "departed");
    // The instance that its label names exists, so the operator keeps the object on purpose.
    create_labelled(&mut world, &map("kept"), "w3", |_| ());
    world.advance(Span::mins(6));

    assert_eq!(world.lab.roots(), ["Orphan ConfigMap team-a/left"]);
    assert!(world.lab.evidence().contains("former owner departed"), "{}", world.lab.evidence());
}

#[test]
fn four_siblings_prove_nothing_and_the_operators_own_objects_are_none_of_them() {
    let mut world = with_siblings(4);
    leave(&mut world, &map("left"), "departed");
    world.advance(Span::mins(30));
    world.lab.assert_no_findings();

    let mut world = with_siblings(19);
    world.create(&map("ca-bundle"), &[]);
    world.create(&map("lock"), &[]);
    world.advance(Span::mins(30));
    world.lab.assert_no_findings();
}

#[test]
fn an_exception_among_many_siblings_is_only_suspected() {
    let other = |view: &mut ObjectView| {
        view.labels.clear();
        view.labels.insert("app.kubernetes.io/managed-by".into(), "widget-operator".into());
    };
    let mut world = with_siblings(20);

    create_labelled(&mut world, &map("odd"), "", other);
    world.advance(Span::mins(6));

    assert_eq!(world.lab.findings(), ["Orphan ConfigMap team-a/odd"]);
    assert_eq!(world.lab.snapshot().findings[0].confidence.as_str(), "suspected");

    // Several of them are the rule, not an exception.
    create_labelled(&mut world, &map("odd-2"), "", other);
    world.advance(Span::mins(6));
    world.put(&map("odd"), |_, _| ());
    world.lab.assert_no_findings();
}

#[test]
fn while_the_owners_cannot_be_seen_labels_prove_nothing() {
    let mut world = with_siblings(5);
    leave(&mut world, &map("left"), "departed");
    world.lab.fail();
    world.advance(Span::mins(20));

    assert!(!world.lab.has("Orphan"));
}

#[test]
fn allowed_kinds_and_namespaces_are_no_orphans() {
    let rules = r#"{"findings":{"Orphan":[{"kinds":{"include":["ConfigMap"]},"namespaces":{"include":["team-*"]},"enabled":false}]}}"#;
    let settings: Settings = serde_json::from_str(rules).expect("settings");
    let mut world = World::with(settings);
    world.create(&web(), &[]);
    world.create(&map("web-settings"), &[world.owner(&web())]);
    world.put(&map("web-settings"), |view, _| view.owners.clear());
    world.advance(Span::mins(30));
    world.lab.assert_no_findings();
}

#[test]
fn a_restart_keeps_and_raises_no_orphan_without_a_reason() {
    let mut world = with_siblings(5);
    leave(&mut world, &map("left"), "departed");
    world.put(&map("c0"), |view, _| view.owners.clear());
    world.advance(Span::mins(6));

    assert_eq!(
        world.lab.findings(),
        ["Orphan ConfigMap team-a/c0", "Orphan ConfigMap team-a/left"]
    );

    world.restart();
    world.advance(Span::mins(30));

    assert_eq!(
        world.lab.findings(),
        ["Orphan ConfigMap team-a/c0", "Orphan ConfigMap team-a/left"]
    );
}

#[test]
fn a_label_makes_an_orphan_when_its_owner_goes_and_ends_it_when_the_owner_comes() {
    let mut world = with_siblings(5);
    let owner = widget_at("team-a", "gone");
    world.create(&owner, &[]);
    create_labelled(&mut world, &map("forgotten"), "gone", |_| ());
    world.advance(Span::hours(1));
    world.lab.assert_no_findings();

    world.remove(&owner);
    world.advance(Span::mins(4));
    world.lab.assert_no_findings();
    world.advance(Span::mins(2));
    assert_eq!(world.lab.roots(), ["Orphan ConfigMap team-a/forgotten"]);

    world.create(&owner, &[]);
    world.lab.assert_no_findings();
    world.advance(Span::mins(30));
    world.lab.assert_no_findings();
}

#[test]
fn the_labels_of_now_name_the_owner() {
    let mut world = with_siblings(5);
    for name in ["first", "second"] {
        world.create(&widget_at("team-a", name), &[]);
    }
    create_labelled(&mut world, &map("moved"), "first", |_| ());
    world.advance(Span::mins(10));

    let key = world.objects[&map("moved")].labels.keys().next().cloned().unwrap_or_default();
    world.put(&map("moved"), |view, _| drop(view.labels.insert(key, "second".into())));
    world.remove(&widget_at("team-a", "first"));
    world.advance(Span::mins(30));
    world.lab.assert_no_findings();

    world.remove(&widget_at("team-a", "second"));
    world.advance(Span::mins(6));
    assert_eq!(world.lab.roots(), ["Orphan ConfigMap team-a/moved"]);
    assert!(world.lab.evidence().contains("former owner second"), "{}", world.lab.evidence());
}

#[test]
fn a_read_that_nobody_answers_leaves_the_watches_as_witnesses() {
    let mut world = with_siblings(5);
    world.silent = true;
    leave(&mut world, &map("left"), "departed");
    world.advance(Span::mins(14));
    world.lab.assert_no_findings();
    world.advance(Span::mins(3));

    assert_eq!(world.lab.roots(), ["Orphan ConfigMap team-a/left"]);
}

#[test]
fn an_object_that_was_listed_before_its_siblings_is_judged_by_what_they_show() {
    let mut world = with_siblings(5);
    leave(&mut world, &map("a-left"), "departed");
    world.restart();
    world.advance(Span::mins(90));

    assert_eq!(world.lab.roots(), ["Orphan ConfigMap team-a/a-left"]);
}

#[test]
fn children_that_a_restore_brings_before_their_owners_have_an_hour() {
    let mut world = with_siblings(5);
    for n in 0..8 {
        create_labelled(&mut world, &map(&format!("r{n}")), &format!("restored-{n}"), |_| ());
    }
    world.advance(Span::mins(40));
    world.lab.assert_no_findings();

    for n in 0..7 {
        world.create(&widget_at("team-a", &format!("restored-{n}")), &[]);
    }
    world.advance(Span::mins(19));
    world.lab.assert_no_findings();

    // One of the owners never comes.
    world.advance(Span::mins(6));
    assert_eq!(world.lab.findings(), ["Orphan ConfigMap team-a/r7"]);

    // It is only suspected: the operator left the others without an owner, too.
    assert_eq!(world.lab.snapshot().findings[0].confidence.as_str(), "suspected");
}

#[test]
fn an_orphan_that_outlived_a_restart_ends_when_its_owner_comes() {
    let mut world = with_siblings(5);
    leave(&mut world, &map("left"), "departed");
    world.advance(Span::mins(6));
    world.restart();
    world.advance(Span::mins(6));
    assert_eq!(world.lab.roots(), ["Orphan ConfigMap team-a/left"]);

    world.create(&widget_at("team-a", "departed"), &[]);
    world.advance(Span::mins(1));
    world.lab.assert_no_findings();
}

#[test]
fn a_reference_that_the_operator_removes_on_the_order_of_a_spec_change_is_released() {
    for ordered in [true, false] {
        let mut world = with_child();
        world.put(&web(), |view, now| view.managers.push(status_by("widget-operator", now)));
        world.advance(Span::mins(20));
        if ordered {
            world.put(&web(), |view, now| {
                view.generation = 2;
                view.hashes.spec = 2;
                view.managers.push(spec_by("kubectl", now));
            });
            world.advance(Span::secs(5));
        }

        world.put(&map("web-settings"), |view, now| {
            view.owners.clear();
            view.managers = vec![spec_by("widget-operator", now)];
        });
        world.advance(Span::mins(6));

        let confidence = world.lab.finding("Orphan").confidence.as_str();
        assert_eq!(confidence, if ordered { "suspected" } else { "confirmed" });
    }
}

#[test]
fn a_volume_that_the_operator_releases_or_keeps_is_only_suspected() {
    let claim = |name: &str| at("", "PersistentVolumeClaim", "team-a", name);
    let mut world = World::of(&[kind(), child("", "PersistentVolumeClaim")]);
    create_siblings(&mut world, 5, claim);
    world.put(&widget_at("team-a", "w1"), |view, now| {
        view.managers.push(status_by("widget-operator", now))
    });
    world.advance(Span::mins(20));

    // The operator takes its reference off, and deletes another widget whose claim it keeps.
    world.put(&claim("c1"), |view, now| {
        view.owners.clear();
        view.managers = vec![spec_by("widget-operator", now)];
    });
    leave(&mut world, &claim("kept"), "departed");
    world.advance(Span::mins(30));
    assert_suspected(
        &world,
        &["PersistentVolumeClaim team-a/c1", "PersistentVolumeClaim team-a/kept"],
    );

    // Somebody else takes it off.
    world.put(&claim("c2"), |view, now| {
        view.owners.clear();
        view.managers = vec![spec_by("kubectl-edit", now)];
    });
    world.advance(Span::mins(6));
    let findings = world.lab.snapshot().findings.into_iter();
    let confirmed: Vec<String> = findings
        .filter(|finding| finding.confidence == Confidence::Confirmed)
        .map(|finding| finding.subject.to_string())
        .collect();
    assert_eq!(confirmed, ["PersistentVolumeClaim team-a/c2"]);
}

#[test]
fn a_kind_whose_objects_often_have_no_owner_has_none_on_purpose() {
    let mut world = with_siblings(20);
    for n in 0..3 {
        create_labelled(&mut world, &map(&format!("backup-{n}")), &format!("w{n}"), |_| ());
    }
    leave(&mut world, &map("backup-old"), "departed");
    world.advance(Span::mins(6));

    assert_suspected(&world, &["ConfigMap team-a/backup-old"]);
}

#[test]
fn the_operators_own_state_is_no_orphan() {
    let own = |name: &str| ObjectAddress { namespace: "ops".into(), ..map(name) };

    // Its label has the operator's name, or its Helm release.
    let mut world = with_siblings(5);
    create_labelled(&mut world, &own("state"), "widget-operator", |_| ());
    let mut op = Op::running(&world.lab);
    op.view.pods[0].name = "release-widgets-7d9f-abcde".into();
    op.seen(&mut world.lab);
    create_labelled(&mut world, &own("cache"), "release", |_| ());
    world.advance(Span::hours(2));
    assert_eq!(world.lab.findings(), [""; 0]);

    // Without sight of the operator, only suspicion is left.
    let mut world = with_siblings(5);
    create_labelled(&mut world, &own("cache"), "release", |_| ());
    world.advance(Span::hours(2));
    assert_suspected(&world, &["ConfigMap ops/cache"]);
}

fn assert_suspected(world: &World, subjects: &[&str]) {
    let findings = world.lab.snapshot().findings;
    let subjects: Vec<String> = subjects.iter().map(|of| format!("Orphan {of}")).collect();

    assert_eq!(world.lab.findings(), subjects);
    assert!(findings.iter().all(|finding| finding.confidence.as_str() == "suspected"));
}
