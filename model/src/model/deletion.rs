//! Deletions: which finalizers block them, for how long, and which actor should remove each.

use std::sync::Arc;

use super::context::{ObjectContext, Update};
use super::kinds::FinalizerWaits;
use super::sight::Sight;
use super::store::Deletion;
use super::writers::is_controller;
use crate::observation::ObjectView;
use crate::snapshot::FinalizerOutcome;
use crate::time::{Span, Timestamp};

/// The finalizers of Kubernetes itself and the actors that remove them (kubernetes/api `core/v1/types.go`, apimachinery
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

/// The multiple of `finalizer_stuck_after` for which a changing status counts as progress. Beyond it, the status is
/// probably an error message that differs with every attempt.
const BELIEVE_STATUS: i64 = 4;

/// The multiple of `finalizer_stuck_after` for which changes of phases and conditions count as progress.
const BELIEVE_PHASES: i64 = 24;

/// The number of phases and conditions of one deletion that are remembered, of which the earliest make room.
const MAX_SHOWN: usize = 32;

/// The part of Kubernetes that removes this finalizer, if it is one of Kubernetes itself.
pub(crate) fn built_in_actor(finalizer: &str) -> Option<&'static str> {
    BUILT_IN.iter().find(|(name, _)| *name == finalizer).map(|(_, actor)| *actor)
}

// === impl ObjectContext ===

impl ObjectContext<'_> {
    /// Updates the deletion, if the object is being deleted. `shown` is the fingerprint of its phase and
    /// conditions, unless they mean a failure; `removed` are the finalizers that the previous version had and this one
    /// lacks. Returns `false` if the kind has too many distinct finalizers to count all of these.
    pub(crate) fn update_deletion(
        &mut self,
        update: &Update<'_>,
        shown: Option<u64>,
        removed: &[Arc<str>],
        finalizers: &[Arc<str>],
    ) -> bool {
        let Some(since) = update.view.deleted else { return true };
        let (now, threshold) = (self.now, self.settings.finalizer_stuck_after);
        let first = self.record.hot.as_ref().is_none_or(|hot| hot.deletion.is_none());
        let hot = self.record.hot_mut();
        let deletion = hot.deletion.get_or_insert_with(|| Deletion {
            since,
            last_progress: None,
            shown: Vec::new(),
            actors: Vec::new(),
        });
        let since = deletion.since; // a later request with a shorter grace period does not begin a new deletion
        // A phase that the object has shown before in this deletion is no progress, nor is one that means a failure: it may
        // be an error message that differs with every attempt.
        let new = shown.filter(|shown| !deletion.shown.contains(shown));
        if new.is_some() && deletion.shown.len() >= MAX_SHOWN {
            deletion.shown.remove(0);
        }
        deletion.shown.extend(new);
        let moved = new.is_some();
        let believed = Span(threshold.0.saturating_mul(if moved { BELIEVE_PHASES } else { BELIEVE_STATUS }));
        let status_moves = update.status_changed && !update.new && now < since.after(believed);
        if !removed.is_empty() || status_moves {
            deletion.last_progress = Some(now);
        }
        deletion.actors = finalizers.iter().map(|f| (f.clone(), actor(update.view, f))).collect();
        for finalizer in removed {
            self.finalizer_removed(finalizer, since);
        }
        let mut all_fit = true;
        for finalizer in finalizers.iter().filter(|_| first) {
            let room = self.kind.finalizers.len() < self.settings.limits.finalizers || self.kind.retire_finalizer();
            if room || self.kind.finalizers.contains_key(finalizer) {
                let totals = self.kind.finalizers.entry(finalizer.clone()).or_default();
                totals.waiting.insert((since, self.slot));
            } else {
                all_fit = false;
            }
        }
        all_fit
    }

    /// Ends the deletion of an object. If it is gone, all of its finalizers count as removed; otherwise loopwatch only lost
    /// sight of it.
    pub(crate) fn finish_deletion(&mut self, gone: bool) {
        let Some(deletion) = self.record.hot.as_mut().and_then(|hot| hot.deletion.take()) else { return };
        for (finalizer, _) in &deletion.actors {
            if gone {
                self.finalizer_removed(finalizer, deletion.since);
            } else if let Some(waits) = self.kind.finalizers.get_mut(finalizer) {
                waits.waiting.remove(&(deletion.since, self.slot));
            }
        }
    }

    /// Returns when a deletion counts as stuck: once it has taken `finalizer_stuck_after` and has made no progress for
    /// half of that time.
    pub(crate) fn stuck_at(&self, deletion: &Deletion) -> Timestamp {
        let threshold = self.settings.finalizer_stuck_after;
        let stuck = deletion.since.after(threshold);
        deletion.last_progress.map_or(stuck, |at| stuck.max(at.after(Span(threshold.0 / 2))))
    }

    /// Counts the removal of a finalizer. It may have happened as early as the blindness of the watch began. In the grace
    /// after that, this matters only if the removal would otherwise count as late.
    fn finalizer_removed(&mut self, finalizer: &Arc<str>, since: Timestamp) {
        let in_time = self.now.since(since) < self.settings.finalizer_stuck_after;
        let watched = self.sight != Sight::Lost && (in_time || since >= self.regained);
        let at = if watched { self.now } else { self.unseen_since };
        let Some(FinalizerWaits { waiting, totals }) = self.kind.finalizers.get_mut(finalizer) else { return };
        if !waiting.remove(&(since, self.slot)) {
            return;
        }
        let took = at.since(since);
        totals.removal.observe(took);
        let outcome = match took >= self.settings.finalizer_stuck_after {
            true => FinalizerOutcome::RemovedLate,
            false => FinalizerOutcome::Removed,
        };
        totals.outcomes[outcome as usize] += 1;
    }
}

/// Returns the actor that should remove a finalizer: a component of Kubernetes, else the field manager that added it if
/// it behaves like a controller, else the controller of the finalizer's domain.
fn actor(view: &ObjectView, finalizer: &str) -> String {
    if let Some(built_in) = built_in_actor(finalizer) {
        return built_in.to_owned();
    }
    let added_by =
        view.managers.iter().find(|m| m.finalizers.iter().any(|f| f == finalizer) && is_controller(view, &m.name));
    match (added_by, finalizer.split_once('/')) {
        (Some(manager), _) => format!("field manager {}", manager.name),
        (None, Some((domain, _))) => format!("the controller of {domain}"),
        (None, None) => "unknown".to_owned(),
    }
}
