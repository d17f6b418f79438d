//! For which part of the time since its restarts began the operator has run. An operator that
//! restarts in seconds and then runs for long serves nearly everything, so its restarts explain
//! little.

use crate::model::operator::Operator;
use crate::model::world::World;
use crate::time::{Span, Timestamp};

/// An operator that runs for less than this part of the time, in percent, serves nearly nothing.
const SERVES_FROM: i64 = 50;

impl Operator {
    /// Returns whether restarts since `first` keep the operator from its work: it does not run now,
    /// or it has run for less than half of the time in any of its Pods. Without a view of its Pods,
    /// nothing shows that.
    pub(super) fn restarts_block(&self, world: &World, first: Timestamp, down: bool) -> bool {
        let (from, now) = (first, world.now);
        let ran = self.ran_since(from, now);
        let needed = now.since(from).0.saturating_mul(SERVES_FROM);
        let is_rare = |ran: Span| ran.0.saturating_mul(100) < needed;

        down || ran.is_some_and(is_rare)
    }

    /// Returns for how long at least one Pod has run since `from`; `None` if no Pod is visible.
    fn ran_since(&self, from: Timestamp, now: Timestamp) -> Option<Span> {
        let runs = self.operator_pods().flat_map(|(pod, history)| {
            let container = pod.containers.first();
            let current = container.and_then(|container| container.running_since);
            let ended =
                history.ends_since(from).filter_map(|(end, ended)| Some((end.started?, ended)));
            ended.chain(current.map(|since| (since, now)))
        });
        let mut runs: Vec<(Timestamp, Timestamp)> = runs.collect();
        runs.sort_unstable();
        self.operator_pods().next()?;

        let mut covered = from;
        let mut ran = Span::ZERO;
        for (began, ended) in runs {
            let (began, ended) = (began.max(covered), ended.min(now));
            ran = Span(ran.0.saturating_add(ended.since(began).0));
            covered = covered.max(ended);
        }

        Some(ran)
    }
}
