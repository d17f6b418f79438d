//! One object on the desk: the record, the totals that it counts in, and what was just seen of it.

use super::intern::{Interner, Shape};
use super::kinds::{Kind, WatchNamespace};
use super::reading::{Acknowledged, Verdict};
use super::store::{Record, Slot};
use crate::observation::ObjectView;
use crate::settings::Settings;
use crate::snapshot::ObjectState;
use crate::time::Timestamp;

/// Everything that judging one object may read or change.
pub(crate) struct ObjectContext<'a> {
    pub(crate) now: Timestamp,
    pub(crate) settings: &'a Settings,
    /// The watch cannot see at present: what passes meanwhile is unknown.
    pub(crate) blind: bool,
    /// Whether another object may have a history.
    pub(crate) room: bool,
    /// One was wanted and there was no room.
    pub(crate) refused: bool,
    pub(crate) slot: Slot,
    pub(crate) record: &'a mut Record,
    pub(crate) kind: &'a mut Kind,
    pub(crate) namespace: &'a mut WatchNamespace,
    pub(crate) texts: &'a Interner<str>,
    pub(crate) shapes: &'a Interner<Shape>,
}

/// What a new version of an object brought.
pub(crate) struct Seen<'a> {
    pub(crate) view: &'a ObjectView,
    pub(crate) verdict: Verdict,
    pub(crate) acknowledged: Acknowledged,
    /// It was not known before.
    pub(crate) new: bool,
    /// It came as an event, so that it happened now; from a list it may have happened at any time before.
    pub(crate) live: bool,
    pub(crate) spec_changed: bool,
    /// The status changed in more than its timestamps.
    pub(crate) status_changed: bool,
    /// The newest write of the spec came from whoever writes the status.
    pub(crate) by_operator: bool,
    /// The fingerprint of the spec before.
    pub(crate) old_spec: u64,
    /// When the goal was lost, as its conditions claim.
    pub(crate) lost: Option<Timestamp>,
}

// === impl ObjectContext ===

impl ObjectContext<'_> {
    /// Puts the object into `state`, as of `since`.
    pub(crate) fn enter(&mut self, state: ObjectState, since: Timestamp) {
        if self.record.state == state {
            return;
        }
        self.namespace.count_to(self.now, self.blind);
        let states = &mut self.namespace.totals.states;
        let from = &mut states[self.record.state as usize];
        *from = from.saturating_sub(1);
        states[state as usize] += 1;
        self.record.state = state;
        self.record.since = since;
    }
}
