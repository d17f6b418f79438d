//! Kinds that loopwatch begins to read differently: in another version or role, without a status
//! subresource, or by their metadata alone.

use loopwatch_model::finding::Severity;
use loopwatch_model::model::Model;
use loopwatch_model::observation::*;
use loopwatch_model::settings::Settings;
use loopwatch_model::snapshot::{ObjectState, Outcome};
use loopwatch_model::time::Span;

use super::child;
use crate::lab::{Lab, START, Widget, kind, unlearned, watch};

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

fn second_version() -> WatchedKind {
    WatchedKind { version: "v2".into(), ..kind() }
}

/// Returns the object as another version of its kind shows it.
fn converted(mut view: ObjectView) -> ObjectView {
    view.hashes.spec += 1000;
    view.hashes.status += 1000;
    view.hashes.settled += 1000;
    view
}

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
fn a_dead_operator_is_critical_although_its_kind_is_read_in_another_version() {
    let mut lab = Lab::new();
    let mut web = lab.converged("web");
    let changed = lab.now;
    let view = lab.view(web.spec(2, changed));

    lab.apply_view(view.clone());
    lab.advance(Span::mins(5));
    lab.discover(&[second_version()]);
    lab.list_views(vec![converted(view)]);
    lab.advance(Span::mins(6));

    assert_eq!(
        lab.findings(),
        ["Unacknowledged Widget team-a/web"],
        "nobody has written the status"
    );
    assert_eq!(lab.snapshot().findings[0].severity, Severity::Critical);
}

#[test]
fn another_version_of_the_kind_is_no_progress_of_a_deletion() {
    let mut lab = Lab::new();
    let widget = lab.terminating("ingress", &["networking.example.com/lb"]);
    lab.advance(Span::mins(14));
    lab.discover(&[second_version()]);

    let view = lab.view(&widget);
    lab.list_views(vec![converted(view)]);
    lab.advance(Span::mins(2));

    assert_eq!(lab.findings(), ["FinalizerStuck Widget team-a/ingress"]);
}

#[test]
fn a_kind_of_which_only_the_metadata_is_read_from_now_on_has_not_regressed() {
    let mut lab = Lab::new();
    let widgets: Vec<Widget> = ["a", "b", "c", "d"].map(|name| lab.converged(name)).into();
    lab.discover(&[WatchedKind { role: Role::Child, ..kind() }]);

    let views = widgets.iter().map(|widget| {
        let view = lab.view(widget);
        ObjectView {
            status: StatusShape::Absent,
            conditions: Vec::new(),
            observed_generation: None,
            hashes: Hashes::default(),
            ..view
        }
    });

    let views: Vec<ObjectView> = views.collect();
    lab.list_views(views);
    lab.advance(Span::hours(1));
    lab.assert_no_findings();
}

#[test]
fn another_version_of_a_kind_without_status_subresource_changes_no_spec() {
    let mut lab = Lab::new();
    lab.discover(&[WatchedKind { status: StatusSchema::InBody, ..kind() }]);

    let mut widgets: Vec<Widget> = ["a", "b"].map(|name| lab.converged(name)).into();
    lab.apply(widgets[1].waiting());
    lab.advance(Span::hours(3));

    let before = (lab.findings(), lab.kind().states(), lab.kind().namespaces["team-a"].obligations);
    lab.discover(&[WatchedKind { status: StatusSchema::InBody, version: "v2".into(), ..kind() }]);

    let views = widgets.iter().map(|widget| {
        let mut view = lab.view(widget);
        view.hashes.spec += 1000;
        view
    });
    let views = views.collect();

    lab.list_views(views);
    lab.advance(Span::secs(1));

    let mid = (lab.findings(), lab.kind().states());
    lab.advance(Span::mins(5));

    let after = (lab.findings(), lab.kind().states(), lab.kind().namespaces["team-a"].obligations);
    assert_eq!(mid, (before.0.clone(), before.1));
    assert_eq!(before, after);
}

#[test]
fn another_version_of_a_kind_without_status_subresource_is_no_spec_change() {
    let mut in_body = kind();
    in_body.status = StatusSchema::InBody;

    let mut lab = Lab::unsynced(unlearned());
    lab.discover(&[in_body.clone()]);
    lab.list(&[]);

    let mut w = Widget::new("web", lab.now);
    w.observed = None;
    lab.apply_view(w.view(5000));
    lab.advance(Span::secs(1));
    w.condition("Ready", ConditionStatus::True, "x");
    lab.apply_view(w.view(5001));
    lab.advance(Span::hours(1));

    let total = |lab: &Lab| Outcome::ALL.iter().map(|o| lab.outcomes(*o)).sum::<u64>();
    assert_eq!(total(&lab), 1);

    in_body.version = "v2".into();
    lab.discover(&[in_body]);

    let mut view = w.view(5001);
    view.hashes.spec = 77; // the same object by another schema
    lab.begin_list(&watch());
    lab.listed(&watch(), view);
    lab.end_list(&watch());
    lab.advance(Span::hours(1));

    assert_eq!(total(&lab), 1);

    lab.assert_no_findings();
}
