//! The watches of objects: starts and stops them according to the result of discovery.

use std::collections::BTreeMap;
use std::sync::Arc;

use loopwatch_model::observation::{
    Cause, Observation, PermissionsView, Role, Scope, SourceId, WatchId, WatchedKind,
};

use super::jobs::Job;
use super::launcher::Launcher;
use crate::lock::{read_lock, write_lock};
use crate::net::Failure;
use crate::sources::api_server::{
    ChildSink, InitialSync, Kept, NewPrimaries, ObjectSink, PrimarySink, WatchTarget, collection,
};
use crate::sources::decoding::PrimaryKinds;
use crate::sources::feed::Closed;
use crate::sources::probes::{WatchTargets, WatchedChildKinds};

/// The kinds of the last result, and the state that their watches share.
pub(super) struct WatchedKinds {
    /// The last reported kinds.
    kinds: Option<Vec<WatchedKind>>,
    /// The last reported permissions.
    permissions: Vec<PermissionsView>,
    /// The watches that exceed the limit.
    over: Vec<WatchId>,
    /// The address of each watch.
    pub(super) targets: WatchTargets,
    pub(super) children: WatchedChildKinds,
    primaries: Arc<PrimaryKinds>,
    /// The children of each watch that belong to no primary object.
    kept: BTreeMap<WatchId, Kept>,
    /// New primary objects, which may soon have their first children.
    pub(super) new_primaries: NewPrimaries,
    pub(super) sync: InitialSync,
}

/// The watches to run, within the limit.
type ToRun = BTreeMap<WatchId, WatchedKind>;

impl WatchedKinds {
    pub(super) fn new(sync: InitialSync) -> Self {
        Self {
            kinds: None,
            permissions: Vec::new(),
            over: Vec::new(),
            targets: WatchTargets::default(),
            children: WatchedChildKinds::default(),
            primaries: Arc::default(),
            kept: BTreeMap::new(),
            new_primaries: NewPrimaries::default(),
            sync,
        }
    }

    /// The last reported kinds, if there are any.
    pub(super) fn known(&self) -> Option<&[WatchedKind]> {
        self.kinds.as_deref()
    }

    /// The watched kinds.
    pub(super) fn watched(&self) -> impl Iterator<Item = &WatchedKind> {
        self.kinds.iter().flatten().filter(|kind| !self.over.contains(&kind.watch))
    }

    /// Starts and stops watches, and reports changes. The model learns of each watch before the
    /// watch sends observations.
    pub(super) async fn apply(
        &mut self,
        kinds: Vec<WatchedKind>,
        permissions: Vec<PermissionsView>,
        launcher: &mut Launcher,
    ) -> Result<(), Closed> {
        self.report_permissions(permissions, launcher).await?;
        let (run, over) = within_limit(&kinds, launcher);
        self.stop_outdated(&run, launcher).await;

        let changed = self.kinds.as_ref() != Some(&kinds);
        if changed {
            launcher.feed.send(Observation::KindsDiscovered(kinds.clone())).await?;
        }

        // Even with the same kinds, a source that is not about a kind may have taken the room of a
        // watch.
        for watch in over.iter().filter(|watch| changed || !self.over.contains(watch)) {
            report_over(watch, launcher).await?;
        }

        self.over = over;
        self.set_targets(&run, launcher);
        self.kept.retain(|watch, _| run.contains_key(watch));

        for kind in kinds.iter().filter(|kind| !run.contains_key(&kind.watch)) {
            drop(self.sync.reporter(&kind.watch));
            self.sync.gave_up(&kind.watch);
        }

        let all: Vec<WatchId> = kinds.iter().map(|kind| kind.watch.clone()).collect();
        self.kinds = Some(kinds);
        self.start_new(&run, launcher);
        self.sync.discovered(&all);

        Ok(())
    }

    /// Starts a watch, unless there is no longer anything to watch.
    pub(super) fn start(&mut self, watch: &WatchId, launcher: &mut Launcher) {
        let Some(target) = self.target_of(watch) else { return };
        let (hash_key, annotations) =
            (launcher.options.discovery.hash_key, launcher.options.annotations.clone());
        let sink = ObjectSink { watch: watch.clone(), hash_key, annotations };
        let (reporter, once) = (self.sync.reporter(watch), launcher.options.discovery.once);
        let is_filtered = |kind: &WatchedKind| kind.watch == *watch && kind.filtered;

        let job = Job::Watch(watch.clone());
        if self.kinds.iter().flatten().any(is_filtered) {
            let kept = self.kept.entry(watch.clone()).or_default().clone();
            let sink = ChildSink::new(sink, Arc::clone(&self.primaries), kept);
            launcher.watch_and_report(&job, target, sink, reporter, once);
        } else {
            let clock = launcher.feed.clock().clone();
            let sink = PrimarySink::new(sink, self.new_primaries.clone(), clock);
            launcher.watch_and_report(&job, target, sink, reporter, once);
        }
    }

    /// Starts the watches that do not run yet.
    fn start_new(&mut self, run: &ToRun, launcher: &mut Launcher) {
        let has = |watch: &WatchId| launcher.tasks.has(&Job::Watch(watch.clone()));
        let mut new: Vec<&WatchedKind> = run.values().filter(|kind| !has(&kind.watch)).collect();
        new.sort_by_key(|kind| kind.role != Role::Primary); // lists take turns

        for kind in new {
            self.start(&kind.watch, launcher);
        }
    }

    /// Stops watches of removed kinds, watches at outdated addresses and, if the primary kinds have
    /// changed, watches that hide objects.
    async fn stop_outdated(&mut self, run: &ToRun, launcher: &mut Launcher) {
        let primaries = run.values().filter(|kind| kind.role == Role::Primary);
        let primaries: PrimaryKinds =
            primaries.map(|kind| (kind.group.as_str(), kind.kind.as_str())).collect();

        if *self.primaries != primaries {
            self.primaries = Arc::new(primaries);

            // Objects that their watches have hidden may belong to a new kind.
            let filtered: Vec<Job> =
                launcher.tasks.jobs().filter(|job| is_filtered(job, run)).cloned().collect();
            for job in filtered {
                launcher.tasks.stop(&job).await;
            }
        }

        let is_outdated = |job: &&Job| match job {
            Job::Watch(watch) => {
                run.get(watch).map(|kind| target(kind, launcher)) != self.target_of(watch)
            }
            _ => false,
        };
        let outdated: Vec<Job> = launcher.tasks.jobs().filter(is_outdated).cloned().collect();
        for job in outdated {
            launcher.tasks.stop(&job).await;
        }
    }

    /// Reports changes of the account's permissions.
    async fn report_permissions(
        &mut self,
        permissions: Vec<PermissionsView>,
        launcher: &Launcher,
    ) -> Result<(), Closed> {
        for view in permissions.iter().filter(|view| !self.permissions.contains(view)) {
            launcher.feed.send(Observation::PermissionsReviewed(view.clone())).await?;
        }

        let is_gone =
            |view: &&PermissionsView| permissions.iter().all(|now| now.namespace != view.namespace);
        for view in self.permissions.iter().filter(is_gone) {
            let view =
                PermissionsView { namespace: view.namespace.clone(), ..PermissionsView::default() };
            launcher.feed.send(Observation::PermissionsReviewed(view)).await?;
        }

        self.permissions = permissions;
        Ok(())
    }

    fn target_of(&self, watch: &WatchId) -> Option<WatchTarget> {
        read_lock(&self.targets).get(watch).cloned()
    }

    fn set_targets(&self, run: &ToRun, launcher: &Launcher) {
        let targets =
            run.iter().map(|(watch, kind)| (watch.clone(), target(kind, launcher))).collect();
        *write_lock(&self.targets) = targets;

        let children = run.values().filter(|kind| kind.role == Role::Child);
        let children = children.map(|kind| (kind.group.clone(), kind.kind.clone())).collect();
        *write_lock(&self.children) = children;
    }
}

/// The kinds to watch within the limit, and the watches that exceed it. Primary kinds come first.
fn within_limit(kinds: &[WatchedKind], launcher: &Launcher) -> (ToRun, Vec<WatchId>) {
    let others = launcher.count_watches(|job| !matches!(job, Job::Watch(_)) && !job.gives_way());

    // With `once`, watches only list, and lists take turns, so the limit does not apply.
    let options = &launcher.options.discovery;
    let room =
        if options.once { usize::MAX } else { options.max_watches.saturating_sub(others).max(1) };
    let mut visible: Vec<&WatchedKind> =
        kinds.iter().filter(|kind| kind.missing.is_empty()).collect();

    visible.sort_by_key(|kind| kind.role != Role::Primary);
    let over = visible.split_off(visible.len().min(room));
    let run = visible.into_iter().map(|kind| (kind.watch.clone(), kind.clone())).collect();
    (run, over.into_iter().map(|kind| kind.watch.clone()).collect())
}

async fn report_over(watch: &WatchId, launcher: &Launcher) -> Result<(), Closed> {
    let detail = format!(
        "not watched, because the number of watches is limited to {} (--max-watches)",
        launcher.options.discovery.max_watches
    );
    let failure = Failure::new(Cause::TooLarge, detail);
    launcher.feed.failed(SourceId::Watch(watch.clone()), &failure).await
}

/// Whether a job hides objects that belong to no primary kind.
fn is_filtered(job: &Job, run: &ToRun) -> bool {
    matches!(job, Job::Watch(watch) if run.get(watch).is_some_and(|kind| kind.filtered))
}

/// The address of a kind, without the namespaces that the user excludes.
fn target(kind: &WatchedKind, launcher: &Launcher) -> WatchTarget {
    let WatchedKind { group, version, resource, scope, metadata_only, .. } = kind;
    let path = collection(group, version, resource, scope.namespace());
    let without = match scope {
        Scope::AllNamespaces => launcher.options.discovery.exclude_namespaces.clone(),
        Scope::Cluster | Scope::Namespace(_) => Vec::new(),
    };

    WatchTarget { without, ..WatchTarget::new(path, *metadata_only) }
}
