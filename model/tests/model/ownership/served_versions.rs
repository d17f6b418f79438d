//! Owners in a version that the API server serves, or does not serve.

use loopwatch_model::observation::{DefinitionView, Observation, WatchedKind};
use loopwatch_model::time::Span;

use crate::lab::{GROUP, World, config_maps, kind, map, web};

/// Returns a world with a widget, whose child names it in this version and as this kind.
fn with_child(version: &str, kind: &str) -> World {
    let mut world = World::new();
    world.create(&web(), &[]);
    let mut owner = world.owner(&web());
    (owner.api_version, owner.kind) = (format!("{GROUP}/{version}"), kind.to_owned());
    world.create(&map("web-settings"), &[owner]);
    world.advance(Span::mins(10));

    world
}

/// The definition of widgets serves these versions.
fn serve(world: &mut World, versions: &[&str]) {
    let served = versions.iter().map(|version| (*version).to_owned()).collect();
    world.lab.observe(Observation::DefinitionSeen(DefinitionView {
        name: "widgets.example.io".into(),
        group: GROUP.into(),
        kind: "Widget".into(),
        served,
        ..DefinitionView::default()
    }));
    world.advance(Span::secs(10));
}

#[test]
fn an_owner_in_a_version_that_is_no_longer_served_is_unresolvable() {
    let mut world = with_child("v1beta1", "Widget");
    world.lab.assert_no_findings(); // nothing shows which versions are served
    serve(&mut world, &["v1", "v1beta1"]);
    world.lab.assert_no_findings();

    serve(&mut world, &["v1"]);
    assert_eq!(world.lab.findings(), ["OwnerUnresolvable ConfigMap team-a/web-settings"]);
    assert!(world.lab.evidence().contains("version_unserved"), "{}", world.lab.evidence());

    // The owner goes, and the child stays.
    world.remove(&web());
    world.advance(Span::hours(1));
    assert_eq!(world.lab.findings(), ["OwnerUnresolvable ConfigMap team-a/web-settings"]);

    // The operator writes the reference in the version that is served.
    world.create(&web(), &[]);
    let owner = world.owner(&web());
    world.put(&map("web-settings"), |view, _| view.owners = vec![owner]);
    world.advance(Span::hours(1));
    world.lab.assert_no_findings();
}

#[test]
fn discovery_shows_the_versions_of_a_kind_without_its_definition() {
    let mut world = with_child("v1beta1", "Widget");
    let versions = |versions: &[&str]| WatchedKind {
        versions: versions.iter().map(|version| (*version).to_owned()).collect(),
        ..kind()
    };
    world.lab.discover(&[versions(&["v2", "v1beta1"]), config_maps()]);
    world.advance(Span::mins(1));
    world.lab.assert_no_findings();

    world.lab.discover(&[versions(&["v2"]), config_maps()]);
    world.advance(Span::mins(1));
    assert_eq!(world.lab.findings(), ["OwnerUnresolvable ConfigMap team-a/web-settings"]);
}

#[test]
fn a_kind_in_lower_case_is_resolved() {
    let mut world = with_child("v1", "widget");
    serve(&mut world, &["v1"]);
    world.advance(Span::hours(1));
    world.lab.assert_no_findings();

    // The garbage collector does not resolve other spellings.
    let mut world = with_child("v1", "wIDGET");
    world.advance(Span::hours(1));
    assert!(!world.lab.findings().is_empty());
}
