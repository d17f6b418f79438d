//! The recorded form: one JSON document per line, the header first.

use serde::{Deserialize, Serialize};

use super::Observation;
use crate::settings::Settings;
use crate::time::Timestamp;

/// The version of the recorded form that this program writes.
pub const RECORDING_VERSION: u32 = 1;

/// The first line of a recording.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// Always [`RECORDING_VERSION`] when written; a reader refuses a larger one.
    pub loopwatch_recording: u32,
    /// Program and version that wrote it.
    #[serde(default)]
    pub recorded_by: String,
    /// The settings in force, so that a replay judges as the recorder did.
    #[serde(default)]
    pub settings: Settings,
}

/// Every further line: one observation and when it was learnt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// When it was learnt, by the recorder's clock.
    pub at: Timestamp,
    /// What was learnt.
    pub saw: Observation,
}

/// One line of a recording.
#[derive(Clone, Debug, PartialEq)]
pub enum Recorded {
    /// The header.
    Header(Box<Header>),
    /// An observation.
    Line(Box<Line>),
}
