//! Owns the tasks that talk to the API server: starts what discovery finds, restarts what breaks, ends all.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use loopwatch_model::observation::{Cause, Observation, Probe, RightsView, Role, SourceId, WatchId, WatchedKind};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::audit::{self, Targets};
use super::cluster::{Cluster, encode};
use super::definitions::{DefinitionSink, Definitions};
use super::discovery::{Discovery, Found};
use super::failure::Failure;
use super::feed::{Closed, Feed};
use super::lease::{self, LeaseSink};
use super::options::{LeaseSelection, Options, Selection};
use super::sync::{InitialSync, Reporter};
use super::tasks::{TaskEvent, Tasks};
use super::watch::objects::Objects;
use super::watch::pace::Pace;
use super::watch::{Commons, Sink, Target, Watcher};

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
    options: Options,
    feed: Feed,
    discovery: Discovery,
    definitions: Definitions,
    commons: Arc<Commons>,
    targets: Targets,
    sync: InitialSync,
    tasks: Tasks,
    /// What was told last.
    kinds: Option<Vec<WatchedKind>>,
    rights: Vec<RightsView>,
    /// Why discovery is not content, as told.
    trouble: Option<String>,
    pace: Pace,
}

/// Rights and kinds change rarely, and most changes are noticed otherwise.
const LOOK_EVERY: Duration = Duration::from_secs(300);
/// While something is missing, or kinds come and go unseen because definitions may not be read.
const LOOK_OFTEN: Duration = Duration::from_secs(60);
/// Looks on demand are at least so far apart: a CRD that is installed changes several times in a second.
const LOOK_AGAIN_AFTER: Duration = Duration::from_secs(2);
/// Definitions are waited for, because they say which kinds have a status; but not for ever.
const DEFINITIONS_WITHIN: Duration = Duration::from_secs(15);
/// Questions that may wait; the model asks again when one is lost.
const QUESTIONS: usize = 64;

// === impl Supervisor ===

impl Supervisor {
    /// Starts the sources of one cluster on the current runtime.
    #[must_use]
    pub fn start(cluster: Cluster, options: Options, feed: Feed) -> Handle {
        let stop = CancellationToken::new();
        let (questions, asked) = mpsc::channel(QUESTIONS);
        let sync = InitialSync::new();
        let definitions = Definitions::default();
        let running = Running {
            discovery: Discovery::new(cluster.clone(), options.clone(), definitions.clone()),
            commons: Arc::default(),
            targets: Targets::default(),
            sync: sync.clone(),
            tasks: Tasks::default(),
            kinds: None,
            rights: Vec::new(),
            trouble: None,
            pace: Pace::new(),
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
        // It also ends when nobody reads observations any more.
        let _ = stop.run_until_cancelled(self.run_until_closed(questions)).await;
        self.tasks.stop_all().await;
    }

    async fn run_until_closed(&mut self, questions: mpsc::Receiver<Probe>) -> Result<(), Closed> {
        let audit = audit::run(self.cluster.clone(), Arc::clone(&self.targets), self.feed.clone(), questions);
        self.tasks.spawn(Job::Audit, audit);
        loop {
            let started = Instant::now();
            let wait = self.look().await?;
            if self.options.once && self.kinds.is_some() {
                // There is nothing to look at again; what runs ends by itself.
                self.attend(None).await?;
            }
            self.attend(Some(started + wait)).await?;
            // Changes come in crowds; what came meanwhile is seen by the same look.
            tokio::time::sleep_until(started + LOOK_AGAIN_AFTER).await;
        }
    }

    /// Takes care of the tasks until it is time to look again, or until somebody asks for it.
    async fn attend(&mut self, until: Option<Instant>) -> Result<(), Closed> {
        let far = Instant::now() + Duration::from_secs(86_400);
        loop {
            tokio::select! {
                () = tokio::time::sleep_until(until.unwrap_or(far)) => return Ok(()),
                () = self.commons.review.notified(), if until.is_some() => return Ok(()),
                () = self.definitions.changed.notified(), if until.is_some() => return Ok(()),
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
    async fn look(&mut self) -> Result<Duration, Closed> {
        let found = match self.find().await {
            Ok(found) => found,
            Err(failure) => {
                self.trouble = Some(failure.detail.clone());
                self.feed.failed(Discovery::SOURCE, &failure).await?;
                if self.options.once {
                    self.sync.discovery_failed();
                }
                return Ok(self.pace.wait(failure.retry_after));
            }
        };
        self.pace.reset();
        let unseen = found.kinds.iter().any(|kind| !kind.missing.is_empty()) || found.trouble.is_some();
        self.apply(found).await?;
        let often = unseen || !self.definitions.are_known();
        Ok(self.pace.jitter(if often { LOOK_OFTEN } else { LOOK_EVERY }))
    }

    async fn find(&mut self) -> Result<Found, Failure> {
        if !self.tasks.has(&Job::Definitions) && self.discovery.may_read_definitions().await? {
            self.start(&Job::Definitions);
            let known = async {
                while !self.definitions.are_known() {
                    self.definitions.changed.notified().await;
                }
            };
            // Without them the kinds are judged by what discovery says.
            let _ = tokio::time::timeout(DEFINITIONS_WITHIN, known).await;
        }
        if !self.tasks.has(&Job::Lease)
            && let Some((namespace, _)) = self.lease()
            && self.discovery.missing(lease::GROUP, lease::RESOURCE, &namespace).await?.is_empty()
        {
            self.start(&Job::Lease);
        }
        self.discovery.look().await
    }

    /// Makes what runs equal to what was found, and tells what changed, in an order in which nothing is told of a watch
    /// that the model does not know.
    async fn apply(&mut self, found: Found) -> Result<(), Closed> {
        let Found { kinds, rights, trouble } = found;
        for view in rights.iter().filter(|view| !self.rights.contains(view)) {
            self.feed.tell(Observation::RightsReviewed(view.clone())).await?;
        }
        self.rights = rights;
        let (run, over) = self.within_limit(&kinds);
        let stale: Vec<Job> = self.tasks.jobs().filter(|job| self.is_stale(job, &run)).cloned().collect();
        for job in stale {
            self.tasks.stop(&job).await;
        }
        if self.kinds.as_ref() != Some(&kinds) {
            self.feed.tell(Observation::KindsDiscovered(kinds.clone())).await?;
            for watch in &over {
                let detail = format!("not watched: --max-watches is {}", self.options.max_watches);
                self.feed.failed(SourceId::Watch(watch.clone()), &Failure::new(Cause::TooLarge, detail)).await?;
            }
        }
        self.set_targets(&run);
        for kind in kinds.iter().filter(|kind| !run.contains_key(&kind.watch)) {
            drop(self.sync.reporter(&kind.watch));
            self.sync.gave_up(&kind.watch);
        }
        self.kinds = Some(kinds);
        for watch in
            run.keys().filter(|watch| !self.tasks.has(&Job::Watch((*watch).clone()))).cloned().collect::<Vec<_>>()
        {
            self.start(&Job::Watch(watch));
        }
        let all: Vec<WatchId> = self.kinds.iter().flatten().map(|kind| kind.watch.clone()).collect();
        self.sync.discovered(&all);
        self.tell_trouble(trouble).await
    }

    async fn tell_trouble(&mut self, trouble: Option<String>) -> Result<(), Closed> {
        if let Some(detail) = trouble.clone() {
            if self.trouble != trouble {
                self.feed.invalid(Discovery::SOURCE, detail).await?;
            }
        } else if self.trouble.is_some() || self.sync.is_first_look() {
            self.feed.recovered(Discovery::SOURCE).await?;
        }
        self.trouble = trouble;
        Ok(())
    }

    /// What can be watched within the limit of connections, and what is left out. Primary kinds come first.
    fn within_limit(&self, kinds: &[WatchedKind]) -> (BTreeMap<WatchId, WatchedKind>, Vec<WatchId>) {
        let others = self.tasks.jobs().filter(|job| matches!(job, Job::Definitions | Job::Lease)).count();
        // With one list each and no watch after it, all get their turn.
        let room = if self.options.once { usize::MAX } else { self.options.max_watches.saturating_sub(others).max(1) };
        let mut visible: Vec<&WatchedKind> = kinds.iter().filter(|kind| kind.missing.is_empty()).collect();
        visible.sort_by_key(|kind| kind.role != Role::Primary);
        let over = visible.split_off(visible.len().min(room));
        let run = visible.into_iter().map(|kind| (kind.watch.clone(), kind.clone())).collect();
        (run, over.into_iter().map(|kind| kind.watch.clone()).collect())
    }

    /// Whether a task watches what is not to be watched any more, or in another way.
    fn is_stale(&self, job: &Job, run: &BTreeMap<WatchId, WatchedKind>) -> bool {
        let Job::Watch(watch) = job else { return false };
        let now = run.get(watch).map(target);
        let was = self.targets.read().unwrap_or_else(PoisonError::into_inner).get(watch).cloned();
        now != was
    }

    fn set_targets(&self, run: &BTreeMap<WatchId, WatchedKind>) {
        let targets = run.iter().map(|(watch, kind)| (watch.clone(), target(kind))).collect();
        *self.targets.write().unwrap_or_else(PoisonError::into_inner) = targets;
    }

    /// Starts a job, unless it has become pointless.
    fn start(&mut self, job: &Job) {
        match job {
            Job::Watch(watch) => {
                let target = self.targets.read().unwrap_or_else(PoisonError::into_inner).get(watch).cloned();
                let Some(target) = target else { return };
                let sink = Objects { watch: watch.clone(), hash_key: self.options.hash_key };
                let reporter = self.sync.reporter(watch);
                self.spawn(job, target, sink, reporter, self.options.once);
            }
            Job::Definitions => {
                let sink = DefinitionSink::new(self.definitions.clone());
                self.spawn(job, Definitions::target(), sink, Reporter::silent(), self.options.once);
            }
            Job::Lease => {
                if let Some((namespace, name)) = self.lease() {
                    let sink = LeaseSink { name };
                    self.spawn(job, lease::target(&namespace), sink, Reporter::silent(), self.options.once);
                }
            }
            // Its questions are lost with it: the model asks again, and gets no answer until the next start.
            Job::Audit => {}
        }
    }

    fn spawn<S: Sink + 'static>(&mut self, job: &Job, target: Target, sink: S, reporter: Reporter, once: bool) {
        let (cluster, feed, commons) = (self.cluster.clone(), self.feed.clone(), Arc::clone(&self.commons));
        let watcher = Watcher::new(cluster, target, sink, feed, commons, reporter, once);
        self.tasks.spawn(job.clone(), watcher.run());
    }

    /// The namespace and name of the leases to follow.
    fn lease(&self) -> Option<(String, Option<String>)> {
        match &self.options.lease {
            LeaseSelection::Off => None,
            // An administrator who looks at everything has no namespace of their own.
            LeaseSelection::OwnNamespace if self.options.select == Selection::EveryKindWithStatus => None,
            LeaseSelection::OwnNamespace => Some((self.cluster.namespace().to_owned(), None)),
            LeaseSelection::In { namespace, name } => Some((namespace.clone(), name.clone())),
        }
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

/// Where a kind is read. Of children the metadata is enough: whom they belong to, and what holds them.
fn target(kind: &WatchedKind) -> Target {
    let WatchedKind { group, version, resource, scope, role, .. } = kind;
    let api = if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
    let path = match scope.namespace() {
        Some(namespace) => format!("{api}/namespaces/{}/{resource}", encode(namespace)),
        None => format!("{api}/{resource}"),
    };
    Target { path, metadata_only: *role == Role::Child }
}
