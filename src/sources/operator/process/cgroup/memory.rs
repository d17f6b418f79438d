//! The memory of a container.

use std::path::Path;

use super::{Cgroup, Controller, NoCgroup, Version, value};
use crate::sources::operator::process::files::{Proc, Unread, read};
use crate::system::procfs;

/// The memory of a container.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in super::super) struct Memory {
    /// Memory in use, except file pages that the kernel can reclaim easily, in bytes.
    pub(in super::super) working_set: Option<u64>,
    /// The lowest limit of the cgroup and of its visible ancestors, in bytes.
    pub(in super::super) limit: Option<u64>,
    /// The share of the last 60 s in which at least one task waited for memory, in percent.
    pub(in super::super) pressure: Option<f64>,
    /// How often the kernel has killed a process because of the limit.
    pub(in super::super) oom_kills: Option<u64>,
    /// What this version of cgroups does not offer.
    pub(in super::super) lacks: Option<&'static str>,
}

/// The file with the memory limit, in each version.
const LIMIT_ONE: &str = "memory.limit_in_bytes";
const LIMIT_TWO: &str = "memory.max";

/// Reads the memory of the container of a process. `own` is the text of loopwatch's own
/// `/proc/self/cgroup`.
pub(in super::super) fn memory(proc: &Proc, pid: u32, own: &str) -> Result<Memory, NoCgroup> {
    let cgroup = Cgroup::of_process(proc, pid, own, Controller::Memory)?;
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
    let cgroup = Cgroup::of(&text, &mounts, Path::new("/"), Controller::Memory)?;

    lowest_limit(
        &cgroup,
        match cgroup.version {
            Version::Two => LIMIT_TWO,
            Version::One => LIMIT_ONE,
        },
    )
}

fn version_two(cgroup: &Cgroup) -> Result<Memory, NoCgroup> {
    let current = number(&cgroup.needed("memory.current")?)?;
    let inactive = cgroup.text("memory.stat").and_then(|stat| value(&stat, "inactive_file"));
    let pressure = cgroup.text("memory.pressure").and_then(|text| some_avg60(&text));
    Ok(Memory {
        working_set: inactive.map(|inactive| current.saturating_sub(inactive)),
        limit: lowest_limit(cgroup, LIMIT_TWO),
        pressure,
        oom_kills: cgroup.text("memory.events").and_then(|events| value(&events, "oom_kill")),
        lacks: pressure
            .is_none()
            .then_some("the kernel of the node does not measure memory pressure"),
    })
}

fn version_one(cgroup: &Cgroup) -> Result<Memory, NoCgroup> {
    let usage = number(&cgroup.needed("memory.usage_in_bytes")?)?;
    let inactive = cgroup.text("memory.stat").and_then(|stat| value(&stat, "total_inactive_file"));
    Ok(Memory {
        working_set: inactive.map(|inactive| usage.saturating_sub(inactive)),
        limit: lowest_limit(cgroup, LIMIT_ONE),
        pressure: None,
        oom_kills: None,
        lacks: Some(
            "the node uses cgroup version 1, which shows neither memory pressure nor OOM kills",
        ),
    })
}

fn number(text: &str) -> Result<u64, NoCgroup> {
    text.trim().parse().map_err(|_| NoCgroup::Unread(Unread::Failed))
}

fn lowest_limit(cgroup: &Cgroup, file: &str) -> Option<u64> {
    let limit = |level: &Path| procfs::memory_limit(&read(&level.join(file)).ok()?);
    cgroup.levels().filter_map(limit).min()
}

/// `avg60` in the line `some avg10=0.00 avg60=0.00 avg300=0.00 total=0`.
fn some_avg60(text: &str) -> Option<f64> {
    let some = text.lines().find_map(|line| line.strip_prefix("some "))?;
    let average = some.split(' ').find_map(|field| field.strip_prefix("avg60="))?;
    average.parse().ok().filter(|percent: &f64| (0.0..=100.0).contains(percent))
}

#[cfg(test)]
mod tests {
    use super::super::fake::{CGROUP, CGROUP_ONE, MOUNTS, MOUNTS_ONE, container};
    use super::*;

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

        assert_eq!(memory(&proc, 7, "0::/\n"), Err(NoCgroup::Own));
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
            Err(NoCgroup::NotMounted),
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
            assert_eq!(memory(&proc, 7, "own"), Err(NoCgroup::NotMounted), "{cgroup:?} {mounts:?}");
        }

        let (_folder, proc) = container(CGROUP, MOUNTS, &[("memory.current", "many")]);
        assert_eq!(memory(&proc, 7, "own"), Err(NoCgroup::Unread(Unread::Failed)));

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
            Err(NoCgroup::Unread(Unread::Missing)),
            "no such process"
        );
    }
}
