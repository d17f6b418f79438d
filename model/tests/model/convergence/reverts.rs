//! Objects whose spec is back to an earlier one.

use loopwatch_model::observation::ConditionStatus;
use loopwatch_model::settings::Settings;
use loopwatch_model::time::Span;

use crate::lab::{Lab, Widget, unlearned};

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

#[test]
fn a_revert_that_a_dead_operator_has_not_seen_is_no_failed_recovery() {
    let mut lab = Lab::new();
    let mut gateway = lab.converged("gateway");
    lab.advance(Span::hours(1));
    lab.apply(gateway.spec(2, lab.now));
    lab.advance(Span::mins(1));
    // The status has been Ready=True for the first spec all along.
    lab.apply(gateway.spec(1, lab.now));
    lab.advance(Span::hours(1));

    assert_eq!(lab.findings(), ["Unacknowledged Widget team-a/gateway"]);
}

#[test]
fn a_way_back_that_takes_as_long_as_the_way_there_is_a_recovery() {
    let mut lab = Lab::with(Settings { deadline: Span::hours(1), ..unlearned() });
    let mut es = Widget::new("es", lab.now);
    lab.apply(&es);
    lab.apply(es.waiting());
    lab.advance(Span::mins(20));
    lab.apply(es.ready());
    lab.advance(Span::hours(5));
    lab.apply(es.spec(2, lab.now));

    lab.apply(es.failed("InvalidHeapSize"));
    lab.advance(Span::mins(3));
    lab.apply(es.spec(1, lab.now));
    lab.apply(es.waiting());
    lab.advance(Span::mins(40));
    lab.assert_no_findings();
    lab.apply(es.ready());
    lab.advance(Span::hours(1));
    lab.assert_no_findings();
}

#[test]
fn a_spec_that_was_changed_and_reverted_unseen_is_unacknowledged() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    lab.fail();
    lab.advance(Span::mins(1));
    widget.spec(2, lab.ago(Span::secs(40)));
    widget.spec(1, lab.ago(Span::secs(20)));
    lab.list(&[widget.clone()]);
    lab.recover();

    lab.advance(Span::mins(20));
    assert_eq!(lab.findings(), ["Unacknowledged Widget team-a/web"]);
}
