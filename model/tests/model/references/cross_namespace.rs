//! References between namespaces: the events when one appears or disappears.

use loopwatch_model::observation::{ObjectView, Reference, WatchedKind};
use loopwatch_model::reference::{ReferenceChange, ReferenceEvent};
use loopwatch_model::settings::Settings;
use loopwatch_model::time::Span;

use crate::lab::{Lab, START, Widget, kind, reference};

/// A reference to a Secret, `namespace/name`.
fn secret(target: &str) -> Reference {
    let (namespace, name) = target.split_once('/').unwrap_or(("", target));
    let reference = reference("", "Secret", "spec.tls[].secretRef", name);
    Reference { namespace: namespace.into(), ..reference }
}

fn view(lab: &mut Lab, widget: &Widget, references: &[Reference]) -> ObjectView {
    ObjectView { references: references.to_vec(), ..lab.view(widget) }
}

/// Changes the spec of a widget so that it has these references.
fn apply(lab: &mut Lab, widget: &mut Widget, references: &[Reference]) -> Vec<String> {
    widget.spec(widget.spec + 1, lab.now);
    seen(lab, widget, references)
}

/// Shows a widget as it is.
fn seen(lab: &mut Lab, widget: &Widget, references: &[Reference]) -> Vec<String> {
    let object = view(lab, widget, references);
    lab.apply_view(object);
    events(lab)
}

fn list(lab: &mut Lab, objects: Vec<ObjectView>) -> Vec<String> {
    lab.list_views(objects);
    events(lab)
}

/// The events since the last call, each as `+namespace/name` or `-namespace/name`.
fn events(lab: &mut Lab) -> Vec<String> {
    lab.model.reference_events().iter().map(line).collect()
}

fn line(event: &ReferenceEvent) -> String {
    let sign = if event.change == ReferenceChange::Appeared { '+' } else { '-' };
    format!("{sign}{}/{}", event.target.namespace, event.target.name)
}

#[test]
fn a_reference_that_appears_or_disappears_is_one_event() {
    let mut lab = Lab::new();
    let mut widget = Widget::new("web", lab.now);

    assert!(seen(&mut lab, &widget, &[]).is_empty());
    assert_eq!(apply(&mut lab, &mut widget, &[secret("team-b/ca")]), ["+team-b/ca"]);
    assert!(
        apply(&mut lab, &mut widget, &[secret("team-b/ca")]).is_empty(),
        "another field changed"
    );

    let both = [secret("team-b/ca"), secret("team-c/ca")];
    assert_eq!(apply(&mut lab, &mut widget, &both), ["+team-c/ca"]);
    assert_eq!(
        apply(&mut lab, &mut widget, &[secret("team-c/db")]),
        ["-team-b/ca", "-team-c/ca", "+team-c/db"]
    );

    lab.delete(&widget);
    assert_eq!(events(&mut lab), ["-team-c/db"], "the object was deleted");

    lab.assert_no_findings();
}

#[test]
fn an_event_names_source_path_target_and_time() {
    let mut lab = Lab::new();
    let object = view(&mut lab, &Widget::new("web", START), &[secret("team-b/ca")]);
    lab.apply_view(object.clone());

    let event = lab.model.reference_events().remove(0);
    assert_eq!(event.name(), "cross_namespace_reference_appeared");
    assert_eq!((event.at, event.path.as_str()), (lab.now, "spec.tls[].secretRef"));
    assert_eq!(
        serde_json::to_string(&event.source).expect("JSON"),
        r#"{"group":"example.io","kind":"Widget","namespace":"team-a","name":"web"}"#
    );
    assert_eq!(
        serde_json::to_string(&event.target).expect("JSON"),
        r#"{"group":"","kind":"Secret","namespace":"team-b","name":"ca"}"#
    );

    let mut replica = Lab::new();
    replica.advance(Span::secs(3));
    replica.apply_view(object);

    let same = replica.model.reference_events().remove(0);
    assert_eq!(same.id, event.id, "another replica, which sees it later");
    assert_ne!(same.at, event.at);
}

#[test]
fn references_within_the_namespace_and_of_cluster_scoped_objects_are_no_events() {
    let mut lab = Lab::new();
    let mut widget = Widget::new("web", lab.now);

    assert!(apply(&mut lab, &mut widget, &[secret("team-a/ca"), secret("/ca")]).is_empty());

    let mut cluster = view(&mut lab, &Widget::new("issuer", START), &[secret("team-b/ca")]);
    cluster.key.namespace.clear();
    lab.apply_view(cluster);

    assert!(events(&mut lab).is_empty());
}

#[test]
fn a_list_shows_only_changes_of_known_objects() {
    let mut lab = Lab::unsynced(Settings::default());
    let mut widget = Widget::new("web", START);
    let first = view(&mut lab, &widget, &[secret("team-b/ca")]);

    assert!(list(&mut lab, vec![first.clone()]).is_empty(), "the first list");
    assert!(list(&mut lab, vec![first.clone()]).is_empty(), "a list of the unchanged object");

    widget.touch_status();
    let touched = view(&mut lab, &widget, &[secret("team-b/ca")]);

    assert!(list(&mut lab, vec![touched]).is_empty(), "a list of the object with another status");

    widget.spec(7, lab.now);
    let changed = view(&mut lab, &widget, &[secret("team-c/ca")]);

    assert_eq!(
        list(&mut lab, vec![changed]),
        ["-team-b/ca", "+team-c/ca"],
        "it changed in an outage"
    );
    assert_eq!(list(&mut lab, vec![]), ["-team-c/ca"], "it was deleted in an outage");
}

#[test]
fn an_object_that_comes_into_sight_late_is_no_event() {
    let mut lab = Lab::new();
    lab.advance(Span::mins(10));

    let adopted = Widget::new("adopted", START);
    assert!(seen(&mut lab, &adopted, &[secret("team-b/ca")]).is_empty());

    let created = Widget::new("created", lab.now);
    assert_eq!(seen(&mut lab, &created, &[secret("team-b/ca")]), ["+team-b/ca"]);
}

#[test]
fn a_watch_that_ends_makes_no_reference_disappear() {
    let mut lab = Lab::new();
    let widget = Widget::new("web", START);

    assert_eq!(seen(&mut lab, &widget, &[secret("team-b/ca")]), ["+team-b/ca"]);

    lab.discover(&[]);
    assert!(events(&mut lab).is_empty());

    lab.discover(&[kind()]);
    let listed = view(&mut lab, &widget, &[secret("team-b/ca")]);

    assert!(list(&mut lab, vec![listed]).is_empty(), "the permission returned");
}

#[test]
fn an_object_with_too_many_references_makes_no_events_until_all_are_known() {
    let mut lab = Lab::new();
    let mut widget = Widget::new("web", START);

    assert!(seen(&mut lab, &widget, &[]).is_empty());

    widget.spec(2, START);
    let mut cut = view(&mut lab, &widget, &[secret("team-b/ca")]);
    cut.lints = vec!["many_references".into()];
    lab.apply_view(cut);

    assert!(events(&mut lab).is_empty(), "the decoder has left out some");
    assert!(
        apply(&mut lab, &mut widget, &[secret("team-b/ca"), secret("team-c/ca")]).is_empty(),
        "perhaps known before"
    );
    assert_eq!(apply(&mut lab, &mut widget, &[secret("team-c/ca")]), ["-team-b/ca"]);
}

#[test]
fn an_object_with_too_many_references_within_its_namespace_may_have_others() {
    let mut lab = Lab::new();
    let mut widget = Widget::new("web", START);
    let mut cut = view(&mut lab, &widget, &[secret("team-a/ca")]);
    cut.lints = vec!["many_references".into()];
    lab.apply_view(cut);

    assert!(
        apply(&mut lab, &mut widget, &[secret("team-b/ca")]).is_empty(),
        "perhaps left out before"
    );
}

#[test]
fn an_object_that_is_recreated_is_another_one() {
    let mut lab = Lab::new();
    let mut widget = Widget::new("web", START);

    assert_eq!(seen(&mut lab, &widget, &[secret("team-b/ca")]), ["+team-b/ca"]);

    widget.uid += 1;
    assert_eq!(seen(&mut lab, &widget, &[secret("team-b/ca")]), ["-team-b/ca", "+team-b/ca"]);
}

#[test]
fn another_version_of_the_kind_is_no_event() {
    let mut lab = Lab::unsynced(Settings::default());
    let mut widget = Widget::new("web", START);
    let old = view(&mut lab, &widget, &[secret("team-b/ca")]);
    list(&mut lab, vec![old]);
    lab.discover(&[WatchedKind { version: "v2".into(), ..kind() }]);

    let moved = Reference { slot: "spec.security.tls[].secretRef".into(), ..secret("team-b/ca") };
    widget.spec = 9; // the fingerprint changes with the fields

    let new = view(&mut lab, &widget, &[moved]);
    assert!(list(&mut lab, vec![new]).is_empty(), "the same object, read in another way");
    assert_eq!(apply(&mut lab, &mut widget, &[]), ["-team-b/ca"]);
}

#[test]
fn references_without_a_name_differ_by_their_fingerprint() {
    let mut lab = Lab::new();
    let mut widget = Widget::new("web", START);
    let unnamed = |name_hash| Reference { name: String::new(), name_hash, ..secret("team-b/") };

    assert_eq!(seen(&mut lab, &widget, &[unnamed(1)]), ["+team-b/"]);
    assert!(apply(&mut lab, &mut widget, &[unnamed(1)]).is_empty());
    assert_eq!(apply(&mut lab, &mut widget, &[unnamed(2)]), ["-team-b/", "+team-b/"]);
}

#[test]
fn ten_thousand_references_are_kept_and_the_limit_is_counted() {
    let mut lab = Lab::new();
    let mut appeared = 0;
    for n in 0..21_000 {
        let object = Widget::new(&format!("web-{n}"), START);
        appeared += seen(&mut lab, &object, &[secret(&format!("team-b/ca-{n}"))]).len();
    }

    assert_eq!(appeared, 20_000);
    assert_eq!(lab.dropped("cross_references"), 1_000);

    let mut left_out = Widget::new("web-20999", START);
    assert!(
        apply(&mut lab, &mut left_out, &[secret("team-b/other")]).is_empty(),
        "not known, so no change"
    );
}

#[test]
fn references_of_one_namespace_make_room_for_those_of_others() {
    let mut lab = Lab::new();
    for n in 0..20_100 {
        let flood = Widget::new(&format!("web-{n}"), START);
        seen(&mut lab, &flood, &[secret(&format!("team-b/ca-{n}"))]);
    }
    let dropped = lab.dropped("cross_references");

    let mut other = view(&mut lab, &Widget::new("web", START), &[secret("team-a/ca")]);
    other.key.namespace = "team-c".into();
    lab.apply_view(other);

    assert_eq!(events(&mut lab), ["+team-a/ca"]);
    assert_eq!(lab.dropped("cross_references"), dropped + 1, "one makes room");
}

#[test]
fn events_that_nobody_takes_are_dropped_and_counted() {
    let mut lab = Lab::new();
    for n in 0..10_001 {
        let object = view(
            &mut lab,
            &Widget::new(&format!("web-{n}"), START),
            &[secret(&format!("team-b/ca-{n}"))],
        );

        lab.apply_view(object);
    }

    let events = events(&mut lab);
    assert_eq!((events.len(), events[0].as_str()), (10_000, "+team-b/ca-1"), "the newest stay");
    assert_eq!(lab.dropped("reference_events"), 1);
}
