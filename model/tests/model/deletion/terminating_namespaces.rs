//! Namespaces that are being deleted: the API server deletes their Pods first, and all other
//! objects only after the last Pod is gone. Until then the objects are live, but without Pods, and
//! their operator cannot create what they lack.

use loopwatch_model::observation::{NamespaceView, Observation};
use loopwatch_model::snapshot::Outcome;
use loopwatch_model::time::{Span, Timestamp};

use crate::lab::{Lab, Widget};

/// The namespace of all widgets.
const NAMESPACE: &str = "team-a";

fn namespace(lab: &mut Lab, name: &str, deleted: Option<Timestamp>) {
    lab.observe(Observation::NamespaceSeen(NamespaceView {
        name: name.into(),
        deleted,
        ..NamespaceView::default()
    }));
}

/// A lab with a converged widget in a namespace that is being deleted.
fn terminating() -> (Lab, Widget) {
    let mut lab = Lab::new();
    let widget = lab.converged("web");
    let now = lab.now;
    namespace(&mut lab, NAMESPACE, Some(now));

    (lab, widget)
}

#[test]
fn an_object_that_loses_its_pods_with_its_namespace_has_not_regressed() {
    let (mut lab, mut widget) = terminating();
    lab.apply(widget.waiting());
    lab.advance(Span::hours(1)); // the last Pod has a long grace period
    lab.assert_no_findings();
    lab.delete(&widget);
    lab.assert_no_findings();
}

#[test]
fn a_spec_change_before_the_deletion_of_the_namespace_is_neither_overdue_nor_unacknowledged() {
    for acknowledged in [true, false] {
        let mut lab = Lab::new();
        let mut widget = lab.converged("web");
        lab.apply(widget.spec(2, lab.now));

        if acknowledged {
            lab.apply(widget.observe().waiting());
        }

        let now = lab.now;
        namespace(&mut lab, NAMESPACE, Some(now));
        lab.advance(Span::hours(1));
        lab.assert_no_findings();
        lab.delete(&widget);

        assert_eq!(lab.outcomes(Outcome::Late), 0);
    }
}

#[test]
fn an_operator_that_may_create_nothing_in_a_terminating_namespace_rejects_no_spec() {
    let mut lab = Lab::new();
    let mut widget = Widget::new("web", lab.now);
    lab.apply(&widget);

    let now = lab.now;
    namespace(&mut lab, NAMESPACE, Some(now));
    lab.apply(widget.observe().failed("Error")); // forbidden: the namespace is being terminated
    lab.advance(Span::mins(5));
    lab.delete(&widget);

    assert_eq!(lab.outcomes(Outcome::Rejected), 0);

    lab.assert_no_findings();
}

#[test]
fn objects_that_fail_together_with_their_namespace_are_no_failure_of_the_kind() {
    let mut lab = Lab::new();
    let mut widgets: Vec<Widget> =
        (0..5).map(|number| lab.converged(&format!("web-{number}"))).collect();
    let now = lab.now;

    namespace(&mut lab, NAMESPACE, Some(now));
    for widget in &mut widgets {
        lab.apply(widget.failed("Error"));
    }

    lab.advance(Span::mins(30));
    lab.assert_no_findings();
}

#[test]
fn a_finding_closes_when_the_namespace_is_deleted() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    lab.apply(widget.waiting());
    lab.advance(Span::mins(10));

    assert_eq!(lab.findings(), ["Regressed Widget team-a/web"]);

    let now = lab.now;
    namespace(&mut lab, NAMESPACE, Some(now));
    lab.advance(Span::mins(1));
    lab.assert_no_findings();
}

#[test]
fn objects_of_other_namespaces_and_of_a_namespace_created_again_are_judged() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    let now = lab.now;
    namespace(&mut lab, "team-b", Some(now));
    lab.apply(widget.waiting());
    lab.advance(Span::mins(10));

    assert_eq!(lab.findings(), ["Regressed Widget team-a/web"]);

    let (mut lab, widget) = terminating();
    lab.delete(&widget);
    lab.observe(Observation::NamespaceGone(NAMESPACE.into()));
    namespace(&mut lab, NAMESPACE, None);

    let mut again = lab.converged("again");
    lab.apply(again.waiting());
    lab.advance(Span::mins(10));

    assert_eq!(lab.findings(), ["Regressed Widget team-a/again"]);
}
