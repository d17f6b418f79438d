//! Phases that last or repeat, and conditions that flap.

use loopwatch_model::observation::ConditionStatus;
use loopwatch_model::settings::Settings;
use loopwatch_model::time::Span;

use crate::lab::{Lab, Widget, unlearned, widget_at};

#[test]
fn a_phase_that_lasts_too_long_is_stuck_and_the_missed_deadline_explains_it() {
    let settings = Settings { phase_stuck_after: Span::mins(30), ..unlearned() };
    let mut lab = Lab::with(settings);
    let mut widget = Widget::new("web", lab.now);

    lab.apply(&widget);
    lab.apply(widget.observe().phase("Provisioning"));
    lab.advance(Span::mins(31));

    assert!(
        lab.findings().contains(&"PhaseStuck Widget team-a/web".to_owned()),
        "{:?}",
        lab.findings()
    );
    assert_eq!(lab.roots(), ["Overdue Widget team-a/web"]);

    lab.apply(widget.phase("Running"));
    lab.assert_no_findings();
}

#[test]
fn time_in_a_phase_before_the_last_spec_change_does_not_count() {
    let settings = Settings { phase_stuck_after: Span::mins(30), ..unlearned() };
    let mut lab = Lab::with(settings);
    let mut widget = Widget::new("paused", lab.now);

    lab.apply(&widget);
    lab.apply(widget.waiting().phase("Provisioning"));
    widget.paused = true;
    lab.apply(widget.spec(2, lab.now));
    lab.advance(Span::hours(5));
    widget.paused = false;
    lab.apply(widget.spec(1, lab.now));
    lab.advance(Span::mins(1)); // the operator is about to continue

    lab.assert_no_findings();

    let mut widget = Widget::new("rejected", lab.now);
    lab.apply(&widget);
    lab.apply(
        widget.observe().condition("Ready", ConditionStatus::False, "InvalidSpec").phase("Failed"),
    );
    lab.advance(Span::hours(5));
    lab.apply(widget.spec(2, lab.now));
    lab.advance(Span::secs(1)); // the operator has not reacted yet

    assert!(!lab.findings().iter().any(|found| found.contains("rejected")), "{:?}", lab.findings());
}

#[test]
fn a_resting_phase_is_never_stuck() {
    let mut lab = Lab::new();
    let mut widget = Widget::new("web", lab.now);
    lab.apply(&widget);
    lab.apply(widget.observe().phase("Running"));
    lab.advance(Span::hours(100));
    lab.assert_no_findings();
}

#[test]
fn phases_that_repeat_are_cycling_but_rollouts_are_not() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    for spec in 2..12 {
        lab.apply(widget.spec(spec, lab.now)); // the user tries out several specs
        for phase in ["Pending", "Provisioning", "Running"] {
            lab.apply(widget.ready().phase(phase));
            lab.advance(Span::secs(5));
        }
    }

    lab.assert_no_findings();
    for _ in 0..3 {
        for phase in ["Pending", "Provisioning", "Validating"] {
            lab.apply(widget.phase(phase));
            lab.advance(Span::secs(10));
        }
    }

    assert!(
        lab.roots().contains(&"PhaseCycling Widget team-a/web".to_owned()),
        "{:?}",
        lab.findings()
    );

    lab.apply(widget.ready().phase("Running"));
    lab.advance(Span::mins(31));
    lab.assert_no_findings();
}

#[test]
fn a_ready_condition_that_changes_with_each_rollout_does_not_flap() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    for spec in 2..12 {
        lab.apply(widget.spec(spec, lab.now)); // the user tries out several specs
        lab.apply(widget.waiting());
        lab.advance(Span::secs(20));
        lab.apply(widget.ready());
        lab.advance(Span::mins(1));
    }

    lab.assert_no_findings();
}

#[test]
fn a_condition_flaps_after_three_round_trips_but_not_after_two() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    let flip = |lab: &mut Lab, widget: &mut Widget, status| {
        lab.apply(widget.condition("Synced", status, "Checked"));
        lab.advance(Span::secs(20));
    };

    flip(&mut lab, &mut widget, ConditionStatus::True);
    for _ in 0..2 {
        flip(&mut lab, &mut widget, ConditionStatus::False);
        flip(&mut lab, &mut widget, ConditionStatus::True);
    }

    assert!(
        !lab.findings().iter().any(|f| f.starts_with("ConditionFlapping")),
        "{:?}",
        lab.findings()
    );

    flip(&mut lab, &mut widget, ConditionStatus::False);
    flip(&mut lab, &mut widget, ConditionStatus::True);

    assert_eq!(lab.findings(), ["ConditionFlapping Widget team-a/web"]);
    assert!(lab.evidence().contains("condition Synced"), "{}", lab.evidence());

    let explained = lab.model.explain(&widget_at("team-a", "web")).expect("visible");
    let last = explained.changes.last().expect("a change");
    assert_eq!((&*last.name, &*last.was, &*last.value), ("Synced", "false", "true"));

    lab.advance(Span::mins(30));
    lab.assert_no_findings();
}

#[test]
fn a_condition_that_flaps_around_the_threshold_opens_one_finding() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    lab.model.finding_events();

    for round in 0..40 {
        let status = if round % 2 == 0 { ConditionStatus::False } else { ConditionStatus::True };
        lab.apply(widget.condition("Synced", status, "Checked"));
        // Alternates between five and six transitions in the window.
        lab.advance(Span::secs(if round % 5 == 0 { 420 } else { 280 }));
    }

    let flapping = lab
        .model
        .finding_events()
        .iter()
        .filter(|event| event.finding.code.name() == "ConditionFlapping")
        .count();

    assert_eq!(flapping, 1, "the finding opens once and does not close");
}

#[test]
fn a_stuck_phase_began_when_the_object_entered_it() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    lab.apply(widget.waiting().phase("Repairing"));
    lab.advance(Span::hours(10));

    let entered = lab.now;
    lab.apply(widget.phase("Provisioning"));
    lab.advance(Span::mins(31));

    assert_eq!(lab.since("PhaseStuck"), entered);

    lab.advance(Span::mins(5));
    lab.apply(widget.touch_status());

    assert_eq!(lab.since("PhaseStuck"), entered);
}

/// Creates an object that waits in a queue, and then is provisioned for `work`.
fn provision(lab: &mut Lab, name: &str, queued: Span, work: Span) -> Widget {
    let mut widget = Widget::new(name, lab.now);
    lab.apply(&widget);
    lab.apply(widget.waiting().phase("Queued"));
    lab.advance(queued);
    lab.apply(widget.phase("Provisioning"));
    lab.advance(work);
    widget
}

#[test]
fn the_time_in_a_phase_is_compared_with_that_phase_of_other_objects() {
    let mut lab = Lab::with(Settings::default());
    for number in 0..25 {
        let (name, queued) = (format!("w{number}"), Span::mins(10 * number));
        let mut widget = provision(&mut lab, &name, queued, Span::mins(12));
        lab.apply(widget.ready().phase("Running"));
        lab.advance(Span::mins(1));
    }
    lab.advance(Span::mins(30));
    lab.changes();

    let mut queued = provision(&mut lab, "queued", Span::hours(4), Span::mins(34));
    lab.apply(queued.ready().phase("Running"));

    let changes = lab.changes();
    assert!(changes.is_empty(), "as long as usual: {changes:?}");

    provision(&mut lab, "stuck", Span::ZERO, Span::mins(50));
    assert_eq!(lab.findings(), ["PhaseStuck Widget team-a/stuck"]);
}

#[test]
fn a_phase_of_updates_says_nothing_about_creations() {
    let mut lab = Lab::with(Settings::default());
    let mut widgets = Vec::new();
    for number in 0..25 {
        let name = format!("w{number}");
        let mut widget = provision(&mut lab, &name, Span::ZERO, Span::mins(50));
        lab.apply(widget.ready().phase("Running"));
        lab.advance(Span::mins(1));
        widgets.push(widget);
    }

    for generation in 2..12 {
        for widget in &mut widgets {
            lab.apply(widget.spec(generation, lab.now));
            lab.apply(widget.waiting().observe().phase("Provisioning"));
            lab.advance(Span::secs(5));
            lab.apply(widget.ready().phase("Running"));
            lab.advance(Span::mins(1));
        }
    }
    lab.advance(Span::mins(10));
    lab.changes();

    provision(&mut lab, "new", Span::ZERO, Span::mins(55));
    let changes = lab.changes();
    assert!(changes.is_empty(), "as long as usual: {changes:?}");
}

/// Returns whether `Ready` flaps if it goes through these statuses, with their reasons, every four
/// minutes.
fn flaps(statuses: &[(ConditionStatus, &str)]) -> bool {
    let mut lab = Lab::new();
    let mut app = lab.converged("app");
    lab.advance(Span::hours(1));
    for _ in 0..15 {
        for (status, reason) in statuses {
            lab.apply(app.condition("Ready", *status, reason));
            lab.advance(Span::secs(20));
        }

        lab.apply(app.ready());
        lab.advance(Span::secs(100));
    }

    lab.has("ConditionFlapping")
}

#[test]
fn a_condition_that_is_unknown_while_the_operator_works_does_not_flap() {
    use ConditionStatus::{False, Unknown};

    assert!(!flaps(&[(Unknown, "Progressing")]));
    assert!(flaps(&[(Unknown, "Progressing"), (False, "HealthCheckFailed")]));
    assert!(flaps(&[(Unknown, "HealthCheckFailed")]));
    assert!(flaps(&[(Unknown, "NodeStatusUnknown")]));
    assert!(flaps(&[(False, "Progressing")]));
}

/// Flux tries to apply a broken manifest again and again.
#[test]
fn a_failure_that_is_tried_again_and_again_does_not_flap() {
    use ConditionStatus::{False, Unknown};

    let mut lab = Lab::new();
    let mut app = lab.converged("app");
    lab.advance(Span::hours(1));
    for _ in 0..15 {
        lab.apply(app.condition("Ready", Unknown, "Progressing"));
        lab.advance(Span::secs(5));
        lab.apply(app.condition("Ready", False, "BuildFailed"));
        lab.advance(Span::secs(115));
    }

    assert!(!lab.has("ConditionFlapping") && lab.has("Regressed"), "{:?}", lab.findings());
}

/// Returns whether the phases of a pool cycle if it scales every three minutes and its summary
/// condition has this status meanwhile.
fn cycles(phase: &str, meanwhile: ConditionStatus) -> bool {
    let mut lab = Lab::new();
    let mut pool = Widget::new("pool", lab.now);
    lab.apply(&pool);
    lab.apply(pool.waiting().phase("Creating"));
    lab.advance(Span::mins(2));
    lab.apply(pool.ready().phase("Ready"));
    lab.advance(Span::mins(10));
    for _ in 0..15 {
        lab.apply(pool.condition("Ready", meanwhile, "Working").phase(phase));
        lab.advance(Span::mins(1));
        lab.apply(pool.condition("Ready", ConditionStatus::True, "Ready").phase("Ready"));
        lab.advance(Span::mins(2));
    }

    lab.has("PhaseCycling")
}

#[test]
fn phases_of_an_object_that_stays_ready_are_no_cycle() {
    assert!(!cycles("Scaling", ConditionStatus::True));
    assert!(cycles("Scaling", ConditionStatus::False));
    assert!(cycles("CrashLoopBackOff", ConditionStatus::True));
}

#[test]
fn phases_between_which_an_object_is_unready_are_a_cycle_although_it_returns_ready() {
    let mut lab = Lab::new();
    let mut pool = lab.converged("pool");
    lab.apply(pool.phase("Ready"));
    lab.advance(Span::hours(1));
    for _ in 0..15 {
        lab.apply(pool.phase("Draining"));
        lab.apply(pool.condition("Ready", ConditionStatus::False, "Working").phase("Replacing"));
        lab.advance(Span::mins(1));
        lab.apply(pool.condition("Ready", ConditionStatus::True, "Ready").phase("Joining"));
        lab.apply(pool.phase("Ready"));
        lab.advance(Span::mins(2));
    }

    assert!(lab.has("PhaseCycling"), "{:?}", lab.findings());
}
