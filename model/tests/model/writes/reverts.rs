//! Older statuses that are written back.

use loopwatch_model::finding::{Confidence, Finding, FindingCode};
use loopwatch_model::observation::ConditionStatus;
use loopwatch_model::time::{Span, Timestamp};

use super::{Written, found};
use crate::lab::Lab;

const OPERATOR: &str = "widget-operator";

fn revert(lab: &Lab) -> Option<Finding> {
    found(lab, FindingCode::StatusReverted)
}

/// A status that a controller may have read and kept.
#[derive(Clone, Copy)]
struct Status {
    state: u64,
    changed: Timestamp,
}

fn write(lab: &mut Lab, object: &mut Written, by: &str, status: Status) {
    for condition in &mut object.view.conditions {
        condition.changed = Some(status.changed);
    }
    object.status(lab, by, status.state, status.state ^ (status.changed.0 as u64) << 8);
}

/// Lets the operator write `times` statuses, each of which somebody replaces by the first one.
fn revert_again_and_again(lab: &mut Lab, object: &mut Written, by: &str, times: u64) {
    let old = Status { state: 50, changed: lab.now };
    write(lab, object, OPERATOR, old);
    for turn in 0..times {
        lab.advance(Span::secs(10));
        write(lab, object, OPERATOR, Status { state: 51 + turn, changed: lab.now });
        lab.advance(Span::secs(2));
        write(lab, object, by, old);
    }
}

#[test]
fn an_older_status_that_is_written_back_again_and_again_is_reverted() {
    let mut lab = Lab::new();
    let mut object = Written::widget(&mut lab, "web");
    revert_again_and_again(&mut lab, &mut object, OPERATOR, 3);
    assert_eq!(revert(&lab), None, "a new leader may do so once or twice");

    revert_again_and_again(&mut lab, &mut object, OPERATOR, 3);
    let found = revert(&lab).expect("a finding");
    assert_eq!(found.confidence, Confidence::Confirmed);
    assert!(found.summary().contains("manager widget-operator"), "{}", found.summary());

    lab.advance(Span::mins(12));
    assert_eq!(revert(&lab), None);
}

#[test]
fn an_observed_generation_that_falls_is_a_revert() {
    let mut lab = Lab::new();
    let mut object = Written::widget(&mut lab, "web");
    object.view.generation = 9;
    for turn in 0..4 {
        for observed in [9, 8] {
            lab.advance(Span::secs(30));
            object.view.observed_generation = Some(observed);
            object.status(&mut lab, OPERATOR, 60 + turn * 2 + observed as u64, 60);
        }
    }

    assert!(revert(&lab).is_some());
}

#[test]
fn a_condition_that_flaps_gets_a_new_time_and_is_no_revert() {
    let mut lab = Lab::new();
    let mut object = Written::widget(&mut lab, "web");
    for turn in 0..40 {
        lab.advance(Span::secs(5));
        let changed = lab.now;
        let status = if turn % 2 == 0 { ConditionStatus::False } else { ConditionStatus::True };
        object.view.conditions[0].status = status;
        write(&mut lab, &mut object, OPERATOR, Status { state: 70 + turn % 2, changed });
    }

    assert_eq!(revert(&lab), None);
}

#[test]
fn a_task_that_rests_and_runs_again_without_times_is_no_revert() {
    let mut lab = Lab::new();
    let mut object = Written::widget(&mut lab, "web");
    for turn in 0..60 {
        lab.advance(Span::secs(5));
        object.status(&mut lab, OPERATOR, 80 + turn % 3, 80 + turn % 3);
    }

    assert_eq!(revert(&lab), None);
}

#[test]
fn a_person_who_restores_a_status_reverts_nothing() {
    let mut lab = Lab::new();
    let mut object = Written::widget(&mut lab, "web");
    revert_again_and_again(&mut lab, &mut object, "kubectl-edit", 6);
    assert_eq!(revert(&lab), None);
}
