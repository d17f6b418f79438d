//! The supervisor's own task. It polls discovery, starts and stops watches accordingly, and between
//! polls waits for panics of other tasks and for signs of a change.

use std::collections::BTreeSet;
use std::time::Duration;

use loopwatch_model::observation::Cause;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::events::FollowedEvents;
use super::jobs::Job;
use super::kinds::WatchedKinds;
use super::launcher::Launcher;
use super::operator::OperatorSources;
use super::optional::OptionalWatches;
use super::options::SourceOptions;
use super::polls::{DiscoveryReport, Polls};
use super::probes::ProbeReceivers;
use super::tasks::TaskEvent;
use super::webhooks::FollowedWebhooks;
use crate::net::Failure;
use crate::sources::api_server::{Cluster, Definitions, Discovered, Discovery, InitialSync};
use crate::sources::feed::{Closed, Feed};

/// The state of the task: discovery, and the parts that own the other sources.
pub(super) struct Running {
    launcher: Launcher,
    discovery: Discovery,
    definitions: Definitions,
    polls: Polls,
    kinds: WatchedKinds,
    optional: OptionalWatches,
    webhooks: FollowedWebhooks,
    events: FollowedEvents,
    operator: OperatorSources,
    probes: ProbeReceivers,
    /// When the first new primary object since the last sample of child kinds was announced.
    announced: Option<Instant>,
}

/// Shortest time between polls: a new CRD changes several times in its first second.
const MIN_POLL_INTERVAL: Duration = Duration::from_secs(2);
/// Interval of the cheap check for new and removed kinds.
const CHECK_EVERY: Duration = Duration::from_secs(15);
/// Time from a change to the next poll. The API server serves a new definition after some delay.
const POLL_AFTER_CHANGE: Duration = Duration::from_secs(10);
/// Time to wait for the first samples of child kinds.
const CHILDREN_WITHIN: Duration = Duration::from_secs(3);

impl Running {
    pub(super) fn new(
        cluster: Cluster,
        options: SourceOptions,
        feed: Feed,
        probes: ProbeReceivers,
        sync: InitialSync,
    ) -> Self {
        let observed = options.discovery.observed.as_ref();
        let definitions = observed
            .map(|observed| observed.shared.definitions.for_another_model())
            .unwrap_or_default();
        let discovery =
            Discovery::new(cluster.clone(), options.discovery.clone(), definitions.clone());
        Self {
            launcher: Launcher::new(cluster, options, feed),
            discovery,
            polls: Polls::new(),
            kinds: WatchedKinds::new(sync),
            optional: OptionalWatches::new(definitions.clone()),
            webhooks: FollowedWebhooks::new(definitions.clone()),
            definitions,
            events: FollowedEvents::default(),
            operator: OperatorSources::default(),
            probes,
            announced: None,
        }
    }

    /// Runs until a stop signal, or until nobody receives observations.
    pub(super) async fn run(mut self, stop: CancellationToken) {
        let feed = self.launcher.feed.clone();
        tokio::select! {
            () = stop.cancelled() => {}
            () = feed.closed() => {}
            _ = self.run_until_closed() => {}
        }

        self.launcher.tasks.stop_all().await;
    }

    async fn run_until_closed(&mut self) -> Result<(), Closed> {
        self.start(&Job::Audit);
        self.start(&Job::Reads);
        self.start(&Job::Fields);
        if self.lists_once() {
            self.operator.scraper(&self.launcher).once().await?;
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

            if self.lists_once() && self.kinds.known().is_some() {
                // No further poll is needed, and the running tasks end by themselves.
                self.supervise(None).await?;
            }

            changed = self.supervise(Some(started + wait)).await?;

            // Changes arrive in bursts, and one poll sees all of them.
            tokio::time::sleep_until(started + MIN_POLL_INTERVAL).await;
        }
    }

    /// Supervises the tasks until the next poll is due. Returns true if a change requires it
    /// earlier.
    async fn supervise(&mut self, until: Option<Instant>) -> Result<bool, Closed> {
        let far = Instant::now() + Duration::from_secs(86_400);
        let mut check = tokio::time::interval_at(Instant::now() + CHECK_EVERY, CHECK_EVERY);
        let new_primaries = self.kinds.new_primaries.clone();
        let webhook_services = self.webhooks.services.clone();

        loop {
            let checks = until.is_some() && !self.definitions.are_known();
            let round = self.discovery.next_round(self.announced).filter(|_| until.is_some());
            tokio::select! {
                () = tokio::time::sleep_until(until.unwrap_or(far)) => return Ok(false),
                () = self.launcher.watches.review_requested.notified(), if until.is_some() => {
                    return Ok(true);
                }
                () = self.definitions.changed.notified(), if until.is_some() => return Ok(true),
                () = self.discovery.operator_changed(), if until.is_some() => return Ok(true),
                () = webhook_services.changed.notified() => {
                    // If a failure persists, the next poll reports it.
                    let Self { webhooks, discovery, launcher, .. } = self;
                    let _ = webhooks.follow_endpoints(discovery, launcher).await?;
                }
                // Ignores a failure: if it persists, the next poll reports it.
                _ = check.tick(), if checks => if self.discovery.is_outdated().await == Ok(true) {
                    return Ok(true);
                },
                () = tokio::time::sleep_until(round.unwrap_or(far)), if round.is_some() => {
                    self.sample_children().await?;
                }
                () = new_primaries.announced.notified() => {
                    self.announced.get_or_insert_with(Instant::now);
                }
                event = self.launcher.tasks.next() => match event {
                    TaskEvent::Panicked(job, message) => self.report_panic(&job, &message).await?,
                    TaskEvent::Due(job) => self.start(&job),
                },
            }
        }
    }

    /// Starts a job, unless there is no longer anything to do.
    fn start(&mut self, job: &Job) {
        let launcher = &mut self.launcher;
        match job {
            Job::Watch(watch) => self.kinds.start(watch, launcher),
            Job::Definitions => self.optional.start_definitions(launcher),
            Job::Lease => self.optional.start_leases(launcher),
            Job::Namespaces => self.optional.start_namespaces(launcher),
            Job::Webhooks(kind) => self.webhooks.start(*kind, launcher),
            Job::Endpoints => self.webhooks.start_endpoints(launcher),
            Job::Terminating => self.optional.start_terminating(launcher),
            Job::Events(watch) => self.events.start(watch, launcher),
            Job::Pods => self.operator.start_pods(launcher),
            Job::Audit => self.probes.start_counts(&self.kinds.targets, launcher),
            Job::Reads => self.probes.start_lookups(&self.kinds.children, launcher),
            Job::Fields => self.probes.start_fields(&self.kinds.targets, launcher),
            Job::Metrics => self.operator.start_metrics(launcher),
            Job::Profiles => self.operator.start_profiles(&self.probes.profiles, launcher),
            Job::Process => self.operator.start_process(launcher),
        }
    }

    async fn report_panic(&mut self, job: &Job, message: &str) -> Result<(), Closed> {
        let detail =
            format!("a bug in loopwatch stopped this source, and loopwatch restarts it: {message}");
        let failure = Failure::new(Cause::Other, detail);
        self.launcher.feed.failed(job.source(), &failure).await
    }

    /// Polls once and applies the result; returns the time until the next poll.
    async fn poll(&mut self) -> Result<Duration, Closed> {
        let found = match self.find().await? {
            Ok(found) => found,
            Err(failure) => {
                if self.lists_once() {
                    self.kinds.sync.discovery_failed();
                }
                return self.discovery_failed(&failure).await;
            }
        };

        let watched = self.kinds.known();
        if let Some(wait) = self.polls.succeeded(watched.unwrap_or_default(), &found) {
            return Ok(wait);
        }

        let is_missing =
            found.kinds.iter().any(|kind| !kind.missing.is_empty()) || found.problem.is_some();
        self.polls.note_change(watched != Some(&found.kinds), &found);
        self.apply_with_children(found).await?;

        // These get only the watches that the kinds leave.
        let Self { webhooks, discovery, launcher, .. } = self;
        if let Err(failure) = webhooks.follow(discovery, launcher).await? {
            return self.discovery_failed(&failure).await;
        }

        if !self.lists_once() {
            let Self { kinds, discovery, launcher, .. } = self;
            if let Err(failure) = self.events.follow(kinds, discovery, launcher).await? {
                return self.discovery_failed(&failure).await;
            }
        }

        let often = is_missing || !self.definitions.are_known();
        Ok(self.polls.interval(often, self.discovery.is_behind()))
    }

    /// Polls discovery, after the sources that it needs.
    async fn find(&mut self) -> Result<Result<Discovered, Failure>, Closed> {
        let Self { optional, discovery, launcher, .. } = self;
        if let Err(failure) = optional.review(discovery, launcher).await? {
            return Ok(Err(failure));
        }

        self.operator.follow_pods(launcher).await;
        Ok(self.discovery.poll().await)
    }

    /// Applies a result of discovery, with the child kinds that samples show.
    async fn apply_with_children(&mut self, found: Discovered) -> Result<(), Closed> {
        if self.lists_once() {
            self.discovery.sample_children(BTreeSet::new()).await;
            let found = self.discovery.discovered();
            self.apply(found).await
        } else if self.kinds.known().is_none() {
            // Otherwise, a model that outlived its sources or restored a checkpoint would forget
            // its children.
            let sampled = self.discovery.sample_children(BTreeSet::new());
            let _ = tokio::time::timeout(CHILDREN_WITHIN, sampled).await;
            let found = self.discovery.discovered();
            self.apply(found).await
        } else {
            self.apply(found).await?;
            match self.discovery.next_round(None) {
                None => self.sample_children().await,
                Some(_) => Ok(()),
            }
        }
    }

    /// Samples the child kinds, and watches those whose samples justify it.
    async fn sample_children(&mut self) -> Result<(), Closed> {
        self.announced = None;
        if self.discovery.sample_children(self.kinds.new_primaries.take()).await {
            let found = self.discovery.discovered();
            self.apply(found).await?;

            // If a failure persists, the next poll reports it.
            let Self { events, kinds, discovery, launcher, .. } = self;
            let _ = events.follow(kinds, discovery, launcher).await?;
        }

        Ok(())
    }

    /// Starts and stops watches according to the result, and reports changes.
    async fn apply(&mut self, found: Discovered) -> Result<(), Closed> {
        let Discovered { kinds, permissions, problem } = found;
        let is_first = self.kinds.known().is_none();
        self.discovery.remember(&kinds);
        self.kinds.apply(kinds, permissions, &mut self.launcher).await?;

        let feed = &self.launcher.feed;
        match self.polls.report(problem, is_first) {
            DiscoveryReport::Problem(detail) => feed.invalid(Discovery::SOURCE, detail).await,
            DiscoveryReport::Works => feed.recovered(Discovery::SOURCE).await,
            DiscoveryReport::Nothing => Ok(()),
        }
    }

    /// Reports that discovery failed; returns the time until the next poll.
    async fn discovery_failed(&mut self, failure: &Failure) -> Result<Duration, Closed> {
        let wait = self.polls.failed(failure);
        self.launcher.feed.failed(Discovery::SOURCE, failure).await?;
        Ok(wait)
    }

    /// Whether each watch stops after its first list.
    fn lists_once(&self) -> bool {
        self.launcher.options.discovery.once
    }
}
