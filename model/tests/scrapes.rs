//! Scrapes of the operator's own metrics, as far as the source shows them.

mod lab;

use lab::START;
use loopwatch_model::model::Model;
use loopwatch_model::observation::{Cause, MetricsView, Observation, SourceId};
use loopwatch_model::settings::Settings;
use loopwatch_model::snapshot::SourceSummary;
use loopwatch_model::time::Span;

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
