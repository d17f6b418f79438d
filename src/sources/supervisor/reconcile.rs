//! Starts and stops tasks according to the result of discovery.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

use loopwatch_model::observation::{
    Cause, Observation, PermissionsView, Role, Scope, SourceId, WatchId, WatchedKind,
};

use super::{Job, Running};
use crate::net::Failure;
use crate::sources::api_server::{Discovered, Discovery, WatchTarget, collection};
use crate::sources::decoding::PrimaryKinds;
use crate::sources::feed::Closed;

impl Running {
    /// Starts and stops tasks according to the result, and reports changes. The model learns of
    /// each watch before the watch sends observations.
    pub(super) async fn apply(&mut self, found: Discovered) -> Result<(), Closed> {
        let Discovered { kinds, permissions, problem } = found;
        let is_first = self.kinds.is_none();
        self.report_permissions(permissions).await?;

        let (run, over) = self.within_limit(&kinds);
        let primaries = run.values().filter(|kind| kind.role == Role::Primary);
        let owners: PrimaryKinds =
            primaries.map(|kind| (kind.group.as_str(), kind.kind.as_str())).collect();

        if *self.owners != owners {
            self.owners = Arc::new(owners);

            // Objects that their watches have hidden may belong to a new kind.
            let filtered: Vec<Job> =
                self.tasks.jobs().filter(|job| is_filtered(job, &run)).cloned().collect();
            for job in filtered {
                self.tasks.stop(&job).await;
            }
        }

        let stale: Vec<Job> =
            self.tasks.jobs().filter(|job| self.is_stale(job, &run)).cloned().collect();
        for job in stale {
            self.tasks.stop(&job).await;
        }

        let changed = self.kinds.as_ref() != Some(&kinds);
        if changed {
            self.feed.send(Observation::KindsDiscovered(kinds.clone())).await?;
        }

        // A source that is not about a kind may have taken the room of a watch, although the kinds
        // are the same.
        for watch in over.iter().filter(|watch| changed || !self.over.contains(watch)) {
            let detail = format!(
                "not watched, because the number of watches is limited to {} (--max-watches)",
                self.options.discovery.max_watches
            );

            self.feed
                .failed(SourceId::Watch(watch.clone()), &Failure::new(Cause::TooLarge, detail))
                .await?;
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

        let all: Vec<WatchId> =
            self.kinds.iter().flatten().map(|kind| kind.watch.clone()).collect();
        self.sync.discovered(&all);
        self.report_problem(problem, is_first).await
    }

    /// Reports what has changed of the account's permissions.
    async fn report_permissions(
        &mut self,
        permissions: Vec<PermissionsView>,
    ) -> Result<(), Closed> {
        for view in permissions.iter().filter(|view| !self.permissions.contains(view)) {
            self.feed.send(Observation::PermissionsReviewed(view.clone())).await?;
        }

        let is_gone =
            |view: &&PermissionsView| permissions.iter().all(|now| now.namespace != view.namespace);
        for view in self.permissions.iter().filter(is_gone) {
            let view =
                PermissionsView { namespace: view.namespace.clone(), ..PermissionsView::default() };
            self.feed.send(Observation::PermissionsReviewed(view)).await?;
        }

        self.permissions = permissions;
        Ok(())
    }

    async fn report_problem(
        &mut self,
        problem: Option<String>,
        is_first: bool,
    ) -> Result<(), Closed> {
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

    /// The kinds to watch within the limit, and the watches that exceed it. Primary kinds come
    /// first.
    fn within_limit(
        &self,
        kinds: &[WatchedKind],
    ) -> (BTreeMap<WatchId, WatchedKind>, Vec<WatchId>) {
        let is_other =
            |job: &&Job| matches!(job, Job::Definitions | Job::Lease | Job::Namespaces | Job::Pods);
        let others = self.tasks.jobs().filter(is_other).count();

        // With `once`, watches only list, and lists take turns, so the limit does not apply.
        let room = if self.options.discovery.once {
            usize::MAX
        } else {
            self.options.discovery.max_watches.saturating_sub(others).max(1)
        };
        let mut visible: Vec<&WatchedKind> =
            kinds.iter().filter(|kind| kind.missing.is_empty()).collect();

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
        let without =
            if everywhere { self.options.discovery.exclude_namespaces.clone() } else { Vec::new() };
        WatchTarget { without, ..target(kind) }
    }

    fn set_targets(&self, run: &BTreeMap<WatchId, WatchedKind>) {
        let targets = run.iter().map(|(watch, kind)| (watch.clone(), self.target(kind))).collect();
        *self.targets.write().unwrap_or_else(PoisonError::into_inner) = targets;

        let children = run.values().filter(|kind| kind.role == Role::Child);
        let children = children.map(|kind| (kind.group.clone(), kind.kind.clone())).collect();
        *self.children.write().unwrap_or_else(PoisonError::into_inner) = children;
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
