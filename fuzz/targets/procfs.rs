//! The files of `/proc` and of cgroups.

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};

use loopwatch::fuzzing::{FindBy, ProcessReading, process};
use loopwatch_model::observation::{Observation, ProcessView};

use crate::limits::{bounded, is_plain};
use crate::recordings::check_recorded;
use crate::world::{NOW, check_outputs, model};

/// The most files of an input. A few processes have so many.
const MAX_FILES: usize = 64;
/// The longest reason, in bytes.
const MAX_REASON: usize = 1 << 10;
/// A larger limit of a cgroup means that there is none.
const NO_LIMIT: u64 = 1 << 50;

thread_local! {
    /// The folder of this thread, empty between inputs.
    static FOLDER: RefCell<PathBuf> = RefCell::new(folder());
}

/// The input is how to find the process, and the files: each is a line with its path after `@`, and
/// its content.
pub(crate) fn procfs(input: &[u8]) {
    let [by, files @ ..] = input else { return };
    let by = match by {
        b'p' => FindBy::Pid(7),
        b'c' => FindBy::Container("bbbbbbbbbbbb"),
        b's' => FindBy::Start(1_700_000_200.0),
        _ => FindBy::Exclusion,
    };

    FOLDER.with_borrow(|folder| {
        write(folder, files);
        let [first, second] = bounded(files, 1 << 20, 1 << 10, || process(folder, NOW, by));
        fs::remove_dir_all(folder).expect("our own folder");

        check(&first);
        assert!(!second.is_gone && second.seen == first.seen, "{first:?} {second:?}");
        if let Some(view) = first.seen {
            check_recorded(Observation::ProcessSeen(view.clone()));
            check_outputs(model([Observation::ProcessSeen(view)]));
        }
    });
}

fn check(ProcessReading { reason, seen, is_gone }: &ProcessReading) {
    assert!(!is_gone && reason.len() <= MAX_REASON && is_plain(reason), "{reason:?}");
    assert!(seen.is_some() || !reason.is_empty());
    let Some(ProcessView { started, cpu_seconds, memory_limit, memory_pressure, .. }) =
        seen.as_deref()
    else {
        return;
    };

    assert!(started.is_some());
    assert!(cpu_seconds.is_some_and(|seconds| seconds.is_finite() && seconds >= 0.0));
    assert!(memory_limit.is_none_or(|bytes| bytes < NO_LIMIT));
    assert!(memory_pressure.is_none_or(|percent| (0.0..=100.0).contains(&percent)));
}

/// Writes the files whose paths stay in the folder.
fn write(folder: &Path, files: &[u8]) {
    fs::create_dir_all(folder).expect("our own folder");
    let mut content = Vec::new();
    let mut path = None;
    let mut number = 0;
    for line in files.split_inclusive(|byte| *byte == b'\n') {
        let Some(next) = line.strip_prefix(b"@") else {
            content.extend_from_slice(line);
            continue;
        };

        path.replace(inside(next)).flatten().into_iter().for_each(|path: &str| {
            write_file(&folder.join(path), &content);
        });
        content.clear();
        number += 1;
        if number > MAX_FILES {
            return;
        }
    }

    path.flatten().into_iter().for_each(|path| write_file(&folder.join(path), &content));
}

/// The path in a line, if it has only plain names.
fn inside(line: &[u8]) -> Option<&str> {
    let path = std::str::from_utf8(line).ok()?.trim();
    let is_name = |name: &str| {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        !name.is_empty()
            && name.len() < 64
            && name != "."
            && name != ".."
            && name.chars().all(is_plain)
    };

    (path.len() < 256 && path.split('/').all(is_name)).then_some(path)
}

/// Writes a file, unless a file has the name of one of its folders.
fn write_file(path: &Path, content: &[u8]) {
    let made = path.parent().is_some_and(|folder| fs::create_dir_all(folder).is_ok());
    let _ = made && fs::write(path, content).is_ok();
}

fn folder() -> PathBuf {
    let thread = std::thread::current().id();
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("procfs-{}-{thread:?}", std::process::id()))
}
