//! Pods of the operator that ended although nobody replaced them on purpose: evictions, preemptions
//! and nodes that go away. A rollout replaces Pods by those of another revision, and scaling changes
//! the number of Pods, so neither counts.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::model::operator::pod_history::has_ended;
use crate::observation::{MAX_PODS, OperatorView, PodView};
use crate::time::{Span, Timestamp};

/// The maximum number of lost Pods that are remembered.
pub(super) const MAX_LOST: usize = 256;

/// The lost Pods, and those that may get lost.
#[derive(Debug, Default)]
pub(super) struct LostPods {
    /// The names and the revisions of the Pods that lived in the latest view, by UID.
    live: BTreeMap<String, (String, String)>,
    /// The Pods of the latest view that have ended, by UID.
    ended: BTreeSet<String>,
    /// At most [`MAX_LOST`], the latest last.
    lost: VecDeque<LostPod>,
    /// The number of Pods that the workload should have.
    replicas: Option<u32>,
    /// The number of Pods that have yet to end because the workload should have fewer.
    surplus: u32,
}

/// A Pod that ended.
#[derive(Debug)]
pub(super) struct LostPod {
    pub(super) at: Timestamp,
    pub(super) name: String,
    /// Why, if its status says so.
    pub(super) reason: String,
    /// The hash of its template.
    revision: String,
}

impl LostPods {
    /// Takes a new view of the Pods, and forgets what is older than `window`.
    pub(super) fn update(&mut self, now: Timestamp, view: &OperatorView, window: Span) {
        let replicas = view.workload.as_ref().map(|workload| workload.replicas);
        let before = std::mem::replace(&mut self.replicas, replicas);
        if before != replicas {
            self.lost.clear();
            self.surplus =
                before.zip(replicas).map_or(0, |(before, now)| before.saturating_sub(now));
        }

        let from = now.before(window);
        self.lost.retain(|lost| lost.at > from);
        let is_there = |uid: &String| view.pods.iter().any(|pod| pod.uid == *uid);
        self.ended.retain(is_there);

        for pod in view.pods.iter().take(MAX_PODS) {
            if pod.deleted.is_none() && !has_ended(pod) {
                let known = (pod.name.clone(), pod.revision.hash.clone());
                self.live.insert(pod.uid.clone(), known);
            } else if self.ended.insert(pod.uid.clone()) {
                let was_live = self.live.remove(&pod.uid).is_some();
                let at = if was_live { Some(now) } else { ended_at(pod) };
                at.filter(|at| *at > from && pod.phase != "Succeeded").into_iter().for_each(|at| {
                    self.lose(at, &pod.name, &pod.revision.hash, &pod.reason);
                });
            }
        }

        let gone: Vec<String> = self.live.keys().filter(|uid| !is_there(uid)).cloned().collect();
        for uid in gone {
            let known = self.live.remove(&uid).filter(|_| view.complete);
            if let Some((name, revision)) = known {
                self.lose(now, &name, &revision, "");
            }
        }
    }

    fn lose(&mut self, at: Timestamp, name: &str, revision: &str, reason: &str) {
        if self.surplus > 0 {
            self.surplus -= 1;
            return;
        }

        if self.lost.len() >= MAX_LOST {
            self.lost.pop_front();
        }

        let (name, reason) = (name.to_owned(), reason.to_owned());
        self.lost.push_back(LostPod { at, name, reason, revision: revision.to_owned() });
    }

    /// Returns the Pods of the current revision that were lost since `from`.
    pub(super) fn since<'a>(
        &'a self,
        view: &'a OperatorView,
        from: Timestamp,
    ) -> impl Iterator<Item = &'a LostPod> {
        let live = view.pods.iter().filter(|pod| pod.deleted.is_none());
        let newest = live.max_by_key(|pod| pod.created).map(|pod| pod.revision.hash.as_str());
        let is_current = move |lost: &&LostPod| newest.is_none_or(|newest| lost.revision == newest);

        self.lost.iter().filter(move |lost| lost.at > from).filter(is_current)
    }

    pub(super) fn clock_stepped(&mut self, by_ms: i64) {
        self.lost.iter_mut().for_each(|lost| lost.at = lost.at.shifted(by_ms));
    }
}

/// Returns when a Pod ended that loopwatch first sees after its end.
fn ended_at(pod: &PodView) -> Option<Timestamp> {
    let ended = pod.containers.iter().filter_map(|container| container.ended.as_ref()?.finished);
    ended.max().or(pod.created).filter(|_| has_ended(pod))
}
