//! The body of a notification: a stable JSON shape, to which fields are only ever added.

use loopwatch_model::reference::{ObjectName, ReferenceEvent};
use serde::Serialize;

/// One event, for a receiver.
#[derive(Debug, Serialize)]
pub(super) struct Notification<'a> {
    /// The version of this shape.
    version: u8,
    /// The same for each attempt and each replica, so that a receiver can ignore repetitions.
    id: String,
    event: &'static str,
    source: &'a ObjectName,
    target: &'a ObjectName,
    /// The field of the source object that holds the reference.
    path: &'a str,
    /// When loopwatch saw the change, by the API server's clock.
    time: String,
}

impl<'a> Notification<'a> {
    pub(super) fn of(event: &'a ReferenceEvent) -> Self {
        let ReferenceEvent { id, at, source, target, path, .. } = event;
        Self {
            version: 1,
            id: id.to_string(),
            event: event.name(),
            source,
            target,
            path,
            time: at.to_string(),
        }
    }

    pub(super) fn to_json(&self) -> Vec<u8> {
        // Serializing texts and numbers cannot fail.
        serde_json::to_vec(self).unwrap_or_default()
    }
}
