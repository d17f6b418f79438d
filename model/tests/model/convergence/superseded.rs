//! Spec changes that something supersedes before the operator acknowledges them.

use loopwatch_model::snapshot::Outcome;
use loopwatch_model::time::Span;

use crate::lab::Lab;

#[test]
fn each_change_of_an_autoscaler_counts_as_late_once_while_the_operator_is_dead() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    lab.advance(Span::hours(1));
    for spec in 2..22 {
        lab.apply(widget.spec(spec, lab.now));
        lab.advance(Span::mins(3));
    }

    lab.advance(Span::mins(20));
    assert_eq!((lab.outcomes(Outcome::Late), lab.outcomes(Outcome::Superseded)), (20, 0));

    lab.apply(widget.ready());
    lab.advance(Span::mins(20));
    assert_eq!((lab.outcomes(Outcome::Late), lab.outcomes(Outcome::Superseded)), (20, 0));
}

#[test]
fn changes_that_an_operator_acknowledges_in_time_are_superseded_and_not_late() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    lab.advance(Span::hours(1));
    for spec in 2..22 {
        lab.apply(widget.spec(spec, lab.now));
        lab.advance(Span::mins(3));
        if spec % 3 == 0 {
            lab.apply(widget.waiting());
        }
    }

    lab.apply(widget.ready());
    lab.advance(Span::mins(20));
    assert_eq!((lab.outcomes(Outcome::Late), lab.outcomes(Outcome::Superseded)), (0, 19));
}

#[test]
fn changes_that_are_acknowledged_after_a_newer_one_are_superseded_and_not_late() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    lab.advance(Span::hours(1));
    for spec in 2..12 {
        lab.apply(widget.spec(spec, lab.now));
        lab.advance(Span::mins(1));
        widget.observed = Some(widget.generation - 2); // the operator lags behind
        lab.apply(widget.touch_status());
        lab.advance(Span::mins(2));
    }

    lab.apply(widget.ready());
    lab.advance(Span::mins(20));
    assert_eq!((lab.outcomes(Outcome::Late), lab.outcomes(Outcome::Superseded)), (0, 9));
}

#[test]
fn the_deletion_of_an_object_ends_its_superseded_changes() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    lab.advance(Span::hours(1));
    for spec in 2..5 {
        lab.apply(widget.spec(spec, lab.now));
        lab.advance(Span::mins(1));
    }

    lab.delete(&widget);
    lab.advance(Span::mins(20));
    let outcomes =
        [Outcome::Late, Outcome::Superseded, Outcome::Deleted].map(|outcome| lab.outcomes(outcome));
    assert_eq!(outcomes, [0, 2, 1]);
}

#[test]
fn changes_whose_deadlines_pass_while_the_watch_is_blind_have_an_unknown_outcome() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    lab.advance(Span::hours(1));
    for spec in 2..5 {
        lab.apply(widget.spec(spec, lab.now));
        lab.advance(Span::mins(1));
    }

    lab.blind_for(Span::mins(30));
    assert_eq!((lab.outcomes(Outcome::Late), lab.outcomes(Outcome::Unknown)), (0, 3));
}
