//! Permissions that are missing, withdrawn and granted.

use loopwatch_model::observation::{Observation, Permission, PermissionsView, WatchedKind};
use loopwatch_model::snapshot::{ObjectState, Outcome};
use loopwatch_model::time::Span;

use crate::lab::{Lab, Widget, forbidden, kind, namespaced, other_kind, unlearned};

#[test]
fn missing_and_excess_permissions_open_findings_until_they_change() {
    let mut lab = Lab::new();
    let permission = |verb: &str, resource: &str| Permission {
        verb: verb.into(),
        group: "example.io".into(),
        resource: resource.into(),
    };
    let view = PermissionsView {
        missing: vec![permission("list", "gadgets")],
        excess: vec![permission("*", "*")],
        ..Default::default()
    };

    lab.observe(Observation::PermissionsReviewed(view));
    let mut found = lab.findings();
    found.sort();

    assert_eq!(
        found,
        [
            "PermissionExcess permission to *",
            "PermissionMissing permission to list gadgets.example.io"
        ]
    );

    lab.observe(Observation::PermissionsReviewed(PermissionsView::default()));
    lab.assert_no_findings();
}

#[test]
fn a_withdrawn_permission_hides_a_kind_until_it_is_granted_again() {
    let mut lab = Lab::new();
    let widget = lab.converged("web");
    let mut hidden = kind();
    hidden.missing = vec!["watch".into()];
    lab.discover(&[hidden]);

    assert_eq!(lab.findings(), ["PermissionMissing permission to watch widgets.example.io"]);
    assert_eq!(lab.model.objects(), 0);

    lab.discover(&[kind()]);
    lab.list(&[widget]);
    lab.advance(Span::mins(1));
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
fn a_failing_kind_stays_found_when_its_permission_is_gone_for_a_minute() {
    let mut lab = Lab::new();
    let mut widgets = lab.fleet(&["a", "b", "c", "d"]);
    widgets.iter_mut().for_each(|widget| lab.apply(widget.failed("LicenseExpired")));
    lab.advance(Span::mins(10));

    let before = lab.finding("Failing");
    lab.discover(&[forbidden(kind())]); // a pipeline replaces the ClusterRole
    lab.advance(Span::mins(1));
    lab.discover(&[kind()]);
    lab.list(&widgets);
    lab.advance(Span::mins(2));

    assert!(
        lab.has("Failing"),
        "all are still down: {:?} {:?}",
        lab.findings(),
        lab.kind().states()
    );
    assert_eq!(lab.since("Failing"), before.since);
}

#[test]
fn an_operator_that_got_its_permission_back_has_a_grace_too() {
    let mut lab = Lab::new();
    let mut web = lab.converged("web");
    lab.advance(Span::hours(1));
    // The account is that of the operator, which sees nothing either.
    lab.discover(&[forbidden(kind())]);
    lab.advance(Span::mins(2));
    web.spec(2, lab.now);
    lab.advance(Span::mins(15));
    lab.changes();

    lab.discover(&[kind()]);
    lab.list(std::slice::from_ref(&web));
    lab.advance(Span::secs(40));
    lab.apply(web.ready());
    lab.advance(Span::hours(1));

    let changes = lab.object_changes();
    assert!(changes.is_empty(), "{changes:?}");
}

#[test]
fn a_kind_that_may_not_be_listed_freezes_only_itself() {
    let gadget = other_kind("Gadget");
    let mut lab = Lab::unsynced(unlearned());
    lab.discover(&[kind(), gadget.clone()]);
    lab.list(&[]);
    lab.list_in(&gadget.watch, Vec::new());

    let mut widget = lab.converged("web");
    let mut other = Widget::new("spring", lab.now);
    let view = lab.view(other.waiting());
    lab.apply_to(&gadget.watch, view);
    lab.discover(&[kind(), forbidden(gadget.clone())]);
    lab.apply(widget.spec(2, lab.now));
    lab.advance(Span::mins(11));

    assert!(lab.has("Unacknowledged"), "{:?}", lab.findings());
    assert!(!lab.has("Overdue"), "nobody knows whether the gadget is still waiting");

    lab.apply(widget.ready());
    lab.discover(&[kind(), gadget.clone()]);

    let view = lab.view(other.ready());
    lab.list_in(&gadget.watch, vec![view]);
    lab.advance(Span::hours(1));
    lab.assert_no_findings();
}

#[test]
fn a_namespace_that_may_not_be_listed_does_not_freeze_the_same_kind_elsewhere() {
    let (mine, theirs) = (namespaced("team-a"), namespaced("team-b"));
    let mut lab = Lab::unsynced(unlearned());
    lab.discover(&[mine.clone(), forbidden(theirs)]);

    let old = lab.ago(Span::hours(100));
    let mut widgets: Vec<Widget> = ["a", "b", "c", "d"].map(|name| Widget::new(name, old)).into();
    let views = widgets.iter_mut().map(|widget| lab.view(widget.ready())).collect();
    lab.list_in(&mine.watch, views);
    lab.advance(Span::mins(1));

    for widget in &mut widgets[..3] {
        let view = lab.view(widget.failed("BucketGone"));
        lab.apply_to(&mine.watch, view);
    }

    let view = lab.view(widgets[3].spec(2, lab.now));
    lab.apply_to(&mine.watch, view);
    lab.advance(Span::mins(11));

    for code in ["Failing", "Regressed", "Unacknowledged"] {
        assert!(lab.has(code), "no {code} in {:?}", lab.findings());
    }

    let view = lab.view(widgets[3].ready());
    lab.apply_to(&mine.watch, view);
    for widget in &mut widgets[..3] {
        let view = lab.view(widget.ready());
        lab.apply_to(&mine.watch, view);
    }

    lab.advance(Span::mins(1));
    assert_eq!(
        lab.findings(),
        ["PermissionMissing permission to list widgets.example.io in team-b"]
    );
}

#[test]
fn a_forbidden_kind_does_not_keep_the_findings_of_others_from_a_restart() {
    let (mut lab, widget) = Lab::unacknowledged();
    let gadget = forbidden(other_kind("Gadget"));
    lab.discover(&[kind(), gadget.clone()]);

    let since = lab.since("Unacknowledged");
    let mut again = lab.restart();
    again.discover(&[kind(), gadget]);
    again.list(&[widget]);

    assert_eq!(again.since("Unacknowledged"), since);
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
