//! How loopwatch looks up targets: reads, their limits, and answers that say nothing.

use std::collections::BTreeSet;

use loopwatch_model::observation::{
    Cause, ObjectAddress, ObjectView, Reference, Role, Scope, WatchedKind,
};
use loopwatch_model::settings::Settings;
use loopwatch_model::time::Span;

use super::{WEB, secret};
use crate::lab::{
    GROUP, Lab, Widget, World, at, kind, other_kind, reference, unlearned, watch, watched,
};

#[test]
fn answers_that_say_nothing_accuse_nobody() {
    for cause in [Some(Cause::Forbidden), Some(Cause::ServerError), None] {
        let mut world = World::answering(Lab::new());
        world.reads_fail = cause;
        world.unserved.insert("Secret".into());
        world.waiting("web", &[secret("db")]);
        world.advance(Span::mins(9));
        world.lab.assert_no_findings();

        assert!(world.reads.len() < 15, "{}", world.reads.len());
    }

    let mut world = World::answering(Lab::new());
    world.silent = true;
    world.waiting("web", &[secret("db")]);
    world.advance(Span::mins(9));
    world.lab.assert_no_findings();
}

#[test]
fn a_finding_survives_short_failures_of_reads_but_not_the_loss_of_a_permission() {
    let mut world = World::answering(Lab::new());
    world.waiting("web", &[secret("db")]);
    world.advance(Span::mins(4));

    assert_eq!(world.dangling(), [WEB]);

    world.lab.changes();
    world.reads_fail = Some(Cause::Timeout);
    world.advance(Span::mins(3));
    world.reads_fail = None;
    world.advance(Span::mins(3));

    assert!(
        world.lab.changes().iter().all(|change| !change.contains("Dangling")),
        "neither closed nor opened again"
    );

    world.reads_fail = Some(Cause::Forbidden);
    world.advance(Span::mins(9));

    assert!(world.dangling().is_empty());
}

/// The watch of issuers.
fn issuers() -> WatchedKind {
    other_kind("Issuer")
}

fn issuer_at(name: &str) -> ObjectAddress {
    at(GROUP, "Issuer", "team-a", name)
}

fn issuer(lab: &mut Lab, name: &str) -> ObjectView {
    lab.view(Widget::new(name, lab.now).ready())
}

#[test]
fn a_target_of_a_watched_kind_is_judged_without_a_read() {
    let mut world = World::answering(Lab::new());
    world.lab.discover(&[kind(), issuers()]);

    let main = issuer(&mut world.lab, "main");
    world.lab.list_in(&issuers().watch, vec![main]);
    world.waiting("twin", &[reference("", "Issuer", "spec.issuerRef", "main")]);
    world.waiting("web", &[reference("example.io", "Issuer", "spec.issuerRef", "missing")]);
    world.advance(Span::mins(3));

    assert_eq!(world.dangling(), [WEB]);

    let missing = issuer(&mut world.lab, "missing");
    world.lab.apply_to(&issuers().watch, missing);
    world.advance(Span::secs(15));

    assert!(world.dangling().is_empty());
    assert!(world.reads.is_empty(), "{:?}", world.reads);
}

#[test]
fn a_watch_that_cannot_see_or_leaves_objects_out_proves_nothing() {
    let mut world = World::answering(Lab::new());
    world.lab.discover(&[kind(), issuers()]);
    world.waiting("web", &[reference("", "Issuer", "spec.issuerRef", "missing")]);
    world.advance(Span::mins(9));

    assert!(world.dangling().is_empty(), "not listed yet");
    assert!(world.reads.is_empty());

    let mut world = World::answering(Lab::new());
    let filtered = WatchedKind { filtered: true, ..issuers() };
    world.lab.discover(&[kind(), filtered]);
    world.lab.list_in(&issuers().watch, vec![]);
    world.put_unseen(&issuer_at("foreign"), |_, _| ());
    world.waiting("web", &[reference("", "Issuer", "spec.issuerRef", "foreign")]);
    world.advance(Span::mins(9));

    assert!(world.dangling().is_empty(), "a read has found it");
    assert_eq!(world.reads[0].group, "example.io");

    // A watch of another namespace.
    let mut world = World::answering(Lab::new());
    let scope = Scope::Namespace("team-b".into());
    let elsewhere = watched(Role::Primary, GROUP, "Issuer", scope);

    world.lab.discover(&[kind(), elsewhere.clone()]);
    world.lab.list_in(&elsewhere.watch, vec![]);
    world.put_unseen(&issuer_at("main"), |_, _| ());
    world.waiting("web", &[reference("", "Issuer", "spec.issuerRef", "main")]);
    world.advance(Span::mins(9));

    assert!(world.dangling().is_empty(), "a read has found it");
}

#[test]
fn a_reference_to_another_namespace_and_to_a_cluster_scoped_kind_is_read_there() {
    let mut world = World::answering(Lab::new());
    let shared = Reference { namespace: "shared".into(), ..secret("db") };
    let class = reference("", "StorageClass", "spec.storageClassName", "fast");
    world.waiting("web", &[shared, class]);
    world.advance(Span::secs(5));

    let read: Vec<(&str, &str, &str)> = world
        .reads
        .iter()
        .map(|a| (a.group.as_str(), a.kind.as_str(), a.namespace.as_str()))
        .collect();

    assert_eq!(read, [("", "Secret", "shared"), ("storage.k8s.io", "StorageClass", "")]);
}

#[test]
fn at_most_one_read_per_second_and_one_per_minute_for_the_same_absent_target() {
    let mut world = World::answering(Lab::new());
    let views: Vec<ObjectView> = (0..500)
        .map(|number| {
            let name = format!("w{number}");
            world.create_secret(&name);

            let mut widget = Widget::new(&name, world.lab.now);
            ObjectView { references: vec![secret(&name)], ..widget.ready().view(100 + number) }
        })
        .collect();

    world.lab.list_in(&watch(), views);
    world.advance(Span::secs(100));

    assert!((95..=101).contains(&world.reads.len()), "{}", world.reads.len());

    world.waiting("web", &[secret("db")]);
    let before = world.reads.len();
    world.advance(Span::mins(4));

    assert!((235..=241).contains(&(world.reads.len() - before)), "{}", world.reads.len() - before);

    let of_web = world.reads.iter().filter(|address| address.name == "db").count();
    assert!((4..=5).contains(&of_web), "{of_web}");
    assert_eq!(
        world.dangling(),
        [WEB],
        "found although all the others are looked up for the first time"
    );

    world.advance(Span::mins(10));
    let distinct: BTreeSet<&ObjectAddress> = world.reads.iter().collect();

    assert_eq!(distinct.len(), 501, "all were looked up");

    // From now on, each is looked up about every ten minutes.
    let before = world.reads.len();
    world.advance(Span::mins(20));

    let repeated = world.reads.len() - before;
    assert!((900..=1_200).contains(&repeated), "{repeated}");
}

#[test]
fn ten_thousand_references_to_one_object_cost_few_reads() {
    let mut world = World::answering(Lab::new());
    world.create_secret("shared");

    let views: Vec<ObjectView> = (0..10_000)
        .map(|number| {
            let mut widget = Widget::new(&format!("w{number}"), world.lab.now);
            ObjectView { references: vec![secret("shared")], ..widget.ready().view(100 + number) }
        })
        .collect();

    world.lab.list_in(&watch(), views);
    world.advance(Span::mins(10));

    assert!(world.reads.len() <= 20, "{}", world.reads.len());

    world.lab.assert_no_findings();
}

#[test]
fn references_beyond_the_limit_are_dropped_and_counted() {
    let mut world = World::answering(Lab::new());
    let views: Vec<ObjectView> = (0..1_600)
        .map(|number| {
            let references = (0..32).map(|i| secret(&format!("s{i}"))).collect();
            let mut widget = Widget::new(&format!("w{number}"), world.lab.now);
            ObjectView { references, ..widget.ready().view(100 + number) }
        })
        .collect();

    world.lab.list_in(&watch(), views);
    assert_eq!(world.lab.dropped("references"), 1_200);

    // Deleted objects make room for the references of others.
    world.lab.list_in(&watch(), vec![]);
    world.waiting("web", &[secret("db")]);
    world.advance(Span::mins(4));

    assert_eq!(world.dangling(), [WEB]);
}

#[test]
fn a_shorter_grace_needs_more_frequent_reads() {
    let settings = Settings { dangling_after: Span::secs(4), ..unlearned() };
    let mut world = World::answering(Lab::with(settings));
    let mut web = world.waiting("web", &[secret("db")]);
    world.waiting("late", &[secret("late")]);
    world.advance(Span::secs(2));
    world.create_secret("late");
    world.advance(Span::secs(6));

    assert_eq!(world.lab.findings(), [WEB]);

    world.create_secret("db");
    world.refer(web.ready(), &[secret("db")]);
    world.advance(Span::secs(3));
    world.lab.assert_no_findings();
}
