//! Which subjects to review when many of them may have changed.

use crate::model::world::World;

impl World {
    /// Marks all objects whose deletion waits for a finalizer for review.
    pub(crate) fn review_deletions(&mut self) {
        let waits = self.kinds.iter().flat_map(|kind| kind.deletions.finalizers.values());
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
