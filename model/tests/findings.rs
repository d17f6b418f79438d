//! Findings about objects, kinds and definitions. The tests cover the fault that opens each
//! finding, the recovery that closes it, and near misses that must not open it.

mod lab;

use lab::{Lab, Widget};
use loopwatch_model::observation::{ConditionStatus, DefinitionView, Observation, StatusSchema};
use loopwatch_model::settings::Settings;
use loopwatch_model::snapshot::{ObjectState, Outcome};
use loopwatch_model::time::{Span, Timestamp};

#[test]
fn a_spec_change_that_the_operator_ignores_is_unacknowledged() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    let changed = lab.now;
    lab.apply(widget.spec(2, changed));
    lab.advance(Span(599_000));
    lab.assert_no_findings();
    lab.advance(Span::secs(1));

    assert_eq!(lab.findings(), ["Unacknowledged Widget team-a/web"]);
    assert!(lab.evidence().contains("observed generation 1"), "{}", lab.evidence());
    assert_eq!(lab.snapshot().findings[0].since, changed);

    lab.apply(widget.ready());
    lab.advance(Span::secs(30));
    lab.assert_no_findings();

    assert_eq!(lab.outcomes(Outcome::Late), 1);
    assert_eq!(
        lab.outcomes(Outcome::Converged),
        1,
        "only the creation: an obligation that is late is not counted again when it converges"
    );
}

#[test]
fn a_generation_that_only_conditions_report_shows_that_the_operator_works_through_the_changes() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    let apply = |lab: &mut Lab, widget: &Widget| {
        let mut view = widget.view(widget.spec * 10);
        view.observed_generation = None;
        view.conditions[0].observed_generation = widget.observed;
        lab.observe(Observation::Applied { watch: lab::watch(), object: Box::new(view) });
    };

    for spec in 2..12 {
        // The operator sees each spec only after the next one was written.
        widget.waiting().spec(spec, lab.now);
        apply(&mut lab, &widget);
        lab.advance(Span::mins(2));
        lab.assert_no_findings();
    }

    lab.advance(Span::mins(8));
    assert_eq!(lab.findings(), ["Unacknowledged Widget team-a/web"]);
    assert!(lab.evidence().contains("observed generation 10"), "{}", lab.evidence());
}

#[test]
fn an_acknowledged_object_that_is_never_ready_is_overdue_and_the_evidence_names_the_condition() {
    let mut lab = Lab::new();
    let mut widget = Widget::new("web", lab.now);
    lab.apply(&widget);
    lab.advance(Span::secs(2));
    lab.apply(widget.waiting());

    assert_eq!(lab.state("web"), ObjectState::Progressing);

    lab.advance(Span::mins(10));
    assert_eq!(lab.findings(), ["Overdue Widget team-a/web"]);
    assert_eq!(lab.state("web"), ObjectState::Overdue);
    assert!(lab.evidence().contains("Ready"), "{}", lab.evidence());

    lab.apply(widget.ready());
    lab.assert_no_findings();

    assert_eq!(lab.state("web"), ObjectState::Converged);
}

#[test]
fn a_slow_object_is_not_overdue_before_the_configured_deadline_of_its_kind() {
    for name in ["example.io/Widget", "example.io/widget", "example.io/widgets"] {
        let deadlines =
            [(name.to_owned(), Span::hours(1)), ("other.io/Widget".to_owned(), Span::hours(9))]
                .into();
        let mut lab = Lab::with(Settings { deadlines, ..Settings::default() });
        let mut widget = Widget::new("slow", lab.now);

        lab.apply(&widget);
        lab.apply(widget.waiting());
        lab.advance(Span::mins(59));

        assert!(
            !lab.findings().iter().any(|f| f.starts_with("Overdue")),
            "{name}: {:?}",
            lab.findings()
        );

        lab.advance(Span::mins(1));
        assert!(
            lab.findings().iter().any(|f| f.starts_with("Overdue")),
            "{name}: {:?}",
            lab.findings()
        );
    }
}

#[test]
fn a_status_that_is_written_without_the_new_generation_is_status_lag() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    lab.apply(widget.spec(2, lab.now));
    lab.advance(Span::secs(5));
    lab.apply(widget.touch_status());
    lab.advance(Span::mins(10));

    assert_eq!(lab.findings(), ["StatusLag Widget team-a/web"]);

    lab.apply(widget.ready());
    lab.assert_no_findings();
}

#[test]
fn rejected_specs_open_no_findings() {
    let mut lab = Lab::new();
    for name in ["a", "b", "c", "d"] {
        let mut widget = Widget::new(name, lab.now);
        lab.apply(&widget);
        lab.advance(Span::secs(1));
        lab.apply(widget.failed("InvalidSpec"));
    }

    lab.advance(Span::hours(2));
    lab.assert_no_findings();

    assert_eq!(lab.state("a"), ObjectState::Failed);
    assert_eq!((lab.outcomes(Outcome::Rejected), lab.outcomes(Outcome::Late)), (4, 0));
}

#[test]
fn a_kind_is_failing_if_many_of_its_converged_objects_fail() {
    let mut lab = Lab::new();
    let mut widgets: Vec<Widget> = ["a", "b", "c", "d"].map(|name| lab.converged(name)).into();
    for widget in &mut widgets[..2] {
        lab.apply(widget.failed("DependencyUnavailable"));
    }

    lab.advance(Span::secs(60));
    lab.assert_no_findings();
    lab.apply(widgets[2].failed("DependencyUnavailable"));
    lab.assert_no_findings();
    lab.advance(Span::secs(10));

    assert_eq!(lab.findings(), ["Failing Widget (all)"]);
    assert!(lab.evidence().contains("failed 3"), "{}", lab.evidence());

    lab.advance(Span::mins(10));
    assert_eq!(
        lab.roots(),
        ["Failing Widget (all)"],
        "the finding about the kind explains those about its objects"
    );
    assert!(lab.findings().len() > 1);

    widgets.iter_mut().for_each(|widget| lab.apply(widget.ready()));
    lab.assert_no_findings();
}

#[test]
fn an_object_that_stays_unready_without_a_spec_change_has_regressed() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    lab.apply(widget.waiting());
    lab.advance(Span::mins(4));
    lab.apply(widget.ready()); // a Pod restarted
    lab.advance(Span::hours(1));
    lab.assert_no_findings();

    let lost = lab.now;
    lab.apply(widget.waiting());
    lab.advance(Span::mins(5));

    assert_eq!(lab.findings(), ["Regressed Widget team-a/web"]);
    assert_eq!(lab.snapshot().findings[0].since, lost);
    assert_eq!(lab.outcomes(Outcome::Late), 0, "without a spec change there is no obligation");

    lab.apply(widget.ready());
    lab.assert_no_findings();
}

#[test]
fn a_phase_that_lasts_too_long_is_stuck_and_the_missed_deadline_explains_it() {
    let settings =
        Settings { phase_stuck_after: Span::mins(30), learn_after: 0, ..Settings::default() };
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
fn time_in_a_phase_before_the_last_spec_change_does_not_count() {
    let settings =
        Settings { phase_stuck_after: Span::mins(30), learn_after: 0, ..Settings::default() };
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

    lab.advance(Span::mins(30));
    lab.assert_no_findings();
}

#[test]
fn malformed_conditions_open_one_finding_per_kind() {
    let mut lab = Lab::new();
    let widget = lab.converged("web");
    let mut view = lab.view(&widget);
    view.lints = vec!["condition_status".into()];
    lab.observe(Observation::Applied { watch: lab::watch(), object: Box::new(view) });

    assert_eq!(lab.findings(), ["ConditionMalformed Widget (all)"]);
    assert!(lab.evidence().contains("team-a/web"), "{}", lab.evidence());

    lab.delete(&widget);
    lab.assert_no_findings();
}

#[test]
fn an_object_that_fails_with_a_spec_that_converged_before_has_not_recovered() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    lab.apply(widget.spec(666, lab.now));
    lab.apply(widget.failed("InvalidSpec"));
    lab.advance(Span::mins(3));
    lab.assert_no_findings();
    lab.apply(widget.spec(1, lab.now)); // the user restores the old spec
    lab.apply(widget.failed("StillBroken"));

    lab.advance(Span::mins(2));
    assert_eq!(lab.findings(), ["NeverRecovered Widget team-a/web"]);

    lab.apply(widget.ready());
    lab.assert_no_findings();
}

#[test]
fn a_finalizer_that_stays_is_stuck_and_the_evidence_names_the_actor() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    widget.finalizers = vec!["example.io/cleanup".into()];
    lab.apply(&widget);
    widget.deleted = Some(lab.now);
    lab.apply(&widget);

    assert_eq!(lab.state("web"), ObjectState::Terminating);

    lab.advance(Span(299_000));
    lab.assert_no_findings();
    lab.advance(Span::mins(10));

    assert_eq!(lab.findings(), ["CleanupSlow Widget team-a/web"], "information only");

    lab.advance(Span::secs(1));
    assert_eq!(lab.findings(), ["FinalizerStuck Widget team-a/web"]);
    assert!(lab.evidence().contains("field manager widget-operator"), "{}", lab.evidence());

    let kind = &lab.snapshot().kinds[0];
    assert_eq!(kind.finalizers["example.io/cleanup"].waiting, [0, 1, 0, 0, 0]);

    lab.delete(&widget);
    lab.assert_no_findings();

    let kind = &lab.snapshot().kinds[0];
    assert_eq!(
        kind.finalizers["example.io/cleanup"].totals.outcomes,
        [0, 1, 1, 0, 0],
        "timed out, and removed late"
    );
}

#[test]
fn a_deletion_whose_finalizers_disappear_one_by_one_is_not_stuck() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    widget.finalizers = (0..10).map(|i| format!("example.io/part-{i}")).collect();
    widget.deleted = Some(lab.now);
    lab.apply(&widget);

    while widget.finalizers.pop().is_some() {
        lab.advance(Span::mins(6));
        lab.apply(&widget);

        assert!(!lab.has("FinalizerStuck"), "{:?}", lab.findings());
    }

    lab.assert_no_findings();
}

#[test]
fn a_status_without_a_status_subresource_opens_a_finding_about_the_definition() {
    let mut lab = Lab::new();
    let definition = |status| DefinitionView {
        name: "widgets.example.io".into(),
        kind: "Widget".into(),
        status,
        ..Default::default()
    };

    lab.observe(Observation::DefinitionSeen(definition(StatusSchema::None)));
    lab.assert_no_findings();
    lab.observe(Observation::DefinitionSeen(definition(StatusSchema::InBody)));

    assert_eq!(lab.findings(), ["StatusSubresourceMissing definition widgets.example.io"]);

    let finding = &lab.snapshot().findings[0];
    assert_eq!(finding.since, finding.found, "an old recording does not contain the creation time");

    lab.observe(Observation::DefinitionSeen(definition(StatusSchema::Subresource)));
    lab.assert_no_findings();

    let created = Some(Timestamp(lab.now.0 - Span::hours(5).0));
    lab.observe(Observation::DefinitionSeen(DefinitionView {
        created,
        ..definition(StatusSchema::InBody)
    }));

    assert_eq!(Some(lab.snapshot().findings[0].since), created);

    lab.observe(Observation::DefinitionsListed(vec!["widgets.example.io".into()]));
    assert_eq!(lab.findings().len(), 1, "it exists");

    lab.observe(Observation::DefinitionsListed(Vec::new()));
    lab.assert_no_findings(); // the deletion itself was not seen
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
