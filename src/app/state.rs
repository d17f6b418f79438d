//! Saves and restores the checkpoint in the state directory, which survives restarts. It is a
//! recording with one observation.

use std::fs::TryLockError;
use std::io::{BufRead, BufReader, Read as _};
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use loopwatch_model::checkpoint::Checkpoint;
use loopwatch_model::model::Model;
use loopwatch_model::observation::Observation;
use loopwatch_model::settings::Settings;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{SharedModel, lock, log_panic};
use crate::recording::{Recording, RecordingError, Writer};
use crate::sources::feed::{Clock, SystemClock};
use crate::system::files::{GZIP, open_regular_without_link};

/// The file in the state directory.
const FILE: &str = "checkpoint.jsonl";

/// Limit on its size, in bytes: some fifty times as large as one of an operator with thousands of findings.
const MAX_BYTES: u64 = 64 << 20;

/// Interval between checkpoints: the longest time that a killed process forgets.
const SAVE_EVERY: Duration = Duration::from_secs(60);

/// Time limit for the last checkpoint.
const LAST_WITHIN: Duration = Duration::from_secs(5);

/// Creates a folder in the state directory, and returns its path. Neither it nor a folder on the way may be
/// a link: it could lead to the files of somebody else.
pub(super) fn folder(root: &Path, below: &str) -> std::io::Result<PathBuf> {
    std::fs::create_dir_all(root)?;
    let mut folder = root.to_owned();
    for name in below.split('/') {
        if !is_one_name(name) {
            let problem = format!("{below:?} names no folder");
            return Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, problem));
        }

        folder.push(name);
        match std::fs::create_dir(&folder) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        if !std::fs::symlink_metadata(&folder)?.is_dir() {
            let problem = format!("{} is not a folder", folder.display());
            return Err(std::io::Error::new(std::io::ErrorKind::NotADirectory, problem));
        }
    }

    Ok(folder)
}

/// Whether a text is the name of one folder: `..` would leave the state directory.
fn is_one_name(name: &str) -> bool {
    let mut parts = Path::new(name).components();
    matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None))
}

/// Opens a checkpoint. loopwatch writes none that is compressed, and reads none: a small file could take
/// minutes, before anything answers the liveness probe.
fn open(path: &Path) -> std::io::Result<impl BufRead + use<>> {
    let mut file = BufReader::new(open_regular_without_link(path)?.take(MAX_BYTES));
    if file.fill_buf()?.starts_with(&GZIP) {
        return Err(std::io::Error::new(std::io::ErrorKind::InvalidData, "it is compressed"));
    }

    Ok(file)
}

/// Applies the checkpoint of an earlier run to the model. If the file is unreadable, the model
/// starts empty and the file stays unchanged.
pub(super) fn restore(dir: &Path, model: &mut Model) {
    let path = dir.join(FILE);
    let recording = match open(&path) {
        Ok(file) => Recording::read(file, path.display().to_string()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return,
        Err(error) => Err(RecordingError::Io { path: path.display().to_string(), error }),
    };

    match recording {
        Ok(recording) => {
            let (mut lines, now) = (0, SystemClock::new().wall());
            for line in recording {
                if matches!(line.saw, Observation::Restored(_)) {
                    // The model's time never goes back. If the clock was ahead at the checkpoint,
                    // the checkpoint must not set the time.
                    model.apply(line.at.min(now), line.saw);
                    lines += 1;
                }
            }

            info!(file = %path.display(), checkpoints = lines, "restored the checkpoint of an earlier run");
        }
        Err(error) => {
            warn!(%error, "cannot read the checkpoint of an earlier run; starting without it")
        }
    }
}

/// Removes the checkpoint of an operator that is gone, and its folder.
pub(super) async fn remove(dir: PathBuf) {
    let removed = spawn_blocking(move || {
        let gone = match std::fs::remove_file(dir.join(FILE)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
            _ => std::fs::remove_dir(&dir),
        };
        if let Err(error) = gone.or_else(ignore_absence) {
            return warn!(dir = %dir.display(), %error, "cannot remove the checkpoint of an operator that is gone");
        }

        // That of the namespace stays if it has other operators.
        if let Some(namespace) = dir.parent() {
            let _ = std::fs::remove_dir(namespace);
        }
    });
    match timeout(LAST_WITHIN, removed).await {
        Ok(removed) => log_panic(removed),
        Err(_) => warn!("the disk hangs; the checkpoint of an operator that is gone may stay"),
    }
}

fn ignore_absence(error: std::io::Error) -> std::io::Result<()> {
    if error.kind() == std::io::ErrorKind::NotFound { Ok(()) } else { Err(error) }
}

/// Saves the checkpoint at intervals whenever it has changed, until `stop`, so that a killed
/// process loses little.
pub(super) async fn save_regularly(dir: PathBuf, model: SharedModel, stop: CancellationToken) {
    let (mut saved, mut failing) = (None, false);
    while stop.run_until_cancelled(tokio::time::sleep(SAVE_EVERY)).await.is_some() {
        let (settings, checkpoint) = take(&model);
        if saved.as_ref() == Some(&checkpoint) {
            continue;
        }

        match write_elsewhere(&dir, settings, checkpoint.clone()).await {
            Ok(()) => (saved, failing) = (Some(checkpoint), false),
            Err(error) if !failing => {
                report(&dir, &error);
                failing = true;
            }
            Err(_) => {} // already reported
        }
    }
}

/// Saves the checkpoint once more after the task of [`save_regularly`] has ended. A hanging disk
/// must not delay the end of the process: the receivers of alerts and traces still wait for theirs.
pub(super) async fn save_last(dir: &Path, model: &SharedModel, saving: JoinHandle<()>) {
    let saved = timeout(LAST_WITHIN, async {
        log_panic(saving.await);
        let (settings, checkpoint) = take(model);
        write_elsewhere(dir, settings, checkpoint).await
    });
    match saved.await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => report(dir, &error),
        Err(_) => report(dir, &std::io::Error::from(std::io::ErrorKind::TimedOut)),
    }
}

fn take(model: &SharedModel) -> (Settings, Checkpoint) {
    let model = lock(model);
    (model.settings().clone(), model.checkpoint())
}

/// Writes on another thread, because a slow disk must not block this one.
async fn write_elsewhere(
    dir: &Path,
    settings: Settings,
    checkpoint: Checkpoint,
) -> std::io::Result<()> {
    let dir = dir.to_owned();
    let written = spawn_blocking(move || write(&dir, &settings, checkpoint)).await;
    written.unwrap_or_else(|panic| Err(std::io::Error::other(panic)))
}

fn report(dir: &Path, error: &std::io::Error) {
    warn!(dir = %dir.display(), %error, "cannot write the checkpoint");
}

fn write(dir: &Path, settings: &Settings, checkpoint: Checkpoint) -> std::io::Result<()> {
    replace(dir, FILE, |new| {
        let mut writer = Writer::create(new, settings, None)?;
        writer.write(SystemClock::new().wall(), &Observation::Restored(Box::new(checkpoint)))?;
        writer.finish()
    })
}

/// Writes a new file and renames it, so that a crash leaves the old one intact. A lock keeps out another
/// process that writes at the same time, such as the Pod that an update replaces: it would rename an
/// incomplete file.
pub(super) fn replace(
    dir: &Path,
    file: &str,
    write: impl FnOnce(&Path) -> std::io::Result<()>,
) -> std::io::Result<()> {
    std::fs::create_dir_all(dir)?;
    let folder = std::fs::File::open(dir)?;

    // Some file systems have no locks.
    if let Err(TryLockError::WouldBlock) = folder.try_lock() {
        return Err(std::io::Error::new(
            std::io::ErrorKind::ResourceBusy,
            "another process is writing it",
        ));
    }

    let new: PathBuf = dir.join(format!("{file}.new"));
    match std::fs::remove_file(&new) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }

    write(&new)?;
    std::fs::rename(new, dir.join(file))?;

    // Without this, the old file may come back after a power failure.
    folder.sync_all()
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    use std::sync::{Arc, Mutex};

    use loopwatch_model::observation::{Cause, SourceId};
    use loopwatch_model::time::{Span, Timestamp};

    use super::*;

    #[test]
    fn a_link_in_place_of_a_folder_is_refused() -> std::io::Result<()> {
        let (directory, victim) = (tempfile::tempdir()?, tempfile::tempdir()?);
        std::os::unix::fs::symlink(victim.path(), directory.path().join("ops"))?;

        let refused = folder(directory.path(), "ops/widget-operator");
        assert!(refused.is_err_and(|error| error.to_string().contains("ops is not a folder")));
        assert!(!victim.path().join("widget-operator").exists());
        assert!(folder(directory.path(), "team/widget-operator")?.is_dir());
        Ok(())
    }

    #[test]
    fn no_name_leaves_the_state_directory() -> std::io::Result<()> {
        let directory = tempfile::tempdir()?;
        let root = directory.path().join("state");
        for name in ["../../outside/operator", "ops/..", "ops/.", "ops//a", "/etc", ""] {
            let refused = folder(&root, name);
            assert!(refused.is_err_and(|error| error.to_string().contains("names no folder")));
        }

        assert_eq!(std::fs::read_dir(directory.path())?.count(), 1);
        Ok(())
    }

    #[test]
    fn a_compressed_checkpoint_is_not_read() -> std::io::Result<()> {
        let directory = tempfile::tempdir()?;
        let settings = Settings::default();
        write(directory.path(), &settings, Checkpoint::default())?;
        let file = directory.path().join(FILE);
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        packed.write_all(&std::fs::read(&file)?)?;
        std::fs::write(&file, packed.finish()?)?;

        let mut model = Model::new(settings);
        restore(directory.path(), &mut model);
        assert_eq!(model.snapshot().at, Timestamp(0), "nothing is restored");
        Ok(())
    }

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

    /// Somebody who can write the directory must not choose the file that loopwatch reads.
    #[test]
    fn a_link_in_the_place_of_the_checkpoint_is_not_followed() -> std::io::Result<()> {
        let (directory, elsewhere) = (tempfile::tempdir()?, tempfile::tempdir()?);
        let settings = Settings::default();
        write(elsewhere.path(), &settings, Checkpoint::default())?;
        std::os::unix::fs::symlink(elsewhere.path().join(FILE), directory.path().join(FILE))?;

        let mut model = Model::new(settings);
        restore(directory.path(), &mut model);
        assert_eq!(model.snapshot().at, Timestamp(0), "nothing is restored");

        restore(elsewhere.path(), &mut model);
        assert_ne!(model.snapshot().at, Timestamp(0), "the file itself is");
        Ok(())
    }

    #[tokio::test(start_paused = true)]
    async fn a_changed_checkpoint_is_saved_while_the_process_runs() -> std::io::Result<()> {
        let directory = tempfile::tempdir()?;
        let (file, stop) = (directory.path().join(FILE), CancellationToken::new());
        let model: SharedModel = Arc::new(Mutex::new(Model::new(Settings::default())));
        let saving =
            tokio::spawn(save_regularly(directory.path().to_owned(), model.clone(), stop.clone()));
        let wait = || tokio::time::sleep(SAVE_EVERY + Duration::from_secs(1));

        wait().await;
        let first = std::fs::metadata(&file)?;

        assert_eq!(first.permissions().mode() & 0o777, 0o600);

        wait().await;
        assert_eq!(std::fs::metadata(&file)?.ino(), first.ino(), "nothing has changed");

        let failure = Observation::SourceFailed {
            source: SourceId::Config,
            cause: Cause::Invalid,
            detail: "x".to_owned(),
        };

        lock(&model).apply(Timestamp(1), failure);
        lock(&model).apply(Timestamp(600_000), Observation::Tick);
        wait().await;

        assert!(
            std::fs::read_to_string(&file)?.contains("1970-01-01T00:00:00.001Z"),
            "the finding of the failure"
        );

        stop.cancel();
        saving.await?;
        Ok(())
    }

    /// Otherwise, the last alerts and traces would wait for the disk until the kubelet ends the
    /// process.
    #[tokio::test(start_paused = true)]
    async fn a_disk_that_hangs_does_not_hold_up_the_end_of_the_process() -> std::io::Result<()> {
        let directory = tempfile::tempdir()?;
        let model: SharedModel = Arc::new(Mutex::new(Model::new(Settings::default())));
        let began = tokio::time::Instant::now();
        save_last(directory.path(), &model, tokio::spawn(std::future::pending())).await;

        assert_eq!(began.elapsed(), LAST_WITHIN);
        assert!(!directory.path().join(FILE).exists());

        save_last(directory.path(), &model, tokio::spawn(async {})).await;
        assert!(directory.path().join(FILE).exists(), "the disk works");

        Ok(())
    }

    #[test]
    fn a_checkpoint_replaces_links_and_does_not_follow_them() -> std::io::Result<()> {
        let directory = tempfile::tempdir()?;
        let other = directory.path().join("other");
        std::fs::write(&other, "untouched")?;

        for name in [FILE.to_owned(), format!("{FILE}.new")] {
            std::os::unix::fs::symlink(&other, directory.path().join(name))?;
        }

        write(directory.path(), &Settings::default(), Checkpoint::default())?;
        assert_eq!(std::fs::read_to_string(&other)?, "untouched");
        assert!(std::fs::symlink_metadata(directory.path().join(FILE))?.is_file());

        Ok(())
    }

    #[tokio::test]
    async fn nothing_is_left_of_an_operator_that_is_gone() -> std::io::Result<()> {
        let directory = tempfile::tempdir()?;
        let of = |name: &str| directory.path().join("ops").join(name);
        for name in ["a", "b"] {
            write(&of(name), &Settings::default(), Checkpoint::default())?;
        }

        remove(of("a")).await;
        assert!(!of("a").exists() && of("b").exists());
        remove(of("b")).await;
        remove(of("b")).await;
        assert_eq!(std::fs::read_dir(directory.path())?.count(), 0);
        Ok(())
    }

    /// As during a rolling update, if both Pods mount the same volume.
    #[test]
    fn two_writers_leave_a_complete_checkpoint() -> std::io::Result<()> {
        let directory = tempfile::tempdir()?;
        let learned =
            (0..500).map(|kind| (format!("example.io/Kind{kind}"), vec![1; 20])).collect();
        let checkpoint = Checkpoint { learned, ..Checkpoint::default() };
        let writers: Vec<_> = (0..2)
            .map(|_| {
                let (dir, checkpoint) = (directory.path().to_owned(), checkpoint.clone());
                std::thread::spawn(move || {
                    (0..20)
                        .map(|_| write(&dir, &Settings::default(), checkpoint.clone()))
                        .collect::<Vec<_>>()
                })
            })
            .collect();

        for _ in 0..50 {
            let (mut model, exists) =
                (Model::new(Settings::default()), directory.path().join(FILE).exists());
            restore(directory.path(), &mut model);

            let restored = model.checkpoint();
            assert!(!exists || restored == checkpoint, "{} kinds", restored.learned.len());
        }

        for written in writers.into_iter().flat_map(|writer| writer.join().expect("no panic")) {
            let kind = written.err().map(|error| error.kind());
            assert!(kind.is_none_or(|kind| kind == std::io::ErrorKind::ResourceBusy), "{kind:?}");
        }

        Ok(())
    }
}
