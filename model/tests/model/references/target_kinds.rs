//! Missing targets of each kind: ConfigMaps, custom resources, issuers, and objects in other
//! namespaces.

use loopwatch_model::finding::Confidence;
use loopwatch_model::observation::{ConditionStatus, Reference, Role, Scope};
use loopwatch_model::time::Span;

use crate::lab::{GROUP, World, at, condition, kind, primary, ready, reference, watched, web};

const MANAGER: &str = "cert-manager.io";

/// Returns what dangles, after a widget and a twin have waited for their targets.
fn dangling(world: &mut World, missing: Reference, there: Reference) -> Vec<String> {
    for (name, target) in [("web", missing), ("twin", there)] {
        world.put(&at(GROUP, "Widget", "team-a", name), |view, now| {
            ready(view, "widget-operator", now);
            view.conditions = vec![condition("Ready", ConditionStatus::False, "Progressing")];
            view.references = vec![target];
        });
    }
    world.advance(Span::mins(5));

    let findings = world.lab.snapshot().findings.into_iter();
    let dangling = findings.filter(|finding| {
        finding.code.name() == "DanglingReference" && finding.confidence == Confidence::Confirmed
    });
    dangling.map(|finding| finding.summary()).collect()
}

#[test]
fn a_config_map_dangles() {
    let mut world = World::of(&[kind()]);
    world.put_unseen(&at("", "ConfigMap", "team-a", "there"), |_, _| ());
    let map = |name| reference("", "ConfigMap", "spec.configMapRef", name);
    let found = dangling(&mut world, map("gone"), map("there"));

    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("ConfigMap team-a/gone"), "{found:?}");
}

#[test]
fn a_custom_resource_dangles() {
    // Of a watched kind, and of another operator's.
    for kinds in [vec![kind(), primary("other.io", "Store")], vec![kind()]] {
        let mut world = World::of(&kinds);
        let there = at("other.io", "Store", "team-a", "there");
        world.put(&there, |view, now| ready(view, "store-operator", now));
        let store = |name| reference("other.io", "Store", "spec.storeRef", name);
        let found = dangling(&mut world, store("gone"), store("there"));

        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("Store team-a/gone"), "{found:?}");
    }
}

#[test]
fn a_target_in_another_namespace_dangles_there() {
    let mut world = World::of(&[kind()]);
    world.put_unseen(&at("", "Secret", "shared", "there"), |_, _| ());
    world.put_unseen(&at("", "Secret", "team-a", "gone"), |_, _| ());
    let secret = |name| Reference {
        namespace: "shared".into(),
        ..reference("", "Secret", "spec.secretRef", name)
    };
    let found = dangling(&mut world, secret("gone"), secret("there"));

    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("Secret shared/gone"), "{found:?}");
}

/// cert-manager's own kinds.
fn issuing() -> World {
    let mut world = World::of(&[
        primary(MANAGER, "Certificate"),
        primary(MANAGER, "Issuer"),
        watched(Role::Primary, MANAGER, "ClusterIssuer", Scope::Cluster),
    ]);
    for issuer in
        [at(MANAGER, "Issuer", "team-a", "there"), at(MANAGER, "ClusterIssuer", "", "there")]
    {
        world.put(&issuer, |view, now| ready(view, "cert-manager", now));
    }

    world
}

#[test]
fn a_certificate_without_its_issuer_is_explained_by_that() {
    for (group, kind) in [
        (MANAGER, "Issuer"),
        ("", "Issuer"),
        ("", ""),
        (MANAGER, "ClusterIssuer"),
        ("", "ClusterIssuer"),
    ] {
        let mut world = issuing();
        for (name, issuer) in [("web", "gone"), ("twin", "there")] {
            world.put(&at(MANAGER, "Certificate", "team-a", name), |view, now| {
                ready(view, "cert-manager", now);
                view.references = vec![
                    reference(group, kind, "spec.issuerRef", issuer),
                    reference("", "Secret", "spec.secretName", "tls"),
                ];
                if issuer == "gone" {
                    let issuing = condition("Ready", ConditionStatus::False, "Issuing");
                    view.conditions = vec![issuing];
                }
            });
        }
        world.advance(Span::mins(25));

        assert_eq!(
            world.lab.roots(),
            ["DanglingReference Certificate team-a/web"],
            "{group} {kind}"
        );
    }
}

#[test]
fn another_operators_object_may_name_an_issuer() {
    let mut world = World::of(&[kind()]);
    world.cluster_scoped.insert("ClusterIssuer".into());
    world.put_unseen(&at(MANAGER, "ClusterIssuer", "", "there"), |_, _| ());
    let issuer = |name| reference("", "ClusterIssuer", "spec.tls.issuerRef", name);
    let found = dangling(&mut world, issuer("gone"), issuer("there"));
    assert_eq!(found.len(), 1, "{found:?}");

    // Without cert-manager, nothing is known.
    let mut world = World::of(&[kind()]);
    world.unserved.insert("ClusterIssuer".into());
    world.put(&web(), |view, _| {
        view.hashes.spec = 1;
        view.references = vec![issuer("gone")];
    });
    world.advance(Span::mins(9));
    assert!(!world.lab.has("DanglingReference"));
}
