//! Owner references as the garbage collector sees them, and objects that lack an owner.

pub(crate) mod owner_references; // of one object
pub(crate) mod unverified_owners; // owners that the model does not know
pub(crate) mod bad_owners; // kept for long enough to be seen
pub(crate) mod cycles; // of owners
pub(crate) mod logical_owners; // that annotations or labels name
pub(crate) mod missing_owners; // of these, the ones that do not exist
pub(crate) mod orphans; // objects that may be without the owner that they should have
mod orphan_verdicts; // which of them are

use self::bad_owners::BadOwners;
use self::orphans::Orphans;
use self::unverified_owners::UnverifiedOwners;
use crate::model::findings::detection::Detection;
use crate::model::part::{Part, StepContext};
use crate::model::world::store::Slot;
use crate::time::Timestamp;

/// What the model has concluded about owners. `steps/update.rs` calls it by its name, because it
/// judges new owners after the world has stored them, and [`Part::seen`] comes before that.
#[derive(Debug, Default)]
pub(crate) struct Ownership {
    pub(crate) unverified: UnverifiedOwners,
    pub(crate) bad: BadOwners,
    pub(crate) orphans: Orphans,
}

impl Part for Ownership {
    fn removed(&mut self, step: &mut StepContext<'_>, slot: Slot, deleted: bool) {
        self.orphans.remove(slot);
        self.review_logically_owned(step.world, slot);
        self.owner_references_removed(step.world, step.findings, slot, deleted);
    }

    fn detections(&mut self, step: &mut StepContext<'_>, slot: Slot) -> Vec<Detection> {
        let orphan = self.orphan(step.world, step.operator, slot);
        let missing = self.logical_owner_missing(step.world, slot);
        orphan.into_iter().chain(missing).collect()
    }

    fn next_due(&self) -> Option<Timestamp> {
        self.unverified.due.into_iter().chain(self.bad.due).min()
    }

    fn due(&mut self, step: &mut StepContext<'_>) {
        let now = step.world.now;
        if self.unverified.due.is_some_and(|due| due <= now) {
            self.unverified_due(step.world, step.findings);
        }

        if self.bad.due.is_some_and(|due| due <= now) {
            self.bad_owners_due(step.world, step.findings);
        }
    }

    fn clock_stepped(&mut self, by_ms: i64) {
        self.unverified.clock_stepped(by_ms);
        self.bad.clock_stepped(by_ms);
        self.orphans.clock_stepped(by_ms);
    }
}
