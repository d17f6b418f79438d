//! Objects that run once, and runs that a schedule starts again.

use loopwatch_model::observation::ConditionStatus::{False, True};
use loopwatch_model::snapshot::ObjectState;
use loopwatch_model::time::Span;

use crate::lab::{Lab, Widget, other_kind, text, unlearned};

#[test]
fn a_finished_run_with_a_spec_change_is_still_finished_after_a_restart() {
    let mut lab = Lab::new();
    let mut widget = Widget::new("run", lab.now);
    lab.apply(&widget);
    lab.apply(widget.observe().condition("Complete", True, "Done"));
    lab.advance(Span::hours(1));
    lab.apply(widget.spec(2, lab.now));
    lab.advance(Span::hours(1));
    lab.assert_no_findings();

    let mut again = lab.restart();
    again.list(&[widget]);
    again.advance(Span::hours(1));
    again.assert_no_findings();
}

#[test]
fn a_finished_run_whose_status_changes_after_a_spec_change_is_still_finished() {
    let mut lab = Lab::new();
    let mut widget = Widget::new("run", lab.now);
    lab.apply(&widget);
    lab.apply(widget.observe().condition("Complete", True, "Done"));
    lab.advance(Span::hours(1));
    lab.apply(widget.spec(2, lab.now));
    lab.advance(Span::secs(5));
    lab.apply(widget.touch_status()); // logs archived; observedGeneration stays as it was

    lab.advance(Span::hours(1));
    lab.assert_no_findings();

    assert_eq!(lab.state("run"), ObjectState::Finished);
}

#[test]
fn a_run_that_runs_again_was_not_reverted() {
    let mut lab = Lab::new();
    let mut widget = Widget::new("backup", lab.now);
    lab.apply(&widget);
    lab.apply(widget.observe().condition("Complete", True, "BackupCompleted"));
    lab.advance(Span::hours(20));
    lab.apply(widget.observe().condition("Complete", False, "BackupRunning"));
    lab.advance(Span::mins(11));

    assert_eq!(lab.findings(), ["Overdue Widget team-a/backup"]);
}

#[test]
fn a_run_that_runs_again_and_fails_was_not_reverted() {
    let mut lab = Lab::new();
    let mut widget = Widget::new("backup", lab.now);
    lab.apply(&widget);
    lab.apply(widget.observe().condition("Complete", True, "BackupCompleted"));
    lab.advance(Span::hours(20));
    lab.apply(widget.observe().condition("Complete", False, "BackupRunning"));
    lab.advance(Span::mins(1));
    lab.apply(widget.condition("Failed", True, "BucketFull"));

    lab.advance(Span::mins(11));
    assert!(!lab.has("NeverRecovered"), "{:?}", lab.findings());
}

#[test]
fn tekton_runs_that_failed_yesterday_are_no_regression_after_a_start() {
    let run = other_kind("PipelineRun");
    let mut lab = Lab::unsynced(unlearned());
    lab.discover(std::slice::from_ref(&run));

    let (begun, ended) = (lab.ago(Span::hours(20)), lab.ago(Span::hours(19)));
    let views = (0..5).map(|number| {
        let mut widget = Widget::new(&format!("build-{number}"), begun);
        widget.condition("Succeeded", False, "Failed").changed = Some(ended);

        let mut view = lab.view(&widget);
        view.facts.push(text("status.completionTime", &ended.to_string()));
        view
    });

    let views = views.collect();
    lab.list_in(&run.watch, views);
    lab.advance(Span::hours(1));
    lab.assert_no_findings();
}

#[test]
fn argo_workflows_that_failed_yesterday_are_no_regression_after_a_start() {
    let workflow = other_kind("Workflow");
    let mut lab = Lab::unsynced(unlearned());
    lab.discover(std::slice::from_ref(&workflow));

    let (begun, ended) = (lab.ago(Span::hours(20)), lab.ago(Span::hours(19)));
    let views = (0..5).map(|number| {
        let mut widget = Widget::new(&format!("etl-{number}"), begun);
        widget.condition("PodRunning", False, "").condition("Completed", True, "").phase("Failed");
        widget.changed = Some(ended);

        let mut view = lab.view(&widget);
        view.facts.push(text("status.startedAt", &begun.to_string()));
        view.facts.push(text("status.finishedAt", &ended.to_string()));
        view
    });

    let views = views.collect();
    lab.list_in(&workflow.watch, views);
    lab.advance(Span::hours(1));
    lab.assert_no_findings();
}

#[test]
fn a_run_that_a_schedule_starts_every_four_minutes_does_not_cycle() {
    let mut lab = Lab::new();
    let mut sync = Widget::new("sync", lab.now);
    lab.apply(&sync);
    lab.changes();

    for _ in 0..60 {
        lab.apply(sync.observe().condition("Complete", False, "Synchronizing").phase("Running"));
        lab.advance(Span::mins(1));
        lab.apply(sync.condition("Complete", True, "SyncDone").phase("Succeeded"));
        lab.advance(Span::mins(3));
    }

    let changes = lab.changes();
    assert!(changes.is_empty(), "each run succeeded: {changes:?}");
}

#[test]
fn a_finished_migration_whose_spec_gets_a_time_to_live_in_an_outage_owes_nothing() {
    let mut lab = Lab::new();
    let mut migration = Widget::new("migration", lab.now);
    lab.apply(&migration);
    lab.apply(migration.observe().condition("Complete", True, "Done"));
    lab.advance(Span::hours(2));
    lab.changes();
    lab.fail();
    lab.advance(Span::mins(20));

    migration.spec(2, lab.ago(Span::mins(15)));
    lab.list(std::slice::from_ref(&migration));
    lab.recover();
    lab.advance(Span::hours(3));

    assert!(lab.object_changes().is_empty());
    assert_eq!(lab.state("migration"), ObjectState::Finished);
}

#[test]
fn a_velero_backup_that_succeeded_and_is_deleted_by_its_time_to_live_leaves_nothing() {
    let mut lab = Lab::new();
    let mut backup = Widget::new("backup", lab.now);
    lab.apply(&backup);
    lab.apply(backup.observe().condition("Complete", True, "Completed"));
    lab.advance(Span::hours(24 * 30));
    backup.finalizers = vec!["gc.velero.io/backup".into()];
    backup.deleted = Some(lab.now);
    lab.apply(&backup);

    lab.advance(Span::mins(2));
    lab.delete(&backup);
    lab.advance(Span::hours(1));
    lab.assert_no_findings();

    assert_eq!(lab.kind().finalizers["gc.velero.io/backup"].totals.outcomes, [1, 0, 0, 0, 0]);
}
