//! The directory that keeps the last profiles, as the operator sent them. `go tool pprof` can read
//! them.

use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use loopwatch_model::observation::ProfileKind;
use loopwatch_model::time::Timestamp;

use super::fetch::MAX_BYTES;
use crate::system::files::{is_irregular, open_regular_without_link};

/// A directory for profiles. Several processes may write into it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProfileStore {
    dir: PathBuf,
    /// Whether to create the directory.
    chosen: bool,
}

/// A profile in the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeptProfile {
    pub(crate) name: String,
    pub(crate) kind: ProfileKind,
    pub(crate) taken: Timestamp,
    pub(crate) bytes: u64,
}

/// The directory if the user names none. It counts only if it exists: `deploy/components/process`
/// mounts it.
const DEFAULT_DIR: &str = "/profiles";

/// The maximum number of files.
const MAX_FILES: usize = 32;
/// The maximum size of all files, in bytes. The volume of `deploy/components/process` is larger.
const MAX_TOTAL: u64 = 32 << 20;
/// The maximum number of entries to read. Other programs may have filled the directory.
const MAX_ENTRIES: usize = 10_000;
/// The longest part of a file name that comes from the name of the instance.
const MAX_INSTANCE: usize = 100;

const SUFFIX: &str = ".pb.gz";
/// The suffix of an incomplete file.
const NEW: &str = ".new";

impl ProfileStore {
    /// The directory that the user names, or the default one.
    pub(crate) fn new(dir: Option<&Path>) -> Self {
        Self { dir: dir.unwrap_or(Path::new(DEFAULT_DIR)).to_owned(), chosen: dir.is_some() }
    }

    pub(crate) fn dir(&self) -> Option<&Path> {
        (self.chosen || self.dir.is_dir()).then_some(&self.dir)
    }

    /// Keeps a profile, and removes the oldest ones to make room for it. Returns the name of its
    /// file, or `None` without a directory.
    ///
    /// # Errors
    /// If the directory cannot be written.
    pub(super) fn keep(
        &self,
        kind: ProfileKind,
        instance: &str,
        taken: Timestamp,
        content: &[u8],
    ) -> io::Result<Option<String>> {
        let Some(dir) = self.dir() else { return Ok(None) };
        if self.chosen {
            std::fs::create_dir_all(dir)?;
        }

        self.make_room(content.len() as u64, taken)?;
        let name = file_name(kind, instance, taken);
        let new = dir.join(format!("{name}{NEW}"));

        // Neither follows links nor overwrites files: another process of the Pod may write here,
        // too.
        let written = std::fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&new)
            .and_then(|mut file| {
                file.write_all(content)?;
                std::fs::rename(&new, dir.join(&name))
            });

        if let Err(error) = written {
            let _ = std::fs::remove_file(&new);
            return Err(error);
        }

        Ok(Some(name))
    }

    /// The profiles, newest first.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub(crate) fn list(&self) -> io::Result<Vec<KeptProfile>> {
        let Some(dir) = self.dir() else { return Ok(Vec::new()) };
        let entries = match std::fs::read_dir(dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(|error| at(dir, &error))?,
        };
        let kept = |entry: io::Result<std::fs::DirEntry>| {
            let entry = entry.ok()?;
            let (name, metadata) = (entry.file_name().into_string().ok()?, entry.metadata().ok()?);
            let (taken, kind) = parse_name(&name)?;
            metadata.is_file().then_some(KeptProfile { name, kind, taken, bytes: metadata.len() })
        };

        let mut profiles: Vec<KeptProfile> = entries.take(MAX_ENTRIES).filter_map(kept).collect();
        profiles.sort_unstable_by(|a, b| (b.taken, &b.name).cmp(&(a.taken, &a.name)));
        Ok(profiles)
    }

    /// The content of a profile; `None` if there is no such profile.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub(crate) fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        // The name has neither a slash nor a leading dot, so it names a file in this directory.
        let Some(dir) = self.dir().filter(|_| parse_name(name).is_some()) else { return Ok(None) };
        let path = dir.join(name);
        let file = match open_regular_without_link(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound || is_irregular(&error) => {
                return Ok(None);
            }
            file => file.map_err(|error| at(&path, &error))?,
        };

        let mut content = Vec::new();
        file.take(MAX_BYTES as u64).read_to_end(&mut content).map_err(|error| at(&path, &error))?;
        Ok(Some(content))
    }

    /// Removes incomplete files, and the oldest profiles until there is room for one of this size.
    /// If the clock was set back, removes those from the future first: otherwise no new profile
    /// would stay.
    fn make_room(&self, bytes: u64, now: Timestamp) -> io::Result<()> {
        for entry in std::fs::read_dir(&self.dir)?.take(MAX_ENTRIES) {
            let entry = entry?;
            let is_incomplete = |name: &str| name.strip_suffix(NEW).and_then(parse_name).is_some();
            if entry.file_name().to_str().is_some_and(is_incomplete) {
                let _ = std::fs::remove_file(entry.path());
            }
        }

        let (mut room, mut files) = (MAX_TOTAL.saturating_sub(bytes), MAX_FILES - 1);
        let mut profiles = self.list()?;
        profiles.sort_by_key(|profile| profile.taken > now);

        for profile in profiles {
            if files == 0 || profile.bytes > room {
                // Removes everything older, too, so that no gap hides which profiles are missing.
                (room, files) = (0, 0);
                std::fs::remove_file(self.dir.join(&profile.name))?;
                continue;
            }

            (room, files) = (room - profile.bytes, files - 1);
        }

        Ok(())
    }
}

/// Adds the path to an error.
fn at(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// The name of a file, for example `2026-01-31T12-00-00.123Z-heap-widget-operator-7f9c.pb.gz`.
fn file_name(kind: ProfileKind, instance: &str, taken: Timestamp) -> String {
    let pod = instance.rsplit('/').next().unwrap_or_default();
    let safe = |c: char| if c.is_ascii_alphanumeric() || c == '-' || c == '.' { c } else { '_' };
    let pod: String = pod.chars().take(MAX_INSTANCE).map(safe).collect();
    format!("{}-{}-{pod}{SUFFIX}", taken.to_string().replace(':', "-"), kind.as_str())
}

/// Parses the name of a file. `None` for any name that [`file_name`] does not make.
fn parse_name(name: &str) -> Option<(Timestamp, ProfileKind)> {
    let is_safe = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    if name.len() > 255 || !name.chars().all(is_safe) {
        return None;
    }

    let (taken, rest) = name.strip_suffix(SUFFIX)?.split_once("Z-")?;
    let (date, time) = taken.split_once('T')?;
    let taken = Timestamp::parse(&format!("{date}T{}Z", time.replace('-', ":")))?;
    let is = |kind: ProfileKind| {
        rest.strip_prefix(kind.as_str()).is_some_and(|rest| rest.starts_with('-'))
    };

    [ProfileKind::Heap, ProfileKind::Goroutines]
        .into_iter()
        .find(|kind| is(*kind))
        .map(|kind| (taken, kind))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    fn store(dir: &Path) -> ProfileStore {
        ProfileStore::new(Some(dir))
    }

    fn keep(store: &ProfileStore, second: i64, bytes: usize) -> String {
        let taken = Timestamp(second * 1_000);
        let kept = store
            .keep(ProfileKind::Heap, "team-a/operator-7f9c", taken, &vec![0; bytes])
            .expect("written");

        kept.expect("a directory")
    }

    fn names(store: &ProfileStore) -> Vec<String> {
        store.list().expect("readable").into_iter().map(|profile| profile.name).collect()
    }

    #[test]
    fn a_profile_is_kept_and_read_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = store(&folder.path().join("new"));

        assert_eq!(names(&store), [""; 0], "the directory does not exist yet");

        let name = keep(&store, 1, 3);
        assert_eq!(name, "1970-01-01T00-00-01Z-heap-operator-7f9c.pb.gz");

        let taken = Timestamp(2_500);
        let other = store
            .keep(ProfileKind::Goroutines, "127.0.0.1:8080", taken, b"x")
            .expect("written")
            .expect("a name");

        assert_eq!(other, "1970-01-01T00-00-02.500Z-goroutines-127.0.0.1_8080.pb.gz");

        let list = store.list().expect("readable");
        let expected = KeptProfile { name: other, kind: ProfileKind::Goroutines, taken, bytes: 1 };

        assert_eq!((list[0].clone(), list[1].name.as_str()), (expected, name.as_str()));
        assert_eq!(store.read(&name).expect("readable"), Some(vec![0; 3]));

        let mode = std::fs::metadata(folder.path().join("new").join(&name)).expect("a file").mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn the_oldest_profiles_make_room() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = store(folder.path());
        let all: Vec<String> =
            (0..MAX_FILES as i64 + 3).map(|second| keep(&store, second, 10)).collect();
        let expected: Vec<String> = all[3..].iter().rev().cloned().collect();

        assert_eq!(names(&store), expected);

        let large = keep(&store, 100, 20 << 20);
        assert_eq!(names(&store).len(), MAX_FILES);

        let larger = keep(&store, 200, 20 << 20);
        assert_eq!(names(&store), [larger], "no room for {large} or anything before it");
    }

    #[test]
    fn profiles_from_the_future_make_room_first() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = store(folder.path());
        (0..MAX_FILES as i64).for_each(|second| _ = keep(&store, 5_000 + second, 10));

        // The clock was set back. Both profiles of a comparison must remain.
        let new: Vec<String> = (1..=3).map(|second| keep(&store, second, 10)).collect();
        assert!(new.iter().all(|name| names(&store).contains(name)), "{:?}", names(&store));
        assert_eq!(names(&store).len(), MAX_FILES);

        let large = keep(&store, 9_000, 31 << 20);
        let last = keep(&store, 4, 2 << 20);

        assert!(!names(&store).contains(&large) && names(&store).contains(&last));
    }

    #[test]
    fn files_of_others_stay_and_incomplete_ones_go() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = store(folder.path());
        let incomplete = format!("{}{NEW}", keep(&store, 1, 1));

        for name in ["notes.txt", "1970-heap-a.pb.gz", &incomplete] {
            std::fs::write(folder.path().join(name), "x").expect("written");
        }

        keep(&store, 2, 1);
        assert_eq!(names(&store).len(), 2);

        let exists = |name: &str| folder.path().join(name).exists();
        assert!(exists("notes.txt") && exists("1970-heap-a.pb.gz") && !exists(&incomplete));
    }

    #[test]
    fn only_profiles_of_the_directory_are_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let dir = folder.path().join("profiles");
        let store = store(&dir);
        let name = keep(&store, 1, 1);

        std::fs::write(folder.path().join(&name), "outside").expect("written");
        let link = "1970-01-01T00-00-03Z-heap-link.pb.gz";
        std::os::unix::fs::symlink(folder.path().join(&name), dir.join(link)).expect("linked");
        std::fs::create_dir(dir.join("1970-01-01T00-00-04Z-heap-folder.pb.gz")).expect("created");

        let outside = format!("../{name}");
        let absolute = folder.path().join(&name).to_string_lossy().into_owned();
        for name in [
            link,
            &outside,
            &absolute,
            "..",
            "",
            ".",
            "1970-01-01T00-00-04Z-heap-folder.pb.gz",
            "a\0b.pb.gz",
        ] {
            assert_eq!(store.read(name).expect("no error"), None, "{name:?}");
        }

        assert_eq!(names(&store), [name]);
    }

    #[test]
    fn a_pipe_that_replaces_a_profile_does_not_block() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = store(folder.path());
        let name = keep(&store, 1, 1);
        let (at, pipe, file) =
            (folder.path().join(&name), folder.path().join("pipe"), folder.path().join("file"));

        std::fs::write(&file, "x").expect("written");
        assert!(
            std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo").success()
        );

        let (stop, stopped) = (
            std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false)),
            std::sync::mpsc::channel(),
        );
        let stopping = stop.clone();
        let swapping = std::thread::spawn(move || {
            let next = at.with_extension("next");
            while !stopping.load(std::sync::atomic::Ordering::Relaxed) {
                for other in [&pipe, &file] {
                    let _ =
                        std::fs::hard_link(other, &next).and_then(|()| std::fs::rename(&next, &at));
                }
            }
        });

        std::thread::spawn(move || {
            for _ in 0..20_000 {
                let _ = store.read(&name);
            }
            stopped.0.send(()).expect("the test waits");
        });
        let ended = stopped.1.recv_timeout(std::time::Duration::from_secs(20));

        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        swapping.join().expect("no panic");

        assert_eq!(ended, Ok(()), "a read has opened the pipe and waits for a writer");
    }

    #[test]
    fn a_link_in_the_place_of_a_new_file_is_not_followed() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = store(folder.path());
        let other = folder.path().join("other");
        std::fs::write(&other, "untouched").expect("written");

        let name = file_name(ProfileKind::Heap, "team-a/operator-7f9c", Timestamp(1_000));
        for name in [name.clone(), format!("{name}{NEW}")] {
            std::os::unix::fs::symlink(&other, folder.path().join(name)).expect("linked");
        }

        assert_eq!(keep(&store, 1, 1), name);
        assert_eq!(std::fs::read_to_string(&other).expect("readable"), "untouched");
        assert!(std::fs::symlink_metadata(folder.path().join(&name)).expect("a file").is_file());
    }

    #[test]
    fn without_the_usual_directory_nothing_is_kept() {
        let none = ProfileStore { dir: PathBuf::from("/no/such/directory"), chosen: false };
        assert_eq!(none.keep(ProfileKind::Heap, "a", Timestamp(0), b"x").expect("no error"), None);
        assert_eq!((none.dir(), none.list().expect("no error").len()), (None, 0));
    }
}
