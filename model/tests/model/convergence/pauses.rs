//! Paused objects, and those that are resumed.

use loopwatch_model::observation::ConditionStatus::False;
use loopwatch_model::observation::Pause;
use loopwatch_model::snapshot::{ObjectState, Outcome};
use loopwatch_model::time::Span;

use crate::lab::{Lab, Widget};

#[test]
fn an_object_that_an_annotation_paused_since_its_creation_is_not_overdue_when_it_is_resumed() {
    let mut lab = Lab::new();
    let mut widget = Widget::new("web", lab.now);
    widget.paused = true;
    lab.apply(widget.waiting());
    lab.advance(Span::hours(72));
    widget.paused = false; // the generation stays as it is
    lab.apply(widget.waiting());
    lab.assert_no_findings();

    lab.advance(Span::mins(9));
    lab.assert_no_findings();
    lab.advance(Span::mins(1));

    assert_eq!(
        lab.findings(),
        ["Overdue Widget team-a/web"],
        "from now on it has ten minutes, as any other"
    );
}

#[test]
fn a_spec_change_of_a_paused_object_begins_to_count_when_it_is_resumed() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    widget.paused = true;
    lab.apply(widget.touch_status());
    lab.advance(Span::hours(1));
    lab.apply(widget.spec(2, lab.now));
    lab.advance(Span::hours(1));
    widget.paused = false;

    lab.apply(&widget);
    lab.apply(widget.waiting());
    lab.advance(Span::mins(8));
    lab.assert_no_findings();
}

#[test]
fn objects_that_a_mark_makes_the_operator_skip_are_counted_apart() {
    for (by, state) in [
        ("spec.suspend", ObjectState::Suspended),
        ("annotation argocd.argoproj.io/skip-reconcile", ObjectState::Skipped),
        ("label do_not_reconcile", ObjectState::Skipped),
    ] {
        let mut lab = Lab::new();
        let mut widget = Widget::new("web", lab.now);
        lab.apply(&widget);
        widget.spec(2, lab.now);
        let mut view = lab.view(&widget);
        view.paused = Some(Pause { by: by.into() });
        lab.apply_view(view);
        lab.advance(Span::hours(30));

        assert_eq!(lab.state("web"), state, "{by}");
        assert_eq!(lab.outcomes(Outcome::Late), 0, "the deadline stops: {by}");
        lab.assert_no_findings();
    }
}

#[test]
fn every_way_to_resume_an_object_begins_a_new_deadline() {
    for by in
        ["spec.suspend", "label policy.example.com/frozen", "annotation cluster.x-k8s.io/paused"]
    {
        let mut lab = Lab::new();
        let mut widget = Widget::new("web", lab.now);
        let paused = |lab: &mut Lab, widget: &Widget| {
            let mut view = lab.view(widget);
            view.paused = Some(Pause { by: by.into() });
            lab.apply_view(view);
        };

        paused(&mut lab, &widget);
        lab.advance(Span::hours(30));
        paused(&mut lab, widget.observe().phase("Provisioning"));
        lab.advance(Span::hours(30));

        let resumed = lab.now;
        if by.starts_with("spec") {
            widget.spec(2, resumed);
        }

        lab.apply(&widget);
        lab.advance(Span::mins(9));

        assert!(lab.findings().is_empty(), "{by}: {:?}", lab.findings());

        lab.advance(Span::mins(2));
        assert_eq!(lab.findings().len(), 1, "{by}: {:?}", lab.findings());
        assert_eq!(lab.snapshot().findings[0].since, resumed, "{by}");
    }
}

#[test]
fn an_object_that_was_resumed_while_the_watch_was_blind_is_not_overdue_at_once() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    widget.paused = true;
    lab.apply(widget.waiting());
    lab.advance(Span::hours(50));
    lab.fail();
    lab.advance(Span::mins(5));
    widget.paused = false;

    lab.list(std::slice::from_ref(&widget));
    lab.recover();
    lab.advance(Span::mins(8));
    lab.assert_no_findings();
}

#[test]
fn a_paused_object_is_neither_stuck_nor_regressed_nor_late() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    lab.apply(widget.spec(2, lab.now));
    lab.apply(widget.waiting().phase("Migrating"));
    lab.advance(Span::mins(5));
    widget.paused = true;
    lab.apply(&widget);
    lab.advance(Span::hours(100));

    lab.assert_no_findings();
    assert_eq!(lab.state("web"), ObjectState::Suspended);
    assert_eq!((lab.outcomes(Outcome::Late), lab.outcomes(Outcome::Suspended)), (0, 1));
}

#[test]
fn pausing_ends_the_findings_about_an_object_and_a_resumed_one_that_stays_stuck_is_found_again() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    lab.apply(widget.spec(2, lab.now));
    lab.advance(Span::mins(11));

    assert!(lab.has("Unacknowledged"));

    widget.paused = true;
    lab.apply(&widget);
    lab.assert_no_findings();
    lab.advance(Span::hours(10));
    widget.paused = false;

    let resumed = lab.now;
    lab.apply(&widget);
    lab.advance(Span::mins(10));

    assert_eq!(lab.findings(), ["Unacknowledged Widget team-a/web"]);
    assert_eq!(lab.since("Unacknowledged"), resumed);
    assert_eq!(lab.outcomes(Outcome::Late), 1, "the first time");
}

#[test]
fn a_spec_change_of_a_paused_object_counts_from_the_list_that_shows_it_resumed() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    widget.paused = true;
    lab.apply(widget.touch_status());
    lab.advance(Span::hours(10));
    lab.fail();
    lab.advance(Span::mins(40));
    widget.spec(2, lab.ago(Span::mins(30)));

    widget.paused = false; // resumed a minute ago, by an annotation
    lab.list(&[widget.clone()]);
    lab.recover();
    lab.advance(Span::mins(3));
    lab.assert_no_findings();
}

#[test]
fn a_failed_database_that_was_paused_and_resumed_is_found_again() {
    let mut lab = Lab::new();
    let mut pg = lab.converged("pg");
    lab.advance(Span::hours(1));
    lab.apply(pg.failed("WALVolumeFull"));
    lab.advance(Span::mins(6));

    assert!(lab.has("Regressed"), "{:?}", lab.findings());

    pg.paused = true; // an engineer stops the reconciliation, to look at it
    lab.apply(&pg);
    lab.advance(Span::hours(1));
    lab.assert_no_findings();
    pg.paused = false; // an annotation is removed; the generation stays as it was
    lab.apply(pg.touch_status());
    lab.advance(Span::hours(24));

    assert!(!lab.findings().is_empty(), "down for a day, state {:?}", lab.state("pg"));
}

#[test]
fn a_failing_fleet_that_was_paused_and_resumed_is_found_again() {
    let mut lab = Lab::new();
    let mut fleet = lab.fleet(&["a", "b", "c", "d"]);
    fleet.iter_mut().for_each(|widget| lab.apply(widget.failed("QuorumLost")));
    lab.advance(Span::mins(10));

    assert!(lab.has("Failing"));

    for widget in &mut fleet {
        widget.paused = true;
        lab.apply(widget);
    }

    lab.advance(Span::mins(30));
    lab.assert_no_findings();
    for widget in &mut fleet {
        widget.paused = false;
        lab.apply(widget);
    }

    lab.advance(Span::hours(2));
    assert!(!lab.findings().is_empty(), "all are down, {:?}", lab.kind().states());
}

#[test]
fn the_rolling_update_after_strimzi_is_unpaused_is_not_flapping() {
    let mut lab = Lab::new();
    let mut kafka = lab.converged("kafka");
    lab.advance(Span::hours(1));
    kafka.paused = true; // strimzi.io/pause-reconciliation
    lab.apply(&kafka);
    lab.advance(Span::mins(5));
    lab.apply(kafka.spec(2, lab.now));
    lab.advance(Span::mins(30));

    kafka.paused = false;
    lab.apply(&kafka);
    lab.roll(&mut kafka, 4, "Ready");
    lab.advance(Span::mins(30));

    let changes = lab.changes();
    assert!(changes.is_empty(), "{changes:?}");
}

#[test]
fn the_rollout_of_a_spec_that_changed_in_a_pause_is_not_a_regression_without_observed_generation() {
    let mut lab = Lab::new();
    let mut vault = lab.converged("vault");
    vault.observed = None;
    lab.apply(vault.touch_status());
    lab.advance(Span::hours(1));
    vault.paused = true;
    lab.apply(&vault);
    lab.advance(Span::mins(5));

    lab.apply(vault.spec(2, lab.now));
    lab.advance(Span::mins(5));
    vault.paused = false;
    lab.apply(&vault);
    lab.advance(Span::secs(45)); // the operator polls every minute
    lab.apply(vault.condition("Ready", False, "Upgrading"));
    lab.advance(Span::mins(7));
    lab.assert_no_findings();
}

#[test]
fn the_rolling_update_after_a_canary_was_promoted_is_not_flapping() {
    let mut lab = Lab::new();
    let mut rollout = lab.converged("checkout");
    lab.advance(Span::hours(1));
    lab.apply(rollout.spec(2, lab.now));
    lab.advance(Span::secs(20));
    lab.apply(rollout.waiting().phase("Paused")); // the first step of the canary
    lab.advance(Span::hours(2));

    assert_eq!(lab.state("checkout"), ObjectState::Suspended);

    lab.apply(rollout.waiting().phase("Progressing")); // a person promotes it
    lab.roll(&mut rollout, 5, "Ready");
    lab.apply(rollout.phase("Healthy"));
    lab.advance(Span::mins(30));

    let changes = lab.changes();
    assert!(changes.is_empty(), "{changes:?}");
}

#[test]
fn a_paused_object_that_is_deleted_is_stuck_all_the_same() {
    let mut lab = Lab::new();
    let mut composition = lab.converged("xdb");
    composition.paused = true; // crossplane.io/paused
    composition.finalizers = vec!["composite.apiextensions.crossplane.io".into()];
    lab.apply(&composition);
    lab.advance(Span::hours(2));
    composition.deleted = Some(lab.now);
    lab.apply(&composition);

    lab.advance(Span::mins(15));
    assert_eq!(lab.findings(), ["FinalizerStuck Widget team-a/xdb"]);
}

#[test]
fn an_object_that_was_paused_before_a_restart_and_resumed_after_it_has_its_full_deadline() {
    let mut lab = Lab::new();
    let mut release = Widget::new("release", lab.now);
    release.paused = true;
    lab.apply(release.waiting());
    lab.advance(Span::hours(90));

    let mut again = lab.restart();
    again.list(std::slice::from_ref(&release));
    again.advance(Span::hours(1));
    again.assert_no_findings();
    release.paused = false;

    let resumed = again.now;
    again.apply(&release);
    again.advance(Span::mins(9));
    again.assert_no_findings();
    again.advance(Span::mins(2));

    assert_eq!(again.since("Overdue"), resumed);
}
