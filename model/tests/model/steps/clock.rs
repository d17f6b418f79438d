//! Steps of the clock: only the passing of time matters.

use loopwatch_model::observation::*;
use loopwatch_model::snapshot::Outcome;
use loopwatch_model::time::Span;

use crate::lab::{Lab, Widget, unlearned};

const STEPS: [Span; 4] = [Span::hours(1), Span::hours(-1), Span::hours(24 * 365), Span::hours(-6)];

/// What happens before a step of the clock.
type Prepare = fn(&mut Lab, &mut Widget);

#[test]
fn a_clock_that_is_set_forward_makes_nothing_late() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    lab.apply(widget.spec(2, lab.now));
    lab.advance(Span::secs(1));
    lab.step_clock(Span::hours(1));
    lab.apply(widget.ready());
    lab.advance(Span::secs(30));

    assert_eq!(lab.outcomes(Outcome::Late), 0);
    assert!(lab.kind().totals.convergence.sum() < 60.0, "{}", lab.kind().totals.convergence.sum());
}

#[test]
fn a_clock_that_is_set_back_hides_no_dead_operator() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    lab.step_clock(Span::hours(-6));
    lab.apply(widget.spec(2, lab.now));
    lab.advance_by_minutes(5 * 60);

    assert!(!lab.findings().is_empty(), "the operator has been dead for five hours");
}

#[test]
fn a_step_while_an_obligation_is_open_moves_its_deadline_along() {
    for step in STEPS {
        let mut lab = Lab::new();
        let mut widget = lab.converged("web");
        lab.apply(widget.spec(2, lab.now));
        lab.advance(Span::mins(4));
        lab.step_clock(step);
        lab.advance(Span(Span::mins(6).0 - 1));

        assert!(lab.findings().is_empty(), "{}: {:?}", step.0, lab.findings());

        lab.advance(Span(1));
        assert_eq!(lab.findings(), ["Unacknowledged Widget team-a/web"], "{}", step.0);
        assert_eq!(lab.since("Unacknowledged"), lab.ago(Span::mins(10)), "{}", step.0);
        assert_eq!(lab.outcomes(Outcome::Late), 1);
    }
}

#[test]
fn a_step_during_a_regression_changes_neither_its_age_nor_its_threshold() {
    for step in STEPS {
        let mut lab = Lab::new();
        let mut widget = lab.converged("web");
        lab.advance(Span::hours(1));
        lab.apply(widget.condition("Ready", ConditionStatus::False, "LeaderLost"));
        lab.advance(Span::mins(3));
        lab.step_clock(step);
        lab.advance(Span(Span::mins(2).0 - 1));

        assert!(lab.findings().is_empty(), "{}: {:?}", step.0, lab.findings());

        lab.advance(Span(1));
        assert_eq!(lab.findings(), ["Regressed Widget team-a/web"], "{}", step.0);
        assert!(lab.evidence().contains("lost for 5m"), "{}", lab.evidence());

        lab.step_clock(step);
        lab.advance(Span::mins(1));

        assert!(lab.evidence().contains("lost for 6m"), "{}", lab.evidence());
        assert_eq!(lab.since("Regressed"), lab.ago(Span::mins(6)));
    }
}

#[test]
fn a_step_within_the_flapping_window_neither_opens_nor_closes_the_finding() {
    for step in STEPS {
        let mut lab = Lab::new();
        let mut widget = lab.converged("web");
        lab.advance(Span::mins(20));

        let flip = |lab: &mut Lab, widget: &mut Widget, times: u32| {
            for number in 0..times {
                let status =
                    if number % 2 == 0 { ConditionStatus::True } else { ConditionStatus::False };
                lab.apply(widget.condition("Synced", status, "Polled"));
                lab.advance(Span::secs(30));
            }
        };

        flip(&mut lab, &mut widget, 6); // five transitions
        lab.step_clock(step);
        lab.advance(Span::secs(1));

        assert!(!lab.has("ConditionFlapping"), "{}", step.0);

        flip(&mut lab, &mut widget, 1);
        assert_eq!(lab.findings(), ["ConditionFlapping Widget team-a/web"], "{}", step.0);

        lab.step_clock(step);
        lab.advance(Span::secs(1));

        assert_eq!(lab.findings(), ["ConditionFlapping Widget team-a/web"], "{}", step.0);

        lab.advance(Span::mins(30));
        lab.assert_no_findings();
    }
}

#[test]
fn a_step_in_a_phase_does_not_make_it_stuck() {
    for step in STEPS {
        let mut lab = Lab::new();
        let mut widget = lab.converged("web");
        lab.advance(Span::mins(20));
        lab.apply(widget.phase("Rebalancing"));
        lab.apply(widget.condition("Ready", ConditionStatus::Unknown, "Rebalancing"));
        lab.advance(Span::mins(10));
        lab.step_clock(step);
        lab.advance(Span::mins(19));

        assert!(!lab.has("PhaseStuck"), "{}", step.0);

        lab.advance(Span::mins(1));
        assert!(lab.has("PhaseStuck"), "{}: {:?}", step.0, lab.findings());
    }
}

#[test]
fn a_step_while_a_source_fails_neither_hurries_nor_delays_the_finding_about_it() {
    for step in STEPS {
        let mut lab = Lab::new();
        lab.converged("web");
        lab.fail();
        lab.advance(Span::mins(1));
        lab.step_clock(step);
        lab.advance(Span(59_999));
        lab.assert_no_findings();
        lab.advance(Span(1));

        assert_eq!(lab.findings(), ["SourceFailing source watch/widgets.example.io"], "{}", step.0);

        lab.step_clock(step);
        lab.recover();
        lab.advance(Span::mins(1));
        lab.assert_no_findings();
    }
}

#[test]
fn a_step_during_the_grace_after_blindness_does_not_end_it() {
    for step in STEPS {
        let mut lab = Lab::new();
        let mut widget = lab.converged("web");
        lab.apply(widget.spec(2, lab.now));
        lab.advance(Span::mins(8));
        lab.blind_for(Span::mins(5));
        lab.advance(Span::secs(20));
        lab.step_clock(step);
        lab.advance(Span(39_999));

        lab.assert_no_findings();
        lab.advance(Span(1));

        assert_eq!(lab.findings(), ["Unacknowledged Widget team-a/web"], "{}", step.0);
    }
}

#[test]
fn a_step_closes_no_finding_and_moves_no_audit_far_away() {
    for step in STEPS {
        let mut lab = Lab::new();
        let mut widgets: Vec<Widget> = ["a", "b", "c", "d"].map(|name| lab.converged(name)).into();
        widgets[..3].iter_mut().for_each(|widget| lab.apply(widget.failed("TokenExpired")));
        lab.apply(widgets[3].spec(2, lab.now));
        lab.advance(Span::mins(11));

        let before = lab.findings();
        lab.changes();
        lab.model.probes();
        lab.step_clock(step);
        lab.advance(Span::secs(1));

        assert_eq!((lab.findings(), lab.changes()), (before, Vec::new()), "{}", step.0);

        let due = lab.model.next_due().expect("the audit");
        assert!(due <= lab.now.after(Span::mins(1)), "{}: the next timer is due at {due}", step.0);
    }
}

#[test]
fn steps_that_cancel_each_other_change_no_time_in_a_state() {
    let mut lab = Lab::new();
    lab.converged("web");

    let before: u64 = lab.kind().namespaces["team-a"].state_ms.iter().sum();
    for step in STEPS {
        lab.step_clock(step);
        lab.advance(Span::mins(1));
        lab.step_clock(Span(-step.0));
    }

    let after: u64 = lab.kind().namespaces["team-a"].state_ms.iter().sum();
    assert_eq!(after - before, 4 * 60_000, "one object for four minutes");
}

#[test]
fn the_oldest_unconverged_object_is_not_one_from_before_a_step_of_the_clock() {
    let mut lab = Lab::unsynced(unlearned());
    let mut web = Widget::new("web", lab.ago(Span::hours(50)));
    web.ready();
    web.spec(2, lab.ago(Span::mins(5)));
    lab.list(std::slice::from_ref(&web));
    lab.step_clock(Span::hours(1));
    lab.advance(Span::secs(5));
    lab.apply(web.ready());

    lab.advance(Span::hours(24 * 30));
    let changed = lab.now;
    lab.apply(web.spec(3, changed));
    lab.advance(Span::mins(1));

    assert_eq!(lab.kind().oldest_unconverged, Some(changed));
}

#[test]
fn a_step_of_the_clock_changes_no_verdict_in_any_open_state() {
    let states: [(&str, Prepare); 7] = [
        ("unacknowledged", |lab, web| lab.apply(web.spec(2, lab.now))),
        ("working", |lab, web| {
            lab.apply(web.spec(2, lab.now));
            lab.apply(web.waiting().phase("Provisioning"));
        }),
        ("regressed", |lab, web| lab.apply(web.waiting())),
        ("failed", |lab, web| lab.apply(web.failed("DiskFull"))),
        ("retried", |lab, web| {
            lab.apply(web.spec(2, lab.now));
            lab.apply(web.failed("QuotaExceeded"));
            lab.advance(Span::hours(5));
            lab.apply(web.waiting());
        }),
        ("resumed", |lab, web| {
            web.paused = true;
            lab.apply(web.waiting());
            lab.advance(Span::hours(5));
            web.paused = false;
            lab.apply(web.touch_status());
        }),
        ("blind", |lab, web| {
            lab.apply(web.spec(2, lab.now));
            lab.advance(Span::mins(3));
            lab.fail();
            lab.advance(Span::mins(1));
        }),
    ];
    for (name, prepare) in states {
        for step in [Span::hours(-4), Span::hours(9)] {
            let run = |step: Option<Span>| {
                let mut lab = Lab::new();
                let mut web = lab.converged("web");
                lab.advance(Span::hours(1));
                prepare(&mut lab, &mut web);
                lab.advance(Span::mins(2));

                if let Some(step) = step {
                    lab.step_clock(step);
                }

                let mut seen = Vec::new();
                for minute in 0..60 {
                    if name == "blind" && minute == 2 {
                        lab.recover();
                    }

                    lab.advance(Span::mins(1));
                    seen.push((lab.findings(), lab.state("web")));
                }

                (
                    seen,
                    Outcome::ALL.iter().map(|outcome| lab.outcomes(*outcome)).collect::<Vec<_>>(),
                )
            };
            assert_eq!(run(Some(step)), run(None), "{name}, {} ms", step.0);
        }
    }
}

#[test]
fn a_stuck_finalizer_is_found_in_time_after_a_step_of_the_clock() {
    let mut lab = Lab::new(); // the clock is an hour slow
    let mut w = lab.converged("web");
    let deleted = lab.now.after(Span::hours(1));
    w.finalizers = vec!["example.io/f".into()];
    w.deleted = Some(deleted);
    lab.apply(&w);
    lab.now = lab.now.after(Span::hours(1));
    lab.observe(Observation::ClockStepped { by_ms: 3_600_000 });

    lab.advance(Span::mins(16));
    assert!(lab.has("FinalizerStuck"), "{:?}", lab.findings());
}

#[test]
fn a_step_of_the_clock_keeps_the_time_for_which_a_deletion_has_lasted() {
    for by in [Span::hours(3), Span(-Span::mins(50).0)] {
        let mut lab = Lab::new();
        let mut widget = lab.finalized("web", &["example.io/cleanup"]);
        lab.advance(Span::mins(1));
        lab.begin_deletion(&mut widget);
        lab.advance(Span::mins(5));
        lab.step_clock(by);

        lab.advance(Span::mins(9));
        assert!(!lab.has("FinalizerStuck"), "after a step of {by}");
        lab.advance(Span::mins(2));
        assert!(lab.has("FinalizerStuck"), "after a step of {by}");
    }
}
