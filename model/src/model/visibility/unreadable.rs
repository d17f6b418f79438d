//! Objects that a source could not read and therefore skipped.

use crate::model::world::World;
use crate::model::world::kinds::Watch;
use crate::model::world::limits::Limit;
use crate::observation::{Cause, SourceId};

/// Counts a skipped object. Audits of its watch then tolerate a difference of one more object.
pub(crate) fn object_skipped(world: &mut World, source: &SourceId, cause: Cause) {
    world.count_dropped(match cause {
        Cause::TooLarge => Limit::ObjectBytes,
        _ => Limit::UnreadableObjects,
    });
    let SourceId::Watch(id) = source else { return };
    let Some(number) = world.find_watch(id) else { return };
    let watch = &mut world.watches[number as usize];

    watch.lists.skipped = watch.lists.skipped.saturating_add(1);
}

impl Watch {
    /// Returns whether the list that has just ended proves that objects were deleted: it lacks more
    /// objects of the model than the source skipped. A skipped object has no name, so any object
    /// that the list lacks could be it.
    pub(crate) fn has_removed_objects(&self) -> bool {
        self.totals.objects.saturating_sub(self.lists.current) > u64::from(self.lists.skipped)
    }

    /// Returns the part of a difference between the object counts of the model and the API server
    /// that skipped objects do not explain.
    pub(crate) fn unexplained(&self, difference: i64) -> i64 {
        let skipped = i64::from(self.lists.skipped);
        difference - difference.clamp(-skipped, skipped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::world::kinds::Lists;

    #[test]
    fn skipped_objects_explain_a_difference_up_to_their_number() {
        let watch = Watch { lists: Lists { skipped: 2, ..Lists::default() }, ..Watch::default() };
        assert_eq!(
            [-3, -2, 0, 1, 2, 5].map(|difference| watch.unexplained(difference)),
            [-1, 0, 0, 0, 0, 3]
        );
    }
}
