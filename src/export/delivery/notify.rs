//! Notifications: events that loopwatch POSTs to a webhook of the operator.
//!
//! ```text
//!  Model::reference_events ─▶ pump ─▶ Notifier::push ─▶ queue ─▶ one task ─▶ POST ─▶ receiver
//!  Model::finding_events ─────▶         only the leader           retries, in order
//! ```
//!
//! The receiver may be slow, broken or gone, so only the one task waits for it. If the queue is
//! full, loopwatch drops and counts events. `docs/integrations.md` describes the requests for receivers.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use loopwatch_model::finding::FindingEvent;
use loopwatch_model::model::LeaderElection;
use loopwatch_model::reference::ReferenceEvent;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

mod body;
mod choice;
mod url;

#[cfg(test)]
mod tests;

use self::body::Notification;
use self::choice::Chooser;
pub(crate) use self::choice::FindingChoice;
pub(crate) use self::url::webhook_url;
use super::Origin;
use super::attempts::{Attempts, TryLater, end_within};
use super::leadership::Leadership;
use super::post::{Delivery, Poster};
use super::problems::Problems;
use crate::lock::lock;
use crate::net::{Destination, HttpUrl};
use crate::telemetry::{ResultLabels, SendResult};

/// The webhook, and how to reach it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Webhook {
    pub(crate) url: HttpUrl,
    /// A file with the bearer token.
    pub(crate) token_file: Option<PathBuf>,
    /// A file with the certificate authorities to trust instead of those of the system.
    pub(crate) ca_file: Option<PathBuf>,
    /// The findings whose changes it gets, besides the events about references.
    pub(crate) findings: Vec<FindingChoice>,
}

/// The queue of notifications. All clones share it.
#[derive(Clone)]
pub(crate) struct Notifier(Arc<Shared>);

struct Shared {
    queue: Mutex<EventQueue>,
    /// Notified when the queue has a new entry.
    added: Notify,
    /// Cancelled when the process stops and no more events arrive.
    closing: CancellationToken,
    patience: Patience,
    leadership: Mutex<Leadership>,
    chooser: Mutex<Chooser>,
    requests: NotifyRequests,
    /// The operator, if it is one of many.
    operator: Option<String>,
}

#[derive(Default)]
struct EventQueue {
    waiting: VecDeque<WaitingEvent>,
    /// Whether the task has taken an event out of the queue and has not finished with it.
    delivering: bool,
}

struct WaitingEvent {
    since: Instant,
    event: Event,
}

/// A change that the webhook gets.
#[derive(Debug)]
pub(crate) enum Event {
    Reference(Box<ReferenceEvent>),
    Finding(Box<FindingEvent>),
}

/// `loopwatch_notify_requests_total`.
type NotifyRequests = Family<ResultLabels, Counter>;

/// All results: accepted by the receiver; refused by it for good; failed, and perhaps retried;
/// given up, or without room in the queue; not sent, because another replica leads.
const RESULTS: [SendResult; 5] = [
    SendResult::Ok,
    SendResult::Rejected,
    SendResult::Failed,
    SendResult::Dropped,
    SendResult::NotLeader,
];

/// How long loopwatch waits for a receiver.
#[derive(Clone, Copy, Debug)]
struct Patience {
    /// The limit for one request, including the connection and the head of the response.
    request: Duration,
    /// The limit for all attempts for one event. An event that a receiver never accepts must not
    /// delay all later ones.
    event: Duration,
    /// The limit for the queue after a stop signal.
    stop: Duration,
}

/// The maximum number of waiting events. Beyond it, the oldest are dropped.
const QUEUE: usize = 1_000;

impl Webhook {
    fn poster(self, within: Duration) -> Poster {
        let Self { url, token_file, ca_file, findings: _ } = self;
        Poster::new(Destination { url, address: None, token_file, ca_file, within }, false)
    }
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            request: Duration::from_secs(10),
            event: Duration::from_secs(15 * 60),
            stop: Duration::from_secs(5),
        }
    }
}

impl Notifier {
    /// Starts the task that delivers notifications. `requests` counts them.
    pub(crate) fn start(
        webhook: Webhook,
        requests: NotifyRequests,
        origin: Origin,
    ) -> (Self, JoinHandle<()>) {
        Self::with_patience(webhook, requests, origin, Patience::default())
    }

    fn with_patience(
        webhook: Webhook,
        requests: NotifyRequests,
        origin: Origin,
        patience: Patience,
    ) -> (Self, JoinHandle<()>) {
        for result in RESULTS {
            drop(requests.get_or_create_owned(&ResultLabels { result }));
        }

        info!(webhook = %webhook.url, "events are sent to a webhook");
        if webhook.token_file.is_some()
            && let Some(warning) = webhook.url.in_the_clear("--notify-token-file")
        {
            warn!("{warning}");
        }

        let notifier = Self(Arc::new(Shared {
            queue: Mutex::default(),
            added: Notify::new(),
            closing: CancellationToken::new(),
            patience,
            leadership: Mutex::new(Leadership::new(origin.pod)),
            chooser: Mutex::new(Chooser::new(webhook.findings.clone())),
            requests,
            operator: origin.operator,
        }));

        let poster = webhook.poster(patience.request);
        let delivering = tokio::spawn(deliver(notifier.0.clone(), poster));
        (notifier, delivering)
    }

    /// Returns the events that the webhook should get. Each replica must see all events, because
    /// the next leader sends the closing of a finding that the last one has sent the opening of.
    pub(crate) fn choose(
        &self,
        references: Vec<ReferenceEvent>,
        findings: &[FindingEvent],
    ) -> Vec<Event> {
        let mut chooser = lock(&self.0.chooser);
        let findings = findings.iter().filter(|event| chooser.chooses(event));
        let findings = findings.map(|event| Event::Finding(Box::new(event.clone())));
        let references = references.into_iter().map(|event| Event::Reference(Box::new(event)));

        references.chain(findings).collect()
    }

    /// Queues events if this replica leads.
    pub(crate) fn push(&self, events: Vec<Event>, election: &LeaderElection) {
        let leads = lock(&self.0.leadership).standing(election).leads;
        let since = Instant::now();
        for event in events {
            if leads {
                self.0.add(WaitingEvent { since, event });
            } else {
                self.0.count(SendResult::NotLeader);
            }
        }
    }

    /// Delivers the queue for a few seconds at most, and then stops.
    pub(crate) async fn close(self, mut delivering: JoinHandle<()>) {
        self.0.closing.cancel();
        end_within(self.0.patience.stop, &mut delivering).await;

        let queue = std::mem::take(&mut *lock(&self.0.queue));
        let left = queue.waiting.len() + usize::from(queue.delivering);
        (0..left).for_each(|_| self.0.count(SendResult::Dropped));

        if left > 0 {
            warn!(events = left, "the process stops before the webhook has accepted these events");
        }
    }
}

impl Shared {
    fn add(&self, waiting: WaitingEvent) {
        let dropped = {
            let mut queue = lock(&self.queue);
            let full = queue.waiting.len() >= QUEUE;
            if full {
                queue.waiting.pop_front();
            }

            queue.waiting.push_back(waiting);
            full
        };

        if dropped {
            self.count(SendResult::Dropped);
        }

        self.added.notify_one();
    }

    /// Returns the next event, or `None` if no more will come.
    async fn next(&self) -> Option<WaitingEvent> {
        loop {
            {
                let mut queue = lock(&self.queue);
                let next = queue.waiting.pop_front();
                queue.delivering = next.is_some();

                if next.is_some() {
                    return next;
                }
            }

            self.closing.run_until_cancelled(self.added.notified()).await?;
        }
    }

    /// Counts and reports the outcome of a delivery.
    fn settle(&self, delivery: Delivery, problems: &mut Problems) -> Result<(), TryLater> {
        match delivery {
            Delivery::Accepted(()) => {
                self.count(SendResult::Ok);
                report_solution(problems);
                Ok(())
            }
            Delivery::Refused(problem) => {
                self.count(SendResult::Rejected);
                report(problems, &problem, "refuses an event");
                Ok(())
            }
            Delivery::Failed { problem, retry_after } => {
                self.count(SendResult::Failed);
                report(problems, &problem, "cannot be reached; loopwatch tries again");
                Err(TryLater { retry_after })
            }
        }
    }

    fn count(&self, result: SendResult) {
        self.requests.get_or_create_owned(&ResultLabels { result }).inc();
    }
}

/// Delivers events one by one, so that they arrive in order.
async fn deliver(shared: Arc<Shared>, mut client: Poster) {
    let mut problems = Problems::default();
    while let Some(WaitingEvent { since, event }) = shared.next().await {
        let body = Notification::of(&event, shared.operator.as_deref()).to_json();
        let mut attempts = Attempts::new(&shared.closing, since, shared.patience.event);
        while let Err(later) = shared.settle(client.post(&body).await, &mut problems) {
            if !attempts.wait(later).await {
                shared.count(SendResult::Dropped);
                break;
            }
        }
    }
}

fn report(problems: &mut Problems, problem: &str, what: &str) {
    if problems.is_new(problem) {
        warn!(problem, "the webhook {what}");
    }
}

fn report_solution(problems: &mut Problems) {
    if problems.solved() {
        info!("the webhook accepts events again");
    }
}
