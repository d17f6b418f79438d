//! Limits on objects and on their memory, and the shares of namespaces in both.

use loopwatch_model::observation::*;
use loopwatch_model::settings::Limits;
use loopwatch_model::time::{Span, Timestamp};

use crate::lab::{Lab, Widget, child, kind, namespaced, owner, widget_at};

/// A widget in a namespace.
fn in_namespace(lab: &mut Lab, namespace: &str, widget: &Widget) -> ObjectView {
    let mut view = lab.view(widget);
    namespace.clone_into(&mut view.key.namespace);
    view.uid = format!("{namespace}/{}", widget.name);
    view
}

fn ready(lab: &mut Lab, namespace: &str, name: &str) -> Widget {
    let mut widget = Widget::new(name, lab.now);
    let view = in_namespace(lab, namespace, widget.ready());
    lab.apply_view(view);
    widget
}

/// A widget that a tenant deletes, with as many finalizers as a view has, each as long as allowed.
fn fat(lab: &mut Lab, number: u32) -> ObjectView {
    let mut widget = Widget::new(&format!("fat-{number}"), lab.now);
    widget.deleted = Some(lab.now);
    widget.finalizers =
        (0..64).map(|n| format!("{:f<250}", format!("acme-{number}-{n}.io/"))).collect();
    in_namespace(lab, "tenant-a", &widget)
}

fn objects_in(lab: &Lab, namespace: &str) -> u64 {
    let snapshot = lab.snapshot();
    let widgets = snapshot.kinds.iter().find(|known| known.kind == "Widget");
    widgets
        .and_then(|widgets| widgets.namespaces.get(namespace))
        .map_or(0, |totals| totals.states.iter().sum())
}

#[test]
fn fat_objects_of_one_namespace_leave_room_for_those_of_others() {
    let mut lab = Lab::limited(Limits { objects: 2_000, ..Limits::default() });
    for number in 0..100 {
        ready(&mut lab, "tenant-b", &format!("web-{number}"));
    }

    for number in 0..1_000 {
        let view = fat(&mut lab, number);
        lab.apply_view(view);
    }

    assert_eq!(objects_in(&lab, "tenant-b"), 100, "none of them leaves");
    assert!((20..500).contains(&objects_in(&lab, "tenant-a")), "{}", objects_in(&lab, "tenant-a"));
    assert!(lab.dropped("object_memory") > 400, "{:?}", lab.snapshot().dropped);
    assert!(lab.has("LimitReached"));

    let mut late = Widget::new("late", lab.now);
    let view = in_namespace(&mut lab, "tenant-b", late.waiting());
    lab.apply_view(view);
    lab.advance(Span::mins(11));

    let found = lab.findings();
    assert!(found.contains(&"Overdue Widget tenant-b/late".to_owned()), "{found:?}");
}

#[test]
fn objects_that_become_fat_leave_room_for_others() {
    let mut lab = Lab::limited(Limits { objects: 2_000, ..Limits::default() });
    for number in 0..1_000 {
        ready(&mut lab, "tenant-a", &format!("fat-{number}"));
        ready(&mut lab, "tenant-b", &format!("web-{number}"));
    }
    assert_eq!(lab.dropped("object_memory"), 0);

    for number in 0..1_000 {
        let mut view = fat(&mut lab, number);
        view.uid = format!("tenant-a/fat-{number}");
        lab.apply_view(view);
    }

    assert_eq!(objects_in(&lab, "tenant-b"), 1_000, "none of them leaves");
    assert!(objects_in(&lab, "tenant-a") < 300, "{}", objects_in(&lab, "tenant-a"));
}

#[test]
fn an_honest_namespace_that_takes_more_than_the_average_loses_nothing_either() {
    let mut lab = Lab::limited(Limits { objects: 2_000, ..Limits::default() });
    for number in 0..600 {
        ready(&mut lab, "tenant-a", &format!("fat-{number}"));
    }
    for number in 0..500 {
        ready(&mut lab, "tenant-b", &format!("web-{number}"));
    }
    for number in 0..40 {
        ready(&mut lab, &format!("small-{number}"), "web");
    }

    for number in 0..600 {
        let mut view = fat(&mut lab, number);
        view.uid = format!("tenant-a/fat-{number}");
        lab.apply_view(view);
    }

    assert!(lab.dropped("object_memory") > 100, "{:?}", lab.snapshot().dropped);
    assert_eq!(objects_in(&lab, "tenant-b"), 500, "none of them leaves");
    let small: u64 = (0..40).map(|number| objects_in(&lab, &format!("small-{number}"))).sum();
    assert_eq!(small, 40);
}

#[test]
fn objects_of_normal_size_reach_the_limit_on_their_number_first() {
    let mut lab = Lab::limited(Limits { objects: 2_000, ..Limits::default() });
    for number in 0..2_000 {
        let mut widget = Widget::new(&format!("web-{number}"), lab.now);
        widget.finalizers = vec!["widgets.example.io/cleanup".into()];
        let mut view = lab.view(widget.waiting().phase("Provisioning"));
        view.key.name = format!("a-deployment-of-average-name-{number}");
        lab.apply_view(view);
    }

    assert_eq!(objects_in(&lab, "team-a"), 2_000);
    assert!(lab.snapshot().dropped.is_empty(), "{:?}", lab.snapshot().dropped);
}

#[test]
fn a_namespace_that_fills_the_model_keeps_no_other_out() {
    let mut lab = Lab::limited(Limits { objects: 100, ..Limits::default() });
    for number in 0..200 {
        ready(&mut lab, "tenant-a", &format!("web-{number}"));
    }
    assert_eq!(objects_in(&lab, "tenant-a"), 100);

    for number in 0..20 {
        ready(&mut lab, "tenant-b", &format!("web-{number}"));
    }

    assert_eq!((objects_in(&lab, "tenant-a"), objects_in(&lab, "tenant-b")), (80, 20));
    assert_eq!(lab.dropped("objects"), 120);
}

#[test]
fn one_namespace_alone_keeps_the_objects_that_it_has() {
    let mut lab = Lab::limited(Limits { objects: 100, ..Limits::default() });
    let mut first = ready(&mut lab, "tenant-a", "first");
    for number in 0..200 {
        ready(&mut lab, "tenant-a", &format!("web-{number}"));
    }

    assert_eq!((objects_in(&lab, "tenant-a"), lab.dropped("objects")), (100, 101));

    let now = lab.now;
    let view = in_namespace(&mut lab, "tenant-a", first.spec(2, now).waiting());
    lab.apply_view(view);
    lab.advance(Span::mins(11));

    let found = lab.findings();
    assert!(found.contains(&"Overdue Widget tenant-a/first".to_owned()), "{found:?}");
}

#[test]
fn quiet_children_leave_first() {
    let mut lab = Lab::limited(Limits { objects: 100, ..Limits::default() });
    let part = child("example.io", "Part");
    lab.discover(&[kind(), part.clone()]);
    for number in 0..50 {
        ready(&mut lab, "tenant-a", &format!("web-{number}"));
        let widget = Widget::new(&format!("part-{number}"), lab.now);
        let mut view = in_namespace(&mut lab, "tenant-a", &widget);
        let of = widget_at("tenant-a", &format!("web-{number}"));
        view.owners = vec![owner(&of, &format!("tenant-a/web-{number}"))];
        lab.apply_to(&part.watch, view);
    }

    for number in 0..20 {
        ready(&mut lab, "tenant-b", &format!("web-{number}"));
    }

    assert_eq!((objects_in(&lab, "tenant-a"), objects_in(&lab, "tenant-b")), (50, 20));
    assert_eq!(lab.dropped("objects"), 20);
    lab.assert_nothing_but_the_limit();
}

#[test]
fn an_object_that_left_is_no_deleted_owner_and_no_missing_object() {
    let mut lab = Lab::limited(Limits { objects: 100, ..Limits::default() });
    lab.discover(&[namespaced("tenant-a"), namespaced("tenant-b")]);
    for number in 0..100 {
        ready_in(&mut lab, "tenant-a", &format!("web-{number}"));
    }

    for number in 0..20 {
        ready_in(&mut lab, "tenant-b", &format!("web-{number}"));
    }
    lab.advance(Span::hours(3));

    lab.assert_nothing_but_the_limit();
}

fn ready_in(lab: &mut Lab, namespace: &str, name: &str) {
    let mut widget = Widget::new(name, lab.now);
    let view = in_namespace(lab, namespace, widget.ready());
    lab.apply_to(&namespaced(namespace).watch, view);
}

/// Makes some of these widgets leave, because another namespace floods the model, and return.
/// Returns how many left.
fn flooded(lab: &mut Lab, widgets: &mut [Widget], while_away: impl Fn(&mut Widget)) -> usize {
    for number in 0..60 {
        ready(lab, "tenant-a", &format!("flood-{number}"));
    }
    let left = 100 - objects_in(lab, "tenant-b");
    assert!(left >= 10, "{left}");

    lab.advance(Span::hours(30));
    for number in 0..60 {
        let (namespace, name) = ("tenant-a".to_owned(), format!("flood-{number}"));
        lab.delete_from(&kind().watch, ObjectKey { namespace, name });
    }

    for widget in widgets {
        while_away(widget);
        let view = in_namespace(lab, "tenant-b", widget.touch_status());
        lab.apply_view(view);
    }
    assert_eq!(objects_in(lab, "tenant-b"), 100, "all of them return");
    usize::try_from(left).expect("a number")
}

fn regressions(lab: &Lab) -> Vec<Timestamp> {
    let open = lab.snapshot().findings;
    open.iter().filter(|found| found.code.name() == "Regressed").map(|found| found.since).collect()
}

#[test]
fn a_regressed_object_that_had_no_room_for_a_while_is_still_regressed() {
    let mut lab = Lab::limited(Limits { objects: 100, ..Limits::default() });
    let names = (0..100).map(|number| format!("web-{number}"));
    let mut widgets: Vec<Widget> = names.map(|name| ready(&mut lab, "tenant-b", &name)).collect();
    lab.advance(Span::hours(1));

    let lost = lab.now;
    for widget in &mut widgets {
        let view = in_namespace(&mut lab, "tenant-b", widget.waiting());
        lab.apply_view(view);
    }
    lab.advance(Span::mins(6));
    assert_eq!(regressions(&lab), vec![lost; 100]);

    flooded(&mut lab, &mut widgets, |_| {});
    assert_eq!(regressions(&lab), vec![lost; 100], "{:?}", lab.findings());
}

#[test]
fn an_object_that_fails_while_it_has_no_room_has_regressed() {
    let mut lab = Lab::limited(Limits { objects: 100, ..Limits::default() });
    let names = (0..100).map(|number| format!("web-{number}"));
    let mut widgets: Vec<Widget> = names.map(|name| ready(&mut lab, "tenant-b", &name)).collect();
    lab.advance(Span::hours(1));

    let lost = lab.now.after(Span::hours(3));
    let left = flooded(&mut lab, &mut widgets, |widget| {
        widget.changed = Some(lost);
        widget.waiting();
    });
    lab.advance(Span::mins(6));

    let found = regressions(&lab);
    assert_eq!(found.len(), 100, "{:?}", lab.findings());
    assert_eq!(found.iter().filter(|since| **since == lost).count(), left, "{found:?}");
}

#[test]
fn an_object_that_returns_after_a_spec_change_is_not_one_that_has_regressed() {
    let mut lab = Lab::limited(Limits { objects: 100, ..Limits::default() });
    let names = (0..100).map(|number| format!("web-{number}"));
    let mut widgets: Vec<Widget> = names.map(|name| ready(&mut lab, "tenant-b", &name)).collect();
    lab.advance(Span::hours(1));

    let changed = lab.now.after(Span::hours(30));
    flooded(&mut lab, &mut widgets, |widget| drop(widget.spec(2, changed).waiting().clone()));
    lab.advance(Span::mins(6));
    assert_eq!(regressions(&lab), []);

    lab.advance(Span::mins(6));
    let found = lab.findings();
    let overdue = found.iter().filter(|found| found.starts_with("Overdue"));
    assert_eq!(overdue.count(), 100, "{found:?}");
}

#[test]
fn the_names_of_one_object_have_a_limit() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    widget.finalizers = (0..64).map(|n| format!("{:f<250}", format!("acme-{n}.io/"))).collect();
    lab.apply(&widget);
    assert_eq!(lab.dropped("object_names"), 1);

    widget.deleted = Some(lab.now);
    lab.apply(&widget);
    lab.advance(Span::hours(1));

    assert_eq!(lab.row("web").finalizers.len(), 16, "4,096 bytes");
    assert!(lab.has("FinalizerStuck"), "the object is judged by the rest: {:?}", lab.findings());

    let summary = lab.finding("FinalizerStuck").summary();
    assert!(summary.contains("… and 12 more"), "1,024 bytes of evidence: {summary}");
}

#[test]
fn long_lists_of_real_objects_are_within_the_limit() {
    let mut lab = Lab::new();
    let widget = lab.converged("web");
    let mut view = lab.view(&widget);
    view.owners = (0..64)
        .map(|n| owner(&widget_at("team-a", &format!("a-cluster-of-average-name-{n}")), "x"))
        .collect();
    lab.apply_view(view);

    assert_eq!(lab.dropped("object_names"), 0);
}

impl Lab {
    fn assert_nothing_but_the_limit(&self) {
        let found = self.findings();
        assert!(found.iter().all(|found| found.starts_with("LimitReached")), "{found:?}");
    }
}
