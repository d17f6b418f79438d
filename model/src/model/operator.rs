//! The operator itself: its Pods, and each instance with its controllers and its process.

pub(crate) mod controllers; // signs of life
pub(crate) mod leases;
pub(crate) mod revisions; // which one is in charge
mod alone; // a Pod that restarts, without others in view
mod availability; // for which part of the time it runs
mod rise; // of a count within a window
mod startup_grace; // for an operator that starts together with loopwatch
mod conflicts; // of its writes with those of others
mod events; // for its timeline
mod health; // whether it is there
mod history; // what its metrics have shown
mod leader_absence; // whether nobody leads
mod leaders; // its leases
mod leak_chain; // memory, finalizers and deletions with one cause
mod life; // signs of life other than the Pods
mod loops; // its control loops
mod lost_pods; // that nobody replaced on purpose
mod other_containers; // of its Pods
mod pace; // how often a controller reconciles
mod partly_down; // some of its Pods
mod pod_history; // restarts and ends of the containers of a Pod
mod pods; // which of its Pods run
mod poison; // objects that make it crash
mod queue; // whether it is worked off
mod process; // the process of an instance, from the kernel and from its metrics
mod recent; // the last hour, for charts
mod reconciled; // which controller reconciles which kind
mod recovery; // after faults of the API server
mod repeated_ends; // of its containers, too rare for a restart loop
mod requests; // its requests to the API server
mod restarts; // its restarts
mod review; // collects all conclusions
mod scaled_to_zero; // while it is scaled to zero
mod scraped; // what a scrape shows of one controller
mod silent_loop; // reconciles that nobody needs
mod unchanged_writes; // writes that change nothing
mod usual; // how long its reconciles take
mod window; // counts within a time
mod written; // how much an instance writes
mod trends; // signals that may grow without bound

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use self::controllers::Controllers;
use self::history::History;
use self::leaders::Leaders;
use self::leases::Leases;
use self::pods::Pods;
use self::poison::Suspect;
use self::recent::Recent;
use self::recovery::Recovery;
use self::revisions::Revisions;
use self::rise::Rise;
use self::trends::Trends;
use self::usual::UsualReconciles;
use crate::checkpoint::ReconcileMemory;
use crate::finding::{FindingCode, Subject};
use crate::model::findings::open_findings::OpenFindings;
use crate::model::traces::Traces;
use crate::model::world::World;
use crate::model::world::limits::Limit;
use crate::observation::{
    Answer, Cause, Framework, InstanceName, MetricsView, OperatorView, PodView, ProcessView,
    ProfileKind, ProfileView, SourceId,
};
use crate::time::{Span, Timestamp};
use crate::trace::OperatorChange;

/// The maximum number of instances. A new one replaces the one that loopwatch has not seen for
/// longest.
pub(super) const MAX_INSTANCES: usize = 50;

/// The findings that a sign of life ends.
const GONE: [FindingCode; 2] = [FindingCode::OperatorDown, FindingCode::LeaderAbsent];

/// The maximum number of restarts that are remembered per instance.
const MAX_RESTARTS: usize = 32;

/// Start times that differ by more than this belong to two processes. Frameworks round them.
const SAME_START: Span = Span::secs(2);

/// A start time that precedes the last sign of life of the known process by more than this does not
/// show a new process: somebody has set the node's clock. The clocks of two nodes differ by less.
const CLOCKS_DIFFER: Span = Span::mins(5);

/// All that is known about the operator.
#[derive(Debug, Default)]
pub(crate) struct Operator {
    /// Its workload and Pods; absent until they are read for the first time.
    pub(crate) view: Option<Arc<OperatorView>>,
    /// By the name of the instance.
    pub(crate) instances: BTreeMap<String, Instance>,
    pub(crate) controllers: Controllers,
    pub(crate) leases: Leases,
    pub(crate) revisions: Revisions,
    pods: Pods,
    leaders: Leaders,
    /// The object that may make it crash.
    suspect: Option<Suspect>,
    recovery: Recovery,
    /// Of the requests that the API server denies.
    forbidden_rise: Rise,
    /// The open findings about its requests that are more than a short restart.
    long_faults: BTreeSet<FindingCode>,
    /// When loopwatch first heard of it.
    heard_since: Option<Timestamp>,
    /// When loopwatch first saw its Pods.
    first_seen: Option<Timestamp>,
    /// It has been seen running.
    has_begun: bool,
    /// The last finding about its restarts was about rare ones.
    restarts_rarely: bool,
    /// It has been gone for long enough to justify a page.
    down: bool,
    /// The findings about it that are open.
    found: BTreeSet<(FindingCode, Subject)>,
    /// When its timer is due.
    due: Option<Timestamp>,
    usual: UsualReconciles,
    pub(crate) trends: Trends,
}

/// One process of the operator, and those that ran before it under the same name.
#[derive(Debug, Default)]
pub(crate) struct Instance {
    /// When loopwatch last heard of it.
    pub(crate) seen: Timestamp,
    /// The last scrape.
    pub(crate) metrics: Option<(Timestamp, Arc<MetricsView>)>,
    /// Why scrapes fail, and since when; absent if the last one succeeded.
    pub(crate) scrape_failure: Option<(Timestamp, Cause)>,
    /// The process as the kernel last described it; absent if it has ended.
    by_kernel: Option<(Timestamp, ProcessView)>,
    /// The start of the latest process that the kernel has shown.
    started_by_kernel: Option<Timestamp>,
    /// When its process ended, unless another one has taken its place.
    process_ended: Option<Timestamp>,
    /// How often another process took its place.
    replaced: u32,
    /// The times of the latest of these replacements, at most [`MAX_RESTARTS`].
    restarts: VecDeque<Timestamp>,
    /// What its metrics have shown so far.
    history: History,
    /// The last comparison of profiles of each kind.
    pub(crate) profiles: BTreeMap<ProfileKind, ProfileView>,
    /// Its last hour.
    recent: Recent,
}

impl Operator {
    /// Returns an instance, and adds it if it is new.
    fn instance(&mut self, now: Timestamp, name: &str) -> &mut Instance {
        if !self.instances.contains_key(name) && self.instances.len() >= MAX_INSTANCES {
            let oldest = self
                .instances
                .iter()
                .min_by_key(|(_, instance)| instance.seen)
                .map(|(name, _)| name.clone());

            oldest.into_iter().for_each(|name| _ = self.instances.remove(&name));
        }

        let instance = self.instances.entry(name.to_owned()).or_default();
        instance.seen = now;
        instance
    }

    /// Returns the Pod of an instance, if it is visible.
    fn pod_of(&self, instance: &str) -> Option<&PodView> {
        self.view.as_ref()?.pod_of(InstanceName(instance))
    }

    /// Returns whether an instance may still run, as far as the Pods show it.
    fn may_run(&self, instance: &str) -> bool {
        self.view.as_ref().is_none_or(|view| view.may_run(InstanceName(instance)))
    }

    /// Returns the framework whose metrics the operator offers.
    pub(super) fn framework(&self) -> Framework {
        let known = self.instances.values().filter_map(|instance| instance.metrics.as_ref());
        let frameworks = known.map(|(_, metrics)| metrics.framework);
        frameworks.filter(|framework| *framework != Framework::Unknown).min().unwrap_or_default()
    }
}

impl Instance {
    /// Notes the start of the process that a source has just seen. `known` is when the same source
    /// last saw the process, and the start that it showed then. Starts from the kernel and from the
    /// metrics are not compared, because their clocks differ. Returns whether this is another
    /// process.
    fn note_start(
        &mut self,
        now: Timestamp,
        known: (Option<Timestamp>, Option<Timestamp>),
        started: Option<Timestamp>,
    ) -> bool {
        let (seen, known) = known;
        let is_another = is_successor(known, started, seen);
        if is_another {
            self.replaced = self.replaced.saturating_add(1);
            if self.restarts.len() >= MAX_RESTARTS {
                self.restarts.pop_front();
            }

            self.restarts.push_back(now);
        }

        is_another
    }

    fn clock_stepped(&mut self, by_ms: i64) {
        let shift = |at: &mut Timestamp| *at = at.shifted(by_ms);
        shift(&mut self.seen);
        self.metrics.iter_mut().for_each(|(at, _)| shift(at));
        self.scrape_failure.iter_mut().for_each(|(at, _)| shift(at));

        // Start times in metrics are by the node's clock, so they stay.
        if let Some((at, process)) = &mut self.by_kernel {
            shift(at);
            process.started.iter_mut().for_each(shift);
        }

        let instants = [&mut self.started_by_kernel, &mut self.process_ended].into_iter().flatten();
        self.restarts.iter_mut().chain(instants).for_each(shift);
        self.history.clock_stepped(by_ms);
        self.recent.clock_stepped(by_ms);
    }
}

/// Returns whether the process that `started` has replaced the `known` one. `known` is the start of
/// the known process, and `seen` is when it was last seen.
fn is_successor(
    known: Option<Timestamp>,
    started: Option<Timestamp>,
    seen: Option<Timestamp>,
) -> bool {
    let is_before =
        |seen: Timestamp| started.is_some_and(|started| started.after(CLOCKS_DIFFER) < seen);
    is_later(started, known) && !seen.is_some_and(is_before)
}

/// Returns whether `started` is the start of a later process than `other`.
fn is_later(started: Option<Timestamp>, other: Option<Timestamp>) -> bool {
    started.zip(other).is_some_and(|(started, other)| started > other.after(SAME_START))
}

impl Operator {
    pub(super) fn operator_seen(
        &mut self,
        world: &mut World,
        findings: &mut OpenFindings,
        traces: &mut Traces,
        view: OperatorView,
    ) {
        let up = world.sources.up_since(&SourceId::Pods);

        // While the source is off, the view holds only what the environment of loopwatch says. That
        // does not count as a success.
        if view.complete || view.pods.iter().any(|pod| !pod.phase.is_empty()) {
            world.sources.note_success(&SourceId::Pods, world.now);
        }

        if view.pods_left_out > 0 {
            world.count_dropped(Limit::OperatorPods);
        }

        let was_running = self.pods.running;
        let was_stopped = self.pods.unwanted_since;
        let ends = self.pods.update(world.now, &view, up, world.settings.restart_window);
        world.operator_stopped = self.pods.unwanted_since.is_some();
        self.view = Some(Arc::new(view));
        self.forget_trends(world, findings, None);
        self.containers_ended(world, &ends);

        ends.iter().for_each(|end| {
            traces.operator_changed(end.finished.unwrap_or(world.now), OperatorChange::Stopped)
        });

        if was_running != self.pods.running {
            world.review_deletions(); // their controller has stopped, or is back
        }

        self.review_stop(world, was_stopped);
        self.note_beginning(world, findings);
        self.review_beginning(world, findings);
        self.review_revision(world);
        self.operator_heard(world);
    }

    pub(super) fn metrics_scraped(
        &mut self,
        world: &mut World,
        findings: &mut OpenFindings,
        view: MetricsView,
    ) {
        world.sources.note_success(&SourceId::Metrics, world.now);
        let now = world.now;
        let open = self.found.clone();
        let instance = self.instance(now, &view.instance);
        let earlier = instance.metrics.take();
        let known = earlier.as_ref().map(|(at, earlier)| (*at, &**earlier));
        let known_start = known.and_then(|(_, earlier)| earlier.process.started);
        let known_at = known.map(|(at, _)| at);

        // If the kernel shows the process, it shows this restart too, and `process_seen` counts it.
        let restarted = if instance.started_by_kernel.is_none() {
            instance.note_start(now, (known_at, known_start), view.process.started)
        } else {
            is_successor(known_start, view.process.started, known_at)
        };
        let panicked = instance.history.update(now, known, &view, restarted, &open, world);

        // `recent` reads the process from the new metrics, so they are stored first.
        instance.scrape_failure = None;
        let name = view.instance.clone();
        instance.recent.scraped(now, &view);
        instance.metrics = Some((now, Arc::new(view)));
        instance.recent.process_seen(now, &instance.process());

        let Self { usual, instances, .. } = self;
        if let Some(Instance { metrics: Some((_, view)), history, .. }) = instances.get(&name) {
            usual.learn(now, view, &history.controllers);
        }

        if panicked {
            self.operator_panicked(world);
        }

        // The source's interval is the longest one of any instance.
        let metrics = self.instances.values().filter_map(|instance| instance.metrics.as_ref());
        let longest =
            metrics.map(|(_, view)| view.interval).filter(|interval| *interval > Span::ZERO).max();

        world.sources.set_interval(&SourceId::Metrics, world.now, longest);
        self.note_busy_workers(world, &name);
        self.note_silent_loops(world, &name);
        self.note_unchanged_writes(world, &name);
        self.sample_trends(world, findings, &name);
        self.operator_heard(world);
    }

    pub(super) fn scrape_failed(
        &mut self,
        world: &mut World,
        instance: &str,
        cause: Cause,
        _detail: &str,
    ) {
        let now = world.now;
        let instance = self.instance(now, instance);
        let since = instance
            .scrape_failure
            .filter(|(_, known)| *known == cause)
            .map_or(now, |(since, _)| since);

        instance.scrape_failure = Some((since, cause));
        self.operator_heard(world);
    }

    pub(super) fn process_seen(
        &mut self,
        world: &mut World,
        findings: &mut OpenFindings,
        view: ProcessView,
    ) {
        world.sources.note_success(&SourceId::Process, world.now);
        let now = world.now;
        let instance = self.instance(now, &view.instance);
        let name = view.instance.clone();
        let seen = instance.by_kernel.as_ref().map(|(at, _)| *at);

        instance.note_start(now, (seen, instance.started_by_kernel), view.started);
        instance.started_by_kernel = view.started.or(instance.started_by_kernel);
        instance.process_ended = None;
        instance.by_kernel = Some((now, view));
        instance.recent.process_seen(now, &instance.process());
        self.operator_heard(world);
        self.sample_trends(world, findings, &name);
    }

    pub(super) fn process_gone(
        &mut self,
        world: &mut World,
        findings: &mut OpenFindings,
        instance: &str,
    ) {
        let now = world.now;
        if let Some(instance) = self.instances.get_mut(instance)
            && instance.by_kernel.take().is_some()
        {
            instance.process_ended = Some(now);
        }

        self.operator_heard(world);
        self.forget_trends(world, findings, Some(instance));
    }

    pub(super) fn profiled(
        &mut self,
        world: &mut World,
        findings: &mut OpenFindings,
        instance: &str,
        kind: ProfileKind,
        answer: Answer,
    ) {
        // Any other answer does not change the state of the source. It is off, for example, if the
        // operator serves no pprof.
        let Answer::Profiled(profile) = answer else { return };
        world.sources.note_success(&SourceId::Profiles, world.now);
        if let Some(known) = self.instances.get_mut(instance) {
            known.profiles.insert(kind, *profile);
            self.review_trends(world, findings);
        }
    }

    fn operator_heard(&mut self, world: &mut World) {
        self.heard_since.get_or_insert(world.now);
        world.agenda.operator = true;
    }

    /// Schedules a review of the operator after a sign of life if a finding says that it is gone, or
    /// that nobody leads.
    pub(crate) fn operator_shows_life(&self, world: &mut World) {
        world.agenda.operator |= self.found.iter().any(|(code, _)| GONE.contains(code));
    }

    /// Returns how long the reconciles of each controller usually take, for a checkpoint.
    pub(super) fn remembered_reconciles(&self) -> BTreeMap<String, ReconcileMemory> {
        self.usual.remembered()
    }

    pub(super) fn restore_reconciles(
        &mut self,
        now: Timestamp,
        memories: BTreeMap<String, ReconcileMemory>,
    ) {
        self.usual.restore(now, memories);
    }

    /// Moves all instants of loopwatch's own clock by `by_ms` milliseconds.
    pub(super) fn clock_stepped(&mut self, by_ms: i64) {
        self.controllers.clock_stepped(by_ms);
        self.leases.clock_stepped(by_ms);
        self.revisions.clock_stepped(by_ms);
        self.pods.clock_stepped(by_ms);
        self.leaders.clock_stepped(by_ms);
        self.suspect.iter_mut().for_each(|suspect| suspect.clock_stepped(by_ms));
        self.recovery.clock_stepped(by_ms);
        self.forbidden_rise.clock_stepped(by_ms);
        self.usual.clock_stepped(by_ms);
        self.trends.clock_stepped(by_ms);
        self.instances.values_mut().for_each(|instance| instance.clock_stepped(by_ms));

        let own = self.heard_since.iter_mut().chain(&mut self.first_seen).chain(&mut self.due);
        own.for_each(|at| *at = at.shifted(by_ms));
    }
}
