//! Notices that nobody scrapes loopwatch: then no alert rule can fire, and nothing outside would say so.

use std::sync::Arc;
use std::time::Duration;

use loopwatch_model::observation::Observation;
use tokio::sync::watch;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::reload::Effective;
use crate::export::server::Exporter;
use crate::sources::feed::{Closed, Feed};

/// Compares the time of the last scrape with the setting.
pub(super) struct ScrapeWatch {
    pub(super) feed: Feed,
    pub(super) exporter: Arc<Exporter>,
    /// The thresholds in effect.
    pub(super) effective: watch::Receiver<Effective>,
    /// Whether people hear of problems even without scrapes.
    pub(super) reports_otherwise: bool,
}

/// Interval between two comparisons. Nobody needs to know within seconds.
const EVERY: Duration = Duration::from_secs(10);

impl ScrapeWatch {
    /// Compares until a stop signal arrives.
    pub(super) async fn run(self, stop: CancellationToken) {
        let _ = stop.run_until_cancelled(self.follow()).await;
    }

    async fn follow(self) -> Result<(), Closed> {
        let mut is_missing = false;
        loop {
            self.compare(&mut is_missing).await?;
            sleep(EVERY).await;
        }
    }

    /// Reports the state if it is bad or has changed. A bad one is repeated, because a model that is
    /// rebuilt forgets it.
    async fn compare(&self, is_missing: &mut bool) -> Result<(), Closed> {
        let within = self.effective.borrow().settings.scrape_expected_within;
        self.exporter.scrape_times().expect_within(within, self.reports_otherwise);

        let now = self.feed.clock().now();
        let scrapes = self.exporter.scrapes(now);
        let was_missing = std::mem::replace(is_missing, scrapes.is_overdue(now));
        match (was_missing, *is_missing) {
            (false, true) => warn!(
                "{} Alert rules cannot fire. `loopwatch doctor` finds out why; scrape_expected_within: 0s turns this warning off",
                scrapes.in_words(now)
            ),
            (true, false) => info!("{}", scrapes.in_words(now)),
            _ => {}
        }

        if *is_missing {
            let since = scrapes.last.unwrap_or(scrapes.since);
            self.feed.send(Observation::ScrapesMissed { since }).await
        } else if was_missing {
            self.feed.send(Observation::ScrapesSeen).await
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use loopwatch_model::model::Model;
    use loopwatch_model::settings::Settings;
    use loopwatch_model::time::Span;

    use super::*;
    use crate::export::server::ExportOptions;
    use crate::sources::feed::{Observations, ServerClock};
    use crate::telemetry::SelfMetrics;

    /// A watch with this setting, and the other end of its feed.
    fn watched(within: Span, reports_otherwise: bool) -> (ScrapeWatch, Observations) {
        let settings = Settings { scrape_expected_within: within, ..Settings::default() };
        let (_sender, effective) = watch::channel(Effective { settings, ..Effective::empty() });
        let (feed, observations) = Feed::new(16, ServerClock::new());
        let model = Arc::new(Mutex::new(Model::new(Settings::default())));
        let metrics = Arc::new(SelfMetrics::new());
        let exporter = Arc::new(Exporter::new(model, metrics, ExportOptions::default()));
        (ScrapeWatch { feed, exporter, effective, reports_otherwise }, observations)
    }

    fn all(observations: &mut Observations) -> Vec<Observation> {
        std::iter::from_fn(|| observations.try_recv()).map(|(_, observation)| observation).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_missing_scrape_is_reported_until_the_next_one() {
        let (watch, mut observations) = watched(Span::mins(10), false);
        let mut is_missing = false;

        sleep(Duration::from_secs(599)).await;
        watch.compare(&mut is_missing).await.expect("open");
        assert_eq!(all(&mut observations), [], "not yet");

        sleep(Duration::from_secs(1)).await;
        for _ in 0..2 {
            watch.compare(&mut is_missing).await.expect("open");
            let seen = all(&mut observations);
            assert!(matches!(seen[..], [Observation::ScrapesMissed { .. }]), "{seen:?}");
        }

        watch.exporter.scrape_times().note(true);
        watch.compare(&mut is_missing).await.expect("open");
        watch.compare(&mut is_missing).await.expect("open");
        assert_eq!(all(&mut observations), [Observation::ScrapesSeen]);
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_missing_if_alerts_are_posted_or_the_setting_is_zero() {
        for (within, reports_otherwise) in [(Span::mins(10), true), (Span::ZERO, false)] {
            let (watch, mut observations) = watched(within, reports_otherwise);
            let mut is_missing = false;
            sleep(Duration::from_secs(86_400)).await;
            watch.compare(&mut is_missing).await.expect("open");
            assert_eq!(all(&mut observations), []);
        }
    }
}
