//! Nobody scrapes loopwatch.

use loopwatch_model::observation::Observation;
use loopwatch_model::time::Span;

use crate::lab::Lab;

#[test]
fn nobody_scrapes_loopwatch() {
    let mut lab = Lab::new();
    let since = lab.now;
    lab.advance(Span::mins(10));
    lab.observe(Observation::ScrapesMissed { since });

    assert_eq!(lab.findings(), ["NotScraped source scrapes"]);
    assert_eq!(lab.since("NotScraped"), since);
    assert_eq!(lab.alerting(), [], "nobody would scrape the alert");

    lab.advance(Span::mins(5));
    lab.observe(Observation::ScrapesMissed { since });
    assert_eq!(lab.findings().len(), 1, "the same finding: {:?}", lab.findings());
    assert_eq!(lab.since("NotScraped"), since);

    lab.observe(Observation::ScrapesSeen);
    lab.assert_no_findings();
}

#[test]
fn a_loopwatch_that_is_scraped_has_no_finding() {
    let mut lab = Lab::new();
    lab.observe(Observation::ScrapesSeen);
    lab.advance(Span::hours(24));
    lab.assert_no_findings();
}
