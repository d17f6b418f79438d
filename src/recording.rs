//! Recordings: observations in a file, written by [`Writer`] and read by [`Recording`].
//!
//! A recording is JSON lines, plain or gzipped. The first line is a [`RecordingHeader`]; every
//! further line is a [`RecordedObservation`]. A complete recording begins with `Restored`, so that
//! a replay starts from what the model had learned, followed by a full list of every watch. A
//! checkpoint is a recording with `Restored` only.
//!
//! Version 1 of the format is permanent: later versions only add fields, variants and settings. The
//! reader skips unknown lines, ignores unknown fields and settings, and counts all of them in
//! [`Unread`]. It refuses a file only if the file does not begin with a header, or has a newer
//! version.

use loopwatch_model::observation::Observation;
use loopwatch_model::settings::Settings;
use loopwatch_model::time::Timestamp;
use serde::{Deserialize, Serialize};

mod held;
mod pseudonym;
mod reader;
mod segments;
mod shift;
mod writer;

pub use self::reader::{Recording, RecordingError, Unread};
pub use self::segments::Segments;
pub use self::shift::ending_at;
pub use self::writer::Writer;

/// The version of the format that this program writes.
pub const RECORDING_VERSION: u32 = 1;

/// The first line of a recording.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RecordingHeader {
    /// The version of the format. The reader refuses versions above [`RECORDING_VERSION`].
    pub loopwatch_recording: u32,
    /// The program that wrote the recording, with its version.
    #[serde(default)]
    pub recorded_by: String,
    /// The settings in force, so that a replay uses the recorder's settings.
    #[serde(default)]
    pub settings: Settings,
}

/// Every further line: one observation with its time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecordedObservation {
    /// When the observation entered the model, by the API server's clock (in older versions, by the
    /// recorder's).
    pub at: Timestamp,
    pub saw: Observation,
}
