//! Reads the memory of the operator's container from its cgroup.
//!
//! loopwatch's own `/sys/fs/cgroup` shows its own cgroup. The operator's is in the operator's file
//! system, below `/proc/<pid>/root`. The kernel shows where: `/proc/<pid>/cgroup` names the cgroup
//! and `/proc/<pid>/mountinfo` the mount point of its hierarchy, both as seen from loopwatch's
//! cgroup namespace.

use std::path::{Path, PathBuf};

use super::files::{Proc, Unread, read};
use crate::system::procfs;

/// The memory of a container.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Memory {
    /// Memory in use, except file pages that the kernel can reclaim easily, in bytes.
    pub(super) working_set: Option<u64>,
    /// The lowest limit of the cgroup and of its visible ancestors, in bytes.
    pub(super) limit: Option<u64>,
    /// The share of the last 60 s in which at least one task waited for memory, in percent.
    pub(super) pressure: Option<f64>,
    /// How often the kernel has killed a process because of the limit.
    pub(super) oom_kills: Option<u64>,
    /// What this version of cgroups does not offer.
    pub(super) lacks: Option<&'static str>,
}

/// Why the memory of a container is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoMemory {
    /// loopwatch runs in the same cgroup, whose memory is therefore not the operator's.
    Own,
    /// The cgroup does not exist in the operator's file system, or does not count memory.
    NotMounted,
    /// A file could not be read.
    Unread(Unread),
}

/// The file with the memory limit, in each version.
const LIMIT_ONE: &str = "memory.limit_in_bytes";
const LIMIT_TWO: &str = "memory.max";

/// The version of a cgroup hierarchy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
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

/// Reads the memory of the container of a process. `own` is the text of loopwatch's own
/// `/proc/self/cgroup`.
pub(super) fn memory(proc: &Proc, pid: u32, own: &str) -> Result<Memory, NoMemory> {
    let text = proc.text(pid, "cgroup").map_err(NoMemory::Unread)?;
    if text == own {
        return Err(NoMemory::Own);
    }

    let mounts = proc.text(pid, "mountinfo").map_err(NoMemory::Unread)?;
    let cgroup = Cgroup::of(&text, &mounts, &proc.path(pid, "root")).ok_or(NoMemory::NotMounted)?;
    match cgroup.version {
        Version::Two => version_two(&cgroup),
        Version::One => version_one(&cgroup),
    }
}

/// Returns the memory limit of loopwatch's own container, in bytes: the lowest of its cgroup and of
/// the visible ancestors.
pub(crate) fn own_limit() -> Option<u64> {
    let own = std::process::id();
    let proc = Proc::new("/proc", own);
    let (text, mounts) = (proc.text(own, "cgroup").ok()?, proc.text(own, "mountinfo").ok()?);
    let cgroup = Cgroup::of(&text, &mounts, Path::new("/"))?;

    cgroup.lowest_limit(match cgroup.version {
        Version::Two => LIMIT_TWO,
        Version::One => LIMIT_ONE,
    })
}

fn version_two(cgroup: &Cgroup) -> Result<Memory, NoMemory> {
    let current = cgroup.number("memory.current")?;
    let inactive = cgroup.text("memory.stat").and_then(|stat| value(&stat, "inactive_file"));
    let pressure = cgroup.text("memory.pressure").and_then(|text| some_avg60(&text));
    Ok(Memory {
        working_set: inactive.map(|inactive| current.saturating_sub(inactive)),
        limit: cgroup.lowest_limit(LIMIT_TWO),
        pressure,
        oom_kills: cgroup.text("memory.events").and_then(|events| value(&events, "oom_kill")),
        lacks: pressure
            .is_none()
            .then_some("the kernel of the node does not measure memory pressure"),
    })
}

fn version_one(cgroup: &Cgroup) -> Result<Memory, NoMemory> {
    let usage = cgroup.number("memory.usage_in_bytes")?;
    let inactive = cgroup.text("memory.stat").and_then(|stat| value(&stat, "total_inactive_file"));
    Ok(Memory {
        working_set: inactive.map(|inactive| usage.saturating_sub(inactive)),
        limit: cgroup.lowest_limit(LIMIT_ONE),
        pressure: None,
        oom_kills: None,
        lacks: Some(
            "the node uses cgroup version 1, which shows neither memory pressure nor OOM kills",
        ),
    })
}

impl Cgroup {
    /// The cgroup that counts memory, in the file system at `root`.
    fn of(text: &str, mounts: &str, root: &Path) -> Option<Self> {
        let (version, path) = memory_cgroup(text)?;
        let (mounted, at) = mounts.lines().find_map(|line| mount(line, version))?;
        let below = below(path, mounted)?;
        let top = root.join(unescaped(at).trim_start_matches('/'));

        // In version 1, the root counts the whole machine.
        if version == Version::One && below.is_empty() && mounted == "/" {
            return None;
        }

        Some(Self { version, leaf: top.join(below), top })
    }

    fn number(&self, file: &str) -> Result<u64, NoMemory> {
        match read(&self.leaf.join(file)) {
            Ok(text) => text.trim().parse().map_err(|_| NoMemory::Unread(Unread::Failed)),
            Err(Unread::Missing) => Err(NoMemory::NotMounted),
            Err(unread) => Err(NoMemory::Unread(unread)),
        }
    }

    fn text(&self, file: &str) -> Option<String> {
        read(&self.leaf.join(file)).ok()
    }

    fn lowest_limit(&self, file: &str) -> Option<u64> {
        let levels = self.leaf.ancestors().take_while(|level| level.starts_with(&self.top));
        levels.filter_map(|level| procfs::memory_limit(&read(&level.join(file)).ok()?)).min()
    }
}

/// The version and path of the cgroup that counts memory. On a node with both versions, that may be
/// version 1.
fn memory_cgroup(text: &str) -> Option<(Version, &str)> {
    let entries = || {
        text.lines().filter_map(|line| {
            let (_, rest) = line.split_once(':')?;
            rest.split_once(':')
        })
    };

    let one =
        entries().find(|(controllers, _)| controllers.split(',').any(|name| name == "memory"));
    let two = entries().find(|(controllers, _)| controllers.is_empty());
    one.map(|(_, path)| (Version::One, path)).or_else(|| two.map(|(_, path)| (Version::Two, path)))
}

/// The root and the mount point in a line of `mountinfo`, if it mounts the hierarchy that counts
/// memory.
fn mount(line: &str, version: Version) -> Option<(&str, &str)> {
    let (left, right) = line.split_once(" - ")?;
    let mut fields = left.split(' ').skip(3);
    let (root, at) = (fields.next()?, fields.next()?);
    let mut fields = right.split(' ');
    let (kind, options) = (fields.next()?, fields.nth(1)?);
    let wanted = match version {
        Version::Two => kind == "cgroup2",
        Version::One => kind == "cgroup" && options.split(',').any(|option| option == "memory"),
    };

    wanted.then_some((root, at))
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

/// `avg60` in the line `some avg10=0.00 avg60=0.00 avg300=0.00 total=0`.
fn some_avg60(text: &str) -> Option<f64> {
    let some = text.lines().find_map(|line| line.strip_prefix("some "))?;
    let average = some.split(' ').find_map(|field| field.strip_prefix("avg60="))?;
    average.parse().ok().filter(|percent: &f64| (0.0..=100.0).contains(percent))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// What a sidecar reads about the operator's container, with containerd and cgroup version 2.
    const CGROUP: &str = "0::/../cri-containerd-6f1e.scope\n";
    const MOUNTS: &str = "\
        1204 1096 0:345 / / rw,relatime master:401 - overlay overlay rw,lowerdir=/l,upperdir=/u,workdir=/w\n\
        1207 1204 0:347 / /sys ro,nosuid,nodev,noexec,relatime - sysfs sysfs ro\n\
        1209 1207 0:29 /../cri-containerd-6f1e.scope /sys/fs/cgroup ro,nosuid,nodev,noexec,relatime - cgroup2 cgroup rw\n";
    /// The same with version 1, whose paths are those of the node.
    const CGROUP_ONE: &str = "12:pids:/kubepods/pod7/b2\n5:memory:/kubepods/pod7/b2\n0::/system.slice/containerd.service\n";
    const MOUNTS_ONE: &str = "\
        920 901 0:29 /kubepods/pod7/b2 /sys/fs/cgroup/pids ro,relatime master:11 - cgroup cgroup rw,pids\n\
        921 901 0:32 /kubepods/pod7/b2 /sys/fs/cgroup/memory ro,relatime master:14 - cgroup cgroup rw,memory\n";

    /// The container of process 7, with these files below `/sys/fs/cgroup` in its file system.
    fn container(cgroup: &str, mounts: &str, files: &[(&str, &str)]) -> (tempfile::TempDir, Proc) {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |path: PathBuf, text: &str| {
            fs::create_dir_all(path.parent().expect("a parent")).expect("our own folder");
            fs::write(path, text).expect("our own folder");
        };
        let proc = Proc::new(folder.path(), 30);

        write(proc.path(7, "cgroup"), cgroup);
        write(proc.path(7, "mountinfo"), mounts);
        for (file, text) in files {
            write(proc.path(7, "root/sys/fs/cgroup").join(file), text);
        }

        (folder, proc)
    }

    const FILES: [(&str, &str); 5] = [
        ("memory.current", "50000000\n"),
        ("memory.max", "134217728\n"),
        ("memory.stat", "anon 30000000\nfile 15000000\ninactive_anon 5\ninactive_file 10000000\n"),
        ("memory.events", "low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 1\n"),
        (
            "memory.pressure",
            "some avg10=1.00 avg60=2.50 avg300=0.10 total=9\nfull avg10=0.00 avg60=9.00 avg300=0.00 total=1\n",
        ),
    ];

    #[test]
    fn version_two_shows_everything() {
        let (_folder, proc) = container(CGROUP, MOUNTS, &FILES);
        let expected = Memory {
            working_set: Some(40_000_000),
            limit: Some(134_217_728),
            pressure: Some(2.5),
            oom_kills: Some(2),
            lacks: None,
        };

        assert_eq!(memory(&proc, 7, "0::/\n"), Ok(expected));
    }

    #[test]
    fn the_cgroup_of_loopwatch_is_never_the_operators() {
        let (_folder, proc) =
            container("0::/\n", &MOUNTS.replace("/../cri-containerd-6f1e.scope", "/"), &FILES);

        assert_eq!(memory(&proc, 7, "0::/\n"), Err(NoMemory::Own));
        assert!(
            memory(&proc, 7, "0::/../cri-containerd-30.scope\n").is_ok(),
            "near miss: loopwatch is elsewhere"
        );
    }

    #[test]
    fn version_one_shows_usage_and_limit() {
        let files = [
            ("memory/memory.usage_in_bytes", "50000000\n"),
            ("memory/memory.limit_in_bytes", "134217728\n"),
            ("memory/memory.stat", "inactive_file 1\ntotal_inactive_file 10000000\n"),
        ];
        let (_folder, proc) = container(CGROUP_ONE, MOUNTS_ONE, &files);
        let read = memory(&proc, 7, "own").expect("readable");

        assert_eq!((read.working_set, read.limit), (Some(40_000_000), Some(134_217_728)));
        assert_eq!((read.pressure, read.oom_kills), (None, None));
        assert!(read.lacks.is_some_and(|why| why.contains("version 1")));

        let (_folder, proc) = container(
            "5:memory:/\n",
            "921 901 0:32 / /sys/fs/cgroup/memory ro - cgroup c rw,memory\n",
            &files,
        );

        assert_eq!(
            memory(&proc, 7, "own"),
            Err(NoMemory::NotMounted),
            "the root counts the whole machine"
        );
    }

    #[test]
    fn the_lowest_visible_limit_counts() {
        let mounts = "5 4 0:29 / /sys/fs/cgroup rw - cgroup2 cgroup rw\n";
        let files = [
            ("pod/op/memory.current", "5"),
            ("pod/op/memory.stat", "inactive_file 9\n"),
            ("pod/op/memory.max", "300"),
            ("pod/memory.max", "200"),
            ("memory.max", "100"),
            ("../memory.max", "1"),
        ];

        let (_folder, proc) = container("0::/pod/op\n", mounts, &files);
        let read = memory(&proc, 7, "own").expect("readable");

        assert_eq!(
            (read.limit, read.working_set),
            (Some(100), Some(0)),
            "and nothing above the mount"
        );
        assert_eq!(read.lacks, Some("the kernel of the node does not measure memory pressure"));
    }

    #[test]
    fn missing_and_malformed_texts_are_absent() {
        for (cgroup, mounts) in [
            ("", MOUNTS),
            ("garbage", MOUNTS),
            ("0::/../other.scope\n", MOUNTS),
            ("0::/../cri-containerd-6f1e.scope/../..\n", MOUNTS),
            (CGROUP, ""),
            (CGROUP, "1209 1207 0:29\n - \n1 2 3 4 5 - cgroup2\n"),
            (CGROUP_ONE, MOUNTS),
        ] {
            let (_folder, proc) = container(cgroup, mounts, &FILES);
            assert_eq!(memory(&proc, 7, "own"), Err(NoMemory::NotMounted), "{cgroup:?} {mounts:?}");
        }

        let (_folder, proc) = container(CGROUP, MOUNTS, &[("memory.current", "many")]);
        assert_eq!(memory(&proc, 7, "own"), Err(NoMemory::Unread(Unread::Failed)));

        let odd = [
            ("memory.current", "5"),
            ("memory.pressure", "some avg60=NaN\n"),
            ("memory.events", "oom_kill -1\n"),
        ];
        let (_folder, proc) = container(CGROUP, MOUNTS, &odd);
        let read = memory(&proc, 7, "own").expect("readable");

        assert_eq!(
            (read.working_set, read.pressure, read.oom_kills, read.limit),
            (None, None, None, None)
        );
        assert_eq!(
            memory(&proc, 8, "own"),
            Err(NoMemory::Unread(Unread::Missing)),
            "no such process"
        );
    }
}
