//! Sends events to a webhook, alerts to Alertmanager and traces to a collector.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use loopwatch_model::finding::{Change, FindingEvent};
use loopwatch_model::model::{LeaderElection, Model};
use loopwatch_model::reference::ReferenceEvent;
use loopwatch_model::snapshot::Snapshot;
use loopwatch_model::trace::Trace;
use tokio::task::JoinHandle;
use tracing::warn;

use super::{SharedModel, lock};
use crate::config::Flags;
use crate::export::delivery::Origin;
use crate::export::delivery::alertmanager::{Alerting, AlertmanagerOptions};
use crate::export::delivery::notify::{Event, Notifier};
use crate::export::delivery::traces::{Collector, TraceExporter};
use crate::export::server::Exporter;
use crate::system::own_pod::OwnPod;
use crate::telemetry::SelfMetrics;

/// The senders that the flags turn on, with their tasks.
pub(super) struct Senders {
    notifying: Option<(Notifier, JoinHandle<()>)>,
    alerting: Option<Alerting>,
    tracing: Option<(TraceExporter, JoinHandle<()>)>,
    /// The operator, if it is one of many.
    operator: Option<String>,
}

/// Where the pump sends the model's reports, in addition to the log.
#[derive(Clone, Default)]
pub(crate) struct Outlets {
    pub(crate) notifier: Option<Notifier>,
    pub(crate) traces: Option<TraceExporter>,
    /// The operator, if it is one of many, for the log.
    pub(crate) operator: Option<String>,
}

impl Outlets {
    /// Returns the events for the webhook; none without one.
    pub(super) fn events_for_webhook(
        &self,
        references: Vec<ReferenceEvent>,
        findings: &[FindingEvent],
    ) -> Vec<Event> {
        let notifier = self.notifier.as_ref();
        notifier.map(|notifier| notifier.choose(references, findings)).unwrap_or_default()
    }

    /// Returns whether it matters now which replica leads.
    pub(super) fn need_leader(&self, events: &[Event], traces: &[Trace]) -> bool {
        let waits = self.traces.as_ref().is_some_and(TraceExporter::is_waiting);
        !events.is_empty() || !traces.is_empty() || waits
    }

    /// Passes on the model's reports.
    pub(super) fn push(&self, events: Vec<Event>, traces: Vec<Trace>, election: &LeaderElection) {
        if let Some(notifier) = self.notifier.as_ref().filter(|_| !events.is_empty()) {
            notifier.push(events, election);
        }

        if let Some(exporter) = &self.traces {
            exporter.push(traces, election);
        }
    }
}

impl Senders {
    /// Whether people hear of problems even if nobody scrapes loopwatch.
    pub(super) fn report(&self) -> bool {
        self.alerting.is_some() || self.tracing.is_some()
    }

    /// Starts the senders for one of many operators, `NAMESPACE/NAME`.
    pub(super) fn start_for(
        operator: &str,
        flags: &Flags,
        model: &SharedModel,
        exporter: &Exporter,
    ) -> Self {
        Self::start_about(Some(operator.to_owned()), flags, model, exporter)
    }

    pub(super) fn start(flags: &Flags, model: &SharedModel, exporter: &Exporter) -> Self {
        Self::start_about(None, flags, model, exporter)
    }

    fn start_about(
        operator: Option<String>,
        flags: &Flags,
        model: &SharedModel,
        exporter: &Exporter,
    ) -> Self {
        let metrics = exporter.metrics();
        let pod = OwnPod::of_environment("").filter(|pod| pod.in_cluster).map(|pod| pod.host);
        let origin = Origin { pod, operator: operator.clone() };
        let requests = &metrics.notify_requests;
        let notifying = flags
            .notify
            .webhook()
            .map(|webhook| Notifier::start(webhook, requests.clone(), origin.clone()));
        let alerting = flags
            .alerting
            .options(flags.serve.links())
            .map(|options| AlertmanagerOptions { operator: operator.clone(), ..options })
            .map(|options| Alerting::start(&options, model.clone(), metrics));

        // The problems of the configuration already include these.
        let (collector, _) = flags.traces.collector();
        let tracing = collector.and_then(|collector| start_tracing(&collector, metrics, origin));

        if let Some((traces, _)) = &tracing {
            lock(model).gather_traces();
            exporter.set_traces(traces.clone());
        }

        Self { notifying, alerting, tracing, operator }
    }

    pub(super) fn outlets(&self) -> Outlets {
        Outlets {
            notifier: self.notifying.as_ref().map(|(notifier, _)| notifier.clone()),
            traces: self.tracing.as_ref().map(|(traces, _)| traces.clone()),
            operator: self.operator.clone(),
        }
    }

    /// Like [`Senders::close`], after the end of all alerts and findings: loopwatch no longer judges this
    /// operator.
    pub(super) async fn dismiss(self, model: &SharedModel) {
        let closed = catch_unwind(AssertUnwindSafe(|| {
            let model = lock(model);
            (closed(&model), model.leader_election())
        }));
        if let Ok((closed, election)) = closed {
            let outlets = self.outlets();
            let events = outlets.events_for_webhook(Vec::new(), &closed);
            outlets.push(events, Vec::new(), &election);
        }

        self.close_with(true).await;
    }

    /// Sends the rest of all queues concurrently.
    pub(super) async fn close(self) {
        self.close_with(false).await;
    }

    async fn close_with(self, clear_alerts: bool) {
        let notified = async {
            if let Some((notifier, delivering)) = self.notifying {
                notifier.close(delivering).await;
            }
        };
        let traced = async {
            if let Some((traces, sending)) = self.tracing {
                traces.close(sending).await;
            }
        };

        let alerted = async {
            if let Some(alerting) = self.alerting {
                alerting.close(clear_alerts).await;
            }
        };

        tokio::join!(notified, traced, alerted);
    }
}

/// The events that all open findings end.
fn closed(model: &Model) -> Vec<FindingEvent> {
    let Snapshot { at, findings, .. } = model.snapshot();
    let closed = |finding| FindingEvent { at, change: Change::Closed, finding };
    findings.into_iter().map(closed).collect()
}

/// Starts the task that sends traces, unless an environment variable of OpenTelemetry prevents it.
fn start_tracing(
    collector: &Collector,
    metrics: &Arc<SelfMetrics>,
    origin: Origin,
) -> Option<(TraceExporter, JoinHandle<()>)> {
    let started = TraceExporter::start(collector, metrics.clone(), origin);
    started.inspect_err(|problem| warn!(problem, "cannot send traces")).ok()
}
