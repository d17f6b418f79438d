//! When the visibility of a watch is lost, and what to review when it returns.

use crate::model::world::World;
use crate::model::world::store::Slot;
use crate::model::world::visibility::MAX_GRACE;
use crate::observation::SourceId;
use crate::time::Timestamp;

impl World {
    /// Updates the visibility of a watch after its source failed or recovered, or a list began or
    /// ended. If visibility returns, everything that would have changed meanwhile is reviewed.
    pub(crate) fn update_visibility(&mut self, number: u16) {
        let now = self.now;
        let watch = &mut self.watches[number as usize];
        match (watch.is_up_to_date(), watch.blindness.lost_since) {
            (false, None) => watch.blindness.lost_since = Some(now),
            (true, Some(since)) => {
                watch.blindness.lost_since = None;

                // Before the first list, a watch does not count as blind, unless the source failed
                // before.
                let grace = now.since(since).min(MAX_GRACE);
                let is_longer =
                    since >= watch.blindness.grace_until || grace > watch.blindness.grace;
                if (watch.blindness.seen_before || watch.blindness.failed_before) && is_longer {
                    (watch.blindness.grace, watch.blindness.grace_until) =
                        (grace, now.after(grace));
                }

                (watch.blindness.lost, watch.blindness.regained) = (since, now);
                (watch.blindness.seen_before, watch.blindness.failed_before) = (true, false);
                self.agenda.objects.append(&mut watch.blindness.postponed);
                self.agenda.kinds.insert(watch.kind);
                self.agenda.restored_findings = true;
            }
            _ => {}
        }
    }

    /// Remembers to review an object when its watch can see again.
    pub(crate) fn postpone_review(&mut self, slot: Slot) {
        if let Some(record) = self.store.get(slot) {
            self.watches[record.watch as usize].blindness.postponed.insert(slot);
        }
    }
}

impl World {
    pub(crate) fn mark_blind(&mut self, id: &SourceId, since: Timestamp) {
        let SourceId::Watch(watch) = id else { return };
        let Some(number) = self.find_watch(watch) else { return };
        let now = self.now;
        let watch = &mut self.watches[number as usize];

        if watch.blindness.blind.is_none() {
            watch.namespaces.iter_mut().for_each(|namespace| namespace.count_to(now, false));
            watch.blindness.blind = Some(since);
        }
    }

    pub(crate) fn clear_blind(&mut self, id: &SourceId) {
        let SourceId::Watch(watch) = id else { return };
        let Some(number) = self.find_watch(watch) else { return };
        let now = self.now;
        let watch = &mut self.watches[number as usize];

        if watch.blindness.blind.take().is_some() {
            watch.namespaces.iter_mut().for_each(|namespace| namespace.count_to(now, true));
        }
    }
}
