//! Work in progress on objects that had converged: how long it may last, and when it is over.

use loopwatch_model::observation::ConditionStatus::{False, True};
use loopwatch_model::time::Span;

use crate::lab::{Lab, Widget};

/// Returns a lab with an object whose only condition is `Reconciling`, which is true for a bit more
/// than a minute after its creation.
fn mirrored() -> (Lab, Widget) {
    let mut lab = Lab::new();
    let mut mirror = Widget::new("mirror", lab.now);
    lab.apply(&mirror);
    resync(&mut lab, &mut mirror);
    (lab, mirror)
}

fn resync(lab: &mut Lab, mirror: &mut Widget) {
    mirror.changed = Some(lab.now);
    lab.apply(mirror.condition("Reconciling", True, "Resync"));
    lab.advance(Span::secs(75));
    mirror.changed = Some(lab.now);
    lab.apply(mirror.condition("Reconciling", False, "WaitingForSchedule"));
    lab.advance(Span::secs(225));
}

#[test]
fn an_object_whose_only_condition_says_that_it_reconciles_now_and_then_has_not_regressed() {
    let (mut lab, mut mirror) = mirrored();
    lab.changes();
    for _ in 0..50 {
        resync(&mut lab, &mut mirror);
    }

    let changes = lab.changes();
    assert!(changes.is_empty(), "{changes:?}");
}

#[test]
fn an_object_that_reconciles_for_far_longer_than_before_has_regressed() {
    let (mut lab, mut mirror) = mirrored();
    for _ in 0..5 {
        resync(&mut lab, &mut mirror);
    }

    mirror.changed = Some(lab.now);
    lab.apply(mirror.condition("Reconciling", True, "Resync"));
    lab.advance(Span::mins(4));
    lab.assert_no_findings();

    lab.advance(Span::mins(1));
    assert_eq!(lab.findings(), ["Regressed Widget team-a/mirror"]);
    assert!(lab.evidence().contains("threshold 5m"), "{}", lab.evidence());
}

#[test]
fn a_regression_waits_while_the_status_says_nothing_and_keeps_its_start() {
    let mut lab = Lab::new();
    let mut web = lab.converged("web");
    web.observed = None;
    lab.apply(&web);
    lab.advance(Span::hours(1));
    let lost = lab.now;
    lab.apply(web.condition("Ready", False, ""));
    lab.advance(Span::mins(10));
    assert_eq!(lab.findings(), ["Regressed Widget team-a/web"]);

    web.conditions.clear();
    lab.apply(web.touch_status());
    lab.assert_no_findings();

    lab.apply(web.condition("Ready", False, ""));
    assert_eq!(lab.since("Regressed"), lost, "it has not recovered in between");
}
