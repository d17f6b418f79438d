//! The reconciles of a controller: errors, conflicts and panics.

use loopwatch_model::finding::{Confidence, Severity};
use loopwatch_model::observation::{ControllerView, MetricsView, Pause, ProcessView};
use loopwatch_model::settings::Settings;
use loopwatch_model::time::{Span, Timestamp};

use crate::lab::loops::{Loop, add};
use crate::lab::pods::INSTANCE;
use crate::lab::{Lab, Widget};

#[test]
fn a_controller_that_only_fails_is_found_and_one_success_ends_it() {
    let mut own = Loop::new();
    own.run(300, |view| add(&mut view.failed, 1));

    assert_eq!(own.lab.roots(), ["ReconcileErrors controller widget"], "not long enough");

    own.run(10, |view| add(&mut view.failed, 1));
    assert_eq!(own.lab.roots(), ["ReconcileFailing controller widget"]);

    let summary = own.lab.finding("ReconcileFailing").summary();
    assert!(summary.contains("errors 31") && summary.contains("conflicts 0"), "{summary}");

    own.run(10, |view| add(&mut view.succeeded, 1));
    assert_eq!(own.lab.findings(), ["ReconcileErrors controller widget"]);

    own.run(300, |view| add(&mut view.succeeded, 1));
    own.lab.assert_no_findings();
}

#[test]
fn three_errors_in_a_row_are_enough_however_slowly_they_come() {
    let mut own = Loop::new();
    for _ in 0..3 {
        own.run(10, |view| add(&mut view.failed, 1));
        own.run(200, |_| {});
    }

    own.assert_found("ReconcileFailing");
    own.run(20 * 60, |_| {});
    own.lab.assert_no_findings();
}

#[test]
fn the_longest_backoff_of_one_object_is_still_a_row_of_errors() {
    let mut own = Loop::new();
    for _ in 0..6 {
        own.run(10, |view| add(&mut view.failed, 1));
        own.run(990, |_| {});
    }

    own.assert_found("ReconcileFailing");
    let changes = own.lab.changes();
    let ticket: Vec<_> = changes.iter().filter(|it| it.contains("ReconcileFailing")).collect();
    assert_eq!(ticket.len(), 1, "it does not close between two attempts: {ticket:?}");
}

#[test]
fn a_restart_of_the_api_server_makes_no_ticket() {
    let mut own = Loop::new();
    for _ in 0..5 {
        own.run(120, |view| add(&mut view.failed, 10));
        own.run(3_600, |view| add(&mut view.succeeded, 1));
    }

    assert!(own.lab.changes().iter().all(|change| !change.contains("ReconcileFailing")));
}

#[test]
fn errors_beside_successes_are_only_information() {
    let mut own = Loop::new();
    own.run(1_200, |view| {
        add(&mut view.failed, 1);
        add(&mut view.succeeded, 5);
    });
    own.assert_found("ReconcileErrors");

    assert_eq!(own.lab.finding("ReconcileErrors").severity, Severity::Info);
}

#[test]
fn two_errors_or_unknown_successes_show_nothing() {
    let mut own = Loop::new();
    own.run(10, |view| add(&mut view.failed, 2));
    own.run(1_200, |_| {});
    own.lab.assert_no_findings();

    let mut own = Loop::new();
    own.view.succeeded = None;
    own.run(1_200, |view| add(&mut view.failed, 1));

    assert!(!own.lab.has("ReconcileFailing"), "nothing shows whether others succeed");
}

#[test]
fn conflicts_are_counted_apart_and_raise_no_alert_alone() {
    let mut own = Loop::new();
    let mut conflicts = 7;
    for _ in 0..40 {
        own.lab.advance(Span::secs(10));
        add(&mut own.view.failed, 1);
        conflicts += 1;
        own.lab.scraped(MetricsView {
            instance: INSTANCE.into(),
            controllers: vec![own.view.clone()],
            requests: vec![("200".into(), 10_000 + conflicts * 10), ("409".into(), conflicts)],
            ..MetricsView::default()
        });
    }

    let finding = own.lab.finding("ReconcileFailing");
    assert_eq!(finding.confidence, Confidence::Suspected, "{}", finding.summary());
}

#[test]
fn suspended_objects_are_named_beside_the_errors() {
    let mut own = Loop::new();
    let mut widget = Widget::new("web", own.lab.now);
    widget.paused = true;
    own.lab.apply(&widget);
    let mut marked = own.lab.view(&Widget::new("marked", own.lab.now));
    marked.paused = Some(Pause { by: "annotation example.io/skip-reconcile".into() });
    own.lab.apply_view(marked);
    own.run(400, |view| add(&mut view.failed, 1));

    let summary = own.lab.finding("ReconcileFailing").summary();
    assert!(summary.contains("skipped objects 2"), "{summary}");
}

#[test]
fn a_reset_of_the_counters_is_no_burst_of_errors() {
    let mut own = Loop::new();
    own.run(10, |view| (view.failed, view.succeeded) = (Some(0), Some(0)));
    own.run(1_200, |_| {});
    own.lab.assert_no_findings();

    // Errors that a new process counts are new.
    own.run(10, |view| (view.failed, view.succeeded) = (Some(3), Some(0)));
    own.run(310, |_| {});
    own.assert_found("ReconcileFailing");
}

#[test]
fn a_step_of_the_clock_of_the_operators_node_is_no_new_process() {
    // The start of a process in its metrics follows the clock of its node.
    let mut lab = Lab::new();
    let scrape = |lab: &mut Lab, started: Timestamp, panicked: u64| {
        lab.advance(Span::secs(10));
        let (name, succeeded) = ("widget".into(), Some(10_000));
        lab.scraped(MetricsView {
            instance: INSTANCE.into(),
            controllers: vec![ControllerView {
                name,
                succeeded,
                panicked: Some(panicked),
                ..ControllerView::default()
            }],
            requests: vec![("200".into(), 100), ("503".into(), 80)],
            process: ProcessView { started: Some(started), ..ProcessView::default() },
            ..MetricsView::default()
        });
    };

    let started = lab.ago(Span::hours(720));
    for step in 0..60 {
        scrape(&mut lab, started.after(Span::secs(step / 10 * 5)), 2);
        lab.assert_no_findings();
    }

    // Everything that a new process has counted is new, even if the old one had counted less.
    let started = lab.now;
    scrape(&mut lab, started, 3);

    assert!(lab.finding("ReconcilePanicking").summary().contains("panics 3"));
}

#[test]
fn panics_are_found_at_once_and_forgotten_after_the_window() {
    let mut own = Loop::new();
    own.run(10, |view| add(&mut view.panicked, 1));
    own.assert_found("ReconcilePanicking");
    own.run(3_600, |view| add(&mut view.succeeded, 1));
    own.lab.assert_no_findings();
}

#[test]
fn short_and_long_windows_forget_little_at_once() {
    let settings = Settings {
        reconcile_failing_after: Span::mins(1),
        reconcile_errors: 5,
        ..Settings::default()
    };
    let mut own = Loop::with(settings);

    own.run(600, |view| {
        add(&mut view.failed, 1);
        add(&mut view.succeeded, 1);
    });
    own.assert_found("ReconcileErrors");

    assert_eq!(own.lab.changes().len(), 1, "it does not close and open again");

    let mut own = Loop::with(Settings { restart_window: Span::hours(24), ..Settings::default() });
    for _ in 0..200 {
        own.run(10, |view| add(&mut view.panicked, 1));
        own.run(590, |view| add(&mut view.succeeded, 1));
    }

    let summary = own.lab.finding("ReconcilePanicking").summary();
    assert!(summary.contains("panics 144") || summary.contains("panics 143"), "{summary}");
}
