//! The model.

pub mod reading;

use crate::observation::{Observation, Probe};
use crate::settings::Settings;
use crate::snapshot::{Cursor, ObjectRef, ObjectRow, Snapshot};
use crate::time::Timestamp;

/// Everything known, and what follows from it.
#[derive(Debug)]
pub struct Model {
    settings: Settings,
    now: Timestamp,
}

impl Model {
    /// An empty model.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self { settings, now: Timestamp(0) }
    }

    /// The settings in force.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Takes one fact. Never waits, never fails. Timers due at or before `at` fire first.
    pub fn apply(&mut self, at: Timestamp, _observation: Observation) {
        self.now = self.now.max(at);
    }

    /// When the next timer is due: until then nothing changes without an observation.
    #[must_use]
    pub fn next_due(&self) -> Option<Timestamp> {
        None
    }

    /// What the model wants to know next; bounded, each asked once.
    pub fn probes(&mut self) -> Vec<Probe> {
        Vec::new()
    }

    /// What the model shows now.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot { at: self.now, ..Snapshot::default() }
    }

    /// Shows `limit` objects from `cursor` on; `None` when there are no more.
    pub fn visit(&self, _cursor: Cursor, _limit: usize, _show: &mut dyn FnMut(ObjectRef<'_>)) -> Option<Cursor> {
        None
    }

    /// As [`Model::visit`], with everything that is known of each object.
    #[must_use]
    pub fn rows(&self, _cursor: Cursor, _limit: usize) -> (Vec<ObjectRow>, Option<Cursor>) {
        (Vec::new(), None)
    }
}
