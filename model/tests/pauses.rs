//! Paused objects, and objects whose spec is back to an earlier one.

mod lab;

use lab::steps::unlearned;
use lab::{Lab, Widget};
use loopwatch_model::observation::{ConditionStatus, Pause};
use loopwatch_model::snapshot::{ObjectState, Outcome};
use loopwatch_model::time::Span;

#[test]
fn an_object_that_an_annotation_paused_since_its_creation_is_not_overdue_when_it_is_resumed() {
    let mut lab = Lab::new();
    let mut widget = Widget::new("web", lab.now);
    widget.paused = true;
    lab.apply(widget.waiting());
    lab.advance(Span::hours(72));
    widget.paused = false; // the generation stays as it is
    lab.apply(widget.waiting());
    lab.assert_no_findings();

    lab.advance(Span::mins(9));
    lab.assert_no_findings();
    lab.advance(Span::mins(1));

    assert_eq!(
        lab.findings(),
        ["Overdue Widget team-a/web"],
        "from now on it has ten minutes, as any other"
    );
}

#[test]
fn a_spec_change_of_a_paused_object_begins_to_count_when_it_is_resumed() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    widget.paused = true;
    lab.apply(widget.touch_status());
    lab.advance(Span::hours(1));
    lab.apply(widget.spec(2, lab.now));
    lab.advance(Span::hours(1));
    widget.paused = false;

    lab.apply(&widget);
    lab.apply(widget.waiting());
    lab.advance(Span::mins(8));
    lab.assert_no_findings();
}

#[test]
fn every_way_to_resume_an_object_begins_a_new_deadline() {
    for by in
        ["spec.suspend", "label policy.example.com/frozen", "annotation cluster.x-k8s.io/paused"]
    {
        let mut lab = Lab::new();
        let mut widget = Widget::new("web", lab.now);
        let paused = |lab: &mut Lab, widget: &Widget| {
            let mut view = lab.view(widget);
            view.paused = Some(Pause { by: by.into() });
            lab.apply_view(view);
        };

        paused(&mut lab, &widget);
        lab.advance(Span::hours(30));
        paused(&mut lab, widget.observe().phase("Provisioning"));
        lab.advance(Span::hours(30));

        let resumed = lab.now;
        if by.starts_with("spec") {
            widget.spec(2, resumed);
        }

        lab.apply(&widget);
        lab.advance(Span::mins(9));

        assert!(lab.findings().is_empty(), "{by}: {:?}", lab.findings());

        lab.advance(Span::mins(2));
        assert_eq!(lab.findings().len(), 1, "{by}: {:?}", lab.findings());
        assert_eq!(lab.snapshot().findings[0].since, resumed, "{by}");
    }
}

#[test]
fn an_object_that_was_resumed_while_the_watch_was_blind_is_not_overdue_at_once() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    widget.paused = true;
    lab.apply(widget.waiting());
    lab.advance(Span::hours(50));
    lab.fail();
    lab.advance(Span::mins(5));
    widget.paused = false;

    lab.list(std::slice::from_ref(&widget));
    lab.recover();
    lab.advance(Span::mins(8));
    lab.assert_no_findings();
}

#[test]
fn a_paused_object_is_neither_stuck_nor_regressed_nor_late() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    lab.apply(widget.spec(2, lab.now));
    lab.apply(widget.waiting().phase("Migrating"));
    lab.advance(Span::mins(5));
    widget.paused = true;
    lab.apply(&widget);
    lab.advance(Span::hours(100));

    lab.assert_no_findings();
    assert_eq!(lab.state("web"), ObjectState::Suspended);
    assert_eq!((lab.outcomes(Outcome::Late), lab.outcomes(Outcome::Suspended)), (0, 1));
}

#[test]
fn pausing_ends_the_findings_about_an_object_and_a_resumed_one_that_stays_stuck_is_found_again() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    lab.apply(widget.spec(2, lab.now));
    lab.advance(Span::mins(11));

    assert!(lab.has("Unacknowledged"));

    widget.paused = true;
    lab.apply(&widget);
    lab.assert_no_findings();
    lab.advance(Span::hours(10));
    widget.paused = false;

    let resumed = lab.now;
    lab.apply(&widget);
    lab.advance(Span::mins(10));

    assert_eq!(lab.findings(), ["Unacknowledged Widget team-a/web"]);
    assert_eq!(lab.since("Unacknowledged"), resumed);
    assert_eq!(lab.outcomes(Outcome::Late), 1, "the first time");
}

// Back to an earlier spec.

#[test]
fn a_rollback_has_the_usual_deadline_if_nobody_knows_how_long_the_old_spec_took() {
    let mut lab = Lab::unsynced(unlearned());
    let mut widget = Widget::new("db", lab.ago(Span::hours(100)));
    lab.list(&[widget.ready().clone()]);
    lab.advance(Span::hours(1));
    lab.apply(widget.spec(2, lab.now));
    lab.apply(widget.waiting());
    lab.advance(Span::mins(1));
    lab.apply(widget.spec(1, lab.now));

    lab.apply(widget.waiting());
    lab.advance(Span::mins(5));
    lab.assert_no_findings();
}

#[test]
fn a_rollback_has_the_usual_deadline_if_the_old_spec_converged_unseen() {
    // The list shows an object that is still unconverged, or the status never says for which spec
    // it is ready.
    for unreported in [false, true] {
        let mut lab = Lab::unsynced(unlearned());
        let mut widget = Widget::new("db", lab.ago(Span::mins(2)));
        lab.list(&[widget.waiting().clone()]);

        let seen = |widget: &mut Widget| widget.observed = widget.observed.filter(|_| !unreported);
        widget.ready();
        seen(&mut widget);
        lab.apply(&widget);
        lab.advance(Span::mins(10));

        for spec in [2, 1] {
            lab.apply(widget.spec(spec, lab.now));
            widget.observe().condition("Ready", ConditionStatus::False, "Upgrading");
            seen(&mut widget);
            lab.apply(&widget);
            lab.advance(Span::mins(2));
        }

        lab.advance(Span::mins(5));
        assert!(lab.findings().is_empty(), "unreported: {unreported}: {:?}", lab.findings());

        lab.advance(Span::mins(5));
        assert!(lab.has("Overdue") && !lab.has("NeverRecovered"), "{:?}", lab.findings());
    }
}

#[test]
fn a_rollback_to_a_spec_that_was_only_resumed_has_the_usual_deadline() {
    let mut lab = Lab::new();
    let mut widget = Widget::new("db", lab.now);
    widget.paused = true;
    lab.apply(widget.waiting());
    lab.advance(Span::hours(1));
    widget.paused = false;
    lab.apply(widget.ready()); // at once, because everything existed already
    lab.advance(Span::mins(1));

    for spec in [2, 1] {
        lab.apply(widget.spec(spec, lab.now));
        lab.apply(widget.waiting());
        lab.advance(Span::mins(4));
    }

    lab.advance(Span::mins(4));
    lab.assert_no_findings();
}

#[test]
fn a_failed_rollback_is_found_soon_if_the_old_spec_took_seconds() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("db");
    lab.apply(widget.spec(2, lab.now));
    lab.apply(widget.failed("SchemaInvalid"));
    lab.advance(Span::mins(1));

    let back = lab.now;
    lab.apply(widget.spec(1, back));
    lab.apply(widget.failed("MigrationLocked"));
    lab.advance(Span::mins(2));

    assert_eq!(lab.findings(), ["NeverRecovered Widget team-a/db"]);
    assert_eq!(lab.since("NeverRecovered"), back);
    assert!(lab.evidence().contains("took then 1s"), "{}", lab.evidence());
}
