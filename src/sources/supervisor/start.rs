//! Starts the task of each job.

use std::sync::{Arc, PoisonError};

use loopwatch_model::observation::{WatchId, WatchedKind};

use super::{Job, Running};
use crate::sources::api_server::{
    ChildSink, DefinitionSink, Definitions, LeaseSink, NamespaceSink, ObjectSink, PrimarySink,
    Sink, SyncReporter, WatchTarget, Watcher,
};
use crate::sources::operator::{
    Hints, PodsReader, ProcessReader, Profiler, Scraper, answer_profiles, follow_process,
};
use crate::sources::probes::{ObjectLookups, answer_counts, answer_lookups};
use crate::system::own_pod::OwnPod;

impl Running {
    /// Starts a job, unless there is no longer anything to do.
    pub(super) fn start(&mut self, job: &Job) {
        let failed = self.tasks.has_panicked(job);
        match job {
            Job::Watch(watch) => self.start_watch(job, watch),
            Job::Definitions => {
                let sink = DefinitionSink::new(self.definitions.clone());
                self.spawn(
                    job,
                    Definitions::target(),
                    sink,
                    SyncReporter::silent(),
                    self.options.discovery.once,
                );
            }
            Job::Lease => {
                if let Some(namespace) = self.lease_namespace() {
                    let (target, sink) = (LeaseSink::target(&namespace), LeaseSink::new(namespace));
                    self.spawn(
                        job,
                        target,
                        sink,
                        SyncReporter::silent(),
                        self.options.discovery.once,
                    );
                }
            }
            Job::Namespaces => {
                let (listed, team_label) =
                    (Arc::clone(&self.namespaces_listed), self.options.team_label.clone());
                let sink = NamespaceSink::new(listed, self.terminating.clone(), team_label);
                self.spawn(
                    job,
                    NamespaceSink::target(),
                    sink,
                    SyncReporter::silent(),
                    self.options.discovery.once,
                );
            }
            Job::Terminating => {
                let (cluster, feed) = (self.cluster.clone(), self.feed.clone());
                self.tasks
                    .spawn(job.clone(), self.terminating.clone().follow(cluster, feed, failed));
            }
            Job::Events(watch) => {
                let Some((target, sink)) = self.events.watch_of(watch, self.feed.clock()) else {
                    return;
                };
                self.spawn(job, target, sink, SyncReporter::silent(), false);
            }
            Job::Pods => {
                let Some(identity) = self.cluster.operator().cloned() else { return };
                let (cluster, feed, shared) =
                    (self.cluster.clone(), self.feed.clone(), Arc::clone(&self.shared));
                let reader = PodsReader::new(
                    cluster,
                    identity,
                    feed,
                    shared,
                    self.pods.clone(),
                    self.options.discovery.once,
                );

                self.tasks.spawn(job.clone(), reader.run());
            }
            Job::Audit => {
                let (cluster, targets, feed) =
                    (self.cluster.clone(), Arc::clone(&self.targets), self.feed.clone());
                self.tasks.spawn(
                    job.clone(),
                    answer_counts(cluster, targets, feed, Arc::clone(&self.counts), failed),
                );
            }
            Job::Reads => {
                let reader = ObjectLookups::new(
                    self.cluster.clone(),
                    self.options.discovery.hash_key,
                    self.options.discovery.secrets,
                    self.children.clone(),
                );
                let (feed, probes) = (self.feed.clone(), Arc::clone(&self.reads));
                self.tasks.spawn(job.clone(), answer_lookups(reader, feed, probes, failed));
            }
            Job::Metrics => self.tasks.spawn(job.clone(), self.scraper().run()),
            Job::Profiles => {
                let (options, own) =
                    (self.options.profiles.clone(), self.cluster.own_pod().cloned());
                let profiler = Profiler::new(options, own, Arc::clone(&self.metrics_addresses));
                let (feed, probes) = (self.feed.clone(), Arc::clone(&self.profiles));

                self.tasks.spawn(job.clone(), answer_profiles(profiler, feed, probes, failed));
            }
            Job::Process => {
                let pod = self.cluster.own_pod().map(OwnPod::instance);
                let named = self.options.scrape.target.first_instance();
                let (clues, every) = (self.pods.clues().subscribe(), self.options.scrape.interval);
                let reader = ProcessReader::new(self.options.process, pod, named, clues, every);

                self.tasks.spawn(job.clone(), follow_process(reader, self.feed.clone()));
            }
        }
    }

    /// Starts a watch, unless there is no longer anything to watch.
    fn start_watch(&mut self, job: &Job, watch: &WatchId) {
        let target =
            self.targets.read().unwrap_or_else(PoisonError::into_inner).get(watch).cloned();
        let Some(target) = target else { return };
        let (hash_key, annotations) =
            (self.options.discovery.hash_key, self.options.annotations.clone());
        let sink = ObjectSink { watch: watch.clone(), hash_key, annotations };
        let (reporter, once) = (self.sync.reporter(watch), self.options.discovery.once);
        let is_filtered = |kind: &WatchedKind| kind.watch == *watch && kind.filtered;

        if self.kinds.iter().flatten().any(is_filtered) {
            let kept = self.kept.entry(watch.clone()).or_default().clone();
            self.spawn(
                job,
                target,
                ChildSink::new(sink, Arc::clone(&self.owners), kept),
                reporter,
                once,
            );
        } else {
            let clock = self.feed.clock().clone();
            let sink = PrimarySink::new(sink, self.new_primaries.clone(), clock);
            self.spawn(job, target, sink, reporter, once);
        }
    }

    pub(super) fn scraper(&self) -> Scraper {
        let (options, pods) = (self.options.scrape.clone(), self.pods.targets());
        let hints =
            Hints { addresses: Arc::clone(&self.metrics_addresses), clues: self.pods.clues() };
        Scraper::new(options, self.cluster.own_pod().cloned(), pods, self.feed.clone(), hints)
    }

    fn spawn<S: Sink + 'static>(
        &mut self,
        job: &Job,
        target: WatchTarget,
        sink: S,
        reporter: SyncReporter,
        once: bool,
    ) {
        let (cluster, feed, shared) =
            (self.cluster.clone(), self.feed.clone(), Arc::clone(&self.shared));
        let watcher = Watcher::new(cluster, target, sink, feed, shared, reporter, once);
        self.tasks.spawn(job.clone(), watcher.run());
    }
}
