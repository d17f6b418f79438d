//! Limits count only what exists. What exceeds them is counted and reported, and nothing else
//! suffers.

use loopwatch_model::model::Model;
use loopwatch_model::observation::*;
use loopwatch_model::settings::{Limits, Settings};
use loopwatch_model::snapshot::Outcome;
use loopwatch_model::time::Span;

use crate::lab::{Lab, START, Widget, kind, namespaced, other_kind, unlearned, watch};

#[test]
fn objects_that_do_not_fit_are_no_inconsistency() {
    let mut lab = Lab::with(Settings {
        limits: Limits { objects: 2, ..Limits::default() },
        ..Settings::default()
    });
    for name in ["a", "b", "c"] {
        lab.apply(Widget::new(name, lab.now).ready());
    }

    for _ in 0..3 {
        lab.advance(Span::mins(1));
        lab.model.probes();
        lab.audit(3);
    }

    assert_eq!(lab.findings(), ["LimitReached limit objects"]);
}

#[test]
fn an_object_that_is_left_out_is_reported_for_as_long_as_it_is() {
    let mut lab = Lab::with(Settings {
        limits: Limits { objects: 2, ..Limits::default() },
        ..Settings::default()
    });
    for name in ["a", "b", "c"] {
        lab.apply(Widget::new(name, lab.now).ready());
    }

    lab.advance(Span::hours(1));
    assert_eq!(lab.findings(), ["LimitReached limit objects"], "c is still left out");
}

#[test]
fn an_object_that_was_left_out_is_judged_once_there_is_room() {
    let mut lab = Lab::limited(Limits { objects: 2, ..Limits::default() });
    let mut widgets: Vec<Widget> = ["a", "b", "c"].map(|name| Widget::new(name, lab.now)).into();
    widgets.iter_mut().for_each(|widget| lab.apply(widget.ready()));
    lab.delete(&widgets[0]);
    lab.apply(widgets[2].spec(2, lab.now));
    lab.advance(Span::mins(11));

    assert_eq!(lab.findings(), ["Unacknowledged Widget team-a/c"]);

    lab.audit(2);
    lab.audit(2);

    assert!(!lab.has("StateInconsistent"), "{:?}", lab.findings());
}

#[test]
fn watches_that_are_gone_make_room() {
    let mut lab = Lab::with(Settings {
        limits: Limits { watches: 16, ..Limits::default() },
        ..Settings::default()
    });
    for number in 0..20 {
        lab.discover(&[namespaced(&format!("preview-{number}"))]);
    }

    let snapshot = lab.snapshot();
    let watches: usize = snapshot.kinds.iter().map(|kind| kind.watches.len()).sum();

    assert_eq!(watches, 1, "one namespace at a time; dropped: {:?}", snapshot.dropped);
    assert!(snapshot.dropped.is_empty(), "{:?}", snapshot.dropped);
}

#[test]
fn watches_beyond_the_limit_are_counted_and_the_others_are_judged() {
    let mut lab = Lab::unsynced(Settings {
        limits: Limits { watches: 2, ..Limits::default() },
        ..unlearned()
    });

    lab.discover(&[kind(), other_kind("Gadget"), other_kind("Gizmo")]);
    lab.list(&[]);

    assert_eq!(lab.snapshot().dropped["watches"], 1);
    assert!(lab.has("LimitReached"));

    let mut widget = lab.converged("web");
    lab.apply(widget.spec(2, lab.now));
    lab.advance(Span::mins(11));

    assert!(lab.has("Unacknowledged"), "{:?}", lab.findings());
}

#[test]
fn namespaces_that_are_gone_make_room() {
    let mut lab = Lab::with(Settings {
        limits: Limits { namespaces: 20, ..Limits::default() },
        ..Settings::default()
    });
    for number in 0..30 {
        let mut view = lab.view(&Widget::new("web", lab.now));
        view.key.namespace = format!("preview-{number}");

        let key = view.key.clone();
        lab.apply_view(view);
        if number < 29 {
            lab.observe(Observation::Deleted {
                watch: watch(),
                key,
                version: (100_000 + number).to_string(),
            });
        }
    }

    assert!(
        lab.kind().namespaces.contains_key("preview-29"),
        "dropped: {:?}",
        lab.snapshot().dropped
    );
}

#[test]
fn objects_in_namespaces_beyond_the_limit_are_judged() {
    let mut lab = Lab::limited(Limits { namespaces: 2, ..Limits::default() });
    let place = |lab: &mut Lab, widget: &Widget, number: u32| {
        let mut view = lab.view(widget);
        view.key.namespace = format!("team-{number}");
        lab.apply_view(view);
    };
    for number in 0..5 {
        let mut widget = Widget::new("web", lab.now);
        place(&mut lab, widget.ready(), number);

        let changed = lab.now;
        place(&mut lab, widget.spec(2, changed), number);
    }

    lab.advance(Span::mins(11));
    let found = lab.findings();
    for number in 0..5 {
        assert!(
            found.contains(&format!("Unacknowledged Widget team-{number}/web")),
            "{number}: {found:?}"
        );
    }

    assert_eq!(lab.snapshot().dropped["namespaces"], 3);
}

#[test]
fn objects_that_come_and_go_leave_nothing_behind() {
    let mut model = Model::new(Settings::default());
    model.apply(START, Observation::KindsDiscovered(vec![kind()]));

    let mut now = START;
    for number in 0..20_000_u64 {
        now = now.after(Span(50));
        let mut widget = Widget::new(&format!("job-{number}"), now);
        widget.uid = number;
        widget.finalizers = vec!["example.io/f".into()];

        let apply = |model: &mut Model, widget: &Widget, step: u64| {
            let object = Box::new(widget.view(10 * number + step));
            model.apply(now, Observation::Applied { watch: watch(), object });
        };

        apply(&mut model, &widget, 1);
        apply(&mut model, widget.waiting().phase(["Pending", "Running"][(number % 2) as usize]), 2);
        apply(&mut model, widget.ready().phase("Done"), 3);

        if number % 2 == 0 {
            widget.deleted = Some(now);
            apply(&mut model, &widget, 4);
        }

        let version = (10 * number + 5).to_string();
        model.apply(now, Observation::Deleted { watch: watch(), key: widget.key(), version });
    }

    let snapshot = model.snapshot();
    assert_eq!((model.objects(), model.next_due()), (0, None), "objects and timers");
    assert!(snapshot.dropped.is_empty(), "{:?}", snapshot.dropped);
    assert!(snapshot.findings.is_empty() && snapshot.unhealthy.is_empty());

    let totals = &snapshot.kinds[0].totals;
    assert!(totals.phases.is_empty() && totals.conditions.is_empty(), "{totals:?}");
    assert_eq!(snapshot.kinds[0].finalizers["example.io/f"].waiting, [0; 5]);
    assert_eq!(snapshot.kinds[0].oldest_unconverged, None);
}

#[test]
fn objects_beyond_the_limit_are_dropped_and_counted() {
    let limits = Limits { objects: 2, ..Limits::default() };
    let mut lab = Lab::with(Settings { limits, ..Settings::default() });
    for name in ["a", "b", "c"] {
        lab.apply(Widget::new(name, lab.now).ready());
    }

    assert_eq!(lab.model.objects(), 2);
    assert_eq!(lab.snapshot().dropped["objects"], 1);

    lab.advance(Span::mins(11));
    assert_eq!(
        lab.findings(),
        ["LimitReached limit objects"],
        "the third object is still left out"
    );

    lab.delete(&Widget::new("c", lab.now));
    lab.advance(Span::mins(11));
    lab.assert_no_findings();
}

#[test]
fn histories_are_limited_and_deleted_objects_free_theirs() {
    let limits = Limits { histories: 1, ..Limits::default() };
    let mut lab = Lab::with(Settings { limits, ..Settings::default() });
    let mut widgets: Vec<Widget> = ["a", "b"].map(|name| lab.converged(name)).into();
    widgets.iter_mut().for_each(|widget| lab.apply(widget.phase("Running").phase("Busy")));

    assert_eq!(lab.snapshot().dropped["histories"], 1);

    lab.delete(&widgets[0]);
    lab.apply(widgets[1].phase("Running"));

    assert_eq!(
        lab.snapshot().dropped["histories"],
        1,
        "the deletion made room for another history"
    );
}

#[test]
fn histories_of_one_namespace_make_room_for_those_of_others() {
    let limits = Limits { histories: 3, ..Limits::default() };
    let mut lab = Lab::with(Settings { limits, ..Settings::default() });
    let mut flood: Vec<Widget> = ["a", "b", "c", "d"].map(|name| lab.converged(name)).into();
    flood.iter_mut().for_each(|widget| lab.apply(widget.phase("Running").phase("Busy")));
    assert_eq!(lab.dropped("histories"), 1, "a namespace has no more than its own");

    let mut other = Widget::new("web", lab.now);
    other.namespace = "team-b".into();
    lab.apply(other.observe().ready());
    for round in 0..7 {
        let status = if round % 2 == 0 { ConditionStatus::True } else { ConditionStatus::False };
        lab.apply(other.condition("Synced", status, "Checked"));
        lab.advance(Span::secs(20));
    }

    let found = lab.findings();
    assert!(found.contains(&"ConditionFlapping Widget team-b/web".to_owned()), "{found:?}");
}

#[test]
fn an_old_object_that_newly_fits_was_not_created_now() {
    let limits = Limits { objects: 1, ..Limits::default() };
    let mut lab = Lab::unsynced(Settings { limits, ..unlearned() });
    let mut a = Widget::new("a", START.after(Span::hours(-5)));
    let mut b = Widget::new("b", START.after(Span::hours(-5)));

    a.ready();
    b.ready();
    lab.list(&[a.clone(), b.clone()]);
    lab.delete(&a);
    lab.advance(Span::hours(1));
    lab.apply(b.touch_status());
    lab.advance(Span::mins(5));

    assert_eq!(lab.outcomes(Outcome::Converged), 0, "nobody asked for anything");
}

#[test]
fn a_huge_limit_is_no_limit() {
    let limits = Limits { condition_types: usize::MAX, ..Limits::default() };
    let mut lab = Lab::with(Settings { limits, ..Settings::default() });
    lab.converged("web");
}
