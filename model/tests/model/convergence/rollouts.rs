//! Rollouts: what an object shows while its operator replaces one replica after the other is
//! neither flapping nor a regression, but deadlines still apply.

use loopwatch_model::observation::ConditionStatus::{False, True};
use loopwatch_model::snapshot::{ObjectState, Outcome};
use loopwatch_model::time::Span;

use crate::lab::{Lab, Widget, scaled_by, spec_by, unlearned};

#[test]
fn a_rolling_update_of_three_replicas_is_not_flapping() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("rabbit");
    lab.apply(widget.condition("AllReplicasReady", True, "AllPodsReady"));
    lab.advance(Span::mins(1));
    lab.apply(widget.spec(2, lab.now));
    lab.apply(widget.observe());
    lab.roll(&mut widget, 3, "AllReplicasReady");
    lab.assert_no_findings();
}

#[test]
fn a_rolling_update_during_which_ready_is_false_for_moments_is_not_flapping() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("db");
    lab.apply(widget.spec(2, lab.now));

    for _ in 0..4 {
        lab.advance(Span::secs(40));
        lab.apply(widget.waiting());
        lab.advance(Span::secs(8));
        lab.apply(widget.ready());
    }

    lab.assert_no_findings();
}

#[test]
fn a_rolling_update_of_five_replicas_is_not_flapping() {
    for condition in ["Ready", "Available", "BrokersReady", "ClusterHealthy"] {
        let mut lab = Lab::new();
        let mut widget = lab.converged("kafka");
        lab.apply(widget.condition(condition, True, "AllPodsReady"));
        lab.advance(Span::mins(1));
        lab.apply(widget.spec(2, lab.now));
        lab.roll(&mut widget, 5, condition);
        lab.advance(Span::hours(1));

        assert!(lab.findings().is_empty(), "{condition}: {:?}", lab.findings());
        assert_eq!(lab.outcomes(Outcome::Late), 0);
    }
}

#[test]
fn a_rolling_update_without_observed_generation_is_not_flapping() {
    let mut lab = Lab::new();
    let mut widget = Widget::new("es", lab.now);
    widget.condition("Healthy", True, "Green");
    lab.apply(&widget);
    lab.advance(Span::mins(1));
    lab.apply(widget.spec(2, lab.now));

    for _ in 0..5 {
        lab.advance(Span::secs(50));
        lab.apply(widget.condition("Healthy", False, "Yellow"));
        lab.advance(Span::secs(50));
        lab.apply(widget.condition("Healthy", True, "Green"));
    }

    lab.advance(Span::hours(1));
    lab.assert_no_findings();
}

#[test]
fn a_rolling_update_that_the_autoscaler_started_is_not_flapping() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("cache");
    widget.spec(2, lab.ago(Span::hours(5))); // the user's own entry stays as it was

    let mut view = lab.view(&widget);
    view.managers.push(scaled_by("kube-controller-manager", lab.now));
    lab.apply_view(view);
    lab.roll(&mut widget, 5, "Ready");
    lab.advance(Span::hours(1));
    lab.assert_no_findings();
}

#[test]
fn a_condition_that_keeps_changing_after_the_rollout_is_flapping() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("db");
    lab.apply(widget.spec(2, lab.now));
    lab.roll(&mut widget, 3, "Ready");

    assert!(!lab.has("ConditionFlapping"));

    lab.advance(Span::mins(10));
    lab.roll(&mut widget, 3, "Ready");

    assert!(lab.has("ConditionFlapping"), "{:?}", lab.findings());
}

#[test]
fn ready_that_turns_false_a_little_after_the_acknowledgement_is_the_rollout() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("db");
    lab.apply(widget.spec(2, lab.now));
    lab.advance(Span::secs(1));
    lab.apply(widget.observe().touch_status()); // Ready=True is still about the old spec
    lab.advance(Span::secs(20)); // the StatefulSet begins to roll
    lab.apply(widget.waiting());
    lab.advance(Span::mins(7));
    lab.assert_no_findings();
}

#[test]
fn a_rollout_that_begins_late_is_not_a_regression_without_observed_generation_either() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("db");
    widget.observed = None;
    lab.apply(widget.touch_status());
    lab.advance(Span::mins(5));
    lab.apply(widget.spec(2, lab.now));
    lab.advance(Span::secs(45)); // the operator polls every minute
    lab.apply(widget.condition("Ready", False, "Upgrading"));

    lab.advance(Span::mins(7));
    lab.assert_no_findings();
}

#[test]
fn a_rollout_that_never_ends_is_found_when_its_deadline_passes() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("db");
    lab.apply(widget.spec(2, lab.now));
    lab.apply(widget.observe());
    lab.advance(Span::secs(20));
    lab.apply(widget.waiting());
    lab.advance(Span::mins(9));
    lab.assert_no_findings();

    lab.advance(Span::mins(1));
    assert!(lab.has("Regressed") || lab.has("Overdue"), "{:?}", lab.findings());
    assert_eq!(lab.state("db"), ObjectState::Overdue);
}

#[test]
fn a_crash_after_the_rollout_is_a_regression_that_began_with_the_crash() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("db");
    lab.apply(widget.spec(2, lab.now));
    lab.apply(widget.waiting());
    lab.advance(Span::mins(1));
    lab.apply(widget.ready());
    lab.advance(Span::mins(30));

    let lost = lab.now;
    lab.apply(widget.condition("Ready", False, "QuorumLost"));
    lab.advance(Span::mins(5));

    assert_eq!(lab.findings(), ["Regressed Widget team-a/db"]);
    assert_eq!(lab.since("Regressed"), lost);
    assert_eq!(lab.outcomes(Outcome::Late), 0);
}

#[test]
fn a_rolling_update_that_is_under_way_when_loopwatch_starts_is_not_flapping() {
    let mut lab = Lab::unsynced(unlearned());
    let mut widget = Widget::new("kafka", lab.ago(Span::hours(100)));
    widget.spec(2, lab.ago(Span::secs(30)));
    widget.ready();
    lab.list(&[widget.clone()]);

    for _ in 0..5 {
        lab.advance(Span::secs(40));
        lab.apply(widget.observe().condition("Ready", False, "PodNotReady"));
        lab.advance(Span::secs(40));
        lab.apply(widget.observe().condition("Ready", True, "AllPodsReady"));
    }

    lab.assert_no_findings();
}

#[test]
fn a_rollout_that_begins_after_loopwatch_started_is_not_a_regression() {
    let mut lab = Lab::unsynced(unlearned());
    let mut widget = Widget::new("db", lab.ago(Span::hours(100)));
    widget.spec(2, lab.ago(Span::secs(5)));
    widget.ready(); // acknowledged, but Ready=True is still about the old spec
    lab.list(&[widget.clone()]);
    lab.advance(Span::secs(20));
    lab.apply(widget.waiting());
    lab.advance(Span::mins(7));
    lab.assert_no_findings();
}

#[test]
fn a_rolling_update_whose_spec_change_a_list_showed_is_not_flapping() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("kafka");
    lab.advance(Span::hours(1));
    lab.fail();
    lab.advance(Span::secs(30));
    widget.spec(2, lab.ago(Span::secs(20)));
    lab.list(&[widget.clone()]);
    lab.recover();

    lab.apply(widget.observe());
    for _ in 0..5 {
        lab.advance(Span::secs(40));
        lab.apply(widget.observe().condition("Ready", False, "PodNotReady"));
        lab.advance(Span::secs(40));
        lab.apply(widget.observe().condition("Ready", True, "AllPodsReady"));
    }

    lab.assert_no_findings();
}

#[test]
fn phases_that_change_once_for_each_replica_of_a_rolling_update_are_not_cycling() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("es");
    lab.apply(widget.phase("Running"));
    lab.advance(Span::hours(1));
    lab.apply(widget.spec(2, lab.now));

    for _ in 0..5 {
        lab.apply(widget.observe().phase("Updating"));
        lab.advance(Span::secs(40));
        lab.apply(widget.phase("Running"));
        lab.advance(Span::secs(40));
    }

    lab.assert_no_findings();
}

#[test]
fn a_rolling_update_to_a_version_that_the_operator_wrote_is_not_flapping() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("kafka");
    lab.advance(Span::hours(1));
    widget.spec(2, widget.spec_written);

    let mut view = lab.view(&widget);
    view.managers.push(spec_by("widget-operator", lab.now)); // an upgrade channel
    lab.apply_view(view);

    for _ in 0..5 {
        lab.advance(Span::secs(40));
        lab.apply(widget.observe().condition("Ready", False, "PodNotReady"));
        lab.advance(Span::secs(40));
        lab.apply(widget.observe().condition("Ready", True, "AllPodsReady"));
    }

    lab.assert_no_findings();
}

#[test]
fn a_rolling_update_with_three_phases_per_replica_is_not_cycling() {
    let mut lab = Lab::new();
    let mut mongo = lab.converged("mongo");
    lab.apply(mongo.phase("Running"));
    lab.advance(Span::hours(1));
    lab.changes();
    lab.apply(mongo.spec(2, lab.now));

    for _ in 0..6 {
        for phase in ["Stopping", "Starting", "Running"] {
            lab.apply(mongo.observe().phase(phase));
            lab.advance(Span::secs(25));
        }
    }

    lab.advance(Span::hours(1));
    let changes = lab.changes();

    assert!(changes.is_empty(), "{changes:?}");
}

#[test]
fn the_first_start_of_a_cluster_whose_members_join_one_by_one_is_not_flapping() {
    let mut lab = Lab::new();
    let mut cassandra = Widget::new("cassandra", lab.now);
    lab.apply(&cassandra);
    lab.apply(cassandra.waiting());
    lab.roll(&mut cassandra, 5, "Ready");
    lab.advance(Span::hours(1));

    let changes = lab.changes();
    assert!(changes.is_empty(), "{changes:?}");
}

#[test]
fn a_new_cluster_that_is_not_ready_again_while_it_starts_has_not_regressed() {
    let mut lab = Lab::new();
    let mut world = Widget::new("eck", lab.now);
    lab.apply(&world);
    lab.advance(Span::mins(1));
    lab.apply(world.ready()); // the first node
    lab.advance(Span::mins(1));
    lab.apply(world.waiting()); // the others join
    lab.advance(Span::mins(7));

    lab.assert_no_findings();
    lab.advance(Span::mins(2));

    assert_eq!(lab.findings().len(), 1, "eleven minutes after its creation: {:?}", lab.findings());
}

#[test]
fn a_finished_rollout_that_crashes_an_hour_later_has_regressed_since_the_crash() {
    let mut lab = Lab::new();
    let mut rabbit = lab.converged("rabbit");
    lab.apply(rabbit.spec(2, lab.now));
    lab.roll(&mut rabbit, 5, "Ready");
    lab.advance(Span::hours(1));

    let crashed = lab.now;
    lab.apply(rabbit.failed("MemoryAlarm"));
    lab.blind_for(Span::secs(50));
    lab.advance(Span::mins(5));

    assert_eq!(lab.findings(), ["Regressed Widget team-a/rabbit"]);
    assert_eq!(lab.since("Regressed"), crashed);
}
