//! Two writers that undo each other's writes.

use loopwatch_model::finding::{Confidence, Finding, FindingCode};
use loopwatch_model::observation::{Answer, Observation, Probe};
use loopwatch_model::time::Span;

use super::{Written, found};
use crate::lab::{Lab, deployment, deployments, kind, watch};

const OPERATOR: &str = "widget-operator";

fn fight(lab: &Lab) -> Option<Finding> {
    found(lab, FindingCode::WriteFight)
}

/// Lets two writers set the spec in turns, with these pauses before the one and the other.
fn take_turns(
    lab: &mut Lab,
    object: &mut Written,
    writers: [&str; 2],
    pauses: [Span; 2],
    turns: u32,
) {
    for _ in 0..turns {
        for (place, writer) in writers.into_iter().enumerate() {
            lab.advance(pauses[place]);
            object.spec(lab, writer, 100 + place as u64);
        }
    }
}

#[test]
fn two_writers_that_restore_their_own_specs_fight() {
    let mut lab = Lab::new();
    let mut object = Written::widget(&mut lab, "web");
    object.status(&mut lab, OPERATOR, 7, 7);
    let began = lab.now;
    let pauses = [Span::secs(9), Span::secs(2)];
    take_turns(&mut lab, &mut object, ["argocd-controller", OPERATOR], pauses, 3);
    assert_eq!(fight(&lab), None, "two may be chance");

    take_turns(&mut lab, &mut object, ["argocd-controller", OPERATOR], pauses, 4);
    let found = fight(&lab).expect("a finding");
    assert!(lab.now.since(began) < Span::mins(2));
    assert_eq!(found.confidence, Confidence::Confirmed);
    let summary = found.summary();
    assert!(summary.contains("argocd-controller and widget-operator"), "{summary}");
    assert!(summary.contains("spec"), "{summary}");

    lab.advance(Span::mins(5));
    assert_eq!(fight(&lab), None, "the fight has ended");
}

#[test]
fn a_fight_names_the_fields_of_the_part_that_it_is_about() {
    let mut lab = Lab::new();
    let mut object = Written::widget(&mut lab, "web");
    let pauses = [Span::secs(9), Span::secs(2)];
    take_turns(&mut lab, &mut object, ["argocd-controller", OPERATOR], pauses, 7);

    let fields = ["status.at", "spec.replicas", "specification"].map(str::to_owned).to_vec();
    let probe = Probe::Fields { watch: watch(), object: object.view.key.clone() };
    lab.observe(Observation::Answered { probe, answer: Answer::Fields(fields) });
    take_turns(&mut lab, &mut object, ["argocd-controller", OPERATOR], pauses, 1);
    let summary = fight(&lab).expect("a finding").summary();
    assert!(summary.contains("fields spec.replicas,"), "{summary}");
}

#[test]
fn a_fight_within_one_second_is_found() {
    let mut lab = Lab::new();
    let mut object = Written::widget(&mut lab, "web");
    let pauses = [Span(30), Span(45)];
    take_turns(&mut lab, &mut object, ["flux", OPERATOR], pauses, 120);
    assert_eq!(fight(&lab).map(|found| found.confidence), Some(Confidence::Confirmed));
}

#[test]
fn manifests_that_are_applied_every_few_minutes_are_no_fight() {
    for minutes in [2, 3, 5] {
        let mut lab = Lab::new();
        let mut object = Written::widget(&mut lab, "web");
        let pauses = [Span::mins(minutes), Span::secs(1)];
        take_turns(&mut lab, &mut object, ["argocd-controller", OPERATOR], pauses, 20);
        assert_eq!(fight(&lab), None, "every {minutes} minutes");
    }
}

#[test]
fn an_autoscaler_that_writes_alone_is_no_fight() {
    let mut lab = Lab::new();
    let mut object = Written::widget(&mut lab, "web");
    for turn in 0..40 {
        lab.advance(Span::secs(15));
        object.spec(&mut lab, "kube-controller-manager", 3 + turn % 2);
        lab.advance(Span::secs(1));
        object.status(&mut lab, OPERATOR, 300 + turn, 300 + turn);
    }

    assert_eq!(fight(&lab), None);
}

#[test]
fn two_controllers_that_write_their_own_parts_of_a_status_do_not_fight() {
    let mut lab = Lab::new();
    let mut object = Written::widget(&mut lab, "web");
    let (mut one, mut other) = (false, false);
    for turn in 0..60 {
        lab.advance(Span::secs(2));
        let by = if turn % 2 == 0 { "gateway-a" } else { "gateway-b" };
        if turn % 2 == 0 {
            one = !one
        } else {
            other = !other
        }
        let state = 1_000 + u64::from(one) * 2 + u64::from(other);
        object.status(&mut lab, by, state, state + turn);
    }

    assert_eq!(fight(&lab), None);
}

#[test]
fn two_programs_of_one_name_are_suspected_and_confirmed_if_no_schedule_is_that_fast() {
    for name in ["manager", "kopf", "fabric8-kubernetes-client"] {
        let mut lab = Lab::new();
        let mut object = Written::widget(&mut lab, "web");
        object.status(&mut lab, name, 7, 7);
        take_turns(&mut lab, &mut object, [name; 2], [Span::secs(5); 2], 8);
        let confidence = fight(&lab).map(|found| found.confidence);
        assert_eq!(confidence, Some(Confidence::Suspected), "{name}");

        take_turns(&mut lab, &mut object, [name; 2], [Span::secs(1); 2], 30);
        let confidence = fight(&lab).map(|found| found.confidence);
        assert_eq!(confidence, Some(Confidence::Confirmed), "{name}");
    }
}

#[test]
fn one_program_with_a_name_of_its_own_does_not_fight_with_itself() {
    let mut lab = Lab::new();
    let mut object = Written::widget(&mut lab, "web");
    object.status(&mut lab, OPERATOR, 7, 7);
    take_turns(&mut lab, &mut object, ["testbed", "testbed"], [Span::secs(5); 2], 30);
    take_turns(&mut lab, &mut object, [OPERATOR, OPERATOR], [Span::secs(5); 2], 30);
    assert_eq!(fight(&lab), None);

    take_turns(&mut lab, &mut object, [OPERATOR, OPERATOR], [Span::secs(1); 2], 60);
    let confidence = fight(&lab).map(|found| found.confidence);
    assert_eq!(confidence, Some(Confidence::Suspected), "nobody changes a spec that often");
}

#[test]
fn people_and_their_tools_may_fight_among_themselves() {
    let mut lab = Lab::new();
    let mut object = Written::widget(&mut lab, "web");
    take_turns(
        &mut lab,
        &mut object,
        ["kubectl-edit", "argocd-controller"],
        [Span::secs(5); 2],
        20,
    );
    assert_eq!(fight(&lab), None);
}

#[test]
fn managers_without_times_or_with_times_in_the_future_show_no_author() {
    for time in [None, Some(Span::hours(5))] {
        let mut lab = Lab::new();
        let mut object = Written::widget(&mut lab, "web");
        for turn in 0..60 {
            lab.advance(Span::secs(2));
            object.view.hashes.spec = 100 + turn % 2;
            object.view.generation += 1;
            for manager in &mut object.view.managers {
                manager.time = time.map(|ahead| lab.now.after(ahead));
                manager.owns.spec = true;
            }
            object.show(&mut lab);
        }

        assert_eq!(fight(&lab), None);
    }
}

#[test]
fn a_child_that_an_autoscaler_and_the_operator_scale_is_a_fight() {
    let mut lab = Lab::new();
    let deployments = deployments();
    lab.discover(&[kind(), deployments.clone()]);
    lab.list_in(&deployments.watch, Vec::new());
    lab.converged("web");
    let view = deployment("web", "web", 3, 3);
    let mut object = Written { watch: deployments.watch, view };
    object.view.hashes.spec = 3;
    object.view.hashes.status = 3;
    object.show(&mut lab);

    let scaler = "kube-controller-manager";
    take_turns(&mut lab, &mut object, [scaler, OPERATOR], [Span::secs(15), Span(200)], 7);
    let found = fight(&lab).expect("a finding");
    assert!(found.subject.to_string().starts_with("Deployment"), "{}", found.subject);
}

#[test]
fn a_list_interrupts_because_versions_before_it_may_be_missing() {
    let mut lab = Lab::new();
    let mut object = Written::widget(&mut lab, "web");
    object.status(&mut lab, OPERATOR, 7, 7);
    for _ in 0..8 {
        take_turns(&mut lab, &mut object, ["flux", OPERATOR], [Span::secs(2); 2], 1);
        let view = lab.versioned(object.view.clone());
        lab.list_views(vec![view]);
    }

    assert_eq!(fight(&lab), None);
}

#[test]
fn a_restart_of_loopwatch_loses_neither_the_finding_nor_its_start() {
    let mut lab = Lab::new();
    let mut object = Written::widget(&mut lab, "web");
    object.status(&mut lab, OPERATOR, 7, 7);
    let writers = ["argocd-controller", OPERATOR];
    take_turns(&mut lab, &mut object, writers, [Span::secs(2); 2], 20);
    let since = fight(&lab).expect("a finding").since;

    let mut lab = lab.restart();
    lab.list_views(vec![object.view.clone()]);
    take_turns(&mut lab, &mut object, writers, [Span::secs(2); 2], 20);
    assert_eq!(fight(&lab).map(|found| found.since), Some(since));
}
