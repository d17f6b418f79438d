//! Each finding: the fault that shows it, what clears it, and the near miss that must not.

mod lab;

use lab::{Lab, START, Widget};
use loopwatch_model::observation::{
    Cause, ConditionStatus, DefinitionView, Observation, Permission, PermissionsView, Probe, SourceId, StatusSchema,
};
use loopwatch_model::settings::{Limits, Settings};
use loopwatch_model::snapshot::{ObjectState, Outcome};
use loopwatch_model::time::{Span, Timestamp};

#[test]
fn a_change_that_nobody_looks_at_is_unacknowledged() {
    let mut lab = Lab::new();
    let mut widget = lab.settled("web");
    let changed = lab.now;
    lab.apply(widget.spec(2, changed));
    lab.pass(Span(599_000));
    lab.quiet();
    lab.pass(Span::secs(1));
    assert_eq!(lab.findings(), ["Unacknowledged Widget team-a/web"]);
    assert!(lab.evidence().contains("observed generation 1"), "{}", lab.evidence());
    assert_eq!(lab.snapshot().findings[0].since, changed);
    lab.apply(widget.ready());
    lab.pass(Span::secs(30));
    lab.quiet();
    assert_eq!(lab.outcomes(Outcome::Late), 1);
    assert_eq!(lab.outcomes(Outcome::Converged), 1, "the creation; the change was late, and is not counted twice");
}

#[test]
fn an_object_that_is_seen_but_never_ready_is_overdue_and_says_what_it_waits_for() {
    let mut lab = Lab::new();
    let mut widget = Widget::new("web", lab.now);
    lab.apply(&widget);
    lab.pass(Span::secs(2));
    lab.apply(widget.waiting());
    assert_eq!(lab.state("web"), ObjectState::Progressing);
    lab.pass(Span::mins(10));
    assert_eq!(lab.findings(), ["Overdue Widget team-a/web"]);
    assert_eq!(lab.state("web"), ObjectState::Overdue);
    assert!(lab.evidence().contains("Ready"), "{}", lab.evidence());
    lab.apply(widget.ready());
    lab.quiet();
    assert_eq!(lab.state("web"), ObjectState::Converged);
}

#[test]
fn a_slow_object_within_its_own_deadline_is_not_overdue() {
    let deadlines = [("example.io/Widget".to_owned(), Span::hours(1))].into();
    let mut lab = Lab::with(Settings { deadlines, ..Settings::default() });
    let mut widget = Widget::new("slow", lab.now);
    lab.apply(&widget);
    lab.apply(widget.waiting());
    lab.pass(Span::mins(59));
    assert!(!lab.findings().iter().any(|f| f.starts_with("Overdue")), "{:?}", lab.findings());
    lab.pass(Span::mins(1));
    assert!(lab.findings().iter().any(|f| f.starts_with("Overdue")), "{:?}", lab.findings());
}

#[test]
fn a_status_that_is_written_but_lags_is_status_lag_not_unacknowledged() {
    let mut lab = Lab::new();
    let mut widget = lab.settled("web");
    lab.apply(widget.spec(2, lab.now));
    lab.pass(Span::secs(5));
    lab.apply(widget.scribble());
    lab.pass(Span::mins(10));
    assert_eq!(lab.findings(), ["StatusLag Widget team-a/web"]);
    lab.apply(widget.ready());
    lab.quiet();
}

#[test]
fn a_refusal_is_an_answer_and_pages_nobody() {
    let mut lab = Lab::new();
    for name in ["a", "b", "c", "d"] {
        let mut widget = Widget::new(name, lab.now);
        lab.apply(&widget);
        lab.pass(Span::secs(1));
        lab.apply(widget.failed("InvalidSpec"));
    }
    lab.pass(Span::hours(2));
    lab.quiet();
    assert_eq!(lab.state("a"), ObjectState::Failed);
    assert_eq!((lab.outcomes(Outcome::Rejected), lab.outcomes(Outcome::Late)), (4, 0));
}

#[test]
fn objects_that_worked_and_fail_together_are_failing() {
    let mut lab = Lab::new();
    let mut widgets: Vec<Widget> = ["a", "b", "c", "d"].map(|name| lab.settled(name)).into();
    for widget in &mut widgets[..2] {
        lab.apply(widget.failed("DependencyUnavailable"));
    }
    lab.pass(Span::secs(60));
    lab.quiet();
    lab.apply(widgets[2].failed("DependencyUnavailable"));
    lab.quiet();
    lab.pass(Span::secs(10));
    assert_eq!(lab.findings(), ["Failing Widget (all)"]);
    assert!(lab.evidence().contains("failed 3"), "{}", lab.evidence());
    lab.pass(Span::mins(10));
    assert_eq!(lab.roots(), ["Failing Widget (all)"], "the kind explains its objects");
    assert!(lab.findings().len() > 1);
    widgets.iter_mut().for_each(|widget| lab.apply(widget.ready()));
    lab.quiet();
}

#[test]
fn ready_lost_without_a_change_of_the_spec_is_a_regression_if_it_lasts() {
    let mut lab = Lab::new();
    let mut widget = lab.settled("web");
    lab.apply(widget.waiting());
    lab.pass(Span::mins(4));
    lab.apply(widget.ready()); // a Pod restarted
    lab.pass(Span::hours(1));
    lab.quiet();
    let lost = lab.now;
    lab.apply(widget.waiting());
    lab.pass(Span::mins(5));
    assert_eq!(lab.findings(), ["Regressed Widget team-a/web"]);
    assert_eq!(lab.snapshot().findings[0].since, lost);
    assert_eq!(lab.outcomes(Outcome::Late), 0, "no promise about the spec was broken");
    lab.apply(widget.ready());
    lab.quiet();
}

#[test]
fn a_phase_that_does_not_pass_is_stuck_and_the_missed_deadline_explains_it() {
    let settings = Settings { phase_stuck_after: Span::mins(30), learn_after: 0, ..Settings::default() };
    let mut lab = Lab::with(settings);
    let mut widget = Widget::new("web", lab.now);
    lab.apply(&widget);
    lab.apply(widget.observe().phase("Provisioning"));
    lab.pass(Span::mins(31));
    assert!(lab.findings().contains(&"PhaseStuck Widget team-a/web".to_owned()), "{:?}", lab.findings());
    assert_eq!(lab.roots(), ["Overdue Widget team-a/web"]);
    lab.apply(widget.phase("Running"));
    lab.quiet();
}

#[test]
fn ready_that_comes_and_goes_with_each_rollout_does_not_flap() {
    let mut lab = Lab::new();
    let mut widget = lab.settled("web");
    for spec in 2..12 {
        lab.apply(widget.spec(spec, lab.now)); // a user who tries things out
        lab.apply(widget.waiting());
        lab.pass(Span::secs(20));
        lab.apply(widget.ready());
        lab.pass(Span::mins(1));
    }
    lab.quiet();
}

#[test]
fn a_phase_that_lasted_before_the_last_change_is_not_stuck() {
    let settings = Settings { phase_stuck_after: Span::mins(30), learn_after: 0, ..Settings::default() };
    let mut lab = Lab::with(settings);
    let mut widget = Widget::new("paused", lab.now);
    lab.apply(&widget);
    lab.apply(widget.waiting().phase("Provisioning"));
    widget.paused = true;
    lab.apply(widget.spec(2, lab.now));
    lab.pass(Span::hours(5));
    widget.paused = false;
    lab.apply(widget.spec(1, lab.now));
    lab.pass(Span::mins(1)); // the operator is about to go on
    lab.quiet();

    let mut widget = Widget::new("rejected", lab.now);
    lab.apply(&widget);
    lab.apply(widget.observe().condition("Ready", ConditionStatus::False, "InvalidSpec").phase("Failed"));
    lab.pass(Span::hours(5));
    lab.apply(widget.spec(2, lab.now));
    lab.pass(Span::secs(1)); // the operator has not looked yet
    assert!(!lab.findings().iter().any(|found| found.contains("rejected")), "{:?}", lab.findings());
}

#[test]
fn a_resting_phase_may_last_for_ever() {
    let mut lab = Lab::new();
    let mut widget = Widget::new("web", lab.now);
    lab.apply(&widget);
    lab.apply(widget.observe().phase("Running"));
    lab.pass(Span::hours(100));
    lab.quiet();
}

#[test]
fn phases_that_go_round_are_cycling_and_rollouts_are_not() {
    let mut lab = Lab::new();
    let mut widget = lab.settled("web");
    for spec in 2..12 {
        lab.apply(widget.spec(spec, lab.now)); // a user who tries things out
        for phase in ["Pending", "Provisioning", "Running"] {
            lab.apply(widget.ready().phase(phase));
            lab.pass(Span::secs(5));
        }
    }
    lab.quiet();
    for _ in 0..3 {
        for phase in ["Pending", "Provisioning", "Validating"] {
            lab.apply(widget.phase(phase));
            lab.pass(Span::secs(10));
        }
    }
    assert!(lab.roots().contains(&"PhaseCycling Widget team-a/web".to_owned()), "{:?}", lab.findings());
    lab.apply(widget.ready().phase("Running"));
    lab.pass(Span::mins(31));
    lab.quiet();
}

#[test]
fn a_condition_that_goes_to_and_fro_flaps_and_one_round_trip_does_not() {
    let mut lab = Lab::new();
    let mut widget = lab.settled("web");
    let flip = |lab: &mut Lab, widget: &mut Widget, status| {
        lab.apply(widget.condition("Synced", status, "Checked"));
        lab.pass(Span::secs(20));
    };
    flip(&mut lab, &mut widget, ConditionStatus::True);
    for _ in 0..2 {
        flip(&mut lab, &mut widget, ConditionStatus::False);
        flip(&mut lab, &mut widget, ConditionStatus::True);
    }
    assert!(!lab.findings().iter().any(|f| f.starts_with("ConditionFlapping")), "{:?}", lab.findings());
    flip(&mut lab, &mut widget, ConditionStatus::False);
    flip(&mut lab, &mut widget, ConditionStatus::True);
    assert_eq!(lab.findings(), ["ConditionFlapping Widget team-a/web"]);
    assert!(lab.evidence().contains("condition Synced"), "{}", lab.evidence());
    lab.pass(Span::mins(30));
    lab.quiet();
}

#[test]
fn malformed_conditions_are_told_once_per_kind() {
    let mut lab = Lab::new();
    let widget = lab.settled("web");
    let mut view = widget.view(5000);
    view.lints = vec!["condition_status".into()];
    lab.tell(Observation::Applied { watch: lab::watch(), object: Box::new(view) });
    assert_eq!(lab.findings(), ["ConditionMalformed Widget (all)"]);
    assert!(lab.evidence().contains("team-a/web"), "{}", lab.evidence());
    lab.delete(&widget);
    lab.quiet();
}

#[test]
fn a_spec_that_worked_before_must_work_again() {
    let mut lab = Lab::new();
    let mut widget = lab.settled("web");
    lab.apply(widget.spec(666, lab.now));
    lab.apply(widget.failed("InvalidSpec"));
    lab.pass(Span::mins(3));
    lab.quiet();
    lab.apply(widget.spec(1, lab.now)); // the user puts the old one back
    lab.apply(widget.failed("StillBroken"));
    lab.pass(Span::mins(2));
    assert_eq!(lab.findings(), ["NeverRecovered Widget team-a/web"]);
    lab.apply(widget.ready());
    lab.quiet();
}

#[test]
fn a_finalizer_that_nobody_removes_is_stuck_and_names_who_should() {
    let mut lab = Lab::new();
    let mut widget = lab.settled("web");
    widget.finalizers = vec!["example.io/cleanup".into()];
    lab.apply(&widget);
    widget.deleted = Some(lab.now);
    lab.apply(&widget);
    assert_eq!(lab.state("web"), ObjectState::Terminating);
    lab.pass(Span(899_000));
    lab.quiet();
    lab.pass(Span::secs(1));
    assert_eq!(lab.findings(), ["FinalizerStuck Widget team-a/web"]);
    assert!(lab.evidence().contains("field manager widget-operator"), "{}", lab.evidence());
    let kind = &lab.snapshot().kinds[0];
    assert_eq!(kind.finalizers["example.io/cleanup"].waiting, [0, 1]);
    lab.delete(&widget);
    lab.quiet();
    let kind = &lab.snapshot().kinds[0];
    assert_eq!(kind.finalizers["example.io/cleanup"].outcomes, [0, 1], "removed late");
}

#[test]
fn a_cleanup_that_moves_is_not_stuck() {
    let mut lab = Lab::new();
    let mut widget = lab.settled("web");
    widget.finalizers = (0..10).map(|i| format!("example.io/part-{i}")).collect();
    widget.deleted = Some(lab.now);
    lab.apply(&widget);
    while widget.finalizers.pop().is_some() {
        lab.pass(Span::mins(6));
        lab.apply(&widget);
        lab.quiet();
    }
}

#[test]
fn a_status_without_subresource_is_linted() {
    let mut lab = Lab::new();
    let definition = |status| DefinitionView {
        name: "widgets.example.io".into(),
        kind: "Widget".into(),
        status,
        ..Default::default()
    };
    lab.tell(Observation::DefinitionSeen(definition(StatusSchema::None)));
    lab.quiet();
    lab.tell(Observation::DefinitionSeen(definition(StatusSchema::InBody)));
    assert_eq!(lab.findings(), ["StatusSubresourceMissing definition widgets.example.io"]);
    let finding = &lab.snapshot().findings[0];
    assert_eq!(finding.since, finding.found, "an old recording does not say since when");
    lab.tell(Observation::DefinitionSeen(definition(StatusSchema::Subresource)));
    lab.quiet();
    let created = Some(Timestamp(lab.now.0 - Span::hours(5).0));
    lab.tell(Observation::DefinitionSeen(DefinitionView { created, ..definition(StatusSchema::InBody) }));
    assert_eq!(Some(lab.snapshot().findings[0].since), created);
}

#[test]
fn a_source_that_fails_for_long_is_told_and_its_objects_are_unknown() {
    let mut lab = Lab::new();
    lab.settled("web");
    let source = SourceId::Watch(lab::watch());
    let fails =
        Observation::SourceFailed { source: source.clone(), cause: Cause::Connection, detail: "refused".into() };
    lab.tell(fails.clone());
    lab.pass(Span::secs(119));
    lab.tell(fails);
    lab.quiet();
    lab.pass(Span::secs(1));
    assert_eq!(lab.findings(), ["SourceFailing source watch/widgets.example.io"]);
    assert_eq!(lab.state("web"), ObjectState::Unknown, "what a blind watch last saw may long be otherwise");
    assert_eq!(lab.snapshot().kinds[0].states()[ObjectState::Unknown as usize], 1);
    lab.tell(Observation::SourceRecovered { source });
    lab.quiet();
    assert_eq!(lab.state("web"), ObjectState::Converged);
}

#[test]
fn a_deadline_that_passes_while_we_are_blind_is_unknown_not_late() {
    let mut lab = Lab::new();
    let mut widget = lab.settled("web");
    lab.apply(widget.spec(2, lab.now));
    let source = SourceId::Watch(lab::watch());
    lab.tell(Observation::SourceFailed { source: source.clone(), cause: Cause::Timeout, detail: String::new() });
    lab.pass(Span::mins(20));
    assert_eq!((lab.outcomes(Outcome::Late), lab.outcomes(Outcome::Unknown)), (0, 1));
    lab.tell(Observation::SourceRecovered { source });
    lab.list(&[widget.ready().clone()]);
    lab.pass(Span::secs(10));
    lab.quiet();
}

#[test]
fn rights_that_are_missing_or_too_many_are_told_until_they_change() {
    let mut lab = Lab::new();
    let right = |verb: &str, resource: &str| Permission {
        verb: verb.into(),
        group: "example.io".into(),
        resource: resource.into(),
    };
    let view = PermissionsView {
        missing: vec![right("list", "gadgets")],
        excess: vec![right("*", "*")],
        ..Default::default()
    };
    lab.tell(Observation::PermissionsReviewed(view));
    let mut found = lab.findings();
    found.sort();
    assert_eq!(found, ["PermissionExcess permission to *", "PermissionMissing permission to list gadgets.example.io"]);
    lab.tell(Observation::PermissionsReviewed(PermissionsView::default()));
    lab.quiet();
}

#[test]
fn rights_that_are_withdrawn_make_a_kind_invisible_and_returning_ones_show_it_again() {
    let mut lab = Lab::new();
    let widget = lab.settled("web");
    let mut hidden = lab::kind();
    hidden.missing = vec!["watch".into()];
    lab.tell(Observation::KindsDiscovered(vec![hidden]));
    assert_eq!(lab.findings(), ["PermissionMissing permission to watch widgets.example.io"]);
    assert_eq!(lab.model.objects(), 0);
    lab.tell(Observation::KindsDiscovered(vec![lab::kind()]));
    lab.list(&[widget]);
    lab.pass(Span::mins(1));
    lab.quiet();
    assert_eq!(lab.state("web"), ObjectState::Converged);
}

#[test]
fn a_configuration_that_cannot_be_used_is_told_at_once() {
    let mut lab = Lab::new();
    let detail = "unknown key \"deadlin\"; did you mean \"deadline\"?".to_owned();
    lab.tell(Observation::SourceFailed { source: SourceId::Config, cause: Cause::Invalid, detail });
    assert_eq!(lab.findings(), ["ConfigInvalid source config"]);
    assert!(lab.evidence().contains("did you mean"), "{}", lab.evidence());
}

#[test]
fn a_state_that_differs_from_the_servers_twice_is_told() {
    let mut lab = Lab::new();
    let mut widget = lab.settled("web");
    let mut audit = |lab: &mut Lab, objects| {
        lab.pass(Span::mins(1));
        let probes = lab.model.probes();
        assert_eq!(probes, [Probe::Count(lab::watch())]);
        let version = 1_000_000 + lab.now.0 - START.0;
        let answer = loopwatch_model::observation::Answer::Counted { objects, version: version.to_string() };
        lab.tell(Observation::Answered { probe: Probe::Count(lab::watch()), answer });
        lab.tell(Observation::Progressed { watch: lab::watch(), version: version.to_string() });
        widget.scribble();
    };
    audit(&mut lab, 1);
    lab.quiet();
    audit(&mut lab, 2);
    lab.quiet();
    audit(&mut lab, 2);
    assert_eq!(lab.findings(), ["StateInconsistent source watch/widgets.example.io"]);
    audit(&mut lab, 1);
    lab.quiet();
}

#[test]
fn what_does_not_fit_is_counted_and_told() {
    let limits = Limits { objects: 2, ..Limits::default() };
    let mut lab = Lab::with(Settings { limits, ..Settings::default() });
    for name in ["a", "b", "c"] {
        lab.apply(Widget::new(name, lab.now).ready());
    }
    assert_eq!(lab.model.objects(), 2);
    assert_eq!(lab.snapshot().dropped["objects"], 1);
    assert_eq!(lab.findings(), ["LimitReached limit objects"]);
    lab.pass(Span::mins(10));
    lab.quiet();
}

#[test]
fn histories_are_bounded_and_those_of_objects_that_went_make_room() {
    let limits = Limits { histories: 1, ..Limits::default() };
    let mut lab = Lab::with(Settings { limits, ..Settings::default() });
    let mut widgets: Vec<Widget> = ["a", "b"].map(|name| lab.settled(name)).into();
    widgets.iter_mut().for_each(|widget| lab.apply(widget.phase("Running").phase("Busy")));
    assert_eq!(lab.snapshot().dropped["histories"], 1);
    lab.delete(&widgets[0]);
    lab.apply(widgets[1].phase("Running"));
    assert_eq!(lab.snapshot().dropped["histories"], 1, "there is room again");
}

#[test]
fn a_change_that_only_a_list_shows_began_when_it_was_written_and_is_kept_out_of_histograms() {
    let mut lab = Lab::new();
    let mut widget = lab.settled("web");
    let measured = lab.snapshot().kinds[0].convergence.count();
    let written = lab.now;
    widget.spec(2, written);
    lab.pass(Span::mins(4)); // the watch was cut
    lab.list(&[widget.clone()]);
    lab.pass(Span::mins(6));
    assert_eq!(lab.findings(), ["Unacknowledged Widget team-a/web"]);
    assert_eq!(lab.snapshot().findings[0].since, written);
    lab.apply(widget.ready());
    lab.pass(Span::mins(1));
    lab.quiet();
    assert_eq!(lab.snapshot().kinds[0].convergence.count(), measured);
}

#[test]
fn after_a_restart_nothing_is_forgotten_or_counted_twice() {
    let mut lab = Lab::new();
    let mut widgets: Vec<Widget> = ["a", "b", "c"].map(|name| lab.settled(name)).into();
    lab.apply(widgets[0].spec(2, lab.now)); // will be late before the restart
    lab.pass(Span::mins(11));
    lab.apply(widgets[1].spec(2, lab.now)); // will be late after it
    lab.pass(Span::mins(2));
    assert_eq!((lab.findings().len(), lab.outcomes(Outcome::Late)), (1, 1));
    let (before, checkpoint) = (lab.snapshot().findings[0].clone(), lab.model.checkpoint());

    let mut again = Lab::unsynced(Settings { learn_after: 0, ..Settings::default() });
    again.now = lab.now;
    again.tell(Observation::Restored(Box::new(checkpoint)));
    again.list(&widgets);
    assert_eq!(again.findings(), ["Unacknowledged Widget team-a/a"]);
    let after = again.snapshot().findings[0].clone();
    assert_eq!((after.id, after.since), (before.id, before.since), "the same alert as before");
    assert_eq!(again.outcomes(Outcome::Late), 0, "already counted");
    again.pass(Span::mins(8));
    assert_eq!((again.findings().len(), again.outcomes(Outcome::Late)), (2, 1));
    widgets.iter_mut().for_each(|widget| again.apply(widget.ready()));
    again.pass(Span::mins(1));
    again.quiet();
    assert_eq!(again.snapshot().kinds[0].convergence.count(), 0, "whole seconds are no measurements");
}

#[test]
fn what_is_found_and_what_no_longer_holds_is_told_once_each() {
    let mut lab = Lab::new();
    let mut widget = lab.settled("web");
    lab.model.finding_events();
    lab.apply(widget.waiting());
    lab.pass(Span::mins(6));
    lab.apply(widget.ready());
    lab.pass(Span::mins(6));
    let events = lab.model.finding_events();
    let told: Vec<_> = events.iter().map(|n| (n.finding.code.name(), n.change)).collect();
    use loopwatch_model::finding::Change::{Closed, Opened};
    assert_eq!(told, [("Regressed", Opened), ("Regressed", Closed)]);
    assert!(events[1].finding.summary().contains("lost for 6m"), "{}", events[1].finding.summary());
    assert!(lab.model.finding_events().is_empty());
}

#[test]
fn a_condition_that_flaps_just_often_enough_is_found_once() {
    let mut lab = Lab::new();
    let mut widget = lab.settled("web");
    lab.model.finding_events();
    for round in 0..40 {
        let status = if round % 2 == 0 { ConditionStatus::False } else { ConditionStatus::True };
        lab.apply(widget.condition("Synced", status, "Checked"));
        lab.pass(Span::secs(if round % 5 == 0 { 420 } else { 280 })); // now six, now five in half an hour
    }
    let flapping =
        lab.model.finding_events().iter().filter(|event| event.finding.code.name() == "ConditionFlapping").count();
    assert_eq!(flapping, 1, "opened, and neither closed nor opened again");
}
