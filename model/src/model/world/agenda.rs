//! What the model has to look at next: subjects to review although no event about them arrived,
//! timers, and questions to the sources.
//!
//! The parts add subjects when sight returns, a list ends, loopwatch reads a kind in another way,
//! settings change, or there is room for findings again. They add only subjects with something to
//! decide, so the cost follows the change.

use std::collections::BTreeSet;

use crate::model::world::World;
use crate::model::world::store::Slot;
use crate::model::world::timers::Timers;
use crate::observation::Probe;

/// What to look at next. The order makes replays deterministic. The number of objects limits the
/// size.
#[derive(Debug, Default)]
pub(crate) struct Agenda {
    pub(crate) objects: BTreeSet<Slot>,
    /// Kinds as a whole. The detectors of kinds look at them after all objects.
    pub(crate) kinds: BTreeSet<u16>,
    /// The operator itself.
    pub(crate) operator: bool,
    /// The sight of a watch has returned, so the problems of an earlier process may be over.
    pub(crate) restored_findings: bool,
    pub(crate) timers: Timers,
    /// Questions to the sources, except for reads of single objects.
    pub(crate) probes: BTreeSet<Probe>,
}

impl World {
    /// Marks all objects for a review whose deletion waits for a finalizer.
    pub(crate) fn review_deletions(&mut self) {
        let waits = self.kinds.iter().flat_map(|kind| kind.finalizers.values());
        self.agenda
            .objects
            .extend(waits.flat_map(|waits| waits.waiting.iter().map(|(_, slot)| *slot)));
    }

    /// Marks all objects with something to decide, all kinds and the operator for a review.
    pub(crate) fn review_everything(&mut self) {
        let undecided =
            self.store.iter().filter(|(_, record)| record.hot.is_some()).map(|(slot, _)| slot);
        self.agenda.objects.extend(undecided);
        self.agenda.kinds.extend(0..u16::try_from(self.kinds.len()).unwrap_or(u16::MAX));
        self.agenda.operator = true;
    }
}
