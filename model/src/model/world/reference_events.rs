//! The events that a reference from one namespace to another has appeared or disappeared, for a
//! webhook.

use std::collections::VecDeque;

use crate::model::world::limits::MAX_REFERENCE_EVENTS;
use crate::reference::ReferenceEvent;

/// The events that nobody has taken yet.
#[derive(Debug, Default)]
pub(crate) struct ReferenceEvents {
    queue: VecDeque<ReferenceEvent>,
}

impl ReferenceEvents {
    /// Adds an event. Returns whether the oldest one was dropped for it.
    pub(super) fn push(&mut self, event: ReferenceEvent) -> bool {
        let full = self.queue.len() >= MAX_REFERENCE_EVENTS;
        if full {
            self.queue.pop_front();
        }

        self.queue.push_back(event);
        full
    }

    /// Removes and returns all of them.
    pub(crate) fn take(&mut self) -> Vec<ReferenceEvent> {
        std::mem::take(&mut self.queue).into()
    }
}
