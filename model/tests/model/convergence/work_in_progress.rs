//! Work in progress on objects that had converged: how long it may last, and when it is over.

use loopwatch_model::observation::ConditionStatus::{False, True, Unknown};
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
    lab.advance(Span::mins(29));
    lab.assert_no_findings();

    lab.advance(Span::mins(1));
    assert_eq!(lab.findings(), ["Regressed Widget team-a/mirror"]);
    assert!(lab.evidence().contains("threshold 30m"), "{}", lab.evidence());
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

/// Returns the minutes after which an object that had been ready has regressed, for a change of its
/// status.
fn regresses_after(change: impl FnOnce(&mut Widget)) -> i64 {
    let mut lab = Lab::new();
    let mut web = lab.converged("web");
    lab.apply(web.phase("Running"));
    lab.advance(Span::hours(1));
    change(&mut web);
    lab.apply(&web);

    let mut minutes = 0;
    while !lab.has("Regressed") && minutes < 60 {
        lab.advance(Span::mins(1));
        minutes += 1;
    }

    minutes
}

#[test]
fn explicit_work_in_progress_has_as_long_as_a_phase_before_it_is_a_regression() {
    let condition = |name: &'static str, status, reason: &'static str| {
        regresses_after(move |web| _ = web.condition(name, status, reason))
    };
    let phase = |phase: &'static str| regresses_after(move |web| _ = web.phase(phase));
    let works = [
        condition("Issuing", True, "Renewing"),
        phase("Rebalancing"),
        regresses_after(|web| _ = web.phase("Promoting").condition("Ready", Unknown, "Promoting")),
    ];
    assert_eq!(works, [30; 3]);

    let regressed = [
        condition("Ready", False, ""),
        condition("Ready", Unknown, "NodeStatusUnknown"),
        regresses_after(|web| _ = web.phase("Repairing").condition("Ready", False, "")),
        phase("Pending"),
        phase("Failed"),
    ];
    assert_eq!(regressed, [5; 5]);
}

#[test]
fn work_that_fails_has_regressed_as_soon_as_it_has_failed_for_long_enough() {
    let mut lab = Lab::new();
    let mut canary = lab.converged("canary");
    lab.advance(Span::hours(1));
    lab.apply(canary.phase("Progressing"));
    lab.advance(Span::mins(12));
    lab.assert_no_findings();

    lab.apply(canary.phase("Failed"));
    assert_eq!(lab.findings(), ["Regressed Widget team-a/canary"]);
}
