//! Sends traces to an OpenTelemetry collector, as spans, with OTLP over HTTP.
//!
//! ```text
//!  Model::traces ─▶ pump ─▶ TraceExporter::push ─▶ queue ─▶ one task ─▶ POST ─▶ collector
//!                             only the leader       batches, retries      │
//!                                                                          ▼
//!                                                                      exemplars
//! ```
//!
//! The collector may be slow, broken or gone, so only the one task waits for it. If the queue is
//! full, loopwatch drops traces and counts their spans. `docs/traces.md` describes traces for their
//! readers.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use loopwatch_model::model::LeaderElection;
use loopwatch_model::snapshot::Outcome;
use loopwatch_model::trace::{Trace, TraceKey};
use opentelemetry_otlp::{RetryPolicy, SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::trace::SpanExporter as _;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

mod collector; // the collector, and how to reach it
mod ids; // of traces and spans
mod resource; // who sends the spans
mod sampling; // which traces to send
mod spans; // turns a trace into spans
#[cfg(test)]
mod tests;
mod transport; // sends the requests of the exporter
mod trace_sender; // which replica sends a trace
mod url; // the URL of a collector

pub use self::collector::Collector;
pub use self::sampling::Sampling;
pub(crate) use self::sampling::{SAMPLER, SAMPLER_ARG};
use self::spans::{Spans, spans_in};
use self::trace_sender::{Decided, TraceSender};
use self::transport::{OtlpClient, Rejected};
pub use self::url::collector_url;
pub(crate) use self::url::collector_url_of_base;
use super::Origin;
use super::attempts::{Attempts, TryLater, end_within};
use super::post::Delivery;
use super::problems::Problems;
use crate::lock::lock;
use crate::telemetry::{Counted, Exemplar, ResultLabels, SelfMetrics, SendResult};

/// The queue of traces. All clones share it.
#[derive(Clone)]
pub struct TraceExporter(Arc<Shared>);

struct Shared {
    queue: Mutex<TraceQueue>,
    /// Notified when the queue has a new entry.
    added: Notify,
    /// Cancelled when the process stops and no more traces arrive.
    closing: CancellationToken,
    patience: Patience,
    sender: Mutex<TraceSender>,
    sampling: Sampling,
    spans: Spans,
    metrics: Arc<SelfMetrics>,
}

#[derive(Default)]
struct TraceQueue {
    waiting: VecDeque<Trace>,
    /// The number of spans in the queue.
    spans: usize,
    /// The number of spans that the task has taken out of the queue and not finished with.
    delivering: usize,
    /// Whether the newest traces waited for a renewal of the lease, so that more come only with the
    /// next renewal.
    is_complete: bool,
}

/// How long loopwatch waits.
#[derive(Clone, Copy, Debug)]
struct Patience {
    /// How long to wait for more traces before loopwatch sends those in the queue.
    gather: Duration,
    /// The limit for all attempts for one batch. A batch that the collector never accepts must not
    /// delay all later ones.
    batch: Duration,
    /// The limit for the queue after a stop signal.
    stop: Duration,
}

/// All results of spans: accepted by the collector; refused by it; given up, or without room in the
/// queue; left out by sampling; not sent, because another replica leads.
const RESULTS: [SendResult; 5] = [
    SendResult::Ok,
    SendResult::Rejected,
    SendResult::Dropped,
    SendResult::SampledOut,
    SendResult::NotLeader,
];
/// The problem of a response that refuses some of the spans.
const SOME_REFUSED: &str = "it refuses some spans";

/// The maximum number of waiting spans, which need approximately two megabytes. Beyond it, the
/// oldest traces are dropped.
const QUEUE: usize = 8_192;

/// The number of spans that fill a batch. Encoding them takes less than a millisecond.
const BATCH: usize = 256;

impl Default for Patience {
    fn default() -> Self {
        Self {
            gather: Duration::from_secs(1),
            batch: Duration::from_secs(15 * 60),
            stop: Duration::from_secs(5),
        }
    }
}

impl TraceExporter {
    /// Starts the task that sends traces.
    ///
    /// # Errors
    /// If an environment variable of OpenTelemetry makes the exporter impossible.
    pub fn start(
        collector: &Collector,
        metrics: Arc<SelfMetrics>,
        origin: Origin,
    ) -> Result<(Self, JoinHandle<()>), String> {
        Self::with_patience(collector, metrics, origin, Patience::default())
    }

    fn with_patience(
        collector: &Collector,
        metrics: Arc<SelfMetrics>,
        origin: Origin,
        patience: Patience,
    ) -> Result<(Self, JoinHandle<()>), String> {
        for result in RESULTS {
            drop(metrics.spans.get_or_create_owned(&ResultLabels { result }));
        }

        for result in SendResult::OF_REQUESTS {
            drop(metrics.trace_requests.get_or_create_owned(&ResultLabels { result }));
        }

        let client = OtlpClient::new(collector);
        let built = SpanExporter::builder()
            .with_http()
            .with_http_client(client.clone())
            .with_endpoint(collector.url.uri().to_string())
            .with_timeout(collector.within)
            // This task retries requests itself, for longer.
            .with_retry_policy(RetryPolicy::disabled())
            .build();

        let mut exporter = built.map_err(|error| error.to_string())?;
        let resource = resource::describe(&origin);
        exporter.set_resource(&resource);
        info!(collector = %collector.url, "traces are sent to a collector");
        collector.warnings.iter().for_each(|warning| warn!("{warning}"));

        let started = Self(Arc::new(Shared {
            queue: Mutex::default(),
            added: Notify::new(),
            closing: CancellationToken::new(),
            patience,
            sender: Mutex::new(TraceSender::new(origin.pod)),
            sampling: collector.sampling,
            spans: Spans::new(resource::cluster(&resource)),
            metrics,
        }));

        let sending = tokio::spawn(send(started.0.clone(), exporter, client));
        Ok((started, sending))
    }

    /// Queues traces once it is certain that this replica sends them.
    pub fn push(&self, traces: Vec<Trace>, election: &LeaderElection) {
        let decided = lock(&self.0.sender).decide(traces, election);
        self.0.take(decided);
    }

    /// Returns whether a trace waits for the next renewal of the lease.
    pub(crate) fn is_waiting(&self) -> bool {
        lock(&self.0.sender).is_waiting()
    }

    /// Returns the ID of a trace in hexadecimal.
    pub(crate) fn trace_id(&self, key: &TraceKey) -> String {
        self.0.spans.ids_of(key).trace.to_string()
    }

    /// Sends the queue for a few seconds at most, and then stops.
    pub async fn close(self, mut sending: JoinHandle<()>) {
        let decided = lock(&self.0.sender).close();
        self.0.take(decided);
        self.0.closing.cancel();

        end_within(self.0.patience.stop, &mut sending).await;

        let queue = std::mem::take(&mut *lock(&self.0.queue));
        let left = queue.spans + queue.delivering;
        self.0.count(SendResult::Dropped, left);

        if left > 0 {
            warn!(spans = left, "the process stops before the collector has accepted these spans");
        }
    }
}

impl Shared {
    /// Queues the traces that this replica sends, except those that sampling leaves out.
    fn take(&self, decided: Decided) {
        self.count(SendResult::NotLeader, decided.others);
        let keeps = |trace: &Trace| self.sampling.keeps(trace, self.spans.ids(trace).trace);
        let (kept, left_out): (Vec<_>, Vec<_>) = decided.own.into_iter().partition(keeps);
        self.count(SendResult::SampledOut, left_out.iter().map(spans_in).sum());

        if kept.is_empty() {
            return;
        }

        let dropped = lock(&self.queue).add(kept, decided.waited);
        self.count(SendResult::Dropped, dropped);
        self.added.notify_one();
    }

    /// Returns the next batch, or `None` if no more will come.
    async fn next(&self) -> Option<Vec<Trace>> {
        loop {
            if lock(&self.queue).waiting.is_empty() {
                self.closing.run_until_cancelled(self.added.notified()).await?;
            }

            if !lock(&self.queue).has_batch() {
                let _ = self.closing.run_until_cancelled(sleep(self.patience.gather)).await;
            }

            let batch = lock(&self.queue).take();
            if !batch.is_empty() {
                return Some(batch);
            }
        }
    }

    fn count(&self, result: SendResult, spans: usize) {
        if spans > 0 {
            self.metrics.spans.get_or_create_owned(&ResultLabels { result }).inc_by(spans as u64);
        }
    }

    fn count_request(&self, result: SendResult) {
        self.metrics.trace_requests.get_or_create_owned(&ResultLabels { result }).inc();
    }

    /// Counts and reports the outcome of a batch.
    fn settle(
        &self,
        batch: &[Trace],
        delivery: Delivery<Rejected>,
        problems: &mut Problems,
    ) -> Result<(), TryLater> {
        let spans: usize = batch.iter().map(spans_in).sum();
        match delivery {
            Delivery::Accepted(Rejected { spans: rejected, message }) => {
                let rejected = usize::try_from(rejected).unwrap_or(usize::MAX).min(spans);
                self.count_request(SendResult::Ok);
                self.count(SendResult::Ok, spans - rejected);
                self.count(SendResult::Rejected, rejected);

                if rejected == 0 {
                    batch.iter().for_each(|trace| self.note_exemplars(trace));
                    report_solution(problems);
                } else if problems.is_new(SOME_REFUSED) {
                    // The messages may differ by a time or a number, so they do not count as new
                    // problems.
                    warn!(problem = message, "the collector refuses some spans");
                }

                Ok(())
            }
            Delivery::Refused(problem) => {
                self.count_request(SendResult::Rejected);
                self.count(SendResult::Rejected, spans);
                report(problems, &problem, "refuses spans");
                Ok(())
            }
            Delivery::Failed { problem, retry_after } => {
                self.count_request(SendResult::Failed);
                report(problems, &problem, "cannot be reached; loopwatch tries again");
                Err(TryLater { retry_after })
            }
        }
    }

    /// Remembers an accepted trace as an exemplar of the metrics that counted its object.
    fn note_exemplars(&self, trace: &Trace) {
        let ids = self.spans.ids(trace);
        let exemplar = |value: f64| {
            let (trace_id, span_id) = (ids.trace.to_string(), ids.root.to_string());
            Exemplar { trace_id, span_id, value, at: trace.end }
        };
        let (object, revision, measured) = (&trace.object, &trace.revision, &trace.measured);
        let labels = || [object.group.clone(), object.kind.clone(), revision.clone()];

        if let Some(took) = measured.acknowledged {
            self.metrics
                .exemplars
                .note(Counted::acknowledge(labels(), took), exemplar(took.seconds()));
        }

        if let Some(took) = measured.converged {
            self.metrics
                .exemplars
                .note(Counted::convergence(labels(), took), exemplar(took.seconds()));
        }

        if measured.counted && trace.outcome == Outcome::Late {
            let [group, kind, revision] = labels();
            let labels = [group, kind, object.namespace.clone(), revision];
            self.metrics.exemplars.note(Counted::Late { labels }, exemplar(1.0));
        }
    }
}

impl TraceQueue {
    /// Adds traces, and returns the number of spans that the queue drops to make room.
    fn add(&mut self, traces: Vec<Trace>, is_complete: bool) -> usize {
        self.is_complete = is_complete;
        self.spans += traces.iter().map(spans_in).sum::<usize>();
        self.waiting.extend(traces);

        let mut dropped = 0;
        while self.spans > QUEUE {
            let Some(oldest) = self.waiting.pop_front() else { break };
            self.spans -= spans_in(&oldest);
            dropped += spans_in(&oldest);
        }

        dropped
    }

    /// Whether a batch is ready, because waiting for more traces would not save a request.
    fn has_batch(&self) -> bool {
        self.spans >= BATCH || self.is_complete && self.spans > 0
    }

    /// Takes a batch out of the queue.
    fn take(&mut self) -> Vec<Trace> {
        let mut batch = Vec::new();
        self.delivering = 0;
        while self.delivering < BATCH {
            let Some(trace) = self.waiting.pop_front() else { break };
            self.delivering += spans_in(&trace);
            batch.push(trace);
        }

        self.spans -= self.delivering;
        batch
    }
}

/// Sends batches one by one.
async fn send(shared: Arc<Shared>, exporter: SpanExporter, client: OtlpClient) {
    let mut problems = Problems::default();
    while let Some(batch) = shared.next().await {
        let (since, patience) = (Instant::now(), shared.patience.batch);
        let mut attempts = Attempts::new(&shared.closing, since, patience);
        loop {
            let data = batch.iter().flat_map(|trace| shared.spans.of(trace)).collect();
            let sent = exporter.export(data).await.map_err(|error| error.to_string());

            // Without a response, the exporter has not sent a request, and would not send it later,
            // either.
            let delivery = client
                .delivery()
                .unwrap_or_else(|| Delivery::Refused(sent.err().unwrap_or_default()));
            let Err(later) = shared.settle(&batch, delivery, &mut problems) else { break };

            if !attempts.wait(later).await {
                shared.count(SendResult::Dropped, batch.iter().map(spans_in).sum());
                break;
            }
        }

        lock(&shared.queue).delivering = 0;
    }
}

fn report(problems: &mut Problems, problem: &str, what: &str) {
    if problems.is_new(problem) {
        warn!(problem, "the collector {what}");
    }
}

fn report_solution(problems: &mut Problems) {
    if problems.solved() {
        info!("the collector accepts spans again");
    }
}
