//! The events that a reference from one namespace to another has appeared or disappeared, for a
//! webhook.

use std::collections::VecDeque;

use crate::model::world::World;
use crate::model::world::limits::{Limit, MAX_REFERENCE_EVENTS};
use crate::model::world::store::{self, Slot};
use crate::reference::{
    ObjectName, ReferenceChange, ReferenceEvent, ReferenceEventId, ReferenceForm,
};

/// The events that nobody has taken yet.
#[derive(Debug, Default)]
pub(crate) struct ReferenceEvents {
    queue: VecDeque<ReferenceEvent>,
}

impl ReferenceEvents {
    /// Removes and returns all of them.
    pub(crate) fn take(&mut self) -> Vec<ReferenceEvent> {
        std::mem::take(&mut self.queue).into()
    }
}

impl World {
    /// Queues the event that an object's reference to `target` at `path` has changed.
    pub(crate) fn push_reference_event(
        &mut self,
        slot: Slot,
        version: u64,
        (form, change): (ReferenceForm, ReferenceChange),
        path: String,
        target: ObjectName,
    ) {
        let Some(record) = self.store.get(slot) else { return };
        let (kind, uid) = (self.kind_of(record.watch), store::uid_text(record.uid));
        let source = ObjectName {
            group: kind.group.to_string(),
            kind: kind.kind.to_string(),
            namespace: record.namespace.to_string(),
            name: record.name.to_string(),
        };

        let (id, at) = (ReferenceEventId(0), self.now);
        let event =
            ReferenceEvent { id, at, change, form, source, path, target }.identified(&uid, version);
        let queue = &mut self.reference_events.queue;
        if queue.len() >= MAX_REFERENCE_EVENTS {
            queue.pop_front();
            self.count_dropped(Limit::ReferenceEvents);
        }

        self.reference_events.queue.push_back(event);
    }
}
