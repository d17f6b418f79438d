//! One namespace of one watch: its totals, and the time that its objects spend in each state.

use std::sync::Arc;

use crate::model::world::kinds::OTHER;
use crate::snapshot::{NamespaceTotals, ObjectState};
use crate::time::Timestamp;

/// One namespace of one watch.
#[derive(Debug)]
pub(crate) struct WatchNamespace {
    pub(crate) name: Arc<str>,
    pub(crate) totals: NamespaceTotals,
    /// The instant up to which `state_ms` is counted.
    pub(super) counted_to: Timestamp,
}

impl WatchNamespace {
    /// Returns whether it stands for several namespaces, and any of these has objects.
    pub(crate) fn is_shared(&self) -> bool {
        *self.name == *OTHER && !self.is_empty()
    }

    pub(super) fn may_make_room(&self) -> bool {
        *self.name != *OTHER && self.is_empty()
    }

    /// Returns the number of its objects.
    pub(crate) fn objects(&self) -> u64 {
        self.totals.states.iter().sum()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.totals.states.iter().all(|objects| *objects == 0)
    }

    /// Adds the time that objects spent in each state up to `now`. While `blind`, all objects count
    /// as unknown.
    pub(crate) fn count_to(&mut self, now: Timestamp, blind: bool) {
        let elapsed = u64::try_from(now.since(self.counted_to).0).unwrap_or(0);
        for (index, objects) in self.totals.states.iter().enumerate() {
            let state = if blind { ObjectState::Unknown as usize } else { index };
            let counted = &mut self.totals.state_ms[state];
            *counted = counted.saturating_add(objects.saturating_mul(elapsed));
        }

        self.counted_to = self.counted_to.max(now);
    }

    /// Returns the totals at `now`. While `blind`, all objects are unknown.
    pub(crate) fn at(&self, now: Timestamp, blind: bool) -> NamespaceTotals {
        let mut counted = Self { name: self.name.clone(), totals: self.totals.clone(), ..*self };
        counted.count_to(now, blind);
        if blind {
            let objects = counted.objects();
            let states = &mut counted.totals.states;
            *states = Default::default();
            states[ObjectState::Unknown as usize] = objects;
        }

        counted.totals
    }
}
