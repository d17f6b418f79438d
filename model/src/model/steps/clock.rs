//! Steps of the clock. Recordings by older versions contain them, as do live runs whose clock was
//! set.
//!
//! A step moves every instant that came from loopwatch's clock by the size of the step, so that all
//! ages and deadlines stay the same. Instants that the API server wrote do not move.

use crate::model::Model;
use crate::time::Timestamp;

impl Model {
    /// Moves all instants of loopwatch's clock by `by_ms` milliseconds.
    pub(crate) fn clock_stepped(&mut self, by_ms: i64) {
        let shift = |at: &mut Timestamp| *at = at.shifted(by_ms);
        shift(&mut self.world.now);
        if self.world.operator_failed < Timestamp(i64::MAX) {
            shift(&mut self.world.operator_failed);
        }

        self.world.agenda.timers.rebase(by_ms);
        self.findings.rebase(by_ms);
        self.recent_past.clock_stepped(by_ms);
        self.parts.clock_stepped(by_ms);
        self.findings.due.iter_mut().for_each(shift);

        self.world.sources.rebase(by_ms);
        self.operator.clock_stepped(by_ms);
        self.world.lookups.clock_stepped(by_ms);
        self.world.departed.rebase(by_ms);
        self.world.graph.clock_stepped(by_ms);
        self.world.namespaces.clock_stepped(by_ms);
        self.traces.clock_stepped(by_ms);

        for watch in &mut self.world.watches {
            watch.rebase(by_ms);
        }

        for kind in &mut self.world.kinds {
            kind.rebase(by_ms);
        }

        // What was a problem under the old setting may be none under the new one.
        self.world.review_everything();
        for slot in 0..self.world.store.end() {
            let Some(record) = self.world.store.get_mut(slot) else { continue };
            record.rebase(by_ms);

            let kind =
                &mut self.world.kinds[self.world.watches[usize::from(record.watch)].kind as usize];
            kind.unconverged
                .extend(record.unconverged().map(|unconverged| (unconverged.since, slot)));

            if let Some(failure) = record.hot.as_ref().and_then(|hot| hot.failure.as_deref()) {
                kind.failures.replace(slot, &record.namespace, None, Some(failure));
            }
        }
    }
}
