//! The recent past: what people ask about first during an incident.
//!
//! The shapes are part of version 1 of the JSON API, so fields may be added but not removed or
//! renamed.

use serde::Serialize;

use super::ObjectState;
use crate::finding::{Severity, Subject};
use crate::time::Timestamp;

/// The last hours, kept in memory of limited size. A restart of loopwatch loses them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecentPast {
    /// The current time.
    pub at: Timestamp,
    /// Points at regular intervals, oldest first, at most [`PAST_POINTS`], and one for the current
    /// time.
    pub points: Vec<PastPoint>,
    /// The events in order: at most 1,000 finding events, and those of the operator.
    pub events: Vec<PastEvent>,
    /// The number of finding events that were dropped because there was no room.
    pub forgotten: u64,
}

/// The maximum number of past points in [`RecentPast`]. After a long run, they cover four hours.
pub const PAST_POINTS: usize = 240;

/// All primary kinds at one instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct PastPoint {
    /// The instant.
    pub at: Timestamp,
    /// The number of open root findings, by [`Severity`] in its order.
    pub findings: [u32; Severity::ALL.len()],
    /// The number of objects of primary kinds, by [`ObjectState`] in its order.
    pub states: [u32; ObjectState::ALL.len()],
    /// The number of spec changes with a timed convergence since the previous point.
    pub converged: u32,
    /// How long they took on average, in seconds; absent if there are none.
    pub convergence_seconds: Option<f32>,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq)]
pub struct PastEvent {
    /// When it happened, or when loopwatch noticed it.
    pub at: Timestamp,
    /// What happened.
    pub what: Happening,
}

/// What happened.
#[derive(Clone, Debug, PartialEq)]
pub enum Happening {
    /// A finding opened or closed, or its explanation changed.
    Finding {
        /// `opened`, `closed`, `explained` by another finding, or `no_longer_explained`.
        change: &'static str,
        /// The code of the finding.
        code: &'static str,
        /// Its severity.
        severity: &'static str,
        /// Its subject.
        subject: Subject,
    },
    /// Something happened to the operator.
    Operator {
        /// `ended`, `restarted`, `leader_changed` or `revision_changed`.
        change: &'static str,
        /// The Pod, the instance or the lease.
        name: String,
        /// Details; may be empty.
        detail: String,
    },
}
