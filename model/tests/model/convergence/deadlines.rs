//! Learned deadlines: quick changes, outages and mistakes of users must not spoil them.

use loopwatch_model::finding::Severity;
use loopwatch_model::observation::ConditionStatus::{False, True};
use loopwatch_model::settings::Settings;
use loopwatch_model::snapshot::{DeadlineSource, Outcome};
use loopwatch_model::time::Span;

use crate::lab::{Lab, Widget, unlearned};

/// Returns a lab that learns, and a widget whose spec changed 28 times and converged within two
/// seconds each time.
fn after_quick_updates() -> (Lab, Widget) {
    let mut lab = Lab::with(Settings::default());
    let mut widget = lab.converged("a");
    for spec in 2..30 {
        lab.apply(widget.spec(spec, lab.now));
        lab.advance(Span::secs(2));
        lab.apply(widget.ready());
        lab.advance(Span::mins(1));
    }

    (lab, widget)
}

#[test]
fn a_creation_may_take_five_minutes_after_many_quick_updates() {
    let (mut lab, _) = after_quick_updates();
    assert!(lab.kind().deadline >= Span::mins(10), "{}", lab.kind().deadline);

    let mut created = Widget::new("b", lab.now);
    lab.apply(&created);
    lab.apply(created.waiting());
    lab.advance(Span::mins(5));
    lab.assert_no_findings();
}

#[test]
fn a_move_of_the_operator_to_another_node_opens_no_finding_after_many_quick_updates() {
    let (mut lab, mut widget) = after_quick_updates();
    lab.apply(widget.spec(99, lab.now));
    lab.advance(Span::mins(2));
    lab.assert_no_findings();
}

#[test]
fn after_many_quick_updates_every_change_still_has_the_default_deadline() {
    let (mut lab, mut widget) = after_quick_updates();
    lab.apply(widget.spec(99, lab.now)); // an upgrade to a new major version
    lab.apply(widget.waiting());
    lab.advance(Span(Span::mins(10).0 - 1));
    lab.assert_no_findings();
    lab.advance(Span(1));

    assert_eq!(lab.findings(), ["Overdue Widget team-a/a"]);
}

#[test]
fn after_many_quick_updates_a_rollback_that_fails_is_not_critical() {
    let (mut lab, mut widget) = after_quick_updates();
    lab.apply(widget.spec(99, lab.now));
    lab.apply(widget.failed("ImageMissing"));
    lab.advance(Span::mins(1));
    lab.apply(widget.spec(29, lab.now));
    lab.apply(widget.failed("ImageMissing"));
    lab.advance(Span::mins(30));

    assert_eq!(lab.findings(), ["NeverRecovered Widget team-a/a"]);
    assert_ne!(lab.finding("NeverRecovered").severity, Severity::Critical);
}

#[test]
fn changes_that_never_converge_keep_the_deadline_from_being_learned() {
    let mut lab = Lab::with(Settings::default());
    for number in 0..25 {
        lab.converged(&format!("quick-{number}"));
        let mut widget = Widget::new(&format!("never-{number}"), lab.now);
        lab.apply(&widget);
        lab.apply(widget.waiting());
        lab.advance(Span::mins(11));
        lab.delete(&widget); // given up
    }

    assert_eq!(
        lab.kind().deadline_source,
        DeadlineSource::Default,
        "half of the changes never converged"
    );
}

#[test]
fn an_outage_over_night_does_not_silence_a_kind() {
    let mut lab = Lab::with(Settings::default());
    let mut widgets: Vec<Widget> =
        (0..30).map(|number| lab.converged(&format!("w{number}"))).collect();
    widgets.iter_mut().for_each(|widget| lab.apply(widget.spec(2, lab.now)));
    lab.advance(Span::hours(9)); // the operator is down
    widgets.iter_mut().for_each(|widget| lab.apply(widget.ready()));
    lab.advance(Span::mins(1));
    lab.apply(widgets[0].spec(3, lab.now));

    lab.advance(Span::hours(8));
    assert!(
        !lab.findings().is_empty(),
        "dead for eight hours; the deadline is {}",
        lab.kind().deadline
    );
}

#[test]
fn an_outage_that_loopwatch_saw_only_in_part_does_not_silence_a_kind() {
    for blind in [false, true] {
        let mut lab = Lab::with(Settings::default());
        let mut widgets: Vec<Widget> =
            (0..40).map(|number| lab.converged(&format!("w{number}"))).collect();
        widgets.iter_mut().for_each(|widget| lab.apply(widget.spec(2, lab.now)));

        if blind {
            lab.blind_for(Span::hours(5));
        } else {
            lab.advance(Span::hours(5));
        }

        let created: Vec<Widget> =
            (0..30).map(|number| Widget::new(&format!("new-{number}"), lab.now)).collect();
        created.iter().for_each(|widget| lab.apply(widget));
        lab.advance(Span::hours(4));

        for mut widget in widgets.iter().chain(&created).cloned() {
            lab.apply(widget.ready());
        }

        lab.advance(Span::mins(1));
        lab.apply(widgets[0].spec(3, lab.now));
        lab.advance(Span::mins(40));

        assert!(
            lab.has("Unacknowledged"),
            "blind: {blind}; the deadline is {}",
            lab.kind().deadline
        );
    }
}

#[test]
fn an_outage_during_which_a_pipeline_changes_every_spec_does_not_silence_a_kind() {
    let mut lab = Lab::with(Settings::default());
    let mut widgets: Vec<Widget> =
        (0..10).map(|number| lab.converged(&format!("w{number}"))).collect();
    for round in 2..50 {
        widgets.iter_mut().for_each(|widget| lab.apply(widget.spec(round, lab.now)));
        lab.advance(Span::mins(9)); // superseded before it is late
    }

    widgets.iter_mut().for_each(|widget| lab.apply(widget.ready()));
    lab.advance(Span::mins(1));
    lab.apply(widgets[0].spec(3, lab.now));
    lab.advance(Span::hours(1));

    assert!(lab.has("Unacknowledged"), "the deadline is {}", lab.kind().deadline);
}

#[test]
fn the_time_until_a_user_mends_a_rejected_spec_is_not_learned() {
    let mut lab = Lab::with(Settings::default());
    (0..25).for_each(|number| drop(lab.converged(&format!("q{number}"))));
    for number in 0..3 {
        let mut widget = Widget::new(&format!("typo-{number}"), lab.now);
        lab.apply(&widget);
        lab.apply(widget.failed("SecretNotValid"));
        lab.advance(Span::hours(12)); // a person sleeps, then creates the Secret
        lab.apply(widget.ready());
        lab.advance(Span::mins(1));
    }

    assert!(lab.kind().deadline < Span::hours(1), "{}", lab.kind().deadline);
}

#[test]
fn a_slow_kind_gets_a_longer_deadline_and_its_late_changes_stay_late() {
    let mut lab = Lab::with(Settings::default());
    for number in 0..30 {
        let mut widget = Widget::new(&format!("cluster-{number}"), lab.now);
        lab.apply(&widget);
        lab.apply(widget.waiting());
        lab.advance(Span::mins(9));
        lab.apply(widget.ready());
        lab.advance(Span::mins(1));
    }

    assert_eq!(lab.kind().deadline_source, DeadlineSource::Learned);

    let mut widget = Widget::new("slow", lab.now);
    lab.apply(&widget);
    lab.apply(widget.waiting());
    lab.advance(Span::mins(20));
    lab.assert_no_findings();

    assert_eq!(lab.outcomes(Outcome::Late), 1, "the objective of ten minutes is not learned");
}

#[test]
fn slow_creations_do_not_extend_the_deadline_of_updates() {
    let mut lab = Lab::with(Settings::default());
    let mut last = Widget::new("none", lab.now);
    for number in 0..30 {
        last = Widget::new(&format!("cluster-{number}"), lab.now);
        lab.apply(&last);
        lab.apply(last.waiting());
        lab.advance(Span::mins(9));
        lab.apply(last.ready());
        lab.advance(Span::mins(1));
    }

    lab.apply(last.spec(2, lab.now));
    lab.apply(last.waiting());
    lab.advance(Span::mins(11));

    assert_eq!(lab.findings(), ["Overdue Widget team-a/cluster-29"]);
}

#[test]
fn a_late_obligation_is_counted_once_although_the_object_regresses_again_and_again() {
    let mut lab = Lab::with(unlearned());
    let mut widget = lab.converged("web");
    lab.apply(widget.spec(2, lab.now));
    lab.apply(widget.waiting());
    lab.advance(Span::mins(12));

    for _ in 0..10 {
        lab.apply(widget.ready());
        lab.advance(Span::mins(2));
        lab.apply(widget.waiting());
        lab.advance(Span::mins(12));
    }

    assert_eq!(
        (lab.outcomes(Outcome::Late), lab.outcomes(Outcome::Converged)),
        (1, 1),
        "Converged is the creation"
    );
    assert_eq!(
        lab.findings().iter().filter(|found| found.starts_with("Regressed")).count(),
        1,
        "{:?}",
        lab.findings()
    );
}

#[test]
fn a_first_cluster_of_nine_minutes_after_a_hundred_quick_updates_is_within_its_deadline() {
    let mut lab = Lab::with(Settings::default());
    let mut cluster = lab.converged("capi-0");
    for spec in 2..102 {
        lab.apply(cluster.spec(spec, lab.now));
        lab.advance(Span::secs(3));
        lab.apply(cluster.ready());
        lab.advance(Span::secs(30));
    }

    let mut second = Widget::new("capi-1", lab.now);
    lab.apply(&second);
    lab.apply(second.waiting());
    lab.advance(Span::mins(9));
    lab.assert_no_findings();
    lab.apply(second.ready());
    lab.advance(Span::mins(1));
    lab.apply(second.spec(2, lab.now));

    lab.apply(second.waiting());
    lab.advance(Span::mins(9));
    lab.assert_no_findings();
}

#[test]
fn objects_created_in_a_long_outage_of_the_operator_do_not_stretch_the_deadline_of_later_ones() {
    let mut lab = Lab::with(Settings::default());
    for number in 0..25 {
        lab.converged(&format!("before-{number}"));
    }

    let mut waiting: Vec<Widget> =
        (0..25).map(|number| Widget::new(&format!("in-{number}"), lab.now)).collect();
    waiting.iter().for_each(|widget| lab.apply(widget));
    lab.advance(Span::hours(7));
    waiting.iter_mut().for_each(|widget| lab.apply(widget.ready()));
    lab.advance(Span::mins(5));
    lab.assert_no_findings();
    lab.apply(&Widget::new("after", lab.now));

    lab.advance(Span::mins(30));
    assert_eq!(
        lab.findings(),
        ["Unacknowledged Widget team-a/after"],
        "deadline {}",
        lab.kind().deadline
    );
}

#[test]
fn an_invalid_spec_whose_error_text_differs_every_five_seconds_is_rejected_and_not_late() {
    let mut lab = Lab::new();
    let mut policy = lab.converged("iam-policy");
    lab.apply(policy.spec(2, lab.now));

    for _ in 0..240 {
        lab.apply(policy.failed("InvalidInput")); // "... request id: 3f2a…" differs every time
        lab.advance(Span::secs(5));
    }

    lab.assert_no_findings();
    assert_eq!((lab.outcomes(Outcome::Rejected), lab.outcomes(Outcome::Late)), (1, 0));
}

#[test]
fn what_was_learned_about_a_slow_version_of_the_operator_fades() {
    let mut lab = Lab::with(Settings::default());
    let mut backup = lab.converged("store");
    let mut spec = 1;
    let mut update = |lab: &mut Lab, took: Span| {
        spec += 1;
        lab.apply(backup.spec(spec, lab.now));
        lab.advance(Span::secs(1));
        lab.apply(backup.waiting());
        lab.advance(took);
        lab.apply(backup.ready());
        lab.advance(Span::secs(20));
    };

    for _ in 0..60 {
        update(&mut lab, Span::mins(8));
    }

    assert!(lab.kind().deadline > Span::mins(20), "{}", lab.kind().deadline);

    for _ in 0..1500 {
        update(&mut lab, Span::secs(2));
    }

    assert_eq!(lab.kind().deadline, Span::mins(10));
}

#[test]
fn an_object_without_room_in_the_cluster_is_overdue_and_one_with_an_invalid_spec_is_not() {
    for (reason, found) in
        [("Unschedulable", vec!["Overdue Widget team-a/web".to_owned()]), ("SpecInvalid", vec![])]
    {
        let mut lab = Lab::new();
        let mut widget = Widget::new("web", lab.now);
        lab.apply(&widget);
        lab.advance(Span::secs(5));
        lab.apply(widget.observe().condition("Ready", False, reason));
        lab.advance(Span::mins(5));
        lab.assert_no_findings();
        lab.advance(Span::hours(1));
        assert_eq!(lab.findings(), found, "{reason}");
    }

    // The cluster gets another node in time.
    let mut lab = Lab::new();
    let mut widget = Widget::new("web", lab.now);
    lab.apply(&widget);
    lab.apply(widget.observe().condition("Ready", False, "Unschedulable"));
    lab.advance(Span::mins(5));
    lab.apply(widget.condition("Ready", True, "Running"));
    lab.advance(Span::hours(1));
    lab.assert_no_findings();
}
