//! How long the reconciles of each controller usually take. A new process of the operator, or a
//! restart of loopwatch, does not change that, so this is kept per controller, not per process.

use std::collections::BTreeMap;

use crate::checkpoint::ReconcileMemory;
use crate::model::operator::history::Loop;
use crate::observation::{Durations, MAX_CONTROLLERS, MetricsView};
use crate::time::{Span, Timestamp};

/// How long a long reconcile is remembered, at least. An outlier must not excuse others for ever.
const REMEMBERED_FOR: Span = Span::hours(7 * 24);

/// The number of reconciles from which on the mean of a process is better than an earlier one.
const ENOUGH: u64 = 10;

/// What has been learned about the reconciles of each controller, by its name.
#[derive(Debug, Default)]
pub(super) struct UsualReconciles {
    /// At most [`MAX_CONTROLLERS`].
    controllers: BTreeMap<String, ReconcileMemory>,
}

impl UsualReconciles {
    /// Learns from a scrape, whose controllers have `histories`.
    pub(super) fn learn(
        &mut self,
        now: Timestamp,
        view: &MetricsView,
        histories: &BTreeMap<String, Loop>,
    ) {
        for controller in &view.controllers {
            let ended = histories.get(&controller.name).map_or(0.0, |history| history.ended);
            let ended = if ended.is_finite() { ended } else { 0.0 };
            let durations = controller.reconcile_seconds;
            let durations = durations.filter(|all| all.count > 0 && all.sum.is_finite());
            if ended > 0.0 || durations.is_some() {
                self.make_room_for(&controller.name, histories);
                let memory = self.controllers.entry(controller.name.clone()).or_default();
                memory.learn(now, ended, durations);
            }
        }
    }

    /// Forgets the controller that has been unchanged for longest, preferably one that this process
    /// does not have.
    fn make_room_for(&mut self, name: &str, histories: &BTreeMap<String, Loop>) {
        if self.controllers.len() < MAX_CONTROLLERS || self.controllers.contains_key(name) {
            return;
        }

        let age = |(name, memory): &(&String, &ReconcileMemory)| {
            (histories.contains_key(name.as_str()), memory.since)
        };
        if let Some(oldest) = self.controllers.iter().min_by_key(age).map(|(name, _)| name.clone())
        {
            self.controllers.remove(&oldest);
        }
    }

    /// Returns what has been learned about the reconciles of a controller.
    pub(super) fn of(&self, controller: &str) -> ReconcileMemory {
        self.controllers.get(controller).cloned().unwrap_or_default()
    }

    /// Returns what should survive a restart.
    pub(super) fn remembered(&self) -> BTreeMap<String, ReconcileMemory> {
        self.controllers.clone()
    }

    /// Takes over what an earlier process had learned, unless it is damaged.
    pub(super) fn restore(&mut self, now: Timestamp, memories: BTreeMap<String, ReconcileMemory>) {
        let is_valid = |seconds: f64| seconds.is_finite() && seconds >= 0.0;
        let valid = memories.into_iter().filter(|(_, memory)| {
            [memory.longest, memory.before, memory.mean].into_iter().all(is_valid)
        });
        let dated = valid.map(|(name, memory)| {
            let since = memory.since.min(now);
            (name, ReconcileMemory { since, ..memory })
        });

        self.controllers.extend(dated.take(MAX_CONTROLLERS));
    }

    pub(super) fn clock_stepped(&mut self, by_ms: i64) {
        self.controllers.values_mut().for_each(|memory| memory.since = memory.since.shifted(by_ms));
    }
}

impl ReconcileMemory {
    /// Returns the longest reconcile that has succeeded, in seconds.
    pub(super) fn longest(&self) -> f64 {
        self.longest.max(self.before)
    }

    fn learn(&mut self, now: Timestamp, ended: f64, durations: Option<Durations>) {
        if now.since(self.since) >= REMEMBERED_FOR {
            (self.before, self.longest, self.since) = (self.longest, 0.0, now);
        }

        self.longest = self.longest.max(ended);
        let Some(durations) = durations else { return };
        if durations.count >= ENOUGH || self.mean == 0.0 {
            self.mean = durations.mean();
        }
    }
}
