//! The checkpoint in the state directory, which survives restarts: a recording with one observation.

use std::path::{Path, PathBuf};

use loopwatch_model::model::Model;
use loopwatch_model::observation::Observation;
use tracing::{info, warn};

use crate::recording::{Recording, Writer};
use crate::sources::clock::{Clock, SystemClock};

/// The file in the state directory.
const FILE: &str = "checkpoint.jsonl";

/// Applies the checkpoint of an earlier run to the model. If the file is unreadable, the model starts empty and the
/// file stays as it is.
pub(super) fn restore(dir: &Path, model: &mut Model) {
    let path = dir.join(FILE);
    // Opening a named pipe would wait for a writer.
    if !path.is_file() {
        return;
    }
    match Recording::open(&path) {
        Ok(recording) => {
            let (mut lines, now) = (0, SystemClock::new().wall());
            for line in recording {
                if matches!(line.saw, Observation::Restored(_)) {
                    // The model's time never goes back, so a checkpoint of a clock that was ahead must not set it.
                    model.apply(line.at.min(now), line.saw);
                    lines += 1;
                }
            }
            info!(file = %path.display(), checkpoints = lines, "restored the checkpoint of an earlier run");
        }
        Err(error) => warn!(%error, "cannot read the checkpoint of an earlier run; starting without it"),
    }
}

/// Writes the checkpoint to a new file and renames it, so that a crash leaves the old one intact.
pub(super) fn save(dir: &Path, model: &Model) {
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

#[cfg(test)]
mod tests {
    use loopwatch_model::settings::Settings;
    use loopwatch_model::time::{Span, Timestamp};

    use super::*;

    #[test]
    fn a_checkpoint_from_the_future_does_not_stop_the_model() -> std::io::Result<()> {
        let directory = tempfile::tempdir()?;
        let (settings, now) = (Settings::default(), SystemClock::new().wall());
        let mut writer = Writer::create(&directory.path().join(FILE), &settings, None)?;
        writer.write(now.after(Span::hours(24)), &Observation::Restored(Box::default()))?;
        writer.finish()?;
        let mut model = Model::new(settings);
        restore(directory.path(), &mut model);
        assert!(model.snapshot().at < now.after(Span::hours(1)), "{}", model.snapshot().at);
        assert!(model.snapshot().at > Timestamp(0), "it is restored");
        Ok(())
    }

    #[cfg(unix)]
    #[test]
    fn a_checkpoint_replaces_links_and_does_not_follow_them() -> std::io::Result<()> {
        let directory = tempfile::tempdir()?;
        let other = directory.path().join("other");
        std::fs::write(&other, "untouched")?;
        for name in [FILE.to_owned(), format!("{FILE}.new")] {
            std::os::unix::fs::symlink(&other, directory.path().join(name))?;
        }
        write(directory.path(), &Model::new(Settings::default()))?;
        assert_eq!(std::fs::read_to_string(&other)?, "untouched");
        assert!(std::fs::symlink_metadata(directory.path().join(FILE))?.is_file());
        Ok(())
    }
}
