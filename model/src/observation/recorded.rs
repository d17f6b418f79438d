//! The recorded form: JSON lines, a [`Header`] followed by one [`Line`] per observation.

use serde::{Deserialize, Serialize};

use super::Observation;
use crate::settings::Settings;
use crate::time::Timestamp;

/// The version of the recorded form that loopwatch writes.
pub const RECORDING_VERSION: u32 = 1;

/// The first line of a recording.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// The version of the recorded form. Writers set [`RECORDING_VERSION`]; readers refuse a larger version.
    pub loopwatch_recording: u32,
    /// The program and version that wrote the recording.
    #[serde(default)]
    pub recorded_by: String,
    /// The settings of the recording process, so that a replay reaches the same conclusions.
    #[serde(default)]
    pub settings: Settings,
}

/// Every further line of a recording: one observation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// The instant of the observation, by the recording process's clock.
    pub at: Timestamp,
    /// The observation.
    pub saw: Observation,
}
