//! When somebody scraped `/metrics`, and whether anybody has to.

use std::sync::Mutex;

use loopwatch_model::time::{Span, Timestamp};
use tokio::time::Instant;

use crate::export::view::Scrapes;
use crate::lock::lock;

/// The scrapes since the start.
#[derive(Debug)]
pub(crate) struct ScrapeTimes {
    began: Instant,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The end of the last complete one.
    last: Option<Instant>,
    /// The end of the last complete one by a Prometheus.
    last_by_prometheus: Option<Instant>,
    /// Whether a Prometheus has come back in time. Its scrapes alone count then: anybody may read the
    /// metrics now and then, and that does not replace it. A single request proves nothing.
    comes_back: bool,
    /// The longest time without a scrape; `None` if nobody has to scrape.
    expected_within: Option<Span>,
    /// Whether loopwatch reaches people in another way, so that it expects scrapes only once a
    /// Prometheus has begun with them.
    reports_otherwise: bool,
}

/// The shortest interval between two scrapes of one Prometheus.
const SOONEST: Span = Span::secs(1);

impl Default for ScrapeTimes {
    fn default() -> Self {
        Self { began: Instant::now(), state: Mutex::default() }
    }
}

impl ScrapeTimes {
    /// Sets the longest time without a scrape, which may be zero for no limit.
    pub(crate) fn expect_within(&self, within: Span, reports_otherwise: bool) {
        let mut state = lock(&self.state);
        state.expected_within = (within > Span::ZERO).then_some(within);
        state.reports_otherwise = reports_otherwise;
    }

    /// Notes that somebody has read all metrics.
    pub(crate) fn note(&self, by_prometheus: bool) {
        let (mut state, now) = (lock(&self.state), Instant::now());
        state.last = Some(now);
        if !by_prometheus {
            return;
        }

        let within = state.expected_within.unwrap_or(Span::ZERO);
        let passed = state.last_by_prometheus.replace(now).map(|last| Span::from(now - last));
        state.comes_back |= passed.is_some_and(|passed| passed >= SOONEST && passed <= within);
    }

    /// The scrapes until now, which is `at` by another clock.
    pub(super) fn until(&self, at: Timestamp) -> Scrapes {
        let before = |instant: Instant| at.before(instant.elapsed().into());
        let state = lock(&self.state);
        let is_expected = state.comes_back || !state.reports_otherwise;
        let last = if state.comes_back { state.last_by_prometheus } else { state.last };

        Scrapes {
            since: before(self.began),
            last: last.map(before),
            expected_within: state.expected_within.filter(|_| is_expected),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const AT: Timestamp = Timestamp(1_767_225_600_000);

    #[tokio::test(start_paused = true)]
    async fn times_are_those_of_the_other_clock() {
        let times = ScrapeTimes::default();
        times.expect_within(Span::mins(10), false);
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(
            (times.until(AT).since, times.until(AT).last),
            (AT.before(Span::secs(60)), None)
        );

        times.note(true);
        tokio::time::advance(Duration::from_secs(5)).await;
        assert_eq!(times.until(AT).last, Some(AT.before(Span::secs(5))));
        assert!(!times.until(AT).is_overdue(AT));

        tokio::time::advance(Duration::from_secs(595)).await;
        assert!(times.until(AT).is_overdue(AT));
    }

    #[tokio::test(start_paused = true)]
    async fn who_posts_alerts_need_not_be_scraped_until_a_prometheus_has_done_so() {
        let times = ScrapeTimes::default();
        times.expect_within(Span::mins(10), true);
        tokio::time::advance(Duration::from_secs(3600)).await;
        assert_eq!(times.until(AT).expected_within, None);

        times.note(false); // `curl` is no Prometheus
        assert_eq!(times.until(AT).expected_within, None);

        times.note(true);
        assert_eq!(times.until(AT).expected_within, None, "a single request");

        tokio::time::advance(Duration::from_secs(30)).await;
        times.note(true);
        assert_eq!(times.until(AT).expected_within, Some(Span::mins(10)));

        times.expect_within(Span::ZERO, false);
        tokio::time::advance(Duration::from_secs(3600)).await;
        assert!(!times.until(AT).is_overdue(AT), "0 turns it off");
    }

    /// Any client of the port may fetch the metrics.
    #[tokio::test(start_paused = true)]
    async fn a_stranger_who_reads_the_metrics_does_not_replace_a_prometheus() {
        let times = ScrapeTimes::default();
        times.expect_within(Span::mins(10), false);
        times.note(true);
        tokio::time::advance(Duration::from_secs(30)).await;
        times.note(true);
        for _ in 0..10 {
            tokio::time::advance(Duration::from_secs(540)).await;
            times.note(false); // `curl` is no Prometheus
        }

        assert!(times.until(AT).is_overdue(AT), "no Prometheus for 90 minutes");
    }

    #[tokio::test(start_paused = true)]
    async fn one_request_like_that_of_a_prometheus_is_forgotten() {
        let times = ScrapeTimes::default();
        times.expect_within(Span::mins(10), true);
        times.note(true); // a single `curl -H 'X-Prometheus-Scrape-Timeout-Seconds: 1'`
        tokio::time::advance(Duration::from_secs(7 * 86_400)).await;

        assert!(!times.until(AT).is_overdue(AT));
    }
}
