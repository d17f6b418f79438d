//! What was learnt, kept in a folder across restarts: a recording that holds nothing but a checkpoint.

use std::path::{Path, PathBuf};

use loopwatch_model::model::Model;
use loopwatch_model::observation::Observation;
use tracing::{info, warn};

use crate::recording::{Recording, Writer};
use crate::sources::clock::{Clock, SystemClock};

/// The file in the state folder.
const FILE: &str = "checkpoint.jsonl";

/// Gives the model what an earlier run had learnt. A file that cannot be read is left alone and told: the model starts
/// empty, as on its first day.
pub(super) fn restore(dir: &Path, model: &mut Model) {
    let path = dir.join(FILE);
    if !path.exists() {
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
            info!(file = %path.display(), checkpoints = lines, "restored what an earlier run had learnt");
        }
        Err(error) => warn!(%error, "starting without what an earlier run had learnt"),
    }
}

/// Keeps what was learnt: written beside and renamed, so that a crash leaves the old one.
pub(super) fn keep(dir: &Path, model: &Model) {
    if let Err(error) = write(dir, model) {
        warn!(dir = %dir.display(), %error, "cannot keep what was learnt");
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
