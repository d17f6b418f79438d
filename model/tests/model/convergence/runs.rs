//! Objects that run once, and runs that a schedule starts again.

use loopwatch_model::observation::ConditionStatus::{self, False, True};
use loopwatch_model::settings::Settings;
use loopwatch_model::snapshot::{ObjectState, Outcome};
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

/// Returns a lab with pipeline runs, of which `runs` have ended after `span` each.
fn after_runs(runs: usize, span: Span) -> Lab {
    with_runs(Settings::default(), runs, span)
}

fn with_runs(settings: Settings, runs: usize, span: Span) -> Lab {
    let mut lab = Lab::with(settings);
    lab.discover(&[other_kind("PipelineRun")]);
    lab.list_in(&other_kind("PipelineRun").watch, Vec::new());
    for number in 0..runs {
        let mut run = begun(&mut lab, &format!("run-{number}"), "Running");
        lab.advance(span);
        see(&mut lab, run.condition("Succeeded", True, "Completed"));
        lab.advance(Span::mins(5));
    }

    lab
}

/// Creates a pipeline run whose status gives this reason.
fn begun(lab: &mut Lab, name: &str, reason: &str) -> Widget {
    let mut run = Widget::new(name, lab.now);
    see(lab, &run);
    see(lab, run.condition("Succeeded", ConditionStatus::Unknown, reason));
    run
}

fn see(lab: &mut Lab, run: &Widget) {
    let view = lab.view(run);
    lab.apply_to(&other_kind("PipelineRun").watch, view);
}

#[test]
fn a_first_run_takes_as_long_as_it_takes_and_is_not_late() {
    let mut lab = after_runs(0, Span::mins(1));
    let mut run = begun(&mut lab, "build", "Running");
    lab.advance(Span::hours(5));
    lab.assert_no_findings();
    assert_eq!(lab.outcomes_of("PipelineRun", Outcome::Late), 0);

    see(&mut lab, run.condition("Succeeded", True, "Completed"));
    lab.advance(Span::mins(1));
    assert_eq!(lab.outcomes_of("PipelineRun", Outcome::Converged), 1);
}

#[test]
fn a_deadline_that_somebody_has_set_applies_to_the_first_run_too() {
    let deadlines = [("example.io/PipelineRun".to_owned(), Span::hours(1))].into();
    let mut lab = with_runs(Settings { deadlines, ..Settings::default() }, 0, Span::mins(1));
    begun(&mut lab, "build", "Running");
    lab.advance(Span::mins(59));
    lab.assert_no_findings();

    lab.advance(Span::mins(2));
    assert_eq!(lab.findings(), ["Overdue PipelineRun team-a/build"]);
    assert_eq!(lab.outcomes_of("PipelineRun", Outcome::Late), 1);
}

#[test]
fn a_run_that_does_not_begin_is_overdue() {
    let mut lab = after_runs(25, Span::mins(45));
    begun(&mut lab, "build", "Pending");
    lab.advance(Span::mins(11));
    assert_eq!(lab.findings(), ["Overdue PipelineRun team-a/build"]);
}

/// Ends a run, and begins one that has waited.
fn hand_over(lab: &mut Lab, ends: &mut Widget, begins: &mut Widget) {
    see(lab, ends.condition("Succeeded", True, "Completed"));
    lab.advance(Span::secs(5));
    see(lab, begins.condition("Succeeded", ConditionStatus::Unknown, "Running"));
}

#[test]
fn runs_that_wait_for_their_turn_are_neither_overdue_nor_late() {
    for known in [0, 25] {
        let mut lab = after_runs(known, Span::mins(45));
        let mut first = begun(&mut lab, "first", "Running");
        lab.advance(Span::mins(2));
        let mut second = begun(&mut lab, "second", "Pending");
        lab.advance(Span::mins(2));
        let mut third = begun(&mut lab, "third", "Pending");

        lab.advance(Span::mins(50));
        hand_over(&mut lab, &mut first, &mut second);
        lab.advance(Span::mins(45));
        hand_over(&mut lab, &mut second, &mut third);
        lab.advance(Span::mins(45));

        lab.assert_no_findings();
        assert_eq!(lab.outcomes_of("PipelineRun", Outcome::Late), 0, "after {known} runs");
    }
}

#[test]
fn a_run_that_does_not_begin_once_the_others_have_ended_is_overdue() {
    let mut lab = after_runs(25, Span::mins(45));
    let mut first = begun(&mut lab, "first", "Running");
    begun(&mut lab, "second", "Pending");
    lab.advance(Span::mins(40));
    see(&mut lab, first.condition("Succeeded", True, "Completed"));
    lab.advance(Span::mins(9));
    lab.assert_no_findings();

    lab.advance(Span::mins(2));
    assert_eq!(lab.findings(), ["Overdue PipelineRun team-a/second"]);
    assert_eq!(lab.outcomes_of("PipelineRun", Outcome::Late), 1);
}

#[test]
fn a_run_that_later_runs_pass_is_overdue_until_it_begins() {
    let mut lab = after_runs(25, Span::mins(45));
    begun(&mut lab, "first", "Running");
    let mut stuck = begun(&mut lab, "stuck", "Pending");
    for number in 0..3 {
        lab.advance(Span::mins(5));
        let mut later = begun(&mut lab, &format!("later-{number}"), "Pending");
        lab.advance(Span::secs(5));
        see(&mut lab, later.condition("Succeeded", ConditionStatus::Unknown, "Running"));
    }
    lab.advance(Span::mins(6));
    assert_eq!(lab.findings(), ["Overdue PipelineRun team-a/stuck"]);

    see(&mut lab, stuck.condition("Succeeded", ConditionStatus::Unknown, "Running"));
    lab.advance(Span::mins(1));
    lab.assert_no_findings();
}

#[test]
fn a_run_waits_for_its_turn_for_a_day_at_most() {
    let mut lab = after_runs(0, Span::mins(45));
    begun(&mut lab, "endless", "Running");
    begun(&mut lab, "second", "Pending");
    lab.advance(Span::hours(23));
    lab.assert_no_findings();

    lab.advance(Span::hours(2));
    assert_eq!(lab.findings(), ["Overdue PipelineRun team-a/second"]);
}

#[test]
fn a_run_that_nobody_starts_is_unacknowledged() {
    let mut lab = after_runs(25, Span::mins(45));
    let run = Widget::new("build", lab.now);
    see(&mut lab, &run);
    lab.advance(Span::mins(11));
    assert_eq!(lab.findings(), ["Unacknowledged PipelineRun team-a/build"]);
}

#[test]
fn a_run_that_takes_far_longer_than_all_others_is_overdue() {
    for (runs, usual, hours) in
        [(25, Span::mins(45), 4), (25, Span::mins(1), 2), (4, Span::mins(20), 5)]
    {
        let mut lab = after_runs(runs, usual);
        begun(&mut lab, "hangs", "Running");
        lab.advance(Span::mins(50));
        lab.assert_no_findings();

        lab.advance(Span::hours(hours));
        assert_eq!(lab.findings(), ["Overdue PipelineRun team-a/hangs"], "after {runs} runs");
    }
}

#[test]
fn objects_of_a_kind_whose_objects_all_end_are_runs_whatever_their_kind_is_called() {
    let kind = other_kind("SparkApplication");
    let mut lab = Lab::new();
    lab.discover(std::slice::from_ref(&kind));
    lab.list_in(&kind.watch, Vec::new());
    let see = |lab: &mut Lab, app: &Widget, ended: bool| {
        let mut view = lab.view(app);
        view.facts.push(text("status.startTime", "2026-01-01T00:00:00Z"));
        if ended {
            view.facts.push(text("status.completionTime", "2026-01-01T00:00:00Z"));
        }
        lab.apply_to(&kind.watch, view);
    };

    for number in 0..3 {
        let mut app = Widget::new(&format!("app-{number}"), lab.now);
        see(&mut lab, app.phase("Submitted"), false);
        lab.advance(Span::mins(5));
        see(&mut lab, app.phase("Succeeded"), true);
        lab.advance(Span::mins(5));
    }

    let mut app = Widget::new("long", lab.now);
    see(&mut lab, app.phase("Running"), false);
    lab.advance(Span::hours(3));
    lab.assert_no_findings();
}

/// Lets a night of backups pass that the operator takes one at a time, for `each`. The one with the
/// number `hangs` does not end.
fn night(lab: &mut Lab, night: usize, each: Span, hangs: Option<usize>) {
    let mut queue: Vec<Widget> =
        (0..20).map(|number| begun(lab, &format!("n{night}-{number}"), "Pending")).collect();

    for (number, backup) in queue.iter_mut().enumerate() {
        see(lab, backup.condition("Succeeded", ConditionStatus::Unknown, "Running"));
        if hangs == Some(number) {
            return;
        }

        lab.advance(each);
        see(lab, backup.condition("Succeeded", True, "Completed"));
        lab.advance(Span::secs(2));
    }
}

#[test]
fn a_run_that_hangs_in_a_nightly_queue_is_overdue_whatever_the_others_waited() {
    for hangs in [0, 10] {
        let mut lab = after_runs(0, Span::mins(1));
        for number in 0..4 {
            night(&mut lab, number, Span::mins(12), None);
            lab.advance(Span::hours(20));
            lab.assert_no_findings();
        }

        let mut lab = lab.restart();
        lab.discover(&[other_kind("PipelineRun")]);
        lab.list_in(&other_kind("PipelineRun").watch, Vec::new());
        night(&mut lab, 4, Span::mins(12), Some(hangs));
        lab.advance(Span::mins(55));
        lab.assert_no_findings();

        lab.advance(Span::mins(10));
        let hanging = format!("Overdue PipelineRun team-a/n4-{hangs}");
        assert_eq!(lab.findings(), [hanging], "number {hangs}");
    }
}

/// Lets a night pass in which runs of a high priority overtake ten others for two hours. The one with
/// the number `hangs` does not begin.
fn busy_night(lab: &mut Lab, night: usize, hangs: Option<usize>) {
    let mut low: Vec<Widget> =
        (0..10).map(|number| begun(lab, &format!("low-{night}-{number}"), "Pending")).collect();
    let end = |lab: &mut Lab, run: &mut Widget| {
        lab.advance(Span::mins(9));
        see(lab, run.condition("Succeeded", True, "Completed"));
        lab.advance(Span::mins(1));
    };

    lab.advance(Span::mins(10));
    for number in 0..12 {
        let mut high = begun(lab, &format!("high-{night}-{number}"), "Running");
        end(lab, &mut high);
    }
    for (_, run) in low.iter_mut().enumerate().filter(|(number, _)| hangs != Some(*number)) {
        see(lab, run.condition("Succeeded", ConditionStatus::Unknown, "Running"));
        end(lab, run);
    }
}

#[test]
fn runs_of_a_low_priority_that_wait_every_night_are_not_overdue_but_one_that_never_begins_is() {
    let mut lab = after_runs(0, Span::mins(1));
    for number in 0..3 {
        busy_night(&mut lab, number, None);
        lab.advance(Span::hours(18));
    }

    let mut lab = lab.restart();
    lab.discover(&[other_kind("PipelineRun")]);
    lab.list_in(&other_kind("PipelineRun").watch, Vec::new());
    busy_night(&mut lab, 3, None);
    let changes = lab.changes();
    assert!(changes.is_empty(), "as every night: {changes:?}");

    lab.advance(Span::hours(18));
    busy_night(&mut lab, 4, Some(4));
    lab.assert_no_findings();
    lab.advance(Span::hours(10));
    assert_eq!(lab.findings(), ["Overdue PipelineRun team-a/low-4-4"]);
    assert!(lab.evidence().contains("deadline 12h, deadline source learned"), "{}", lab.evidence());
}

#[test]
fn runs_that_wait_for_the_end_of_an_outage_do_not_make_others_wait_longer() {
    let mut lab = after_runs(25, Span::mins(5));
    let mut waiting: Vec<Widget> =
        (0..30).map(|number| begun(&mut lab, &format!("w{number}"), "Pending")).collect();
    lab.advance(Span::hours(5));
    for run in &mut waiting {
        see(&mut lab, run.condition("Succeeded", ConditionStatus::Unknown, "Running"));
        lab.advance(Span::secs(5));
        see(&mut lab, run.condition("Succeeded", True, "Completed"));
    }

    lab.advance(Span::hours(1));
    begun(&mut lab, "later", "Pending");
    lab.advance(Span::mins(11));
    assert_eq!(lab.findings(), ["Overdue PipelineRun team-a/later"]);
    assert!(lab.evidence().contains("deadline 10m, deadline source default"), "{}", lab.evidence());
}

#[test]
fn the_time_of_a_run_that_is_under_way_is_learned_and_its_finding_says_so() {
    let mut lab = after_runs(25, Span::mins(45));
    begun(&mut lab, "hangs", "Running");
    lab.advance(Span::hours(4));
    assert!(lab.evidence().contains("deadline source learned"), "{}", lab.evidence());
}

#[test]
fn seven_runs_that_took_about_as_long_show_that_the_next_one_hangs() {
    let mut lab = after_runs(7, Span::hours(3));
    begun(&mut lab, "hangs", "Running");
    lab.advance(Span::mins(8 * 60 + 50));
    lab.assert_no_findings();
    lab.advance(Span::mins(20));
    assert_eq!(lab.findings(), ["Overdue PipelineRun team-a/hangs"]);

    // Near misses: fewer runs, or one among them that took far longer.
    for (few, slow) in [(6, None), (7, Some(Span::hours(8)))] {
        let mut lab = after_runs(few, Span::hours(3));
        if let Some(slow) = slow {
            let mut run = begun(&mut lab, "slow", "Running");
            lab.advance(slow);
            see(&mut lab, run.condition("Succeeded", True, "Completed"));
        }

        begun(&mut lab, "large", "Running");
        lab.advance(Span::hours(11));
        lab.assert_no_findings();
    }
}

#[test]
fn runs_that_wait_behind_one_that_hangs_have_no_findings_of_their_own() {
    let mut lab = after_runs(25, Span::mins(20));
    let mut first = begun(&mut lab, "hangs", "Running");
    lab.advance(Span::mins(1));
    let mut waits = Widget::new("waits", lab.now);
    see(&mut lab, &waits);
    waits.condition("Succeeded", ConditionStatus::Unknown, "Pending").phase("Pending");
    see(&mut lab, &waits);
    lab.advance(Span::hours(9));
    assert_eq!(lab.findings(), ["Overdue PipelineRun team-a/hangs"]);

    // Once nothing runs any more, a run that does not begin is to blame itself.
    see(&mut lab, first.condition("Succeeded", False, "Cancelled"));
    lab.advance(Span::hours(3));
    assert!(lab.findings().iter().any(|found| found.ends_with("/waits")), "{:?}", lab.findings());
}
