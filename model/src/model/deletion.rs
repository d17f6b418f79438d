//! Deletion: who still holds an object that should be gone, for how long, and who should let go.

use std::sync::Arc;

use super::context::{ObjectContext, Seen};
use super::kinds::Waits;
use super::store::Deletion;
use crate::observation::ObjectView;
use crate::snapshot::FinalizerOutcome;
use crate::time::{Span, Timestamp};

/// Finalizers of Kubernetes itself and who removes them (kubernetes/api `core/v1/types.go`, apimachinery
/// `meta/v1/types.go`, kubernetes `pkg/volume/util/finalizer.go`, cloud-provider `service/helpers/helper.go`).
const BUILT_IN: &[(&str, &str)] = &[
    ("foregroundDeletion", "garbage collector, once all blocking dependents are gone"),
    ("orphan", "garbage collector"),
    ("kubernetes", "namespace controller, once the namespace is empty"),
    ("kubernetes.io/pvc-protection", "kube-controller-manager, once no Pod uses the claim"),
    ("kubernetes.io/pv-protection", "kube-controller-manager, once no claim binds the volume"),
    ("customresourcecleanup.apiextensions.k8s.io", "API server, once all instances are gone"),
    ("batch.kubernetes.io/job-tracking", "Job controller"),
    ("service.kubernetes.io/load-balancer-cleanup", "cloud service controller"),
    ("resource.kubernetes.io/delete-protection", "resource claim controller"),
];

// === impl ObjectContext ===

impl ObjectContext<'_> {
    /// Takes the finalizers of a version that is being deleted. `removed` are those that are there no more.
    pub(crate) fn delete(&mut self, seen: &Seen<'_>, removed: &[Arc<str>], finalizers: &[Arc<str>]) {
        let Some(since) = seen.view.deleted else { return };
        let now = self.now;
        let begins = self.record.hot.as_ref().is_none_or(|hot| hot.deletion.is_none());
        let hot = self.record.hot_mut();
        let deletion = hot.deletion.get_or_insert_with(|| Deletion {
            since,
            last_progress: since,
            actors: Vec::new(),
            stuck: false,
        });
        if !removed.is_empty() || (seen.status_changed && !seen.new) {
            deletion.last_progress = now;
        }
        deletion.actors = finalizers.iter().map(|f| (f.clone(), actor(seen.view, f))).collect();
        for finalizer in removed {
            self.wait_ended(finalizer, since);
        }
        for finalizer in finalizers {
            let fits = self.kind.finalizers.len() < self.settings.limits.finalizers;
            if begins && (fits || self.kind.finalizers.contains_key(finalizer)) {
                let waits = self.kind.finalizers.entry(finalizer.clone()).or_default();
                waits.waiting.insert((since, self.slot));
            }
        }
    }

    /// The object is gone: whoever held it has let go.
    pub(crate) fn deleted(&mut self) {
        let Some(deletion) = self.record.hot.as_mut().and_then(|hot| hot.deletion.take()) else { return };
        for (finalizer, _) in &deletion.actors {
            self.wait_ended(finalizer, deletion.since);
        }
    }

    /// When a deletion is stuck: it waits longer than the threshold, and nothing has moved for half of that.
    pub(crate) fn stuck_at(&self, deletion: &Deletion) -> Timestamp {
        let threshold = self.settings.finalizer_stuck_after;
        deletion.since.after(threshold).max(deletion.last_progress.after(Span(threshold.0 / 2)))
    }

    fn wait_ended(&mut self, finalizer: &Arc<str>, since: Timestamp) {
        let Some(Waits { waiting, totals }) = self.kind.finalizers.get_mut(finalizer) else { return };
        if !waiting.remove(&(since, self.slot)) {
            return;
        }
        let took = self.now.since(since);
        totals.removal.observe(took);
        let outcome = match took >= self.settings.finalizer_stuck_after {
            true => FinalizerOutcome::RemovedLate,
            false => FinalizerOutcome::Removed,
        };
        totals.outcomes[outcome as usize] += 1;
    }
}

/// Who should remove a finalizer: Kubernetes itself, else the manager that added it, else whoever its domain names.
fn actor(view: &ObjectView, finalizer: &str) -> String {
    if let Some((_, built_in)) = BUILT_IN.iter().find(|(name, _)| *name == finalizer) {
        return (*built_in).to_owned();
    }
    let added_by = view.managers.iter().find(|m| m.finalizers.iter().any(|f| f == finalizer));
    match (added_by, finalizer.split_once('/')) {
        (Some(manager), _) => format!("field manager {}", manager.name),
        (None, Some((domain, _))) => format!("the controller of {domain}"),
        (None, None) => "unknown".to_owned(),
    }
}
