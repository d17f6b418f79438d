//! Objects without an owner: faults, their healthy twins, and near misses.

use loopwatch_model::observation::{Cause, ObjectAddress, ObjectView};
use loopwatch_model::settings::Settings;
use loopwatch_model::time::Span;

use crate::lab::cluster::{Cluster, address};

const INSTANCE: &str = "app.kubernetes.io/instance";

fn web() -> ObjectAddress {
    address("Widget", "team-a", "web")
}

fn map(name: &str) -> ObjectAddress {
    address("ConfigMap", "team-a", name)
}

/// Returns a cluster with a widget and its child.
fn with_child() -> Cluster {
    let mut cluster = Cluster::new();
    cluster.create(&web(), &[]);
    cluster.create(&map("web-settings"), &[cluster.owner(&web())]);
    cluster
}

/// Returns a cluster with widgets and a labelled child of each.
fn with_siblings(count: usize) -> Cluster {
    let mut cluster = Cluster::new();
    for n in 0..count {
        let (owner, child) = (address("Widget", "team-a", &format!("w{n}")), map(&format!("c{n}")));
        cluster.create(&owner, &[]);

        let reference = cluster.owner(&owner);
        create_labelled(&mut cluster, &child, &format!("w{n}"), |view| view.owners.push(reference));
    }

    cluster
}

fn create_labelled(
    cluster: &mut Cluster,
    at: &ObjectAddress,
    instance: &str,
    more: impl FnOnce(&mut ObjectView),
) {
    cluster.create_unseen(at, &[]);
    cluster.change(at, |view| {
        drop(view.labels.insert(INSTANCE.into(), instance.into()));
        more(view);
    });
}

#[test]
fn a_child_that_loses_its_owner_is_an_orphan_after_a_while() {
    let mut cluster = with_child();
    cluster.change(&map("web-settings"), |view| view.owners.clear());
    cluster.advance(Span::secs(299));
    cluster.lab.assert_no_findings();
    cluster.advance(Span::secs(2));

    assert_eq!(cluster.lab.roots(), ["Orphan ConfigMap team-a/web-settings"]);

    let evidence = cluster.lab.evidence();
    assert!(
        evidence.contains("former owner Widget/web") && evidence.contains("owner_removed"),
        "{evidence}"
    );
    assert_eq!(cluster.reads, 1, "one read has confirmed it");

    let owner = cluster.owner(&web());
    cluster.change(&map("web-settings"), |view| view.owners.push(owner));
    cluster.lab.assert_no_findings();
}

#[test]
fn a_child_that_changes_its_owner_is_no_orphan() {
    let mut cluster = with_child();
    let other = address("Widget", "team-a", "other");
    cluster.create(&other, &[]);
    cluster.change(&map("web-settings"), |view| view.owners.clear());
    cluster.advance(Span::mins(4));

    let owner = cluster.owner(&other);
    cluster.change(&map("web-settings"), |view| view.owners.push(owner));
    cluster.advance(Span::mins(30));
    cluster.lab.assert_no_findings();
}

#[test]
fn a_deletion_with_orphan_policy_releases_the_children() {
    for owner_first in [true, false] {
        let mut cluster = with_child();
        let orphan = |cluster: &mut Cluster| {
            let now = cluster.lab.now;
            cluster.change(&web(), |view| {
                (view.deleted, view.finalizers) = (Some(now), vec!["orphan".into()])
            });
        };

        if owner_first {
            orphan(&mut cluster);
        }

        cluster.change(&map("web-settings"), |view| view.owners.clear());
        if !owner_first {
            orphan(&mut cluster);
        }

        cluster.advance(Span::secs(1));
        cluster.delete(&web());
        cluster.advance(Span::mins(6));

        assert_eq!(cluster.lab.findings(), ["Orphan ConfigMap team-a/web-settings"]);
        assert_eq!(cluster.lab.snapshot().findings[0].confidence.as_str(), "suspected");
        assert!(cluster.lab.evidence().contains("reason released"), "{}", cluster.lab.evidence());
    }
}

#[test]
fn a_read_that_fails_or_contradicts_accuses_nobody() {
    for cause in [Cause::Forbidden, Cause::ServerError] {
        let mut cluster = with_child();
        cluster.reads_fail = Some(cause);
        cluster.change(&map("web-settings"), |view| view.owners.clear());
        cluster.advance(Span::mins(20));
        cluster.lab.assert_no_findings();
        cluster.reads_fail = None;
        cluster.advance(Span::mins(12));

        assert!(cluster.lab.has("Orphan"), "the model tries again");
    }

    let mut cluster = with_child();
    cluster.change(&map("web-settings"), |view| view.owners.clear());
    cluster.delete_unseen(&map("web-settings"));
    cluster.advance(Span::mins(20));
    cluster.lab.assert_no_findings();
}

#[test]
fn an_object_whose_label_names_an_owner_that_is_gone_is_an_orphan() {
    let mut cluster = with_siblings(5);
    create_labelled(&mut cluster, &map("left"), "departed", |_| ());
    // Its instance exists: the operator means it.
    create_labelled(&mut cluster, &map("kept"), "w3", |_| ());
    cluster.advance(Span::mins(6));

    assert_eq!(cluster.lab.roots(), ["Orphan ConfigMap team-a/left"]);
    assert!(cluster.lab.evidence().contains("former owner departed"), "{}", cluster.lab.evidence());
}

#[test]
fn four_siblings_prove_nothing_and_the_operators_own_objects_are_none_of_them() {
    let mut cluster = with_siblings(4);
    create_labelled(&mut cluster, &map("left"), "departed", |_| ());
    cluster.advance(Span::mins(30));
    cluster.lab.assert_no_findings();

    let mut cluster = with_siblings(19);
    cluster.create(&map("ca-bundle"), &[]);
    cluster.change(&map("lock"), |_| ());
    cluster.advance(Span::mins(30));
    cluster.lab.assert_no_findings();
}

#[test]
fn an_exception_among_many_siblings_is_only_suspected() {
    let other = |view: &mut ObjectView| {
        view.labels.clear();
        view.labels.insert("app.kubernetes.io/managed-by".into(), "widget-operator".into());
    };
    let mut cluster = with_siblings(20);

    create_labelled(&mut cluster, &map("odd"), "", other);
    cluster.advance(Span::mins(6));

    assert_eq!(cluster.lab.findings(), ["Orphan ConfigMap team-a/odd"]);
    assert_eq!(cluster.lab.snapshot().findings[0].confidence.as_str(), "suspected");

    // Several of them are the rule, not an exception.
    create_labelled(&mut cluster, &map("odd-2"), "", other);
    cluster.advance(Span::mins(6));
    cluster.change(&map("odd"), |_| ());
    cluster.lab.assert_no_findings();
}

#[test]
fn while_the_owners_cannot_be_seen_labels_prove_nothing() {
    let mut cluster = with_siblings(5);
    create_labelled(&mut cluster, &map("left"), "departed", |_| ());
    cluster.lab.fail();
    cluster.advance(Span::mins(20));

    assert!(!cluster.lab.has("Orphan"));
}

#[test]
fn allowed_kinds_and_namespaces_are_no_orphans() {
    let rules = r#"{"findings":{"Orphan":[{"kinds":{"include":["ConfigMap"]},"namespaces":{"include":["team-*"]},"enabled":false}]}}"#;
    let settings: Settings = serde_json::from_str(rules).expect("settings");
    let mut cluster = Cluster::with(settings);
    cluster.create(&web(), &[]);
    cluster.create(&map("web-settings"), &[cluster.owner(&web())]);
    cluster.change(&map("web-settings"), |view| view.owners.clear());
    cluster.advance(Span::mins(30));
    cluster.lab.assert_no_findings();
}

#[test]
fn a_restart_keeps_and_raises_no_orphan_without_a_reason() {
    let mut cluster = with_siblings(5);
    create_labelled(&mut cluster, &map("left"), "departed", |_| ());
    cluster.change(&map("c0"), |view| view.owners.clear());
    cluster.advance(Span::mins(6));

    assert_eq!(
        cluster.lab.findings(),
        ["Orphan ConfigMap team-a/c0", "Orphan ConfigMap team-a/left"]
    );

    cluster.restart();
    cluster.advance(Span::mins(30));

    assert_eq!(
        cluster.lab.findings(),
        ["Orphan ConfigMap team-a/c0", "Orphan ConfigMap team-a/left"]
    );
}
