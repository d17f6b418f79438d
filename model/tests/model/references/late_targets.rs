//! Targets that come late or go away, as real operators cause them.

use loopwatch_model::observation::{Cause, ObjectAddress, Role, Scope};
use loopwatch_model::time::Span;

use crate::lab::{FINALIZER, GROUP, World, at, primary, ready, reference, watched, web};

/// A widget that refers to a Secret.
fn with_secret() -> (World, ObjectAddress) {
    let mut world = World::new();
    let secret = at("", "Secret", "team-a", "db");
    world.put_unseen(&secret, |_, _| {});
    world.healthy(&web(), "widget-operator", &[FINALIZER]);
    world.put(&web(), |view, _| {
        view.hashes.spec = 3;
        view.references = vec![reference("", "Secret", "spec.db.secretRef", "db")];
    });

    (world, secret)
}

#[test]
fn a_secret_that_goes_with_its_namespace_dangles_from_nobody() {
    let (mut world, secret) = with_secret();
    world.put(&web(), |view, now| ready(view, "widget-operator", now));
    world.advance(Span::mins(10));
    world.lab.delete_namespace("team-a", &["NamespaceContentRemaining"]);
    world.objects.remove(&secret);
    world.advance(Span::mins(25));

    assert!(!world.lab.has("DanglingReference"), "{:?}", world.lab.findings());
}

#[test]
fn a_cluster_scoped_object_that_does_not_say_the_namespace_of_its_target_is_not_judged() {
    let mut world = World::of(&[
        watched(Role::Primary, GROUP, "Gateway", Scope::Cluster),
        primary(GROUP, "Policy"),
    ]);

    world.healthy(&at(GROUP, "Policy", "gateways", "strict"), "gateway-operator", &[]);
    let gateway = at(GROUP, "Gateway", "", "public");
    world.put(&gateway, |view, now| {
        view.references = vec![reference(GROUP, "Policy", "spec.policyRef", "strict")];
        ready(view, "gateway-operator", now);
    });
    world.advance(Span::mins(15));
    world.lab.assert_no_findings();
}

#[test]
fn a_missing_target_is_found_after_an_outage_of_reads() {
    let mut world = World::new();
    world.reads_fail = Some(Cause::ServerError);
    world.put(&web(), |view, _| {
        view.hashes.spec = 1;
        view.references = vec![reference("", "Secret", "spec.db.secretRef", "db")];
    });
    world.advance(Span::mins(8));

    assert!(!world.lab.has("DanglingReference"), "{:?}", world.lab.findings());

    world.reads_fail = None;
    world.advance(Span::mins(25));

    assert!(world.lab.has("DanglingReference"), "{:?}", world.lab.findings());
}

#[test]
fn cert_manager_issues_the_secret_of_a_certificate_late() {
    let mut world = World::of(&[
        primary("cert-manager.io", "Certificate"),
        primary("acme.cert-manager.io", "Order"),
    ]);
    let certificate = at("cert-manager.io", "Certificate", "team-a", "web");

    world.put(&certificate, |view, _| {
        view.references = vec![reference("", "Secret", "spec.secretName", "web-tls")];
        view.hashes.spec = 1;
    });
    world.advance(Span::mins(9));

    assert!(!world.lab.has("DanglingReference"), "{:?}", world.lab.findings());
}

#[test]
fn an_object_that_is_pruned_together_with_its_secret_is_quiet() {
    let (mut world, secret) = with_secret();
    world.put(&web(), |view, now| ready(view, "widget-operator", now));
    world.advance(Span::mins(15));
    world.objects.remove(&secret);
    world.delete(&web());
    world.advance(Span::mins(4));
    world.remove(&web());
    world.advance(Span::mins(10));
    world.lab.assert_no_findings();
}

#[test]
fn a_dangling_reference_is_healed_by_external_secrets() {
    let mut world = World::new();
    world.put(&web(), |view, _| {
        view.hashes.spec = 1;
        view.references = vec![reference("", "Secret", "spec.db.secretRef", "db")];
    });
    world.advance(Span::mins(5));

    assert!(world.lab.has("DanglingReference"), "{:?}", world.lab.findings());

    world.put_unseen(&at("", "Secret", "team-a", "db"), |view, _| {
        view.managers[0].name = "external-secrets".into()
    });
    world.advance(Span::mins(2));

    assert!(!world.lab.has("DanglingReference"), "{:?}", world.lab.findings());
}

#[test]
fn a_dangling_reference_to_a_watched_primary_that_is_recreated_is_short() {
    let mut world = World::of(&[primary(GROUP, "Widget"), primary(GROUP, "WidgetClass")]);
    let class = at(GROUP, "WidgetClass", "team-a", "gold");
    world.healthy(&class, "widget-operator", &[]);
    world.put(&web(), |view, _| {
        view.hashes.spec = 1;
        view.references = vec![reference(GROUP, "WidgetClass", "spec.classRef", "gold")];
    });
    world.put(&web(), |view, now| ready(view, "widget-operator", now));

    world.advance(Span::mins(5));
    world.remove(&class);
    world.advance(Span::secs(90));
    world.healthy(&class, "widget-operator", &[]);
    world.advance(Span::mins(10));
    world.lab.assert_no_findings();
}
