//! The queue of a controller, and its informers.

use loopwatch_model::observation::{ControllerView, MetricsView, ProcessView};
use loopwatch_model::time::{Span, Timestamp};

use crate::lab::Lab;
use crate::lab::loops::Loop;
use crate::lab::pods::INSTANCE;

#[test]
fn a_long_queue_is_a_backlog_unless_it_shrinks() {
    let mut own = Loop::new();
    own.run(120, |view| view.queue_depth = Some(501));
    own.lab.assert_no_findings();
    own.run(10, |view| view.queue_depth = Some(501));
    own.assert_found("QueueBacklog");
    own.run(10, |view| view.queue_depth = Some(500));
    own.lab.assert_no_findings();

    let mut start = Loop::new();
    let mut depth = 50_000;
    start.run(600, |view| {
        depth = depth * 9 / 10;
        view.queue_depth = Some(depth);
    });
    start.lab.assert_no_findings();
}

#[test]
fn a_queue_that_is_filled_and_then_worked_off_within_half_an_hour_is_no_backlog() {
    let mut own = Loop::new();
    let mut depth = 0;
    own.run(100, |view| {
        depth += 3_000;
        view.queue_depth = Some(depth);
    });
    own.run(25 * 60, |view| {
        depth -= 200;
        view.queue_depth = Some(depth);
    });
    own.lab.assert_no_findings();

    // The same queue, of which the operator works off nothing any more.
    let mut stands = Loop::new();
    stands.run(600, |view| view.queue_depth = Some(30_000));
    stands.assert_found("QueueBacklog");
}

#[test]
fn a_queue_that_grows_for_an_hour_is_a_backlog_although_it_is_short() {
    let mut own = Loop::new();
    let mut turn = 0;
    own.run(4_200, |view| {
        turn += 1;
        view.queue_depth = Some(turn / 3);
    });
    own.assert_found("QueueBacklog");

    // It goes on growing at the same pace, and is no longer twice as long as an hour before.
    own.run(7_200, |view| {
        turn += 1;
        view.queue_depth = Some(turn / 3);
    });
    own.assert_found("QueueBacklog");

    own.run(1_800, |view| {
        turn = turn.saturating_sub(20);
        view.queue_depth = Some(turn / 3);
    });
    own.lab.assert_no_findings();

    let mut wave = Loop::new();
    let mut turn = 0;
    wave.run(10_000, |view| {
        turn += 1;
        view.queue_depth = Some(if turn % 200 < 100 { turn % 200 } else { 200 - turn % 200 });
    });
    wave.lab.assert_no_findings();
}

#[test]
fn objects_that_wait_while_no_reconcile_has_begun_show_an_informer_that_does_not_sync() {
    let scrape = |lab: &mut Lab, started: Timestamp, succeeded: u64, depth: u64| {
        let controller = ControllerView {
            name: "widget".into(),
            succeeded: Some(succeeded),
            failed: Some(0),
            workers_busy: Some(0),
            queue_depth: Some(depth),
            ..ControllerView::default()
        };
        lab.scraped(MetricsView {
            instance: INSTANCE.into(),
            controllers: vec![controller],
            process: ProcessView { started: Some(started), ..ProcessView::default() },
            ..MetricsView::default()
        });
    };
    for (succeeded, depth, found) in [(0, 3, true), (0, 0, false), (1, 3, false)] {
        let mut lab = Lab::new();
        let started = lab.now;
        for _ in 0..35 {
            lab.advance(Span::secs(10));
            scrape(&mut lab, started, succeeded, depth);
        }

        lab.assert_no_findings();
        for _ in 0..2 {
            lab.advance(Span::secs(10));
            scrape(&mut lab, started, succeeded, depth);
        }

        assert_eq!(lab.has("InformerNotSynced"), found, "{succeeded} {depth}");
    }
}
