//! Owns the tasks that talk to the API server: starts one per watch, restarts those that panic, and
//! stops all of them.
//!
//! This file is the tour: the supervisor polls discovery, which starts and stops tasks, and between
//! the polls it waits for their panics and for signs of a change.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use loopwatch_model::observation::{
    Cause, Observation, PermissionsView, Probe, WatchId, WatchedKind,
};
use tokio::sync::{Mutex, Notify, mpsc};
use tokio::task::{JoinError, JoinHandle};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::feed::{Closed, Feed};
use crate::net::Failure;
use crate::sources::api_server::{
    Backoff, Cluster, Definitions, Discovery, InitialSync, Kept, NewPrimaries, SharedWatchState,
    Terminating,
};
use crate::sources::decoding::PrimaryKinds;
use crate::sources::operator::{MetricsAddresses, PodsHandle};
use crate::sources::probes::{ChildKinds, WatchTargets};

mod job;
mod options;
mod tasks; // the running ones
mod polls; // of discovery
mod optional; // sources that need optional permissions
mod events; // Kubernetes Events, too
mod reconcile; // starts and stops tasks after a poll
mod start; // the task of each job
#[cfg(test)]
mod tests;

use self::events::FollowedEvents;
pub(crate) use self::job::Job;
pub(crate) use self::options::{LeaseSelection, SourceOptions};
use self::tasks::{TaskEvent, Tasks};

/// Starts the sources.
#[derive(Debug)]
pub(crate) struct Supervisor;

/// The running sources.
#[derive(Debug)]
pub(crate) struct Handle {
    stop: CancellationToken,
    task: JoinHandle<()>,
    counts: mpsc::Sender<WatchId>,
    reads: mpsc::Sender<Probe>,
    profiles: mpsc::Sender<Probe>,
    sync: InitialSync,
}

/// The state of the supervisor's own task.
struct Running {
    cluster: Cluster,
    options: SourceOptions,
    feed: Feed,
    discovery: Discovery,
    definitions: Definitions,
    shared: Arc<SharedWatchState>,
    /// The watches whose objects to count. Outlives an audit that panics.
    counts: Arc<Mutex<mpsc::Receiver<WatchId>>>,
    /// The other probes. Outlives a reader that panics.
    reads: Arc<Mutex<mpsc::Receiver<Probe>>>,
    /// The probes about profiles, which take minutes. Outlives a profiler that panics.
    profiles: Arc<Mutex<mpsc::Receiver<Probe>>>,
    /// Where the operator's metrics are.
    metrics_addresses: MetricsAddresses,
    targets: WatchTargets,
    /// The watched child kinds.
    children: ChildKinds,
    sync: InitialSync,
    tasks: Tasks,
    /// Notified when the list of namespaces is complete.
    namespaces_listed: Arc<Notify>,
    /// The namespaces that are being deleted.
    terminating: Terminating,
    /// The operator's Pods.
    pods: PodsHandle,
    /// Whether the account may watch namespaces, as last reported.
    namespaces: Option<bool>,
    /// The watches of Kubernetes Events.
    events: FollowedEvents,
    /// The last reported kinds.
    kinds: Option<Vec<WatchedKind>>,
    /// The watches that exceed the limit.
    over: Vec<WatchId>,
    permissions: Vec<PermissionsView>,
    /// What to report of sources that have just stopped because the account lost their permissions.
    stopped: Vec<Observation>,
    /// The last reported problem of discovery.
    problem: Option<String>,
    /// New primary objects, which may soon have the first children.
    new_primaries: NewPrimaries,
    /// When the first of them was announced.
    announced: Option<Instant>,
    /// The watched primary kinds.
    owners: Arc<PrimaryKinds>,
    /// The children of each watch that belong to no primary object.
    kept: BTreeMap<WatchId, Kept>,
    /// Polls in a row without a change.
    idle_polls: u32,
    /// Since when polls have found fewer kinds than are watched. A starting API server may not know
    /// all permissions and kinds yet.
    lost_since: Option<Instant>,
    backoff: Backoff,
}

/// Shortest time between polls: a new CRD changes several times in its first second.
const MIN_POLL_INTERVAL: Duration = Duration::from_secs(2);
/// Interval of the cheap check for new and removed kinds.
const CHECK_EVERY: Duration = Duration::from_secs(15);
/// Time from a change to the next poll, because the API server serves a new definition with some
/// delay.
const POLL_AFTER_CHANGE: Duration = Duration::from_secs(10);
/// Limit on waiting probes of each kind. The model repeats dropped ones.
const PROBES: usize = 64;

impl Supervisor {
    /// Starts the sources of one cluster on the current runtime.
    #[must_use]
    pub(crate) fn start(cluster: Cluster, options: SourceOptions, feed: Feed) -> Handle {
        let stop = CancellationToken::new();
        let ((counts, to_count), (reads, to_read)) = (mpsc::channel(PROBES), mpsc::channel(PROBES));
        let (profiles, to_profile) = mpsc::channel(PROBES);
        let sync = InitialSync::new();
        let definitions = Definitions::default();
        let running = Running {
            discovery: Discovery::new(
                cluster.clone(),
                options.discovery.clone(),
                definitions.clone(),
            ),
            shared: Arc::default(),
            counts: Arc::new(Mutex::new(to_count)),
            reads: Arc::new(Mutex::new(to_read)),
            profiles: Arc::new(Mutex::new(to_profile)),
            metrics_addresses: MetricsAddresses::default(),
            targets: WatchTargets::default(),
            children: ChildKinds::default(),
            sync: sync.clone(),
            tasks: Tasks::default(),
            namespaces_listed: Arc::default(),
            terminating: Terminating::default(),
            pods: PodsHandle::default(),
            namespaces: None,
            events: FollowedEvents::default(),
            kinds: None,
            over: Vec::new(),
            permissions: Vec::new(),
            stopped: Vec::new(),
            problem: None,
            new_primaries: NewPrimaries::default(),
            announced: None,
            owners: Arc::default(),
            kept: BTreeMap::new(),
            idle_polls: 0,
            lost_since: None,
            backoff: Backoff::new(),
            cluster,
            options,
            feed,
            definitions,
        };

        let task = tokio::spawn(running.run(stop.clone()));
        Handle { stop, task, counts, reads, profiles, sync }
    }
}

impl Handle {
    /// Sends a probe of the model to the source that answers it. Returns false if too many probes
    /// wait.
    #[must_use]
    pub(crate) fn ask(&self, probe: Probe) -> bool {
        match probe {
            Probe::Count(watch) => self.counts.try_send(watch).is_ok(),
            Probe::Read(_) | Probe::Dependents { .. } => self.reads.try_send(probe).is_ok(),
            Probe::Profile { .. } => self.profiles.try_send(probe).is_ok(),
        }
    }

    /// A function that sends reads of objects to the API server, and refuses other probes and those
    /// for which there is no room.
    pub(crate) fn reader(&self) -> impl Fn(Probe) -> bool + Send + 'static {
        let reads = self.reads.clone();
        move |probe| {
            matches!(probe, Probe::Read(_) | Probe::Dependents { .. })
                && reads.try_send(probe).is_ok()
        }
    }

    /// The progress of the first lists.
    #[must_use]
    pub(crate) fn initial_sync(&self) -> &InitialSync {
        &self.sync
    }

    /// Waits until the supervisor ends without having been stopped, which is a bug. Returns the
    /// reason.
    pub(crate) async fn ended(&mut self) -> String {
        (&mut self.task).await.map_or_else(panic_message, |()| "the supervisor ended".to_owned())
    }

    /// Stops all sources and waits for their end.
    pub(crate) async fn shutdown(mut self) {
        self.stop.cancel();
        if !self.task.is_finished() {
            // This task catches the panics of all others. An error means that it has itself
            // panicked, and thus ended.
            let _ = (&mut self.task).await;
        }
    }
}

impl Drop for Handle {
    /// Stops all sources without waiting, so that a panic of the owner leaves none behind.
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Running {
    async fn run(mut self, stop: CancellationToken) {
        let feed = self.feed.clone();
        tokio::select! {
            () = stop.cancelled() => {}
            () = feed.closed() => {}
            _ = self.run_until_closed() => {}
        }
        self.tasks.stop_all().await;
    }

    async fn run_until_closed(&mut self) -> Result<(), Closed> {
        self.start(&Job::Audit);
        self.start(&Job::Reads);
        if self.options.discovery.once {
            self.scraper().once().await?;
        } else {
            self.start(&Job::Metrics);
            self.start(&Job::Process);
            self.start(&Job::Profiles);
        }

        let mut changed = false;
        loop {
            let started = Instant::now();
            let mut wait = self.poll().await?;
            if changed {
                wait = wait.min(POLL_AFTER_CHANGE);
            }

            if self.options.discovery.once && self.kinds.is_some() {
                // No further poll is needed, and the running tasks end by themselves.
                self.supervise(None).await?;
            }

            changed = self.supervise(Some(started + wait)).await?;

            // Changes come in bursts, and one poll sees all of them.
            tokio::time::sleep_until(started + MIN_POLL_INTERVAL).await;
        }
    }

    /// Supervises the tasks until the next poll is due. Returns true if a change requires it
    /// earlier.
    async fn supervise(&mut self, until: Option<Instant>) -> Result<bool, Closed> {
        let far = Instant::now() + Duration::from_secs(86_400);
        let mut check = tokio::time::interval_at(Instant::now() + CHECK_EVERY, CHECK_EVERY);
        let new_primaries = self.new_primaries.clone();

        loop {
            let checks = until.is_some() && !self.definitions.are_known();
            let round = self.discovery.next_round(self.announced).filter(|_| until.is_some());
            tokio::select! {
                () = tokio::time::sleep_until(until.unwrap_or(far)) => return Ok(false),
                () = self.shared.review_requested.notified(), if until.is_some() => return Ok(true),
                () = self.definitions.changed.notified(), if until.is_some() => return Ok(true),
                // Ignores a failure: if it persists, the next poll reports it.
                _ = check.tick(), if checks => if self.discovery.is_outdated().await == Ok(true) {
                    return Ok(true);
                },
                () = tokio::time::sleep_until(round.unwrap_or(far)), if round.is_some() => self.sample_children().await?,
                () = new_primaries.announced.notified() => {
                    self.announced.get_or_insert_with(Instant::now);
                }
                event = self.tasks.next() => match event {
                    TaskEvent::Panicked(job, message) => self.report_panic(&job, &message).await?,
                    TaskEvent::Due(job) => self.start(&job),
                },
            }
        }
    }

    async fn report_panic(&self, job: &Job, message: &str) -> Result<(), Closed> {
        let detail =
            format!("a bug in loopwatch stopped this source, and loopwatch restarts it: {message}");
        let failure = Failure::new(Cause::Other, detail);
        self.feed.failed(job.source(), &failure).await
    }
}

/// The message of a panic.
pub(crate) fn panic_message(error: JoinError) -> String {
    let Ok(panic) = error.try_into_panic() else { return "it was aborted".to_owned() };
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref().cloned()).unwrap_or_default()
}
