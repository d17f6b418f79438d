//! How often the kernel has throttled a container because of its CPU limit.
//!
//! The kernel divides time into periods, mostly of 100 ms. A container that has used up its share
//! of a period waits for the next one: it is throttled. Only periods in which the container wanted
//! to run count.

use std::path::Path;

use super::{Cgroup, Controller, NoCgroup, Version, value};
use crate::sources::operator::process::files::{Proc, read};

/// The CPU limit of a container, and how often it was reached.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in super::super) struct Cpu {
    /// The lowest limit of the cgroup and of its visible ancestors, in CPUs.
    pub(in super::super) limit: Option<f64>,
    /// The periods in which the container wanted to run.
    pub(in super::super) periods: Option<u64>,
    /// The periods among them in which it was throttled.
    pub(in super::super) throttled_periods: Option<u64>,
    /// For how long its CPUs were throttled in all, in seconds.
    pub(in super::super) throttled_seconds: Option<f64>,
}

/// Reads the CPU limit of the container of a process. `own` is the text of loopwatch's own
/// `/proc/self/cgroup`.
pub(in super::super) fn cpu(proc: &Proc, pid: u32, own: &str) -> Result<Cpu, NoCgroup> {
    let cgroup = Cgroup::of_process(proc, pid, own, Controller::Cpu)?;
    let stat = cgroup.needed("cpu.stat")?;
    let (throttled, per_second, limit): (_, _, fn(&Path) -> Option<f64>) = match cgroup.version {
        Version::Two => (value(&stat, "throttled_usec"), 1e6, limit_two),
        Version::One => (value(&stat, "throttled_time"), 1e9, limit_one),
    };

    // The files of a cgroup that does not control CPU time count no periods.
    let periods = value(&stat, "nr_periods").ok_or(NoCgroup::NotMounted)?;
    #[expect(clippy::cast_precision_loss, reason = "a counter of seconds needs only a few digits")]
    let seconds = |time: u64| time as f64 / per_second;
    Ok(Cpu {
        limit: cgroup.levels().filter_map(limit).reduce(f64::min),
        periods: Some(periods),
        throttled_periods: value(&stat, "nr_throttled").filter(|throttled| *throttled <= periods),
        throttled_seconds: throttled.map(seconds),
    })
}

/// The limit in a line such as `50000 100000`: the quota, or `max`, and the period.
fn limit_two(level: &Path) -> Option<f64> {
    let text = read(&level.join("cpu.max")).ok()?;
    let (quota, period) = text.trim().split_once(' ')?;
    limit(quota, period)
}

/// The limit in two files. A quota of -1 means no limit.
fn limit_one(level: &Path) -> Option<f64> {
    let text = |file: &str| read(&level.join(file)).ok();
    limit(&text("cpu.cfs_quota_us")?, &text("cpu.cfs_period_us")?)
}

fn limit(quota: &str, period: &str) -> Option<f64> {
    let number = |text: &str| text.trim().parse::<u32>().ok().filter(|number| *number > 0);
    Some(f64::from(number(quota)?) / f64::from(number(period)?))
}

#[cfg(test)]
mod tests {
    use super::super::fake::{CGROUP, CGROUP_ONE, MOUNTS, MOUNTS_ONE, container};
    use super::*;
    use crate::sources::operator::process::files::Unread;

    const STAT: &str = "usage_usec 90\nuser_usec 60\nsystem_usec 30\nnr_periods 400\nnr_throttled 100\nthrottled_usec 2500000\nnr_bursts 0\n";
    const STAT_ONE: &str = "nr_periods 400\nnr_throttled 100\nthrottled_time 2500000000\n";

    fn expected() -> Cpu {
        Cpu {
            limit: Some(0.2),
            periods: Some(400),
            throttled_periods: Some(100),
            throttled_seconds: Some(2.5),
        }
    }

    #[test]
    fn both_versions_show_the_same() {
        let files = [("cpu.stat", STAT), ("cpu.max", "20000 100000\n")];
        let (_folder, proc) = container(CGROUP, MOUNTS, &files);
        assert_eq!(cpu(&proc, 7, "own"), Ok(expected()));

        let files = [
            ("cpu,cpuacct/cpu.stat", STAT_ONE),
            ("cpu,cpuacct/cpu.cfs_quota_us", "20000\n"),
            ("cpu,cpuacct/cpu.cfs_period_us", "100000\n"),
        ];
        let (_folder, proc) = container(CGROUP_ONE, MOUNTS_ONE, &files);
        assert_eq!(cpu(&proc, 7, "own"), Ok(expected()));
    }

    #[test]
    fn the_lowest_visible_limit_counts() {
        let mounts = "5 4 0:29 / /sys/fs/cgroup rw - cgroup2 cgroup rw\n";
        let files = [
            ("pod/op/cpu.stat", STAT),
            ("pod/op/cpu.max", "max 100000"),
            ("pod/cpu.max", "150000 100000"),
            ("cpu.max", "50000 50000"),
            ("../cpu.max", "1000 100000"),
        ];
        let (_folder, proc) = container("0::/pod/op\n", mounts, &files);

        assert_eq!(cpu(&proc, 7, "own").map(|cpu| cpu.limit), Ok(Some(1.0)));
    }

    #[test]
    fn the_cgroup_of_loopwatch_is_never_the_operators() {
        let files = [("cpu,cpuacct/cpu.stat", STAT_ONE)];
        let (_folder, proc) = container(CGROUP_ONE, MOUNTS_ONE, &files);
        let own = "5:memory:/kubepods/pod7/c3\n4:cpu,cpuacct:/kubepods/pod7/b2\n";

        assert_eq!(cpu(&proc, 7, own), Err(NoCgroup::Own), "in the hierarchy of CPU time");
        assert!(cpu(&proc, 7, &own.replace("b2", "c3")).is_ok(), "near miss: another container");
    }

    #[test]
    fn what_the_files_do_not_show_is_absent_and_never_zero() {
        let of = |files: &[(&str, &str)]| {
            let (_folder, proc) = container(CGROUP, MOUNTS, files);
            cpu(&proc, 7, "own")
        };

        assert_eq!(of(&[]), Err(NoCgroup::NotMounted));
        assert_eq!(
            of(&[("cpu.stat", "usage_usec 90\nuser_usec 60\n"), ("cpu.max", "20000 100000")]),
            Err(NoCgroup::NotMounted),
            "a cgroup that does not control CPU time"
        );

        let unlimited = of(&[("cpu.stat", STAT), ("cpu.max", "max 100000\n")]);
        assert_eq!(unlimited, Ok(Cpu { limit: None, ..expected() }));

        let partial = of(&[("cpu.stat", "nr_periods 7\n")]);
        assert_eq!(partial, Ok(Cpu { periods: Some(7), ..Cpu::default() }));
    }

    #[test]
    fn hostile_texts_are_absent() {
        for stat in
            ["nr_periods -1\n", "nr_periods 99999999999999999999999\n", "nr_periods", "\u{0}"]
        {
            let (_folder, proc) = container(CGROUP, MOUNTS, &[("cpu.stat", stat)]);
            assert_eq!(cpu(&proc, 7, "own"), Err(NoCgroup::NotMounted), "{stat:?}");
        }

        let (_folder, proc) = container(CGROUP, MOUNTS, &[("cpu.stat/entry", "")]);
        assert_eq!(cpu(&proc, 7, "own"), Err(NoCgroup::Unread(Unread::Failed)), "a directory");

        for max in ["", "max", "0 0", "5 0", "-1 100000", "1e9 100000", "NaN 1", "9 9 9"] {
            let more_throttled = "nr_periods 4\nnr_throttled 5\nthrottled_usec x\n";
            let files = [("cpu.stat", more_throttled), ("cpu.max", max)];
            let (_folder, proc) = container(CGROUP, MOUNTS, &files);
            let read = cpu(&proc, 7, "own").expect("readable");

            assert_eq!(read, Cpu { periods: Some(4), ..Cpu::default() }, "{max:?}");
        }
    }
}
