//! Owner references as the garbage collector judges them: faults, their healthy twins, and near
//! misses.

use loopwatch_model::observation::{Cause, ObjectAddress, OwnerReference};
use loopwatch_model::time::Span;

use crate::lab;
use crate::lab::cluster::{Cluster, address, owner};

fn web() -> ObjectAddress {
    address("Widget", "team-a", "web")
}

fn settings_of(namespace: &str) -> ObjectAddress {
    address("ConfigMap", namespace, "web-settings")
}

/// Returns a reference to an object of which loopwatch has never heard.
fn stranger(name: &str) -> OwnerReference {
    owner(&address("Widget", "team-a", name), "11111111-0000-4000-8000-000000000000")
}

#[test]
fn an_owner_in_another_namespace_is_found_at_once_and_stays_visible_after_the_collection() {
    let mut cluster = Cluster::new();
    cluster.create(&web(), &[]);

    let child = settings_of("team-b");
    cluster.create(&child, &[cluster.owner(&web())]);

    assert_eq!(cluster.lab.findings(), ["CrossNamespaceOwner ConfigMap team-b/web-settings"]);

    let evidence = cluster.lab.evidence();
    assert!(
        evidence.contains("owner namespace team-a") && evidence.contains("widget-operator"),
        "{evidence}"
    );

    let name = |cluster: &mut Cluster| {
        let events = cluster.lab.model.reference_events();
        events
            .iter()
            .map(|e| format!("{}: {} -> {}", e.name(), e.source, e.target))
            .collect::<Vec<_>>()
            .join(", ")
    };

    let both = "ConfigMap team-b/web-settings -> Widget.example.io team-a/web";
    assert_eq!(name(&mut cluster), format!("cross_namespace_owner_appeared: {both}"));

    cluster.advance(Span::secs(3));
    cluster.delete(&child);

    assert_eq!(name(&mut cluster), format!("cross_namespace_owner_disappeared: {both}"));
    assert!(cluster.lab.evidence().contains("collected after 3s"), "{}", cluster.lab.evidence());

    // The operator creates it again, and the garbage collector deletes it again.
    cluster.create(&child, &[cluster.owner(&web())]);
    assert!(cluster.lab.evidence().contains("times 2"), "{}", cluster.lab.evidence());

    cluster.delete(&child);
    cluster.advance(Span::mins(14));

    assert_eq!(cluster.lab.findings().len(), 1);

    cluster.advance(Span::mins(2));
    cluster.lab.assert_no_findings();

    assert_eq!(
        cluster.lab.snapshot().kinds.iter().flat_map(|kind| kind.totals.hazards).sum::<u64>(),
        2
    );
}

#[test]
fn an_owner_of_another_namespace_that_appears_after_the_child_is_found_too() {
    let mut cluster = Cluster::new();
    cluster.create_unseen(&web(), &[]);
    cluster.create(&settings_of("team-b"), &[cluster.owner(&web())]);
    cluster.lab.assert_no_findings();
    cluster.see(&web());

    assert_eq!(cluster.lab.findings(), ["CrossNamespaceOwner ConfigMap team-b/web-settings"]);
}

#[test]
fn owners_in_the_same_namespace_or_without_one_are_fine() {
    let mut cluster = Cluster::new();
    let global = address("Widget", "", "global");
    cluster.create(&web(), &[]);
    cluster.create(&global, &[]);
    cluster.create(&settings_of("team-a"), &[cluster.owner(&web()), cluster.owner(&global)]);
    cluster.create(&settings_of("team-b"), &[cluster.owner(&global)]);
    cluster.advance(Span::hours(1));
    cluster.lab.assert_no_findings();

    assert_eq!(cluster.reads, 0);
}

#[test]
fn an_owner_that_never_existed_is_missing() {
    let mut cluster = Cluster::new();
    let child = settings_of("team-a");
    cluster.create(&child, &[stranger("gone")]);
    cluster.lab.assert_no_findings();
    cluster.advance(Span::secs(3));

    assert_eq!(cluster.lab.findings(), ["OwnerMissing ConfigMap team-a/web-settings"]);
    assert!(cluster.lab.evidence().contains("Widget/gone"), "{}", cluster.lab.evidence());

    cluster.delete(&child);
    assert!(cluster.lab.has("OwnerMissing"));
}

#[test]
fn a_child_that_the_garbage_collector_takes_before_the_answer_is_still_found() {
    let mut cluster = Cluster::new();
    let child = settings_of("team-a");
    cluster.create(&child, &[stranger("gone")]);
    cluster.advance(Span(400));
    cluster.delete(&child);
    cluster.advance(Span::secs(5));

    assert_eq!(cluster.lab.findings(), ["OwnerMissing ConfigMap team-a/web-settings"]);
    assert!(cluster.lab.evidence().contains("collected after"), "{}", cluster.lab.evidence());
}

#[test]
fn an_owner_whose_event_comes_later_is_fine_and_costs_no_read() {
    let mut cluster = Cluster::new();
    cluster.create_unseen(&web(), &[]);
    cluster.create(&settings_of("team-a"), &[cluster.owner(&web())]);
    cluster.advance(Span::secs(1));
    cluster.see(&web());
    cluster.advance(Span::mins(10));
    cluster.lab.assert_no_findings();

    assert_eq!(cluster.reads, 0);
}

#[test]
fn a_read_that_finds_the_owner_ends_the_doubt_and_one_that_fails_decides_nothing() {
    for cause in [None, Some(Cause::Forbidden), Some(Cause::ServerError)] {
        let mut cluster = Cluster::new();
        cluster.create_unseen(&web(), &[]); // its watch never reports it
        cluster.reads_fail = cause;
        cluster.create(&settings_of("team-a"), &[cluster.owner(&web())]);
        cluster.advance(Span::mins(30));
        cluster.lab.assert_no_findings();

        // Another read may succeed after a failure of the API server, but not without the
        // permission.
        let expected = if cause == Some(Cause::ServerError) { 3 } else { 1 };
        assert_eq!(cluster.reads, expected, "{cause:?}");
    }
}

#[test]
fn an_operator_that_keeps_the_uid_of_a_deleted_object_is_found() {
    let mut cluster = Cluster::new();
    cluster.create(&web(), &[]);

    let old = cluster.owner(&web());
    cluster.delete(&web());
    cluster.create(&web(), &[]);
    cluster.advance(Span::mins(1));

    let child = settings_of("team-a");
    cluster.create(&child, &[old]);
    cluster.advance(Span::secs(3));

    assert_eq!(cluster.lab.findings(), ["OwnerReplaced ConfigMap team-a/web-settings"]);
}

#[test]
fn a_child_with_an_old_uid_that_is_collected_at_once_is_found() {
    let mut cluster = Cluster::new();
    cluster.create(&web(), &[]);

    let old = cluster.owner(&web());
    cluster.delete(&web());
    cluster.create(&web(), &[]);
    cluster.advance(Span::mins(1));

    let child = settings_of("team-a");
    cluster.create(&child, &[old]);
    cluster.advance(Span(300));
    cluster.delete(&child);
    cluster.advance(Span::secs(4));

    assert_eq!(cluster.lab.findings(), ["OwnerReplaced ConfigMap team-a/web-settings"]);
}

#[test]
fn a_cascade_and_a_recreation_are_no_hazards() {
    let mut cluster = Cluster::new();
    cluster.create(&web(), &[]);

    let old = cluster.owner(&web());
    let (first, late) = (settings_of("team-a"), address("ConfigMap", "team-a", "late"));
    cluster.create(&first, std::slice::from_ref(&old));
    cluster.delete(&web());
    cluster.create(&web(), &[]);

    // The operator has not seen the deletion yet.
    cluster.advance(Span::secs(5));
    cluster.create(&late, &[old]);
    cluster.advance(Span::mins(2));
    cluster.delete(&first);
    cluster.delete(&late);
    cluster.advance(Span::mins(10));
    cluster.lab.assert_no_findings();
}

#[test]
fn children_that_the_garbage_collector_leaves_behind_are_found() {
    let mut cluster = Cluster::new();
    cluster.create(&web(), &[]);

    let child = settings_of("team-a");
    cluster.create(&child, &[cluster.owner(&web())]);
    cluster.delete(&web());
    cluster.advance(Span::secs(299));
    cluster.lab.assert_no_findings();
    cluster.advance(Span::secs(3));

    assert_eq!(cluster.lab.findings(), ["OwnerMissing ConfigMap team-a/web-settings"]);

    cluster.delete(&child);
    cluster.advance(Span::mins(16));
    cluster.lab.assert_no_findings();
}

#[test]
fn a_restart_in_the_middle_of_a_cascade_accuses_nobody() {
    let mut cluster = Cluster::new();
    cluster.create(&web(), &[]);

    let child = settings_of("team-a");
    cluster.create(&child, &[cluster.owner(&web())]);
    cluster.delete(&web());
    cluster.restart();
    cluster.advance(Span::mins(4));
    cluster.lab.assert_no_findings();
    cluster.delete(&child);
    cluster.advance(Span::mins(10));
    cluster.lab.assert_no_findings();
}

#[test]
fn a_list_of_children_before_their_owners_accuses_nobody() {
    let mut cluster = Cluster::unlisted(lab::steps::unlearned());
    cluster.create_unseen(&web(), &[]);
    cluster.create_unseen(&settings_of("team-a"), &[cluster.owner(&web())]);

    let maps = lab::cluster::config_maps().watch;
    let views = vec![
        cluster.create_unseen(&address("ConfigMap", "team-a", "more"), &[cluster.owner(&web())]),
    ];

    cluster.lab.list_in(&maps, views);
    cluster.advance(Span::mins(20)); // the watch of the owners cannot list yet
    cluster.lab.assert_no_findings();
    cluster.list();
    cluster.advance(Span::mins(20));
    cluster.lab.assert_no_findings();

    assert_eq!(cluster.reads, 0);
}

#[test]
fn while_the_owners_cannot_be_seen_nothing_is_judged() {
    let mut cluster = Cluster::new();
    cluster.lab.fail();
    cluster.create_unseen(&web(), &[]);
    cluster.create(&settings_of("team-a"), &[cluster.owner(&web())]);
    cluster.advance(Span::mins(1));
    cluster.lab.recover();
    cluster.see(&web());
    cluster.advance(Span::mins(20));

    assert!(!cluster.lab.has("OwnerMissing"));
}

#[test]
fn an_owner_of_an_unknown_kind_cannot_be_resolved() {
    let mut cluster = Cluster::new();
    cluster.unknown_kinds.push("Wodget".to_owned());

    let child = settings_of("team-a");
    let typo = owner(&address("Wodget", "team-a", "web"), "11111111-0000-4000-8000-000000000000");
    cluster.create(&child, &[typo]);
    cluster.advance(Span::secs(3));

    assert_eq!(cluster.lab.findings(), ["OwnerUnresolvable ConfigMap team-a/web-settings"]);
    assert!(cluster.lab.evidence().contains("reason kind_unknown"), "{}", cluster.lab.evidence());

    cluster.advance(Span::hours(1));
    assert!(cluster.lab.has("OwnerUnresolvable"), "nobody deletes it");

    cluster.change(&child, |view| view.owners.clear());
    cluster.advance(Span::mins(1));
    cluster.lab.assert_no_findings();
}

#[test]
fn the_uid_of_another_object_and_a_namespaced_owner_of_a_global_object_are_found() {
    let mut cluster = Cluster::new();
    cluster.create(&web(), &[]);

    let mut wrong = cluster.owner(&web());
    wrong.name = "other".to_owned();
    cluster.create(&settings_of("team-a"), &[wrong]);
    cluster.create(&address("ConfigMap", "", "global"), &[cluster.owner(&web())]);

    let found = cluster.lab.findings();
    assert_eq!(
        found,
        ["OwnerMissing ConfigMap team-a/web-settings", "OwnerUnresolvable ConfigMap global"]
    );
}

#[test]
fn a_missing_owner_beside_one_that_exists_is_no_hazard() {
    let mut cluster = Cluster::new();
    cluster.create(&web(), &[]);
    cluster.create(&settings_of("team-a"), &[cluster.owner(&web()), stranger("gone")]);
    cluster.advance(Span::hours(1));
    cluster.lab.assert_no_findings();
}

#[test]
fn a_cycle_has_one_finding_which_ends_with_it() {
    for length in [1, 3, 1_000] {
        let mut cluster = Cluster::new();
        let at = |n: usize| address("Widget", "team-a", &format!("w{n:04}"));
        (0..length).for_each(|n| drop(cluster.create(&at(n), &[])));

        for n in (0..length).rev() {
            let next = cluster.owner(&at((n + 1) % length));
            cluster.change(&at(n), |view| view.owners = vec![next]);
        }

        assert_eq!(cluster.lab.findings(), ["OwnerCycle Widget team-a/w0000"]);
        assert!(
            cluster.lab.evidence().contains(&format!("length {length}")),
            "{}",
            cluster.lab.evidence()
        );

        cluster.restart();
        assert_eq!(cluster.lab.findings(), ["OwnerCycle Widget team-a/w0000"], "also from a list");

        cluster.change(&at(length / 2), |view| view.owners.clear());
        cluster.advance(Span::mins(16));
        cluster.lab.assert_no_findings();
    }
}

#[test]
fn foreign_owners_are_not_judged() {
    let mut cluster = Cluster::new();
    let foreign = ObjectAddress { group: "other.io".into(), ..address("Thing", "team-a", "x") };
    cluster.create(&web(), &[owner(&foreign, "11111111-0000-4000-8000-000000000000")]);

    let empty = OwnerReference { kind: "Widget".into(), ..OwnerReference::default() };
    cluster.create(&settings_of("team-a"), &[empty]);
    cluster.advance(Span::hours(1));
    cluster.lab.assert_no_findings();

    assert_eq!(cluster.reads, 1, "one read shows that the kind exists");
}

#[test]
fn a_foreign_kind_that_does_not_exist_is_found_beside_an_owner_that_does() {
    let mut cluster = Cluster::new();
    cluster.unknown_kinds.push("Gadget".to_owned());
    cluster.create(&web(), &[]);

    let gadget = ObjectAddress { group: "gone.io".into(), ..address("Gadget", "team-a", "x") };
    let gadget = owner(&gadget, "11111111-0000-4000-8000-000000000000");
    for n in 0..3 {
        let owners = [cluster.owner(&web()), gadget.clone()];
        cluster.create(&address("ConfigMap", "team-a", &format!("c{n}")), &owners);
    }

    cluster.advance(Span::secs(1));
    assert_eq!(cluster.lab.findings().len(), 3, "{:?}", cluster.lab.findings());
    assert_eq!(cluster.reads, 1);
}

#[test]
fn ten_thousand_owners_of_one_child_are_bearable() {
    let mut cluster = Cluster::new();
    let owners: Vec<_> =
        (0..10_000).map(|n| owner(&address("Widget", "team-a", &n.to_string()), "x")).collect();
    cluster.create(&settings_of("team-a"), &owners);
    cluster.advance(Span::mins(1));
    cluster.delete(&settings_of("team-a"));
}

#[test]
fn owners_beyond_the_limit_of_a_view_may_exist() {
    let mut cluster = Cluster::new();
    let child = settings_of("team-a");
    let owners: Vec<_> = (0..64).map(|number| stranger(&number.to_string())).collect();
    let mut view = cluster.create_unseen(&child, &owners);

    view.lints = vec!["many_owners".into()];
    cluster.change(&child, |known| *known = view);
    cluster.advance(Span::hours(1));
    cluster.lab.assert_no_findings();

    // Without the others, the garbage collector would delete the child.
    cluster.change(&child, |view| view.lints.clear());
    cluster.advance(Span::hours(1));

    assert_eq!(cluster.lab.findings(), ["OwnerMissing ConfigMap team-a/web-settings"]);
}

#[test]
fn a_reference_without_a_kind_or_a_name_proves_nothing() {
    let mut cluster = Cluster::new();
    cluster.create(&web(), &[]);

    let whole = cluster.owner(&web());
    let without = [
        OwnerReference { kind: String::new(), ..whole.clone() },
        OwnerReference { name: String::new(), ..whole.clone() },
        OwnerReference { name: String::new(), ..stranger("gone") },
        OwnerReference { uid: whole.uid.clone(), ..OwnerReference::default() },
        OwnerReference { api_version: String::new(), ..whole },
    ];

    for (number, owner) in without.into_iter().enumerate() {
        cluster.create(&address("ConfigMap", "team-a", &number.to_string()), &[owner]);
    }

    cluster.advance(Span::hours(1));
    cluster.lab.assert_no_findings();

    assert_eq!(cluster.reads, 0);
}
