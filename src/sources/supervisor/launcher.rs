//! What all sources need to start: the connection, the options, and the running tasks.

use std::sync::Arc;

use super::jobs::Job;
use super::options::SourceOptions;
use super::tasks::Tasks;
use crate::sources::api_server::{
    Cluster, Selection, SharedWatchState, SyncReporter, WatchSink, WatchTarget, Watcher,
};
use crate::sources::feed::Feed;

/// Starts tasks.
pub(super) struct Launcher {
    pub(super) cluster: Cluster,
    pub(super) options: SourceOptions,
    pub(super) feed: Feed,
    pub(super) tasks: Tasks,
    /// What all watches share.
    pub(super) watches: Arc<SharedWatchState>,
}

impl Launcher {
    pub(super) fn new(cluster: Cluster, options: SourceOptions, feed: Feed) -> Self {
        let observed = options.discovery.observed.as_ref();
        let watches = observed
            .map(|observed| Arc::new(observed.shared.watches.for_another_model()))
            .unwrap_or_default();
        Self { cluster, options, feed, tasks: Tasks::default(), watches }
    }

    /// Starts a watch of something other than the objects of a kind.
    pub(super) fn watch<S: WatchSink + 'static>(
        &mut self,
        job: &Job,
        target: WatchTarget,
        sink: S,
    ) {
        let once = self.options.discovery.once;
        self.watch_and_report(job, target, sink, SyncReporter::silent(), once);
    }

    /// Starts a watch that reports its first list; with `once`, it ends with that list.
    pub(super) fn watch_and_report<S: WatchSink + 'static>(
        &mut self,
        job: &Job,
        target: WatchTarget,
        sink: S,
        reporter: SyncReporter,
        once: bool,
    ) {
        let (cluster, feed, shared) =
            (self.cluster.clone(), self.feed.clone(), Arc::clone(&self.watches));
        let watcher = Watcher::new(cluster, target, sink, feed, shared, reporter, once);
        self.tasks.spawn(job.clone(), watcher.run());
    }

    /// Starts another task.
    pub(super) fn spawn(&mut self, job: &Job, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(job.clone(), task);
    }

    /// The namespace of the operator. An administrator who watches every kind has none.
    pub(super) fn operator_namespace(&self) -> Option<&str> {
        let is_all = self.options.discovery.select == Selection::EveryKindWithStatus;
        (!is_all).then(|| self.cluster.namespace())
    }

    /// The number of started jobs that count towards `--max-watches`.
    pub(super) fn count_watches(&self, among: impl Fn(&Job) -> bool) -> usize {
        self.tasks.jobs().filter(|job| job.counts_as_watch() && among(job)).count()
    }
}
