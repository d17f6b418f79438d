//! Limits: they count what lives, what exceeds them is counted and reported, and nothing else
//! suffers.

mod lab;

use lab::steps::{namespaced, other_kind, unlearned};
use lab::{Lab, START, Widget, kind, watch};
use loopwatch_model::model::Model;
use loopwatch_model::observation::{
    ConditionStatus, LeaseView, Observation, Permission, PermissionsView, WatchedKind,
};
use loopwatch_model::settings::{Limits, Settings};
use loopwatch_model::time::Span;

/// The number of texts, condition sets and finalizer sets that a model holds at most.
const MANY: u64 = 50_010;

// Objects and watches.

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

// Texts, phases and conditions.

#[test]
fn a_kind_with_free_text_in_its_phase_does_not_blind_other_kinds() {
    let mut lab = Lab::new();
    let sync = other_kind("Sync");
    lab.discover(&[kind(), sync.clone()]);

    let mut widget = Widget::new("sync", lab.now);
    for rows in 0..MANY {
        let view = lab.view(widget.phase(&format!("synced {rows} rows")));
        lab.apply_to(&sync.watch, view);
    }

    lab.advance(Span::hours(1));
    let mut widget = Widget::new("web", lab.now);
    lab.apply(&widget);
    lab.apply(widget.observe().phase("Provisioning"));
    lab.advance(Span::hours(2));

    let found = lab.findings();
    assert!(
        found.contains(&"PhaseStuck Widget team-a/web".to_owned()),
        "{found:?}, {:?}",
        lab.snapshot().dropped
    );
}

#[test]
fn condition_types_with_free_text_do_not_hide_a_flapping_condition() {
    let mut lab = Lab::new();
    let check = other_kind("Check");
    lab.discover(&[kind(), check.clone()]);

    for number in 0..MANY {
        let mut widget = Widget::new("check", lab.now);
        let view = lab.view(widget.condition(
            &format!("Node{number}Healthy"),
            ConditionStatus::True,
            "Ok",
        ));

        lab.apply_to(&check.watch, view);
    }

    let mut widget = lab.converged("web");
    for round in 0..7 {
        let status = if round % 2 == 0 { ConditionStatus::True } else { ConditionStatus::False };
        lab.apply(widget.condition("Synced", status, "Checked"));
        lab.advance(Span::secs(20));
    }

    assert!(lab.has("ConditionFlapping"), "{:?}, {:?}", lab.findings(), lab.snapshot().dropped);
}

#[test]
fn a_phase_beyond_the_limit_is_counted_correctly_once_there_is_room() {
    let mut lab = Lab::with(Settings {
        limits: Limits { phases: 1, ..Limits::default() },
        ..Settings::default()
    });
    let mut widgets: Vec<Widget> = ["a", "b", "c"].map(|name| lab.converged(name)).into();

    lab.apply(widgets[0].phase("P1"));
    lab.apply(widgets[1].phase("P2")); // does not fit
    lab.delete(&widgets[0]); // makes room
    lab.apply(widgets[2].phase("P2"));
    lab.delete(&widgets[1]); // was never counted

    assert_eq!(lab.kind().totals.phases.get("P2"), Some(&1), "c is in P2");
}

#[test]
fn conditions_beyond_the_limit_are_judged_and_counted_as_dropped() {
    let mut lab = Lab::limited(Limits { condition_types: 0, ..Limits::default() });
    let mut widget = lab.converged("web");
    lab.apply(widget.spec(2, lab.now));
    lab.apply(widget.waiting());
    lab.advance(Span::mins(10));

    assert!(lab.has("Overdue"), "{:?}", lab.findings());
    assert!(lab.snapshot().dropped["condition_types"] > 0);

    lab.apply(widget.ready());
    lab.delete(&widget);

    assert!(lab.kind().totals.conditions.is_empty(), "{:?}", lab.kind().totals.conditions);
}

// Finalizers.

#[test]
fn many_finalizer_sets_do_not_hide_a_stuck_finalizer() {
    let mut lab = Lab::new();
    for number in 0..MANY {
        let mut widget = Widget::new("x", lab.now);
        widget.finalizers = vec![format!("example.io/lock-{number}")];
        lab.apply(&widget);
    }

    let mut widget = Widget::new("web", lab.now);
    widget.finalizers = vec!["example.io/cleanup".into()];
    widget.deleted = Some(lab.now);
    lab.apply(&widget);
    lab.advance(Span::mins(20));

    let found = lab.findings();
    assert!(
        found.contains(&"FinalizerStuck Widget team-a/web".to_owned()),
        "{found:?}, {:?}",
        lab.snapshot().dropped
    );
}

#[test]
fn finalizer_sets_that_live_at_once_hide_no_stuck_finalizer_either() {
    let mut lab = Lab::new();
    for number in 0..MANY {
        let mut widget = Widget::new(&format!("x{number}"), lab.now);
        widget.finalizers = vec![format!("example.io/lock-{number}")];
        lab.apply(&widget);
    }

    let mut widget = lab.converged("web");
    widget.finalizers = vec!["example.io/cleanup".into()];
    widget.deleted = Some(lab.now);
    lab.apply(&widget);
    lab.advance(Span::mins(20));

    assert!(lab.has("FinalizerStuck"), "{:?}", lab.findings());
    assert!(lab.snapshot().dropped["finalizer_sets"] > 0);
    assert!(lab.finding("FinalizerStuck").summary().contains("example.io/cleanup"));
}

#[test]
fn finalizers_without_totals_of_their_own_are_counted_as_dropped_and_found_stuck() {
    let mut lab = Lab::new();
    for number in 0..60 {
        let mut widget = Widget::new(&format!("x{number}"), lab.now);
        widget.finalizers = vec![format!("example.io/lock-{number}")];
        widget.deleted = Some(lab.now);
        lab.apply(&widget);
    }

    let tracked = lab.kind().finalizers.len();
    assert!(lab.snapshot().dropped.contains_key("finalizers"), "{tracked} of 60 tracked");

    lab.advance(Span::mins(16));
    assert_eq!(
        lab.findings().iter().filter(|found| found.starts_with("FinalizerStuck")).count(),
        60
    );
}

// Leases and permissions.

#[test]
fn a_thousand_foreign_leases_hide_nothing_else_and_make_room() {
    let mut lab = Lab::new();
    let seen = |lab: &mut Lab, name: String| {
        let view = LeaseView {
            namespace: "op".into(),
            name,
            renewed: Some(lab.now),
            ..LeaseView::default()
        };
        lab.observe(Observation::LeaseSeen(view));
    };

    (0..1_001).for_each(|number| seen(&mut lab, format!("node-{number}")));
    assert_eq!((lab.snapshot().leases.len(), lab.snapshot().dropped["leases"]), (1_000, 1));

    lab.observe(Observation::LeasesListed { namespace: "op".into(), names: Vec::new() });
    seen(&mut lab, "operator".into());

    assert_eq!(lab.snapshot().leases.len(), 1);
}

#[test]
fn a_permission_finding_of_a_namespace_that_is_gone_closes() {
    let mut lab = Lab::new();
    let missing = vec![Permission {
        verb: "list".into(),
        group: "example.io".into(),
        resource: "widgets".into(),
    }];
    let review = |namespace: &str, missing| {
        Observation::PermissionsReviewed(PermissionsView {
            namespace: namespace.into(),
            missing,
            ..Default::default()
        })
    };

    lab.observe(review("pr-1", missing));
    lab.discover(&[kind(), WatchedKind { missing: vec!["list".into()], ..namespaced("pr-1") }]);

    // The namespace is deleted: neither a review nor a watch names it any more.
    lab.observe(review("pr-2", Vec::new()));
    lab.discover(&[kind()]);
    lab.assert_no_findings();
}

#[test]
fn permissions_of_many_namespaces_are_announced_once_each() {
    let mut lab = Lab::new();
    let review = |number: u32, missing: usize| {
        let missing = (0..missing).map(|position| Permission {
            verb: if position % 2 == 0 { "list" } else { "watch" }.into(),
            group: "example.io".into(),
            resource: format!("r{}", position / 2),
        });
        let (namespace, missing) = (format!("team-{number}"), missing.collect());

        Observation::PermissionsReviewed(PermissionsView {
            namespace,
            missing,
            ..Default::default()
        })
    };

    (0..50).for_each(|number| lab.observe(review(number, 10)));
    assert_eq!((lab.findings().len(), lab.changes().len()), (500, 500));

    (0..50).for_each(|number| lab.observe(review(number, 10)));
    assert_eq!(lab.changes().len(), 0, "nothing is new");

    (0..50).for_each(|number| lab.observe(review(number, 0)));
    assert_eq!((lab.findings().len(), lab.changes().len()), (0, 500));
}

// Churn.

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
