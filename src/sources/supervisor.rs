//! Owns the tasks that talk to the API server: starts what discovery finds, restarts what breaks, ends all.

use std::sync::Arc;
use std::time::Duration;

use loopwatch_model::observation::{Cause, PermissionsView, Probe, SourceId, WatchId, WatchedKind};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::audit::{self, Targets};
use super::cluster::Cluster;
use super::definitions::Definitions;
use super::discovery::{Discovered, Discovery};
use super::failure::Failure;
use super::feed::{Closed, Feed};
use super::lease;
use super::options::SourceOptions;
use super::sync::InitialSync;
use super::watch::SharedWatchState;
use super::watch::backoff::Backoff;

mod reconcile;
mod tasks;
#[cfg(test)]
mod tests;

use self::tasks::{TaskEvent, Tasks};

/// Starts the sources.
#[derive(Debug)]
pub struct Supervisor;

/// The running sources.
#[derive(Debug)]
pub struct Handle {
    stop: CancellationToken,
    task: JoinHandle<()>,
    questions: mpsc::Sender<Probe>,
    sync: InitialSync,
}

/// What one task does.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Job {
    Watch(WatchId),
    Definitions,
    Lease,
    Audit,
}

/// The state of the supervisor's own task.
struct Running {
    cluster: Cluster,
    options: SourceOptions,
    feed: Feed,
    discovery: Discovery,
    definitions: Definitions,
    shared: Arc<SharedWatchState>,
    targets: Targets,
    sync: InitialSync,
    tasks: Tasks,
    /// What was told last.
    kinds: Option<Vec<WatchedKind>>,
    permissions: Vec<PermissionsView>,
    /// Why discovery is not content, as told.
    problem: Option<String>,
    /// Since when looks find less than runs. An API server that has just started may know neither rights nor kinds.
    lost_since: Option<Instant>,
    backoff: Backoff,
}

/// Rights and kinds change rarely, and most changes are noticed otherwise.
const POLL_EVERY: Duration = Duration::from_secs(300);
/// While something is missing, or kinds come and go unseen because definitions may not be read.
const POLL_OFTEN: Duration = Duration::from_secs(60);
/// Looks on demand are at least so far apart: a CRD that is installed changes several times in a second.
const LOOK_AGAIN_AFTER: Duration = Duration::from_secs(2);
/// How often to ask whether kinds came or went, where that costs next to nothing.
const PEEK_EVERY: Duration = Duration::from_secs(15);
/// What is lost is looked for once more after this long, before it is given up.
const BELIEVE_LOSS_AFTER: Duration = Duration::from_secs(5);
/// What a definition says may show in what is served a little later.
const LOOK_ONCE_MORE_AFTER: Duration = Duration::from_secs(10);
/// Definitions are waited for, because they say which kinds have a status; but not for ever.
const DEFINITIONS_WITHIN: Duration = Duration::from_secs(15);
/// Questions that may wait; the model asks again when one is lost.
const QUESTIONS: usize = 64;

// === impl Supervisor ===

impl Supervisor {
    /// Starts the sources of one cluster on the current runtime.
    #[must_use]
    pub fn start(cluster: Cluster, options: SourceOptions, feed: Feed) -> Handle {
        let stop = CancellationToken::new();
        let (questions, asked) = mpsc::channel(QUESTIONS);
        let sync = InitialSync::new();
        let definitions = Definitions::default();
        let running = Running {
            discovery: Discovery::new(cluster.clone(), options.clone(), definitions.clone()),
            shared: Arc::default(),
            targets: Targets::default(),
            sync: sync.clone(),
            tasks: Tasks::default(),
            kinds: None,
            permissions: Vec::new(),
            problem: None,
            lost_since: None,
            backoff: Backoff::new(),
            cluster,
            options,
            feed,
            definitions,
        };
        let task = tokio::spawn(running.run(asked, stop.clone()));
        Handle { stop, task, questions, sync }
    }
}

// === impl Handle ===

impl Handle {
    /// Asks the API server on behalf of the model. False when too many questions wait; ask again later.
    #[must_use]
    pub fn ask(&self, probe: Probe) -> bool {
        self.questions.try_send(probe).is_ok()
    }

    /// How far the first lists are.
    #[must_use]
    pub fn initial_sync(&self) -> &InitialSync {
        &self.sync
    }

    /// Ends all sources and waits until they have ended.
    pub async fn shutdown(self) {
        self.stop.cancel();
        // The task catches the panics of others and has none of its own; if it had, it has ended as well.
        let _ = self.task.await;
    }
}

// === impl Running ===

impl Running {
    async fn run(mut self, questions: mpsc::Receiver<Probe>, stop: CancellationToken) {
        let feed = self.feed.clone();
        tokio::select! {
            () = stop.cancelled() => {}
            () = feed.closed() => {}
            _ = self.run_until_closed(questions) => {}
        }
        self.tasks.stop_all().await;
    }

    async fn run_until_closed(&mut self, questions: mpsc::Receiver<Probe>) -> Result<(), Closed> {
        let audit = audit::run(self.cluster.clone(), Arc::clone(&self.targets), self.feed.clone(), questions);
        self.tasks.spawn(Job::Audit, audit);
        let mut woken = false;
        loop {
            let started = Instant::now();
            let mut wait = self.poll().await?;
            if woken {
                wait = wait.min(LOOK_ONCE_MORE_AFTER);
            }
            if self.options.once && self.kinds.is_some() {
                // There is nothing to look at again; what runs ends by itself.
                self.attend(None).await?;
            }
            woken = self.attend(Some(started + wait)).await?;
            // Changes come in crowds; what came meanwhile is seen by the same look.
            tokio::time::sleep_until(started + LOOK_AGAIN_AFTER).await;
        }
    }

    /// Takes care of the tasks until it is time to look again, or until somebody asks for it, which gives true.
    async fn attend(&mut self, until: Option<Instant>) -> Result<bool, Closed> {
        let far = Instant::now() + Duration::from_secs(86_400);
        let mut peek = tokio::time::interval_at(Instant::now() + PEEK_EVERY, PEEK_EVERY);
        loop {
            let peeks = until.is_some() && !self.definitions.are_known();
            tokio::select! {
                () = tokio::time::sleep_until(until.unwrap_or(far)) => return Ok(false),
                () = self.shared.review.notified(), if until.is_some() => return Ok(true),
                () = self.definitions.changed.notified(), if until.is_some() => return Ok(true),
                // A failure to ask is not told: the next look will fail as well, or else all is fine.
                _ = peek.tick(), if peeks => if self.discovery.is_outdated().await == Ok(true) {
                    return Ok(true);
                },
                event = self.tasks.next() => match event {
                    TaskEvent::Broke(job, said) => self.report_broken(&job, &said).await?,
                    TaskEvent::Due(job) => self.start(&job),
                },
            }
        }
    }

    async fn report_broken(&mut self, job: &Job, said: &str) -> Result<(), Closed> {
        let detail = format!("a bug in loopwatch ended this source; it is restarted: {said}");
        let failure = Failure::new(Cause::Other, detail);
        self.feed.failed(job.source(), &failure).await
    }

    /// Looks once and applies what is found; says how long to wait until the next look.
    async fn poll(&mut self) -> Result<Duration, Closed> {
        let found = match self.find().await {
            Ok(found) => found,
            Err(failure) => {
                self.problem = Some(failure.detail.clone());
                self.feed.failed(Discovery::SOURCE, &failure).await?;
                if self.options.once {
                    self.sync.discovery_failed();
                }
                return Ok(self.backoff.wait(failure.retry_after));
            }
        };
        self.backoff.reset();
        if let Some(wait) = self.wait_before_loss(&found) {
            return Ok(wait);
        }
        let unseen = found.kinds.iter().any(|kind| !kind.missing.is_empty()) || found.problem.is_some();
        self.apply(found).await?;
        let often = unseen || !self.definitions.are_known();
        Ok(self.backoff.jitter(if often { POLL_OFTEN } else { POLL_EVERY }))
    }

    /// How long to wait before a loss is believed; `None` when nothing is lost, or when it has been lost_since for long.
    fn wait_before_loss(&mut self, found: &Discovered) -> Option<Duration> {
        let is_seen = |kind: &WatchedKind| kind.missing.is_empty();
        let lost = |was: &WatchedKind| !found.kinds.iter().any(|now| is_seen(now) && now.watch == was.watch);
        if !self.kinds.iter().flatten().filter(|kind| is_seen(kind)).any(lost) {
            self.lost_since = None;
            return None;
        }
        let left = BELIEVE_LOSS_AFTER.saturating_sub(self.lost_since.get_or_insert_with(Instant::now).elapsed());
        if left.is_zero() {
            self.lost_since = None;
            return None;
        }
        Some(left)
    }

    async fn find(&mut self) -> Result<Discovered, Failure> {
        self.review_definitions().await?;
        self.review_lease().await?;
        self.discovery.poll().await
    }

    /// Watches definitions if and as long as the account may.
    async fn review_definitions(&mut self) -> Result<(), Failure> {
        let (group, resource) = Definitions::resource();
        let may = self.discovery.may_watch(group, resource, "").await?;
        if !may && self.tasks.has(&Job::Definitions) {
            self.tasks.stop(&Job::Definitions).await;
            self.definitions.forget();
        } else if may && !self.tasks.has(&Job::Definitions) {
            self.start(&Job::Definitions);
            let known = async {
                while !self.definitions.are_known() {
                    self.definitions.changed.notified().await;
                }
            };
            // Without them the kinds are judged by what discovery says.
            let _ = tokio::time::timeout(DEFINITIONS_WITHIN, known).await;
        }
        Ok(())
    }

    /// Watches the operator's leases if and as long as the account may.
    async fn review_lease(&mut self) -> Result<(), Failure> {
        let Some(namespace) = self.lease_namespace() else { return Ok(()) };
        let may = self.discovery.may_watch(lease::GROUP, lease::RESOURCE, &namespace).await?;
        if !may {
            self.tasks.stop(&Job::Lease).await;
        } else if !self.tasks.has(&Job::Lease) {
            self.start(&Job::Lease);
        }
        Ok(())
    }
}

// === impl Job ===

impl Job {
    /// Where its failures are told.
    pub(crate) fn source(&self) -> SourceId {
        match self {
            Self::Watch(watch) => SourceId::Watch(watch.clone()),
            Self::Definitions => SourceId::Watch(Definitions::watch()),
            Self::Lease => SourceId::Lease,
            Self::Audit => SourceId::Audit,
        }
    }
}
