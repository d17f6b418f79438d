//! What loopwatch concludes from what it has seen: pure, total, deterministic.

pub mod checkpoint;
pub mod model;
pub mod observation;
pub mod settings;
pub mod time;
