//! The checkpoint in the state directory, which survives restarts: a recording with one observation.

use std::path::{Path, PathBuf};

use loopwatch_model::model::Model;
use loopwatch_model::observation::Observation;
use tracing::{info, warn};

use crate::recording::{Recording, Writer};
use crate::sources::clock::{Clock, SystemClock};

/// The file in the state directory.
const FILE: &str = "checkpoint.jsonl";

/// Applies the checkpoint of an earlier run to the model. If the file is unreadable, the model starts empty and the file
/// stays as it is.
pub(super) fn restore(dir: &Path, model: &mut Model) {
    let path = dir.join(FILE);
    // Opening a named pipe would wait for a writer.
    if !path.is_file() {
        return;
    }
    match Recording::open(&path) {
        Ok(recording) => {
            let mut lines = 0;
            for line in recording {
                if matches!(line.saw, Observation::Restored(_)) {
                    model.apply(line.at, line.saw);
                    lines += 1;
                }
            }
            info!(file = %path.display(), checkpoints = lines, "restored the checkpoint of an earlier run");
        }
        Err(error) => warn!(%error, "cannot read the checkpoint of an earlier run; starting without it"),
    }
}

/// Writes the checkpoint to a new file and renames it, so that a crash leaves the old one intact.
pub(super) fn keep(dir: &Path, model: &Model) {
    if let Err(error) = write(dir, model) {
        warn!(dir = %dir.display(), %error, "cannot write the checkpoint");
    }
}

fn write(dir: &Path, model: &Model) -> std::io::Result<()> {
    std::fs::create_dir_all(dir)?;
    let new: PathBuf = dir.join(format!("{FILE}.new"));
    match std::fs::remove_file(&new) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut writer = Writer::create(&new, model.settings(), None)?;
    writer.write(SystemClock::new().wall(), &Observation::Restored(Box::new(model.checkpoint())))?;
    writer.finish()?;
    std::fs::rename(new, dir.join(FILE))
}
