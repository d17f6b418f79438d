//! What has happened to the containers of the operator's Pods: their restarts and their ends.

use std::collections::VecDeque;

use crate::model::operator::repeated_ends::{Failure, RepeatedEnds};
use crate::observation::{ContainerEnd, ContainerView, PodView};
use crate::time::{Span, Timestamp};

/// How long a restarted container must run before it counts as running. In a crash loop, each run
/// lasts only seconds.
pub(super) const PROVEN_AFTER: Span = Span::mins(1);

/// How long after an outage of the API server the operator may still exit because of it.
const RECONNECTS_WITHIN: Span = Span::secs(30);

/// The maximum number of restarts, and of ends, that are remembered per Pod.
const MAX_ENDS: usize = 32;

/// What has happened to one container of a Pod.
#[derive(Debug, Default)]
pub(crate) struct PodHistory {
    /// The kubelet's count of restarts.
    counted: u32,
    /// When loopwatch saw the container restart, at most [`MAX_ENDS`].
    restarts: VecDeque<Timestamp>,
    /// Its ends, at most [`MAX_ENDS`].
    ends: VecDeque<ContainerEnd>,
    repeated: RepeatedEnds,
    /// Since when loopwatch has seen that it does not run.
    pub(super) stopped_seen: Option<Timestamp>,
    /// When the last run that was not part of a crash loop ended.
    pub(super) down_since: Option<Timestamp>,
    /// When loopwatch first saw the Pod.
    pub(super) first_seen: Timestamp,
}

/// Returns when a container that has just restarted counts as running.
pub(super) fn proven_at(restarted: Timestamp) -> Timestamp {
    restarted.after(PROVEN_AFTER)
}

impl PodHistory {
    pub(super) fn new(
        now: Timestamp,
        pod: &PodView,
        container: &ContainerView,
        window: Span,
    ) -> Self {
        let mut history = Self {
            counted: container.restarts,
            first_seen: now,
            stopped_seen: container.running_since.is_none().then_some(now),
            ..Self::default()
        };

        let Some(end) = container.ended.clone() else { return history };

        // The kubelet shows only the last end. All restarts of a young Pod are recent.
        let finished = end.finished.map_or(now, |finished| finished.min(now));
        let is_young = pod.created.is_some_and(|created| now.since(created) <= window);
        let known = if is_young { container.restarts } else { container.restarts.min(1) };
        history.add_restarts(finished, known);
        history.note_end(now, &end);
        history.repeated.add(finished, &end);
        history.ends.push_back(end);

        history
    }

    /// Notes the end of a container. If it ran for less than [`PROVEN_AFTER`], it has been down
    /// since an earlier end.
    fn note_end(&mut self, now: Timestamp, end: &ContainerEnd) {
        let finished = end.finished.map_or(now, |finished| finished.min(now));
        let lived = end.started.map(|started| finished.since(started));
        if self.down_since.is_none() || lived.is_none_or(|lived| lived >= PROVEN_AFTER) {
            self.down_since = Some(finished);
        }
    }

    /// Takes a new view of the container. Returns how it ended since the previous view, if it did.
    /// Restarts while loopwatch could not see the Pods, and shortly after, do not count: an
    /// operator that cannot reach the API server exits.
    pub(super) fn update(
        &mut self,
        now: Timestamp,
        container: &ContainerView,
        regained: Option<Timestamp>,
    ) -> Option<ContainerEnd> {
        let ended = container.ended.as_ref().and_then(|end| end.finished);
        let counts = ended
            .zip(regained)
            .is_none_or(|(ended, regained)| ended >= regained.after(RECONNECTS_WITHIN));
        if counts {
            self.add_restarts(now, container.restarts.saturating_sub(self.counted));
        }

        self.counted = container.restarts;
        let new = container.ended.clone().filter(|end| self.ends.back() != Some(end));
        new.iter().filter(|_| counts).for_each(|end| self.repeated.add(now, end));
        if let Some(end) = &new {
            if self.ends.len() >= MAX_ENDS {
                self.ends.pop_front();
            }

            // Only the message of the last end is shown.
            self.ends.iter_mut().for_each(|earlier| earlier.message = String::new());
            self.ends.push_back(end.clone());
            self.note_end(now, end);
        }

        self.stopped_seen =
            container.running_since.is_none().then(|| self.stopped_seen.unwrap_or(now));
        new
    }

    fn add_restarts(&mut self, at: Timestamp, number: u32) {
        for _ in 0..number.min(MAX_ENDS as u32) {
            if self.restarts.len() >= MAX_ENDS {
                self.restarts.pop_front();
            }
            self.restarts.push_back(at);
        }
    }

    /// Returns when loopwatch saw the container restart.
    pub(super) fn restarts(&self) -> impl Iterator<Item = Timestamp> {
        self.restarts.iter().copied()
    }

    /// Returns the latest terminations of the container.
    pub(super) fn ends(&self) -> impl Iterator<Item = &ContainerEnd> {
        self.ends.iter()
    }

    /// Returns the restarts since `from`.
    pub(super) fn restarts_since(&self, from: Timestamp) -> Vec<Timestamp> {
        self.restarts.iter().filter(|at| **at > from).copied().collect()
    }

    /// Returns the ends since `from`, as far as the kubelet reported their times.
    pub(super) fn ends_since(
        &self,
        from: Timestamp,
    ) -> impl Iterator<Item = (&ContainerEnd, Timestamp)> {
        let dated = self.ends.iter().filter_map(|end| Some((end, end.finished?)));
        dated.filter(move |(_, finished)| *finished > from)
    }

    /// Returns the ends that have repeated for the same reason, if that was often enough.
    pub(super) fn repeated_ends(&self, now: Timestamp) -> Option<(Failure, Vec<Timestamp>)> {
        self.repeated.repeated(now)
    }

    /// Returns since when loopwatch has seen that it does not run.
    pub(super) fn stopped_since(&self) -> Option<Timestamp> {
        self.stopped_seen
    }

    pub(super) fn clock_stepped(&mut self, by_ms: i64) {
        let shift = |at: &mut Timestamp| *at = at.shifted(by_ms);
        let Self { restarts, stopped_seen, down_since, first_seen, .. } = self;
        restarts.iter_mut().chain(stopped_seen).chain(down_since).for_each(shift);
        shift(first_seen);
        self.repeated.clock_stepped(by_ms);
    }

    pub(super) fn last_end(&self) -> Option<&ContainerEnd> {
        self.ends.back()
    }
}

/// Returns whether all containers of a Pod have ended for good.
pub(super) fn has_ended(pod: &PodView) -> bool {
    matches!(pod.phase.as_str(), "Failed" | "Succeeded")
}

/// Returns whether the operator's container runs in a Pod, as far as its node says so.
pub(super) fn runs(pod: &PodView) -> bool {
    !pod.node_lost
        && pod.containers.first().is_some_and(|container| container.running_since.is_some())
}
