//! Reads small files of `/proc`, including those of another container below `/proc/<pid>/root`.

use std::fs;
use std::io::{self, ErrorKind, Read as _};
use std::path::{Path, PathBuf};

use crate::system::files::open_regular;
use crate::system::procfs::{self, Stat};

/// A `/proc` file system.
#[derive(Clone, Debug)]
pub(super) struct Proc {
    root: PathBuf,
    /// The PID of loopwatch.
    own: u32,
}

/// Why a file could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unread {
    /// There is no such file, or the process has ended.
    Missing,
    /// Only another user may read it.
    Denied,
    /// It is not a regular file, or the kernel returned another error.
    Failed,
}

/// Limit on the size of a file. The files of `/proc` and of cgroups are much smaller.
const MAX_BYTES: u64 = 256 * 1024;

/// The error of the kernel for a process that ended while its file was open (`ESRCH`).
const NO_SUCH_PROCESS: i32 = 3;

/// Limit on processes. A Pod has few; a node may have many.
pub(super) const MAX_PROCESSES: usize = 10_000;

/// Limit on descriptors that are counted one by one.
const MAX_DESCRIPTORS: usize = 1_000_000;

impl Proc {
    /// Returns the proc file system at `root`. loopwatch has the PID `own` in it.
    pub(super) fn new(root: impl Into<PathBuf>, own: u32) -> Self {
        Self { root: root.into(), own }
    }

    pub(super) fn own(&self) -> u32 {
        self.own
    }

    pub(super) fn path(&self, pid: u32, file: &str) -> PathBuf {
        self.root.join(pid.to_string()).join(file)
    }

    /// Reads a file that belongs to no process, for example `uptime`.
    pub(super) fn global(&self, file: &str) -> Result<String, Unread> {
        read(&self.root.join(file))
    }

    /// Reads a file of a process.
    pub(super) fn text(&self, pid: u32, file: &str) -> Result<String, Unread> {
        read(&self.path(pid, file))
    }

    /// Reads `stat` of a process that has not ended.
    pub(super) fn stat(&self, pid: u32) -> Option<Stat> {
        Stat::parse(&self.text(pid, "stat").ok()?).filter(|stat| !stat.has_ended())
    }

    /// The time since the machine booted, in seconds.
    pub(super) fn uptime(&self) -> Option<f64> {
        procfs::uptime(&self.global("uptime").ok()?)
    }

    /// The PIDs of all visible processes, and whether there are more than [`MAX_PROCESSES`].
    pub(super) fn pids(&self) -> (Vec<u32>, bool) {
        let entries = fs::read_dir(&self.root).into_iter().flatten().flatten();
        let pid = |entry: fs::DirEntry| entry.file_name().to_str()?.parse::<u32>().ok();
        let mut pids: Vec<u32> = entries.filter_map(pid).take(MAX_PROCESSES + 1).collect();
        let too_many = pids.len() > MAX_PROCESSES;

        pids.truncate(MAX_PROCESSES);
        pids.sort_unstable();
        (pids, too_many)
    }

    /// The size of the directory of open descriptors. Linux 6.2 and later report their number
    /// there, earlier versions 0.
    pub(super) fn size_of_descriptors(&self, pid: u32) -> Result<u64, Unread> {
        fs::metadata(self.path(pid, "fd"))
            .map(|metadata| metadata.len())
            .map_err(|error| Unread::of(&error))
    }

    /// The number of open descriptors, counted one by one.
    pub(super) fn count_descriptors(&self, pid: u32) -> Result<u64, Unread> {
        let entries = fs::read_dir(self.path(pid, "fd")).map_err(|error| Unread::of(&error))?;
        Ok(entries.take(MAX_DESCRIPTORS).count() as u64)
    }
}

impl Unread {
    pub(super) fn of(error: &io::Error) -> Self {
        match error.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory => Self::Missing,
            ErrorKind::PermissionDenied => Self::Denied,
            _ if error.raw_os_error() == Some(NO_SUCH_PROCESS) => Self::Missing,
            _ => Self::Failed,
        }
    }
}

/// Reads a file up to the limit. A command name may contain any bytes, so the text need not be
/// UTF-8.
pub(super) fn read(path: &Path) -> Result<String, Unread> {
    let of = |error: io::Error| Unread::of(&error);
    let mut bytes = Vec::new();
    open_regular(path).map_err(of)?.take(MAX_BYTES).read_to_end(&mut bytes).map_err(of)?;
    Ok(String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}
