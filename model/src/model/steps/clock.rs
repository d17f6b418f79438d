//! Steps of the clock. Recordings of older versions contain them, and so does a live run whose
//! clock had to be set.
//!
//! After a step, every instant that the model has taken from its own clock moves by the size of the
//! step, so that all ages and deadlines stay as they were. Instants that the API server has written
//! do not move.

use crate::model::Model;
use crate::time::Timestamp;

// === impl Model ===

impl Model {
    /// Moves all own instants by `by_ms` milliseconds.
    pub(crate) fn clock_stepped(&mut self, by_ms: i64) {
        let shift = |at: &mut Timestamp| *at = at.shifted(by_ms);
        shift(&mut self.now);
        self.timers.rebase(by_ms);
        self.open_findings.rebase(by_ms);
        self.points.clock_stepped(by_ms);
        self.revisions.clock_stepped(by_ms);
        self.findings_due.iter_mut().for_each(shift);
        self.dropped.values_mut().for_each(|(_, last)| shift(last));

        self.sources.rebase(by_ms);
        self.leases.clock_stepped(by_ms);
        self.controllers.clock_stepped(by_ms);
        self.rebase_operator(by_ms);
        self.containers.clock_stepped(by_ms);
        self.operator.trends.clock_stepped(by_ms);
        self.reads.clock_stepped(by_ms);
        self.references.clock_stepped(by_ms);

        self.rebase_soft_deletions(by_ms);
        self.configurations.clock_stepped(by_ms);
        self.graph.clock_stepped(by_ms);
        self.traces.clock_stepped(by_ms);
        self.doubts.clock_stepped(by_ms);
        self.hazards.clock_stepped(by_ms);
        self.orphans.clock_stepped(by_ms);

        for watch in &mut self.watches {
            watch.rebase(by_ms);
        }

        for kind in &mut self.kinds {
            kind.rebase(by_ms);
        }

        // A problem that was measured by the old setting may be none by the new one.
        self.review_everything();
        for slot in 0..self.store.end() {
            let Some(record) = self.store.get_mut(slot) else { continue };
            record.rebase(by_ms);

            let kind = &mut self.kinds[self.watches[usize::from(record.watch)].kind as usize];
            kind.unconverged
                .extend(record.unconverged().map(|unconverged| (unconverged.since, slot)));

            let failing = record.hot.as_ref().and_then(|hot| hot.failing_since);
            kind.failing.extend(failing.map(|since| (since, slot)));
        }
    }
}
