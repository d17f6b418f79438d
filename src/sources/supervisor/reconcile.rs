//! Starts and stops tasks according to the result of discovery.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

use loopwatch_model::observation::{Cause, Observation, PermissionsView, Role, Scope, SourceId, WatchId, WatchedKind};

use super::{Job, Running};
use crate::sources::address::collection;
use crate::sources::audit;
use crate::sources::children::{ChildSink, Owners, PrimarySink};
use crate::sources::cluster::OwnPod;
use crate::sources::definitions::{DefinitionSink, Definitions};
use crate::sources::discovery::{Discovered, Discovery};
use crate::sources::failure::Failure;
use crate::sources::feed::Closed;
use crate::sources::lease::{self, LeaseSink};
use crate::sources::namespaces::{self, NamespaceSink};
use crate::sources::options::{LeaseSelection, Selection};
use crate::sources::pods::PodsReader;
use crate::sources::process;
use crate::sources::profiles::{self, Profiler};
use crate::sources::reads::{self, Reader};
use crate::sources::sync::SyncReporter;
use crate::sources::watch::objects::ObjectSink;
use crate::sources::watch::{Sink, WatchTarget, Watcher};

// === impl Running ===

impl Running {
    /// Starts and stops tasks according to the result, and reports changes. The model learns of each watch before
    /// the watch sends observations.
    pub(super) async fn apply(&mut self, found: Discovered) -> Result<(), Closed> {
        let Discovered { kinds, permissions, problem } = found;
        let is_first = self.kinds.is_none();
        for view in permissions.iter().filter(|view| !self.permissions.contains(view)) {
            self.feed.send(Observation::PermissionsReviewed(view.clone())).await?;
        }
        let is_gone = |view: &&PermissionsView| permissions.iter().all(|now| now.namespace != view.namespace);
        for view in self.permissions.iter().filter(is_gone) {
            let view = PermissionsView { namespace: view.namespace.clone(), ..PermissionsView::default() };
            self.feed.send(Observation::PermissionsReviewed(view)).await?;
        }
        self.permissions = permissions;
        let (run, over) = self.within_limit(&kinds);
        let primaries = run.values().filter(|kind| kind.role == Role::Primary);
        let owners: Owners = primaries.map(|kind| (kind.group.as_str(), kind.kind.as_str())).collect();
        if *self.owners != owners {
            self.owners = Arc::new(owners);
            // Objects that their watches have hidden may belong to a new kind.
            let filtered: Vec<Job> = self.tasks.jobs().filter(|job| is_filtered(job, &run)).cloned().collect();
            for job in filtered {
                self.tasks.stop(&job).await;
            }
        }
        let stale: Vec<Job> = self.tasks.jobs().filter(|job| self.is_stale(job, &run)).cloned().collect();
        for job in stale {
            self.tasks.stop(&job).await;
        }
        let changed = self.kinds.as_ref() != Some(&kinds);
        if changed {
            self.feed.send(Observation::KindsDiscovered(kinds.clone())).await?;
        }
        // A source that is not about a kind may have taken the room of a watch, although the kinds are the same.
        for watch in over.iter().filter(|watch| changed || !self.over.contains(watch)) {
            let detail = format!(
                "not watched, because the number of watches is limited to {} (--max-watches)",
                self.options.max_watches
            );
            self.feed.failed(SourceId::Watch(watch.clone()), &Failure::new(Cause::TooLarge, detail)).await?;
        }
        self.over = over;
        self.set_targets(&run);
        self.kept.retain(|watch, _| run.contains_key(watch));
        for kind in kinds.iter().filter(|kind| !run.contains_key(&kind.watch)) {
            drop(self.sync.reporter(&kind.watch));
            self.sync.gave_up(&kind.watch);
        }
        self.discovery.remember(&kinds);
        self.kinds = Some(kinds);
        let has = |watch: &WatchId| self.tasks.has(&Job::Watch(watch.clone()));
        let mut new: Vec<&WatchedKind> = run.values().filter(|kind| !has(&kind.watch)).collect();
        new.sort_by_key(|kind| kind.role != Role::Primary); // lists take turns
        for kind in new {
            self.start(&Job::Watch(kind.watch.clone()));
        }
        let all: Vec<WatchId> = self.kinds.iter().flatten().map(|kind| kind.watch.clone()).collect();
        self.sync.discovered(&all);
        self.report_problem(problem, is_first).await
    }

    async fn report_problem(&mut self, problem: Option<String>, is_first: bool) -> Result<(), Closed> {
        if let Some(detail) = problem.clone() {
            if self.problem != problem {
                self.feed.invalid(Discovery::SOURCE, detail).await?;
            }
        } else if self.problem.is_some() || is_first {
            self.feed.recovered(Discovery::SOURCE).await?;
        }
        self.problem = problem;
        Ok(())
    }

    /// The kinds to watch within the limit, and the watches that exceed it. Primary kinds come first.
    fn within_limit(&self, kinds: &[WatchedKind]) -> (BTreeMap<WatchId, WatchedKind>, Vec<WatchId>) {
        let is_other = |job: &&Job| matches!(job, Job::Definitions | Job::Lease | Job::Namespaces | Job::Pods);
        let others = self.tasks.jobs().filter(is_other).count();
        // With `once`, watches only list, and lists take turns, so the limit does not apply.
        let room = if self.options.once { usize::MAX } else { self.options.max_watches.saturating_sub(others).max(1) };
        let mut visible: Vec<&WatchedKind> = kinds.iter().filter(|kind| kind.missing.is_empty()).collect();
        visible.sort_by_key(|kind| kind.role != Role::Primary);
        let over = visible.split_off(visible.len().min(room));
        let run = visible.into_iter().map(|kind| (kind.watch.clone(), kind.clone())).collect();
        (run, over.into_iter().map(|kind| kind.watch.clone()).collect())
    }

    /// Whether a task watches a removed kind, or at an outdated address.
    fn is_stale(&self, job: &Job, run: &BTreeMap<WatchId, WatchedKind>) -> bool {
        let Job::Watch(watch) = job else { return false };
        let now = run.get(watch).map(|kind| self.target(kind));
        let was = self.targets.read().unwrap_or_else(PoisonError::into_inner).get(watch).cloned();
        now != was
    }

    /// The address of a kind, without the namespaces that the user excludes.
    fn target(&self, kind: &WatchedKind) -> WatchTarget {
        let everywhere = kind.scope == Scope::AllNamespaces;
        let without = if everywhere { self.options.exclude_namespaces.clone() } else { Vec::new() };
        WatchTarget { without, ..target(kind) }
    }

    fn set_targets(&self, run: &BTreeMap<WatchId, WatchedKind>) {
        let targets = run.iter().map(|(watch, kind)| (watch.clone(), self.target(kind))).collect();
        *self.targets.write().unwrap_or_else(PoisonError::into_inner) = targets;
        let children = run.values().filter(|kind| kind.role == Role::Child);
        let children = children.map(|kind| (kind.group.clone(), kind.kind.clone())).collect();
        *self.children.write().unwrap_or_else(PoisonError::into_inner) = children;
    }

    /// Starts a job, unless there is no longer anything to watch.
    pub(super) fn start(&mut self, job: &Job) {
        match job {
            Job::Watch(watch) => {
                let target = self.targets.read().unwrap_or_else(PoisonError::into_inner).get(watch).cloned();
                let Some(target) = target else { return };
                let (hash_key, annotations) = (self.options.hash_key, self.options.annotations.clone());
                let sink = ObjectSink { watch: watch.clone(), hash_key, annotations };
                let (reporter, once) = (self.sync.reporter(watch), self.options.once);
                let is_filtered = |kind: &WatchedKind| kind.watch == *watch && kind.filtered;
                if self.kinds.iter().flatten().any(is_filtered) {
                    let kept = self.kept.entry(watch.clone()).or_default().clone();
                    self.spawn(job, target, ChildSink::new(sink, Arc::clone(&self.owners), kept), reporter, once);
                } else {
                    let clock = self.feed.clock().clone();
                    let sink = PrimarySink::new(sink, self.new_primaries.clone(), clock);
                    self.spawn(job, target, sink, reporter, once);
                }
            }
            Job::Definitions => {
                let sink = DefinitionSink::new(self.definitions.clone());
                self.spawn(job, Definitions::target(), sink, SyncReporter::silent(), self.options.once);
            }
            Job::Lease => {
                if let Some(namespace) = self.lease_namespace() {
                    let (target, sink) = (lease::target(&namespace), LeaseSink::new(namespace));
                    self.spawn(job, target, sink, SyncReporter::silent(), self.options.once);
                }
            }
            Job::Namespaces => {
                let (listed, team_label) = (Arc::clone(&self.namespaces_listed), self.options.team_label.clone());
                let sink = NamespaceSink::new(listed, self.terminating.clone(), team_label);
                self.spawn(job, namespaces::target(), sink, SyncReporter::silent(), self.options.once);
            }
            Job::Terminating => {
                let (cluster, feed) = (self.cluster.clone(), self.feed.clone());
                let failed = self.tasks.has_panicked(job);
                self.tasks.spawn(job.clone(), self.terminating.clone().follow(cluster, feed, failed));
            }
            Job::Events(watch) => {
                let Some((target, sink)) = self.events.watch_of(watch, self.feed.clock()) else { return };
                self.spawn(job, target, sink, SyncReporter::silent(), false);
            }
            Job::Pods => {
                let Some(identity) = self.cluster.operator().cloned() else { return };
                let (cluster, feed, shared) = (self.cluster.clone(), self.feed.clone(), Arc::clone(&self.shared));
                let reader = PodsReader::new(cluster, identity, feed, shared, self.pods.clone(), self.options.once);
                self.tasks.spawn(job.clone(), reader.run());
            }
            Job::Audit => {
                let (cluster, targets, feed) = (self.cluster.clone(), Arc::clone(&self.targets), self.feed.clone());
                let failed = self.tasks.has_panicked(job);
                self.tasks.spawn(job.clone(), audit::run(cluster, targets, feed, Arc::clone(&self.counts), failed));
            }
            Job::Reads => {
                let reader = Reader::new(self.cluster.clone(), &self.options, self.children.clone());
                let (feed, probes) = (self.feed.clone(), Arc::clone(&self.reads));
                let failed = self.tasks.has_panicked(job);
                self.tasks.spawn(job.clone(), reads::run(reader, feed, probes, failed));
            }
            Job::Metrics => self.tasks.spawn(job.clone(), self.scraper().run()),
            Job::Profiles => {
                let (options, own) = (self.options.profiles.clone(), self.cluster.own_pod().cloned());
                let profiler = Profiler::new(options, own, Arc::clone(&self.metrics_addresses));
                let (feed, probes) = (self.feed.clone(), Arc::clone(&self.profiles));
                let failed = self.tasks.has_panicked(job);
                self.tasks.spawn(job.clone(), profiles::run(profiler, feed, probes, failed));
            }
            Job::Process => {
                let pod = self.cluster.own_pod().map(OwnPod::instance);
                let named = self.options.scrape.target.first_instance();
                let (clues, every) = (self.pods.clues().subscribe(), self.options.scrape.interval);
                let reader = process::Reader::new(self.options.process, pod, named, clues, every);
                self.tasks.spawn(job.clone(), process::run(reader, self.feed.clone()));
            }
        }
    }

    fn spawn<S: Sink + 'static>(
        &mut self,
        job: &Job,
        target: WatchTarget,
        sink: S,
        reporter: SyncReporter,
        once: bool,
    ) {
        let (cluster, feed, shared) = (self.cluster.clone(), self.feed.clone(), Arc::clone(&self.shared));
        let watcher = Watcher::new(cluster, target, sink, feed, shared, reporter, once);
        self.tasks.spawn(job.clone(), watcher.run());
    }

    /// The namespace of the leases to follow.
    pub(super) fn lease_namespace(&self) -> Option<String> {
        match &self.options.lease {
            LeaseSelection::Off => None,
            // An administrator who watches every kind has no operator namespace.
            LeaseSelection::OwnNamespace if self.options.select == Selection::EveryKindWithStatus => None,
            LeaseSelection::OwnNamespace => Some(self.cluster.namespace().to_owned()),
        }
    }
}

/// Whether a job hides objects that belong to no primary kind.
fn is_filtered(job: &Job, run: &BTreeMap<WatchId, WatchedKind>) -> bool {
    matches!(job, Job::Watch(watch) if run.get(watch).is_some_and(|kind| kind.filtered))
}

/// The address of a kind.
fn target(kind: &WatchedKind) -> WatchTarget {
    let WatchedKind { group, version, resource, scope, metadata_only, .. } = kind;
    WatchTarget::new(collection(group, version, resource, scope.namespace()), *metadata_only)
}
