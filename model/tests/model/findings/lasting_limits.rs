//! Limits that stay reached, and limits below which there is room again.

use loopwatch_model::settings::{Limits, Settings};
use loopwatch_model::time::Span;

use crate::lab::{Lab, Widget, kind, other_kind, unlearned};

#[test]
fn findings_that_wait_for_room_are_reported_for_as_long_as_they_do() {
    let mut lab = Lab::limited(Limits { findings: 1, ..Limits::default() });
    let mut widgets: Vec<Widget> = ["a", "b", "c"].map(|name| lab.converged(name)).into();
    widgets.iter_mut().for_each(|widget| lab.apply(widget.spec(2, lab.now)));
    lab.advance(Span::hours(2));

    assert!(lab.has("LimitReached"), "{:?}", lab.findings());
}

#[test]
fn watches_that_are_left_out_are_reported_for_as_long_as_they_are() {
    let mut lab = Lab::unsynced(Settings {
        limits: Limits { watches: 2, ..Limits::default() },
        ..unlearned()
    });

    lab.discover(&[kind(), other_kind("Gadget"), other_kind("Gizmo")]);
    lab.list(&[]);
    lab.advance(Span::hours(1));

    assert_eq!(lab.findings(), ["LimitReached limit watches"]);
}

#[test]
fn namespaces_without_totals_of_their_own_are_reported_for_as_long_as_they_are() {
    let mut lab = Lab::limited(Limits { namespaces: 1, ..Limits::default() });
    for namespace in ["team-a", "team-b"] {
        let mut view = lab.view(Widget::new("web", lab.now).ready());
        view.key.namespace = namespace.into();
        lab.apply_view(view);
    }

    lab.advance(Span::hours(1));
    assert!(lab.has("LimitReached"), "{:?}", lab.findings());
}

#[test]
fn finalizers_that_are_gone_make_room() {
    let mut lab = Lab::limited(Limits { finalizers: 3, ..Limits::default() });
    for number in 0..6 {
        let mut widget = Widget::new(&format!("x{number}"), lab.now);
        widget.finalizers = vec![format!("example.io/lock-{number}")];
        widget.deleted = Some(lab.now);
        lab.apply(&widget);
        lab.delete(&widget);
    }

    assert!(!lab.snapshot().dropped.contains_key("finalizers"), "{:?}", lab.snapshot().dropped);
}
