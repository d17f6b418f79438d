//! Scrapes of the operator's own metrics: their interval, gaps, and what they lack.

use loopwatch_model::model::Model;
use loopwatch_model::observation::{Cause, ControllerView, MetricsView, Observation, SourceId};
use loopwatch_model::settings::Settings;
use loopwatch_model::snapshot::SourceSummary;
use loopwatch_model::time::Span;

use crate::lab::loops::{Loop, add};
use crate::lab::pods::{INSTANCE, OTHER};
use crate::lab::{Lab, START};

fn scraped(instance: &str, interval: Span) -> Observation {
    let view = MetricsView { instance: instance.into(), interval, ..MetricsView::default() };
    Observation::MetricsScraped(Box::new(view))
}

fn source(model: &Model) -> SourceSummary {
    model
        .snapshot()
        .sources
        .into_iter()
        .find(|source| source.source == "metrics")
        .expect("the source")
}

#[test]
fn the_source_shows_the_longest_interval_in_use() {
    let mut model = Model::new(Settings::default());
    model.apply(START, scraped("ns/a", Span::ZERO));

    assert_eq!(source(&model).interval, None, "a recording of an older version");

    model.apply(START, scraped("ns/a", Span::secs(10)));
    model.apply(START, scraped("ns/b", Span::secs(1500)));
    model.apply(START, scraped("ns/a", Span::secs(10)));

    assert_eq!(source(&model).interval, Some(Span::secs(1500)));
}

#[test]
fn a_failed_scrape_of_one_instance_does_not_fail_the_source() {
    let mut model = Model::new(Settings::default());
    model.apply(START, scraped("ns/a", Span::secs(10)));

    let failed = Observation::ScrapeFailed {
        instance: "ns/b".into(),
        cause: Cause::Refused,
        detail: "nothing listens".into(),
    };

    model.apply(START, failed);
    assert!(source(&model).up);

    let (source_id, cause, detail) = (SourceId::Metrics, Cause::Refused, "nothing listens".into());
    model.apply(START, Observation::SourceFailed { source: source_id, cause, detail });

    assert!(!source(&model).up);
}

#[test]
fn metrics_that_stop_show_nothing_any_more_after_half_an_hour() {
    let mut own = Loop::new();
    own.run(200, |view| view.queue_depth = Some(600));
    own.lab.advance(Span(Span::mins(30).0 - 1));
    own.assert_found("QueueBacklog");
    own.lab.advance(Span(1));
    own.lab.assert_no_findings();

    // A state without an open finding is not continued over a gap.
    own.run(60, |view| view.queue_depth = Some(600));
    own.lab.assert_no_findings();
    own.lab.advance(Span::mins(6));
    own.run(60, |view| view.queue_depth = Some(600));
    own.lab.assert_no_findings();
}

#[test]
fn a_finding_lasts_from_one_scrape_to_the_next_however_rare_they_are() {
    let interval = Span::mins(25); // an operator that needs 15 s for its metrics
    let mut own = Loop::new();
    let scrape = |own: &mut Loop| {
        own.view.longest_running_seconds = Some(3_600.0);
        let controllers = vec![own.view.clone()];
        own.lab.scraped(MetricsView {
            instance: INSTANCE.into(),
            controllers,
            interval,
            ..MetricsView::default()
        });
    };

    scrape(&mut own);
    own.assert_found("ReconcileStuck");
    own.lab.changes();

    for _ in 0..3 {
        own.lab.advance(Span(interval.0 - 1));
        own.assert_found("ReconcileStuck");
        own.lab.advance(Span(1));
        scrape(&mut own);
    }

    assert!(own.lab.changes().is_empty(), "one alert, not one per scrape");

    own.lab.advance(Span::mins(50));
    own.lab.assert_no_findings();
}

#[test]
fn nothing_is_known_about_a_framework_without_signals() {
    let mut lab = Lab::new();
    for _ in 0..400 {
        lab.advance(Span::secs(30));
        lab.scrape(INSTANCE, ControllerView { name: "widget".into(), ..ControllerView::default() });
        lab.scraped(MetricsView { instance: OTHER.into(), ..MetricsView::default() });
    }

    lab.assert_no_findings();
}

#[test]
fn a_step_of_the_clock_changes_no_duration() {
    for by in [Span::hours(2), Span::hours(-2)] {
        let mut own = Loop::new();
        own.run(110, |view| view.queue_depth = Some(600));
        own.lab.step_clock(by);
        own.run(10, |view| view.queue_depth = Some(600));
        own.lab.assert_no_findings();
        own.run(10, |view| view.queue_depth = Some(600));
        own.assert_found("QueueBacklog");
        own.run(10, |view| add(&mut view.panicked, 1));

        own.lab.step_clock(by);
        own.run(600, |view| view.queue_depth = Some(0));
        own.assert_found("ReconcilePanicking");
    }
}
