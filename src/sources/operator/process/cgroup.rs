//! Reads the memory and the CPU limit of the operator's container from its cgroups.
//!
//! loopwatch's own `/sys/fs/cgroup` shows its own cgroup. The operator's is in the operator's file
//! system, below `/proc/<pid>/root`. The kernel shows where: `/proc/<pid>/cgroup` names the cgroup
//! and `/proc/<pid>/mountinfo` the mount point of its hierarchy, both as seen from loopwatch's
//! cgroup namespace. In version 1, memory and CPU time may have hierarchies of their own.

mod cpu;
#[cfg(test)]
mod fake;
mod memory;

use std::path::{Path, PathBuf};

pub(super) use self::cpu::cpu;
pub(super) use self::memory::memory;
pub(crate) use self::memory::own_limit;
use super::files::{Proc, Unread, read};

/// Why the numbers of a container are unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoCgroup {
    /// loopwatch runs in the same cgroup, whose numbers are therefore not only the operator's.
    Own,
    /// The cgroup does not exist in the operator's file system, or does not count this.
    NotMounted,
    /// A file could not be read.
    Unread(Unread),
}

/// The version of a cgroup hierarchy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// What a cgroup counts, as the kernel names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Controller {
    Memory,
    Cpu,
}

/// A cgroup in a file system.
#[derive(Debug, PartialEq, Eq)]
struct Cgroup {
    version: Version,
    /// The directory of the cgroup.
    leaf: PathBuf,
    /// The directory at which its hierarchy is mounted.
    top: PathBuf,
}

impl Cgroup {
    /// Finds the cgroup of a process for a controller. `own` is the text of loopwatch's own
    /// `/proc/self/cgroup`.
    fn of_process(
        proc: &Proc,
        pid: u32,
        own: &str,
        controller: Controller,
    ) -> Result<Self, NoCgroup> {
        let text = proc.text(pid, "cgroup").map_err(NoCgroup::Unread)?;
        let cgroup = controller.cgroup(&text);
        let is_one = cgroup.is_some_and(|(version, _)| version == Version::One);

        if text == own || (is_one && cgroup == controller.cgroup(own)) {
            return Err(NoCgroup::Own);
        }

        let mounts = proc.text(pid, "mountinfo").map_err(NoCgroup::Unread)?;
        Self::of(&text, &mounts, &proc.path(pid, "root"), controller).ok_or(NoCgroup::NotMounted)
    }

    /// The cgroup for a controller, in the file system at `root`.
    fn of(text: &str, mounts: &str, root: &Path, controller: Controller) -> Option<Self> {
        let (version, path) = controller.cgroup(text)?;
        let (mounted, at) = mounts.lines().find_map(|line| controller.mount(line, version))?;
        let below = below(path, mounted)?;
        let top = root.join(unescaped(at).trim_start_matches('/'));

        // In version 1, the root counts the whole machine.
        if version == Version::One && below.is_empty() && mounted == "/" {
            return None;
        }

        Some(Self { version, leaf: top.join(below), top })
    }

    /// Reads a file that a cgroup which counts this always has.
    fn needed(&self, file: &str) -> Result<String, NoCgroup> {
        read(&self.leaf.join(file)).map_err(|unread| match unread {
            Unread::Missing => NoCgroup::NotMounted,
            unread => NoCgroup::Unread(unread),
        })
    }

    fn text(&self, file: &str) -> Option<String> {
        read(&self.leaf.join(file)).ok()
    }

    /// The directories of the cgroup and of its visible ancestors, whose limits apply, too.
    fn levels(&self) -> impl Iterator<Item = &Path> {
        self.leaf.ancestors().take_while(|level| level.starts_with(&self.top))
    }
}

impl Controller {
    const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Cpu => "cpu",
        }
    }

    /// The version and path of the cgroup in the text of `/proc/<pid>/cgroup`. On a node with both
    /// versions, that may be version 1.
    fn cgroup(self, text: &str) -> Option<(Version, &str)> {
        let entries = || {
            text.lines().filter_map(|line| {
                let (_, rest) = line.split_once(':')?;
                rest.split_once(':')
            })
        };

        let one = entries().find(|(controllers, _)| self.is_among(controllers));
        let two = entries().find(|(controllers, _)| controllers.is_empty());
        one.map(|(_, path)| (Version::One, path))
            .or_else(|| two.map(|(_, path)| (Version::Two, path)))
    }

    /// The root and the mount point in a line of `mountinfo`, if it mounts the hierarchy of this
    /// controller.
    fn mount(self, line: &str, version: Version) -> Option<(&str, &str)> {
        let (left, right) = line.split_once(" - ")?;
        let mut fields = left.split(' ').skip(3);
        let (root, at) = (fields.next()?, fields.next()?);
        let mut fields = right.split(' ');
        let (kind, options) = (fields.next()?, fields.nth(1)?);
        let wanted = match version {
            Version::Two => kind == "cgroup2",
            Version::One => kind == "cgroup" && self.is_among(options),
        };

        wanted.then_some((root, at))
    }

    fn is_among(self, names: &str) -> bool {
        names.split(',').any(|name| name == self.name())
    }
}

/// The path of a cgroup below the root of a mount; `None` if it is elsewhere.
fn below<'a>(path: &'a str, root: &str) -> Option<&'a str> {
    let rest = match root {
        "/" => path.strip_prefix('/')?,
        root => match path.strip_prefix(root)? {
            "" => "",
            rest => rest.strip_prefix('/')?,
        },
    };
    (!rest.split('/').any(|part| part == "..")).then_some(rest)
}

/// Unescapes a path of `mountinfo`, which writes spaces and backslashes as octal numbers.
fn unescaped(path: &str) -> String {
    path.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\")
}

/// The value of a line such as `inactive_file 4096`.
fn value(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}
