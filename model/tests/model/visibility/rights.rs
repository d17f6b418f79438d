//! The permissions of the account, compared with the writes of the operator.

use loopwatch_model::observation::{Observation, Permission, PermissionsView};
use loopwatch_model::snapshot::RightUse;
use loopwatch_model::time::Span;

use crate::lab::{Lab, Widget};

fn permission(verb: &str, group: &str, resource: &str) -> Permission {
    Permission { verb: verb.into(), group: group.into(), resource: resource.into() }
}

/// An object whose status the operator has written.
fn written(lab: &mut Lab) -> Widget {
    let mut web = Widget::new("web", lab.now);
    web.status_written = Some(lab.now);
    lab.apply(web.ready());
    web
}

#[test]
fn an_object_whose_whole_spec_is_the_operators_was_created_by_it() {
    let mut lab = Lab::new();
    let granted =
        ["create", "update", "delete"].map(|verb| permission(verb, "example.io", "widgets"));
    lab.observe(Observation::PermissionsReviewed(PermissionsView {
        granted: granted.into(),
        ..PermissionsView::default()
    }));
    written(&mut lab);
    let uses = |lab: &Lab| -> Vec<RightUse> {
        lab.model.rights().granted.iter().map(|right| right.r#use).collect()
    };
    assert_eq!(uses(&lab), [RightUse::NotSeen, RightUse::NotSeen, RightUse::NotVisible]);

    // Another controller writes the spec of one more object, which shows nothing.
    for (name, writer) in [("other", "another-operator"), ("child", "widget-operator")] {
        let mut view = lab.view(&Widget::new(name, lab.now));
        view.managers[0].name = writer.into();
        view.managers[0].time = Some(lab.now);
        assert_eq!(uses(&lab)[0], RightUse::NotSeen);
        lab.apply_view(view);
    }
    assert_eq!(uses(&lab), [RightUse::Used, RightUse::Used, RightUse::NotVisible]);
}

#[test]
fn each_permission_is_used_not_seen_not_visible_or_a_wildcard() {
    let mut lab = Lab::new();
    let group = "example.io";
    let expected = [
        (permission("update", group, "widgets/status"), RightUse::Used),
        (permission("patch", group, "widgets/status"), RightUse::Used),
        (permission("update", group, "widgets"), RightUse::NotSeen),
        (permission("create", group, "widgets"), RightUse::NotSeen),
        (permission("delete", group, "widgets"), RightUse::NotVisible),
        (permission("list", group, "widgets"), RightUse::NotVisible),
        (permission("update", group, "widgets/finalizers"), RightUse::NotVisible),
        (permission("update", "apps", "replicasets"), RightUse::NotVisible),
        (permission("*", group, "*"), RightUse::Wildcard),
        (permission("update", "*", "*/scale"), RightUse::Wildcard),
    ];
    lab.observe(Observation::PermissionsReviewed(PermissionsView {
        granted: expected.iter().map(|(permission, _)| permission.clone()).collect(),
        ..PermissionsView::default()
    }));
    written(&mut lab);
    lab.advance(Span::hours(72));

    let rights = lab.model.rights();
    let found: Vec<_> =
        rights.granted.iter().map(|right| (right.permission.clone(), right.r#use)).collect();
    assert_eq!(found, expected);
    assert_eq!(rights.managers, ["widget-operator"]);
    assert!(rights.from.is_some_and(|from| from < rights.until));

    let seen = |at: usize| &rights.granted[at].seen;
    assert_eq!(seen(8).len(), 2, "the status was updated or patched: {:?}", seen(8));
    assert!(seen(9).is_empty(), "no scale was written");
}

#[test]
fn a_use_outlives_the_object() {
    let mut lab = Lab::new();
    let granted = vec![permission("update", "example.io", "widgets/status")];
    lab.observe(Observation::PermissionsReviewed(PermissionsView {
        granted,
        ..PermissionsView::default()
    }));
    let web = written(&mut lab);
    lab.delete(&web);
    lab.advance(Span::hours(1));

    assert_eq!(lab.model.rights().granted[0].r#use, RightUse::Used);
}

#[test]
fn a_checkpoint_keeps_what_the_account_may_do_and_what_it_has_lost() {
    let mut lab = Lab::new();
    let review = |granted: &[&str], withdrawn: &[&str]| {
        let of = |verbs: &[&str]| verbs.iter().map(|verb| permission(verb, "", "pods")).collect();
        Observation::PermissionsReviewed(PermissionsView {
            granted: of(granted),
            withdrawn: of(withdrawn),
            ..PermissionsView::default()
        })
    };
    let kept = |lab: &Lab| -> Vec<String> {
        lab.model.checkpoint().permissions[""].iter().map(|it| it.verb.clone()).collect()
    };

    lab.observe(review(&["get", "list"], &["delete"]));
    assert_eq!(kept(&lab), ["delete", "get", "list"]);

    let checkpoint = lab.model.checkpoint();
    let mut next = Lab::new();
    next.observe(Observation::Restored(Box::new(checkpoint)));
    assert_eq!(kept(&next), ["delete", "get", "list"], "before the first review");

    next.observe(review(&["get", "list", "delete"], &[]));
    assert_eq!(kept(&next), ["get", "list", "delete"]);
}
