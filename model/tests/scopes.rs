//! Watches that come and go: changes of scope, permission, role and version, and lists.

mod lab;

use lab::steps::{forbidden, namespaced, spec_writer, unlearned};
use lab::{Lab, START, Widget, kind, watch};
use loopwatch_model::model::Model;
use loopwatch_model::observation::{
    ConditionStatus, Hashes, Manager, ObjectView, Observation, OwnerReference, Role, StatusSchema,
    StatusShape, WatchedKind,
};
use loopwatch_model::settings::Settings;
use loopwatch_model::snapshot::{ObjectState, Outcome};
use loopwatch_model::time::Span;

/// Returns the view of an object as its metadata alone shows it.
fn metadata_of(view: &ObjectView) -> ObjectView {
    ObjectView {
        status: StatusShape::Absent,
        conditions: Vec::new(),
        facts: Vec::new(),
        observed_generation: None,
        hashes: Hashes::default(),
        ..view.clone()
    }
}

fn child() -> WatchedKind {
    WatchedKind { role: Role::Child, ..kind() }
}

// Counters.

#[test]
fn counters_do_not_go_back_when_the_scope_changes() {
    let narrow = namespaced("team-a");
    let mut lab = Lab::new();
    for number in 0..5 {
        let mut widget = lab.converged(&format!("w{number}"));
        lab.apply(widget.spec(2, lab.now));
    }

    lab.advance(Span::mins(11));
    let mut seen = vec![lab.outcomes(Outcome::Late)];
    lab.discover(&[narrow]); // the ClusterRole is edited: only one namespace for an hour
    lab.advance(Span::hours(1));
    seen.push(lab.outcomes(Outcome::Late));
    lab.discover(&[kind()]);
    seen.push(lab.outcomes(Outcome::Late));

    assert!(seen.is_sorted(), "late at three scrapes: {seen:?}");
    assert_eq!(seen, [5, 5, 5]);
}

#[test]
fn no_counter_of_a_kind_goes_back_when_scopes_permissions_and_namespaces_change() {
    let mut lab = Lab::new();
    let mut last: Vec<u64> = Vec::new();
    for round in 0..12_u32 {
        let mut widget = lab.converged(&format!("w{round}"));
        lab.apply(widget.condition("Synced", ConditionStatus::True, "x"));
        lab.apply(widget.condition("Synced", ConditionStatus::False, "x"));
        lab.apply(widget.spec(2, lab.now));
        lab.advance(Span::mins(11));
        widget.finalizers = vec!["example.io/f".into()];
        widget.deleted = Some(lab.now);
        lab.apply(&widget);

        lab.delete(&widget);
        let elsewhere = namespaced("team-b");
        match round % 4 {
            0 => lab.discover(&[forbidden(kind())]),
            1 => lab.discover(std::slice::from_ref(&elsewhere)),
            2 => lab.discover(&[child()]),
            _ => lab.blind_for(Span::mins(5)),
        }

        lab.advance(Span::mins(5));
        lab.discover(&[kind()]);
        lab.list(&[]);
        lab.recover();

        let kind = lab.kind();
        let mut seen: Vec<u64> =
            kind.namespaces.values().flat_map(|totals| totals.obligations).collect();
        seen.extend(kind.finalizers.values().flat_map(|finalizer| finalizer.totals.outcomes));
        seen.extend([kind.totals.convergence.count(), kind.totals.acknowledge.count()]);
        seen.extend(kind.totals.flaps.values());
        seen.extend(lab.snapshot().sources[0].failures.values());

        assert!(
            last.len() <= seen.len() && last.iter().zip(&seen).all(|(old, new)| old <= new),
            "{last:?} {seen:?}"
        );

        last = seen;
    }
}

#[test]
fn objects_that_a_list_no_longer_contains_end_their_obligations_as_deleted() {
    let mut lab = Lab::new();
    let mut widgets: Vec<Widget> = ["a", "b"].map(|name| lab.converged(name)).into();
    widgets.iter_mut().for_each(|widget| lab.apply(widget.spec(2, lab.now)));
    lab.list(&widgets[..1]);

    assert_eq!((lab.outcomes(Outcome::Deleted), lab.outcomes(Outcome::Late)), (1, 0));
    assert_eq!(lab.kind().states().iter().sum::<u64>(), 1);
    assert_eq!(lab.state("a"), ObjectState::Progressing);
}

#[test]
fn a_list_removes_only_objects_of_its_own_watch() {
    let watched: Vec<WatchedKind> =
        (0..40).map(|number| namespaced(&format!("team-{number}"))).collect();
    let mut lab = Lab::unsynced(Settings::default());
    lab.discover(&watched);

    for (number, watched) in watched.iter().enumerate() {
        let mut views = Vec::new();
        for name in 0..50 {
            let mut view = lab.view(Widget::new(&format!("w{name}"), START).ready());
            view.key.namespace = format!("team-{number}");
            view.uid = format!("{number}-{name}");
            views.push(view);
        }

        lab.list_in(&watched.watch, views);
    }

    assert_eq!(lab.model.objects(), 2_000);

    for (number, watched) in watched.iter().enumerate() {
        lab.list_in(&watched.watch, Vec::new());
        assert_eq!(lab.model.objects(), 2_000 - 50 * (number + 1));
    }

    assert!(lab.snapshot().dropped.is_empty());
}

// Lists.

#[test]
fn the_order_of_a_list_does_not_matter() {
    let judge = |names: [&str; 4]| {
        let mut lab = Lab::unsynced(unlearned());
        let old = lab.ago(Span::hours(5));
        let widgets = names.map(|name| {
            let mut widget = Widget::new(name, old);
            if name != "bare" {
                widget.ready();
            }

            widget
        });

        lab.list(&widgets);
        lab.advance(Span::hours(1));
        lab.findings()
    };
    assert_eq!(judge(["bare", "x", "y", "z"]), judge(["x", "y", "z", "bare"]));
}

#[test]
fn no_order_of_a_list_with_all_sorts_of_objects_matters() {
    let judge = |order: [usize; 7]| {
        let mut lab = Lab::unsynced(unlearned());
        let (old, lost) = (lab.ago(Span::hours(500)), lab.ago(Span::hours(20)));
        let mut widgets: Vec<Widget> =
            (0..7).map(|number| Widget::new(&format!("w{number}"), old)).collect();

        for widget in &mut widgets[1..] {
            widget.ready();
        }

        widgets[2].failed("QuotaExceeded").changed = Some(lost);
        widgets[3].waiting().changed = Some(lost);
        widgets[4].spec(2, lost);
        widgets[5].deleted = Some(lost);
        widgets[5].finalizers = vec!["example.io/f".into()];
        widgets[6].waiting().phase("Restoring");
        lab.list(&order.map(|number| widgets[number].clone()));

        let shown = |lab: &Lab| {
            let findings = lab.snapshot().findings;
            findings
                .iter()
                .map(|f| format!("{:?} {} {}", f.code, f.subject, f.since))
                .collect::<Vec<_>>()
        };

        let at_once = shown(&lab);
        lab.advance(Span::hours(1));
        (at_once, shown(&lab), lab.kind().states())
    };

    let first = judge([0, 1, 2, 3, 4, 5, 6]);
    assert!(first.0.len() > 4, "{first:#?}");

    for order in [[6, 5, 4, 3, 2, 1, 0], [1, 2, 0, 6, 3, 5, 4], [4, 0, 6, 2, 5, 3, 1]] {
        assert_eq!(judge(order), first, "{order:?}");
    }
}

// Permission, role and version.

#[test]
fn a_kind_that_is_read_with_its_status_from_now_on_is_judged_anew() {
    let mut lab = Lab::unsynced(unlearned());
    lab.discover(&[child()]);

    let mut widget = Widget::new("web", lab.ago(Span::hours(5)));
    let full = lab.view(widget.waiting());
    lab.list_views(vec![metadata_of(&full)]);
    lab.discover(&[kind()]); // the account got the permission to write widgets/status
    lab.list_views(vec![full]);
    lab.advance(Span::hours(1));

    assert_ne!(lab.state("web"), ObjectState::Unknown);
    assert_eq!(lab.kind().role, Role::Primary);
}

#[test]
fn the_role_of_a_kind_follows_discovery() {
    let mut model = Model::new(Settings::default());
    model.apply(START, Observation::KindsDiscovered(vec![child()]));
    model.apply(START, Observation::KindsDiscovered(vec![kind()]));

    assert_eq!(model.snapshot().kinds[0].role, Role::Primary);
}

#[test]
fn a_kind_that_moves_to_another_version_keeps_deadlines_findings_and_counts() {
    let mut lab = Lab::new();
    let mut widgets: Vec<Widget> = ["late", "soon", "well"].map(|name| lab.converged(name)).into();
    lab.apply(widgets[0].spec(2, lab.now));
    lab.advance(Span::mins(11));

    let changed = lab.now;
    lab.apply(widgets[1].spec(2, changed));
    lab.advance(Span::mins(2));

    let before = lab.snapshot().findings;
    lab.changes();
    lab.discover(&[WatchedKind { version: "v2".into(), ..kind() }]);

    let views: Vec<ObjectView> = widgets
        .iter()
        .map(|widget| {
            let mut view = lab.view(widget);
            view.hashes.spec += 1000; // the new version has other fields
            view
        })
        .collect();

    lab.list_views(views.clone());
    lab.advance(Span::mins(8));

    assert_eq!(lab.changes(), ["Opened Unacknowledged Widget team-a/soon"]);

    let now = lab.snapshot().findings;
    assert_eq!((now[0].id, now[0].since, now[1].since), (before[0].id, before[0].since, changed));
    assert_eq!((lab.outcomes(Outcome::Late), lab.outcomes(Outcome::Superseded)), (2, 0));
    assert_eq!(lab.kind().version, "v2");
}

#[test]
fn a_kind_whose_status_subresource_is_removed_is_judged_by_its_conditions() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    lab.discover(&[WatchedKind { status: StatusSchema::InBody, ..kind() }]);
    lab.list(std::slice::from_ref(&widget));

    for _ in 0..30 {
        widget.generation += 1; // a status write
        lab.apply(widget.touch_status());
        lab.advance(Span::mins(1));
    }

    lab.assert_no_findings();
    assert_eq!(lab.state("web"), ObjectState::Converged);
}

#[test]
fn a_permission_that_comes_back_shows_what_happened_meanwhile() {
    let mut lab = Lab::new();
    let mut widgets: Vec<Widget> = ["a", "b", "c"].map(|name| lab.converged(name)).into();
    let lost = lab.now.after(Span::hours(1));
    lab.apply(widgets[0].spec(2, lab.now));
    lab.discover(&[forbidden(kind())]);
    lab.advance(Span::hours(3));

    assert_eq!(lab.outcomes(Outcome::Unknown), 1);

    let changed = lab.ago(Span::hours(2));
    widgets[0].ready();
    widgets[1].spec(2, changed);
    widgets[2].failed("EndpointGone").changed = Some(lost);
    lab.discover(&[kind()]);
    lab.list(&widgets);
    lab.recover();
    lab.advance(Span::mins(1));

    assert_eq!(lab.state("a"), ObjectState::Converged);
    assert_eq!(lab.since("Unacknowledged"), changed);
    assert_eq!(lab.since("Regressed"), lost);
    assert_eq!(lab.outcomes(Outcome::Late), 0);
}

#[test]
fn a_problem_that_was_mended_without_permission_begins_anew_when_it_comes_back() {
    let (mut lab, mut web) = Lab::regressed();
    lab.discover(&[forbidden(kind())]);
    lab.advance(Span::mins(5));
    lab.discover(&[kind()]);
    lab.list(std::slice::from_ref(web.ready()));
    lab.advance(Span::mins(30));
    lab.assert_no_findings();

    let lost = lab.now;
    lab.apply(web.waiting());
    lab.advance(Span::mins(10));

    assert_eq!(lab.since("Regressed"), lost);
}

#[test]
fn a_regression_has_the_same_start_although_the_scope_changes_before_it_is_a_finding() {
    let narrow = namespaced("team-a");
    let mut lab = Lab::new();
    let mut web = lab.converged("web");
    lab.advance(Span::hours(30));

    let lost = lab.now;
    lab.apply(web.failed("Crashed"));
    lab.advance(Span::mins(1));
    lab.discover(std::slice::from_ref(&narrow));

    let view = lab.view(&web);
    lab.list_in(&narrow.watch, vec![view]);
    lab.advance(Span::mins(10));

    assert_eq!(lab.findings(), ["Regressed Widget team-a/web"]);
    assert_eq!(lab.since("Regressed"), lost);
}

#[test]
fn a_finding_has_the_same_identity_and_start_after_a_change_of_scope() {
    let narrow = namespaced("team-a");
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    lab.apply(widget.spec(2, lab.now));
    lab.advance(Span::mins(15));

    let before = lab.snapshot().findings;
    let view = lab.view(&widget);
    lab.discover(std::slice::from_ref(&narrow));
    lab.list_in(&narrow.watch, vec![view]);
    lab.recover_watch(&narrow.watch);

    let after = lab.snapshot().findings;
    assert_eq!((after[0].id, after[0].since), (before[0].id, before[0].since));
    assert_eq!(lab.outcomes(Outcome::Late), 1, "counted once");
}

#[test]
fn a_watch_that_failed_when_it_ended_is_judged_when_it_returns() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    lab.apply(widget.spec(2, lab.now));
    lab.fail();
    lab.advance(Span::mins(5));
    lab.discover(&[namespaced("team-b")]);
    lab.assert_no_findings();
    lab.discover(&[kind()]);

    lab.list(&[widget]);
    lab.recover();
    lab.advance(Span::mins(10));

    assert_eq!(lab.findings(), ["Unacknowledged Widget team-a/web"]);
}

#[test]
fn an_object_that_was_created_anew_without_a_delete_event_has_no_findings_of_the_old_one() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    lab.apply(widget.spec(2, lab.now));
    lab.advance(Span::mins(11));

    assert!(lab.has("Unacknowledged"));

    let mut anew = Widget::new("web", lab.now);
    anew.uid += 1;
    lab.apply(anew.ready());
    lab.advance(Span::mins(1));
    lab.assert_no_findings();

    assert_eq!(
        (lab.outcomes(Outcome::Late), lab.outcomes(Outcome::Deleted)),
        (1, 0),
        "it was late already"
    );
}

// What an object shows.

#[test]
fn the_owners_of_an_object_follow_it() {
    let mut lab = Lab::new();
    let widget = lab.converged("web");
    let owner = |name: &str| OwnerReference {
        kind: "Stack".into(),
        name: name.into(),
        ..OwnerReference::default()
    };

    for owners in [vec!["s1"], vec!["s1", "s2"], vec!["s2"], vec![]] {
        let mut view = lab.view(&widget);
        view.owners = owners.iter().map(|name| owner(name)).collect();
        lab.apply_view(view);

        let expected: Vec<String> = owners.iter().map(|name| format!("Stack/{name}")).collect();
        assert_eq!(lab.row("web").owners, expected);
    }
}

#[test]
fn an_object_that_becomes_ready_after_hours_is_converged_since_then() {
    let mut lab = Lab::new();
    let mut widget = Widget::new("web", lab.now);
    lab.apply(&widget);
    lab.advance(Span::hours(3));

    let ready = lab.now;
    lab.apply(widget.ready());
    lab.advance(Span::secs(20));

    assert_eq!((lab.row("web").state, lab.row("web").since), (ObjectState::Converged, ready));
}

#[test]
fn the_last_writer_of_the_status_is_named_and_not_the_last_writer_of_the_spec() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    widget.status_written = Some(lab.ago(Span::mins(1)));
    widget.spec(2, lab.now);

    let mut view = lab.view(&widget);
    view.managers.push(spec_writer("vpa-recommender", "", lab.now));
    view.managers.push(Manager {
        name: "label-controller".into(),
        time: Some(lab.now),
        ..Manager::default()
    });
    lab.apply_view(view);

    lab.advance(Span::mins(10));
    assert!(lab.evidence().contains("last status writer widget-operator"), "{}", lab.evidence());
    assert_eq!(watch(), lab.kind().watches[0].watch);
}
