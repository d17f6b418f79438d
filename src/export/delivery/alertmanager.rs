//! Posts alerts for loopwatch's findings to Alertmanager, for clusters without Prometheus.
//!
//! ```text
//!  View::snapshot ─▶ ActiveAlerts ─▶ Posting ─▶ one task per URL ─▶ POST /api/v2/alerts, to each address of its host
//!   every 5 s        what       the newest one only           repeats until it is accepted
//!                    fires
//! ```
//!
//! A posting contains everything that fires or has recently cleared, so a receiver that was away
//! needs only the newest one: no queue grows in the meantime. Every replica posts the same alerts,
//! and Alertmanager merges those with equal labels. When the process stops, its alerts stay: they
//! expire unless another process repeats them. When it only stops judging one operator, it clears the
//! alerts about that one. `docs/alerts.md` describes this for users.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

mod active_alerts; // which alerts fire
mod options; // which Alertmanagers, and how to reach them
mod label; // labels of all alerts
mod posting; // the bodies of requests
mod receiver; // the task that posts to one URL
mod url;

#[cfg(test)]
mod tests;

pub(crate) use self::active_alerts::ActiveAlerts;
#[cfg(test)]
pub(crate) use self::active_alerts::{AlertKey, alert_groups};
pub(crate) use self::label::AlertLabel;
pub(crate) use self::options::AlertmanagerOptions;
use self::posting::Posting;
use self::receiver::Receiver;
pub(crate) use self::url::alertmanager_url;
use crate::export::view::View;
use crate::net::NameLookups;
use crate::telemetry::{AlertingMetrics, GaugeShare, SelfMetrics};

/// The tasks that post alerts.
pub(crate) struct Alerting {
    stop: CancellationToken,
    /// Whether to clear all alerts at the end.
    clear: Arc<AtomicBool>,
    evaluating: JoinHandle<()>,
    posting: Vec<JoinHandle<()>>,
}

/// How often loopwatch reads the findings.
pub(crate) const EVALUATE_EVERY: Duration = Duration::from_secs(5);

/// How long the last posting may take when the process stops.
const STOP: Duration = Duration::from_secs(5);

impl Alerting {
    pub(crate) fn start(
        options: &AlertmanagerOptions,
        view: Arc<dyn View>,
        metrics: &SelfMetrics,
    ) -> Self {
        let (stop, clear) = (CancellationToken::new(), Arc::default());
        let (sender, postings) = watch::channel(Arc::new(Posting::default()));
        let mut posting = Vec::new();

        for url in &options.urls {
            info!(alertmanager = %url, "alerts are posted");
            if options.token_file.is_some()
                && let Some(warning) = url.in_the_clear("--alertmanager-token-file")
            {
                warn!("{warning}");
            }

            let receiver =
                Receiver::new(url, options, metrics.alerting.clone(), NameLookups::of_system());
            posting.push(tokio::spawn(receiver.run(postings.clone())));
        }

        let labels = options.labels.iter().cloned().map(AlertLabel::into_pair).collect();
        let alerts = ActiveAlerts::new(labels, options.links.clone());
        let alerts = match &options.operator {
            None => alerts,
            Some(operator) => alerts.about(operator),
        };
        let evaluating = Evaluating {
            alerts,
            view,
            postings: sender,
            metrics: metrics.alerting.clone(),
            firing: GaugeShare::of(&metrics.alerting.firing),
            stop: stop.clone(),
            clear: Arc::clone(&clear),
        };
        let evaluating = tokio::spawn(evaluating.run());

        Self { stop, clear, evaluating, posting }
    }

    /// Posts the last changes, and stops. With `clear`, also clears all alerts: nobody judges any more
    /// what they are about.
    pub(crate) async fn close(self, clear: bool) {
        self.clear.store(clear, Ordering::Relaxed);
        self.stop.cancel();
        let mut tasks: Vec<JoinHandle<()>> = self.posting;
        tasks.push(self.evaluating);

        let all = async {
            for task in &mut tasks {
                if let Err(error) = task.await {
                    warn!(%error, "a task panicked; this is a bug in loopwatch");
                }
            }
        };

        if timeout(STOP, all).await.is_err() {
            warn!("the process stops before all Alertmanagers have accepted the last alerts");
            tasks.iter().for_each(JoinHandle::abort);
        }
    }
}

/// The task that decides which alerts fire. Its end ends the tasks that post.
struct Evaluating {
    alerts: ActiveAlerts,
    view: Arc<dyn View>,
    postings: watch::Sender<Arc<Posting>>,
    metrics: AlertingMetrics,
    firing: GaugeShare,
    stop: CancellationToken,
    clear: Arc<AtomicBool>,
}

impl Evaluating {
    /// Reads the findings regularly, and publishes what the Alertmanagers should know.
    async fn run(mut self) {
        let mut ticks = interval(EVALUATE_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);

        let mut ready = false;
        loop {
            let stopping = self.stop.run_until_cancelled(ticks.tick()).await.is_none();
            self.evaluate(&mut ready);
            if stopping && self.clear.load(Ordering::Relaxed) {
                self.alerts.clear_all();
            }

            self.firing.set(self.alerts.firing().len());
            if let Some(posting) = self.alerts.posting() {
                self.postings.send_replace(Arc::new(posting));
            }

            if stopping {
                return;
            }
        }
    }

    /// Reads the findings.
    fn evaluate(&mut self, ready: &mut bool) {
        // A model that has panicked may panic here again before it is rebuilt. That must not end
        // the alerts.
        let seen = catch_unwind(AssertUnwindSafe(|| {
            // Until the first lists are complete, loopwatch does not know which alerts of an
            // earlier process still fire.
            *ready = *ready || self.view.pending().is_empty();
            ready.then(|| self.view.snapshot())
        }));

        if let Ok(Some(snapshot)) = seen {
            let dropped = self.alerts.update(&snapshot);
            self.metrics.dropped.inc_by(dropped);
        }
    }
}
