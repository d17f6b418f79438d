//! Owns the tasks that talk to the API server: starts one per watch, restarts those that panic, and stops all of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use loopwatch_model::observation::{Cause, Observation, PermissionsView, Probe, SourceId, WatchId, WatchedKind};
use tokio::sync::{Mutex, Notify, mpsc};
use tokio::task::{JoinError, JoinHandle};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::audit::WatchTargets;
use super::children::{Kept, NewPrimaries, Owners};
use super::cluster::{Cluster, OperatorIdentity};
use super::definitions::Definitions;
use super::discovery::{Discovered, Discovery};
use super::failure::Failure;
use super::feed::{Closed, Feed};
use super::lease;
use super::namespaces::{self, Terminating};
use super::options::{Selection, SourceOptions};
use super::pods::PodsHandle;
use super::profiles::MetricsAddresses;
use super::reads::ChildKinds;
use super::scrape::{Hints, Scraper};
use super::sync::InitialSync;
use super::watch::SharedWatchState;
use super::watch::backoff::Backoff;

mod events;
mod reconcile;
mod tasks;
#[cfg(test)]
mod tests;

use self::events::FollowedEvents;
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

/// The job of one task.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Job {
    Watch(WatchId),
    Definitions,
    Lease,
    Namespaces,
    /// Kubernetes Events about the objects of this watch.
    Events(WatchId),
    /// The operator's workload and Pods.
    Pods,
    /// Reads the conditions of namespaces that are being deleted.
    Terminating,
    Audit,
    Reads,
    Metrics,
    /// Compares profiles.
    Profiles,
    /// Reads the operator's process.
    Process,
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
    owners: Arc<Owners>,
    /// The children of each watch that belong to no primary object.
    kept: BTreeMap<WatchId, Kept>,
    /// Polls in a row without a change.
    idle_polls: u32,
    /// Since when polls have found fewer kinds than are watched. A starting API server may not know all permissions and
    /// kinds yet.
    lost_since: Option<Instant>,
    backoff: Backoff,
}

/// Interval of discovery. Permissions and kinds change rarely, and other events reveal most changes.
const POLL_EVERY: Duration = Duration::from_secs(300);
/// Interval of discovery while something is missing, or while the account may not watch definitions.
const POLL_OFTEN: Duration = Duration::from_secs(60);
/// Interval of discovery while it has yet to review the account's permissions in some namespaces.
const POLL_WHILE_BEHIND: Duration = Duration::from_secs(15);
/// Number of polls in a row without a change from which on the intervals double, and the limit of their growth.
const IDLE_POLLS: (u32, u32) = (5, 4);
/// Shortest time between polls: a new CRD changes several times in its first second.
const MIN_POLL_INTERVAL: Duration = Duration::from_secs(2);
/// Interval of the cheap check for new and removed kinds.
const CHECK_EVERY: Duration = Duration::from_secs(15);
/// Time for which polls must miss a kind before its watch ends.
const BELIEVE_LOSS_AFTER: Duration = Duration::from_secs(5);
/// Time from a change to the next poll, because the API server serves a new definition with some delay.
const POLL_AFTER_CHANGE: Duration = Duration::from_secs(10);
/// Time to wait for definitions, which show the kinds with a status.
const DEFINITIONS_WITHIN: Duration = Duration::from_secs(15);
/// Time to wait for the annotations of namespaces.
const NAMESPACES_WITHIN: Duration = Duration::from_secs(5);
/// Time to wait for the operator's Pods, if they are read only once.
const PODS_WITHIN: Duration = Duration::from_secs(5);
/// Time to wait for the first samples of child kinds.
const CHILDREN_WITHIN: Duration = Duration::from_secs(3);
/// Limit on waiting probes of each kind. The model repeats dropped ones.
const PROBES: usize = 64;

// === impl Supervisor ===

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
            discovery: Discovery::new(cluster.clone(), options.clone(), definitions.clone()),
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

// === impl Handle ===

impl Handle {
    /// Sends a probe of the model to the source that answers it. Returns false if too many probes wait.
    #[must_use]
    pub(crate) fn ask(&self, probe: Probe) -> bool {
        match probe {
            Probe::Count(watch) => self.counts.try_send(watch).is_ok(),
            Probe::Read(_) | Probe::Dependents { .. } => self.reads.try_send(probe).is_ok(),
            Probe::Profile { .. } => self.profiles.try_send(probe).is_ok(),
        }
    }

    /// A function that sends reads of objects to the API server, and refuses other probes and those for which there is no
    /// room.
    pub(crate) fn reader(&self) -> impl Fn(Probe) -> bool + Send + 'static {
        let reads = self.reads.clone();
        move |probe| matches!(probe, Probe::Read(_) | Probe::Dependents { .. }) && reads.try_send(probe).is_ok()
    }

    /// The progress of the first lists.
    #[must_use]
    pub(crate) fn initial_sync(&self) -> &InitialSync {
        &self.sync
    }

    /// Waits until the supervisor ends without having been stopped, which is a bug. Returns the reason.
    pub(crate) async fn ended(&mut self) -> String {
        (&mut self.task).await.map_or_else(panic_message, |()| "the supervisor ended".to_owned())
    }

    /// Stops all sources and waits for their end.
    pub(crate) async fn shutdown(mut self) {
        self.stop.cancel();
        if !self.task.is_finished() {
            // This task catches the panics of all others. An error means that it has itself panicked, and thus ended.
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

// === impl Running ===

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
        if self.options.once {
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
            if self.options.once && self.kinds.is_some() {
                // No further poll is needed, and the running tasks end by themselves.
                self.supervise(None).await?;
            }
            changed = self.supervise(Some(started + wait)).await?;
            // Changes come in bursts, and one poll sees all of them.
            tokio::time::sleep_until(started + MIN_POLL_INTERVAL).await;
        }
    }

    /// Supervises the tasks until the next poll is due. Returns true if a change requires it earlier.
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

    async fn report_panic(&mut self, job: &Job, message: &str) -> Result<(), Closed> {
        let detail = format!("a bug in loopwatch stopped this source, and loopwatch restarts it: {message}");
        let failure = Failure::new(Cause::Other, detail);
        self.feed.failed(job.source(), &failure).await
    }

    /// Polls once and applies the result; returns the time until the next poll.
    async fn poll(&mut self) -> Result<Duration, Closed> {
        let found = match self.find().await? {
            Ok(found) => found,
            Err(failure) => {
                if self.options.once {
                    self.sync.discovery_failed();
                }
                return self.discovery_failed(&failure).await;
            }
        };
        self.backoff.reset();
        if let Some(wait) = self.wait_before_loss(&found) {
            return Ok(wait);
        }
        let unseen = found.kinds.iter().any(|kind| !kind.missing.is_empty()) || found.problem.is_some();
        let changed = self.kinds.as_ref() != Some(&found.kinds) || self.problem != found.problem;
        self.idle_polls = if changed { 0 } else { self.idle_polls.saturating_add(1) };
        if self.options.once {
            self.discovery.sample_children(BTreeSet::new()).await;
            let found = self.discovery.discovered();
            self.apply(found).await?;
        } else if self.kinds.is_none() {
            // A model that has outlived its sources, or restored a checkpoint, would forget the children that it knows.
            let sampled = self.discovery.sample_children(BTreeSet::new());
            let _ = tokio::time::timeout(CHILDREN_WITHIN, sampled).await;
            let found = self.discovery.discovered();
            self.apply(found).await?;
        } else {
            self.apply(found).await?;
            if self.discovery.next_round(None).is_none() {
                self.sample_children().await?;
            }
        }
        if !self.options.once
            && let Err(failure) = self.follow_events().await?
        {
            return self.discovery_failed(&failure).await;
        }
        let often = unseen || !self.definitions.are_known();
        let (patience, most) = IDLE_POLLS;
        let idle = (1 << self.idle_polls.saturating_sub(patience).min(most)).min(most);
        let interval = match often {
            _ if self.discovery.is_behind() => POLL_WHILE_BEHIND,
            true => POLL_OFTEN * idle,
            false => POLL_EVERY * idle,
        };
        Ok(self.backoff.jitter(interval))
    }

    /// Reports that discovery failed; returns the time until the next poll.
    async fn discovery_failed(&mut self, failure: &Failure) -> Result<Duration, Closed> {
        self.problem = Some(failure.detail.clone());
        self.feed.failed(Discovery::SOURCE, failure).await?;
        Ok(self.backoff.wait(failure.retry_after))
    }

    /// Samples the child kinds, and watches those that have earned it.
    async fn sample_children(&mut self) -> Result<(), Closed> {
        self.announced = None;
        if self.discovery.sample_children(self.new_primaries.take()).await {
            let found = self.discovery.discovered();
            self.apply(found).await?;
        }
        Ok(())
    }

    /// The time until a loss of kinds counts; `None` if no kind is lost, or if the loss has lasted long enough.
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

    async fn find(&mut self) -> Result<Result<Discovered, Failure>, Closed> {
        let reviewed = self.review_optional().await;
        for observation in std::mem::take(&mut self.stopped) {
            self.feed.send(observation).await?;
        }
        match reviewed {
            Ok(may_watch_namespaces) => self.follow_namespaces(may_watch_namespaces).await?,
            Err(failure) => return Ok(Err(failure)),
        }
        self.follow_pods().await;
        Ok(self.discovery.poll().await)
    }

    /// Starts and stops the tasks that need optional permissions. Returns whether the account may watch namespaces.
    async fn review_optional(&mut self) -> Result<bool, Failure> {
        self.discovery.review().await?;
        self.review_definitions().await?;
        self.review_lease().await?;
        self.discovery.may_watch(namespaces::GROUP, namespaces::RESOURCE, "").await
    }

    /// Watches the annotations of namespaces if the account may, and reports the source as off if it may not.
    async fn follow_namespaces(&mut self, may: bool) -> Result<(), Closed> {
        if !may {
            self.tasks.stop(&Job::Namespaces).await;
            self.tasks.stop(&Job::Terminating).await;
            if self.namespaces != Some(false) {
                let (source, reason) = (SourceId::Namespaces, namespaces::OFF.to_owned());
                self.feed.send(Observation::NamespacesListed(Vec::new())).await?;
                self.feed.send(Observation::SourceOff { source, reason }).await?;
            }
        } else if !self.tasks.has(&Job::Namespaces) {
            self.start(&Job::Namespaces);
            self.start(&Job::Terminating);
            // Findings that a namespace ignores must not open at the start.
            let _ = tokio::time::timeout(NAMESPACES_WITHIN, self.namespaces_listed.notified()).await;
        }
        self.namespaces = Some(may);
        Ok(())
    }

    /// Starts to follow the operator's Pods. The task itself finds out which of them the account may read, and does so
    /// again after each review of the permissions.
    async fn follow_pods(&mut self) {
        let is_known = match self.cluster.operator() {
            // An administrator who watches every kind has no operator, even in a Pod.
            Some(OperatorIdentity::Beside(_)) => self.options.select == Selection::OperatorPermissions,
            Some(OperatorIdentity::Named(_)) => true,
            None => false,
        };
        if self.tasks.has(&Job::Pods) {
            self.pods.review.notify_one();
        } else if is_known {
            self.start(&Job::Pods);
            if self.options.once {
                let _ = tokio::time::timeout(PODS_WITHIN, self.pods.done.notified()).await;
            }
        }
    }

    /// Watches definitions if the account may, and stops if it no longer may.
    async fn review_definitions(&mut self) -> Result<(), Failure> {
        let (group, resource) = Definitions::resource();
        let may = self.discovery.may_watch(group, resource, "").await?;
        if !may && self.tasks.has(&Job::Definitions) {
            self.tasks.stop(&Job::Definitions).await;
            self.definitions.forget();
            self.stopped.push(Observation::DefinitionsListed(Vec::new()));
            self.stopped.push(off(&Job::Definitions, "custom resource definitions"));
        } else if may && !self.tasks.has(&Job::Definitions) {
            self.start(&Job::Definitions);
            let known = async {
                while !self.definitions.are_known() {
                    self.definitions.changed.notified().await;
                }
            };
            // If definitions do not arrive in time, discovery alone shows which kinds have a status.
            let _ = tokio::time::timeout(DEFINITIONS_WITHIN, known).await;
        }
        Ok(())
    }

    fn scraper(&self) -> Scraper {
        let (options, pods) = (self.options.scrape.clone(), self.pods.targets());
        let hints = Hints { addresses: Arc::clone(&self.metrics_addresses), clues: self.pods.clues() };
        Scraper::new(options, self.cluster.own_pod().cloned(), pods, self.feed.clone(), hints)
    }

    /// Watches the operator's leases if the account may, and stops if it no longer may.
    async fn review_lease(&mut self) -> Result<(), Failure> {
        let Some(namespace) = self.lease_namespace() else { return Ok(()) };
        let may = self.discovery.may_watch(lease::GROUP, lease::RESOURCE, &namespace).await?;
        if !may && self.tasks.has(&Job::Lease) {
            self.tasks.stop(&Job::Lease).await;
            // A lease that nobody watches would grow old.
            self.stopped.push(Observation::LeasesListed { namespace, names: Vec::new() });
            self.stopped.push(off(&Job::Lease, "leases"));
        } else if may && !self.tasks.has(&Job::Lease) {
            self.start(&Job::Lease);
        }
        Ok(())
    }
}

// === impl Job ===

impl Job {
    /// The source that fails if this job fails.
    pub(crate) fn source(&self) -> SourceId {
        match self {
            Self::Watch(watch) => SourceId::Watch(watch.clone()),
            Self::Definitions => SourceId::Watch(Definitions::watch()),
            Self::Lease => SourceId::Lease,
            Self::Namespaces | Self::Terminating => SourceId::Namespaces,
            Self::Events(_) => SourceId::Events,
            Self::Pods => SourceId::Pods,
            Self::Audit => SourceId::Audit,
            Self::Reads => SourceId::Reads,
            Self::Metrics => SourceId::Metrics,
            Self::Profiles => SourceId::Profiles,
            Self::Process => SourceId::Process,
        }
    }
}

/// Reports that the source of a job is off, because the account may no longer watch these objects. Otherwise the refusal
/// that the source has met would remain its last word.
fn off(job: &Job, objects: &str) -> Observation {
    Observation::SourceOff {
        source: job.source(),
        reason: format!("the account may no longer list and watch {objects}"),
    }
}

/// The message of a panic.
pub(crate) fn panic_message(error: JoinError) -> String {
    let Ok(panic) = error.try_into_panic() else { return "it was aborted".to_owned() };
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref().cloned()).unwrap_or_default()
}
