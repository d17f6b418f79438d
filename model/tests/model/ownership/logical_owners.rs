//! Owners that annotations name.

use loopwatch_model::observation::{Cause, ObjectAddress, ObjectView};
use loopwatch_model::settings::Settings;
use loopwatch_model::time::Span;

use crate::lab;
use crate::lab::cluster::{Cluster, address, config_maps};
use crate::lab::{kind, watch};

const INSTANCE: &str = "app.kubernetes.io/instance";

fn map(name: &str) -> ObjectAddress {
    address("ConfigMap", "team-a", name)
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
fn an_owner_in_annotations_that_vanishes_is_found() {
    let mut cluster = Cluster::new();
    let (owner, child) = (address("Widget", "team-b", "hub"), map("spoke"));
    cluster.create(&owner, &[]);
    cluster.create(&child, &[]);
    cluster.change(&child, |view| {
        for (key, value) in
            [("owner-ns", "team-b"), ("owner-name", "hub"), ("owner-kind", "Widget")]
        {
            view.annotations.insert(format!("example.io/{key}"), value.into());
        }
    });

    cluster.advance(Span::mins(20));
    cluster.lab.assert_no_findings();
    cluster.delete(&owner);
    cluster.advance(Span::secs(302));

    assert_eq!(cluster.lab.findings(), ["LogicalOwnerMissing ConfigMap team-a/spoke"]);

    let evidence = cluster.lab.evidence();
    assert!(
        evidence.contains("Widget/hub in namespace team-b") && evidence.contains("owner-name"),
        "{evidence}"
    );

    cluster.create(&owner, &[]);
    cluster.lab.assert_no_findings();

    // Recreated within the grace.
    cluster.delete(&owner);
    cluster.advance(Span::mins(4));
    cluster.create(&owner, &[]);
    cluster.advance(Span::mins(20));
    cluster.lab.assert_no_findings();

    // Cleaned up together with its owner.
    cluster.delete(&owner);
    cluster.advance(Span::secs(30));
    cluster.delete(&child);
    cluster.advance(Span::mins(20));
    cluster.lab.assert_no_findings();
}

#[test]
fn annotated_owners_of_foreign_kinds_and_unreadable_ones_are_not_judged() {
    let mut cluster = Cluster::new();
    for (name, kind) in [("a", "Machine"), ("b", "Widget")] {
        cluster.create(&map(name), &[]);
        cluster.change(&map(name), |view| {
            view.annotations.insert("example.io/owner-name".into(), "hub".into());
            view.annotations.insert("example.io/owner-kind".into(), kind.into());
        });
    }

    cluster.reads_fail = Some(Cause::Forbidden);
    cluster.advance(Span::hours(1));
    cluster.lab.assert_no_findings();
}

/// Marks a child with the owner `team-b/hub`, by annotations with these keys.
fn annotate(cluster: &mut Cluster, child: &ObjectAddress, [of_kind, namespace, name]: [&str; 3]) {
    cluster.change(child, |view| {
        for (key, value) in [(of_kind, "Widget"), (namespace, "team-b"), (name, "hub")] {
            view.annotations.insert(key.into(), value.into());
        }
    });
}

#[test]
fn the_annotations_of_owners_are_configurable() {
    let settings = Settings {
        owner_kind_annotation: "a.io/for".into(),
        owner_namespace_annotation: "a.io/in".into(),
        owner_name_annotation: "a.io/of".into(),
        ..Settings::default()
    };
    for (settings, expected) in [(settings, 1), (Settings::default(), 0)] {
        let mut cluster = Cluster::with(settings);
        let owner = address("Widget", "team-b", "hub");
        cluster.create(&owner, &[]);
        cluster.create(&map("spoke"), &[]);
        cluster.create(&map("incomplete"), &[]);
        annotate(&mut cluster, &map("spoke"), ["a.io/for", "a.io/in", "a.io/of"]);
        annotate(&mut cluster, &map("incomplete"), ["a.io/for", "a.io/in", "a.io/other"]);
        cluster.advance(Span::mins(6));

        cluster.lab.assert_no_findings();
        cluster.delete(&owner);
        cluster.advance(Span::mins(6));

        assert_eq!(cluster.lab.findings().len(), expected, "{:?}", cluster.lab.findings());

        if expected > 0 {
            let evidence = cluster.lab.evidence();
            assert!(
                evidence.contains("Widget/hub in namespace team-b") && evidence.contains("a.io/of"),
                "{evidence}"
            );
        }
    }
}

#[test]
fn the_owner_may_be_listed_after_the_child() {
    for exists in [false, true] {
        let mut cluster = with_siblings(5);
        create_labelled(&mut cluster, &map("left"), "departed", |_| ());
        cluster.create(&map("spoke"), &[]);
        annotate(&mut cluster, &map("spoke"), ["owner-kind", "owner-ns", "owner-name"]);

        if exists {
            cluster.create_unseen(&address("Widget", "team-b", "hub"), &[]);
            cluster.create_unseen(&address("Widget", "team-a", "departed"), &[]);
        }

        cluster.lab = lab::Lab::unsynced(Settings::default());
        cluster.lab.discover(&[kind(), config_maps()]);
        cluster.list_kinds(&[config_maps()]);
        cluster.advance(Span::mins(20));
        cluster.lab.assert_no_findings(); // the watch of the owner has not listed yet
        cluster.list_kinds(&[kind()]);
        cluster.advance(Span::mins(6));

        let expected =
            ["Orphan ConfigMap team-a/left", "LogicalOwnerMissing ConfigMap team-a/spoke"];

        assert_eq!(cluster.lab.findings(), if exists { &[][..] } else { &expected[..] });
    }
}

#[test]
fn a_finding_about_an_annotated_owner_survives_the_blindness_of_its_watch() {
    let mut cluster = Cluster::new();
    cluster.create(&map("spoke"), &[]);
    annotate(&mut cluster, &map("spoke"), ["owner-kind", "owner-ns", "owner-name"]);
    cluster.advance(Span::mins(6));

    assert_eq!(cluster.lab.findings(), ["LogicalOwnerMissing ConfigMap team-a/spoke"]);

    cluster.lab.fail_watch(&watch());
    cluster
        .change(&map("spoke"), |view| drop(view.annotations.insert("more".into(), "news".into())));
    cluster.advance(Span::mins(1));

    assert_eq!(cluster.lab.findings(), ["LogicalOwnerMissing ConfigMap team-a/spoke"]);

    cluster.lab.recover_watch(&watch());
    cluster.create(&address("Widget", "team-b", "hub"), &[]);
    cluster.advance(Span::mins(2));
    cluster.lab.assert_no_findings();
}
