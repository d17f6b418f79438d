//! Parses the files of `/proc`, as proc(5) describes them. Each function returns `None` if the text
//! lacks the value.

/// Linux reports times in hundredths of a second on every architecture that runs Kubernetes.
pub(crate) const TICKS_PER_SECOND: f64 = 100.0;

/// The fields of `/proc/<pid>/stat` that loopwatch reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    /// The name of the program or of the main thread, at most 15 bytes.
    pub(crate) command: String,
    /// The state, for example `S` or `Z`.
    pub(crate) state: char,
    /// The parent's PID; 0 if the parent is outside of the PID namespace.
    pub(crate) parent: u32,
    /// CPU time in user and system mode, in ticks.
    pub(crate) cpu_ticks: u64,
    /// The start in ticks since the machine booted.
    pub(crate) start_ticks: u64,
}

impl Stat {
    /// Parses the text. Field 2 is the command in parentheses, which may itself contain spaces and
    /// parentheses.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (before, after) = text.rsplit_once(')')?;
        let (_, command) = before.split_once('(')?;

        // The first field after the command is number 3.
        let mut fields = after.split_whitespace();
        let state = fields.next()?.chars().next()?;
        let parent = fields.next()?.parse().ok()?;
        let user: u64 = fields.nth(14 - 5)?.parse().ok()?;
        let system: u64 = fields.next()?.parse().ok()?;
        let start_ticks = fields.nth(22 - 16)?.parse().ok()?;

        Some(Self {
            command: command.to_owned(),
            state,
            parent,
            cpu_ticks: user.saturating_add(system),
            start_ticks,
        })
    }

    /// CPU time, in seconds.
    pub(crate) fn cpu_seconds(&self) -> f64 {
        seconds(self.cpu_ticks)
    }

    /// Whether the process has ended, even if its parent has not yet waited for it.
    pub(crate) fn has_ended(&self) -> bool {
        matches!(self.state, 'Z' | 'X' | 'x')
    }
}

/// Converts ticks to seconds.
#[expect(
    clippy::cast_precision_loss,
    reason = "a float holds the ticks of a million years exactly"
)]
pub(crate) fn seconds(ticks: u64) -> f64 {
    ticks as f64 / TICKS_PER_SECOND
}

/// The value of a line of `/proc/<pid>/status` such as `VmRSS:  20 kB`, in bytes.
pub(crate) fn kilobytes(status: &str, name: &str) -> Option<u64> {
    line(status, name)?.strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// The number in a line of `/proc/<pid>/status` such as `Threads:  20`.
pub(crate) fn number(status: &str, name: &str) -> Option<u64> {
    line(status, name)?.parse().ok()
}

/// The numbers in a line of `/proc/<pid>/status` such as `Uid:  0  0  0  0`: real, effective,
/// saved, and of the file system.
pub(crate) fn ids(status: &str, name: &str) -> Option<[u32; 4]> {
    let mut ids = line(status, name)?.split_whitespace().map(str::parse);
    let mut next = || ids.next()?.ok();
    Some([next()?, next()?, next()?, next()?])
}

/// The bits in a line of `/proc/<pid>/status` such as `CapPrm:  00000000a80425fb`.
pub(crate) fn bits(status: &str, name: &str) -> Option<u64> {
    u64::from_str_radix(line(status, name)?, 16).ok()
}

/// The soft limit on open file descriptors in `/proc/<pid>/limits`.
pub(crate) fn max_fds(limits: &str) -> Option<u64> {
    let soft = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    soft.split_whitespace().next()?.parse().ok() // "unlimited" is not a number
}

/// When the machine booted, in seconds since 1970, from `/proc/stat`. It changes when the clock is
/// set.
pub(crate) fn booted(stat: &str) -> Option<f64> {
    stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

/// The time since the machine booted, in seconds, from `/proc/uptime`.
pub(crate) fn uptime(text: &str) -> Option<f64> {
    text.split_whitespace()
        .next()?
        .parse()
        .ok()
        .filter(|seconds: &f64| seconds.is_finite() && *seconds >= 0.0)
}

/// A memory limit of a cgroup, in bytes. `max`, or a number near 2^63 in version 1, means no limit.
pub(crate) fn memory_limit(text: &str) -> Option<u64> {
    text.trim().parse::<u64>().ok().filter(|bytes| *bytes < 1 << 50)
}

fn line<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_command_names_do_not_shift_fields() {
        let text = "7 (a) b (c) R 1 7 7 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 4 0 4321 1000 200";
        let stat = Stat::parse(text).expect("a process");
        let expected = Stat {
            command: "a) b (c".to_owned(),
            state: 'R',
            parent: 1,
            cpu_ticks: 300,
            start_ticks: 4321,
        };

        assert_eq!(stat, expected);
        assert_eq!((stat.cpu_seconds(), stat.has_ended()), (3.0, false));
        assert!(Stat::parse(&text.replace(" R ", " Z ")).is_some_and(|stat| stat.has_ended()));
    }

    #[test]
    fn garbage_is_no_process() {
        for text in [
            "",
            ")",
            "7 (a",
            "7 (a)",
            "7 (a) R",
            "7 (a) R 1 7 7 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 4 0",
        ] {
            assert_eq!(Stat::parse(text), None, "{text:?}");
        }

        let negative = "7 (a) R 1 7 7 0 -1 4194304 100 0 0 0 -250 50 0 0 20 0 4 0 4321 1000 200";
        assert_eq!(Stat::parse(negative), None);
    }

    #[test]
    fn a_cgroup_without_a_limit_has_none() {
        assert_eq!(memory_limit("134217728\n"), Some(134_217_728));

        for text in ["max\n", "9223372036854771712\n", "", "-1"] {
            assert_eq!(memory_limit(text), None, "{text:?}");
        }
    }

    #[test]
    fn other_files_are_read_by_name() {
        let status = "VmSize:\t  20 kB\nVmRSS:\t     3 kB\nThreads:\t7\nUid:\t1\t2\t3\t4\nGid:\t1\t2\nCapPrm:\t000001ff\n";
        assert_eq!(kilobytes(status, "VmRSS:"), Some(3072));
        assert_eq!(kilobytes(status, "RssAnon:"), None);
        assert_eq!(kilobytes("VmRSS: 18446744073709551615 kB\n", "VmRSS:"), None, "too large");
        assert_eq!(number(status, "Threads:"), Some(7));
        assert_eq!((ids(status, "Uid:"), ids(status, "Gid:")), (Some([1, 2, 3, 4]), None));
        assert_eq!((bits(status, "CapPrm:"), bits(status, "Uid:")), (Some(0x1ff), None));
        assert_eq!(
            max_fds("Limit  Soft  Hard\nMax open files   1024   524288   files\n"),
            Some(1024)
        );

        assert_eq!(max_fds("Max open files   unlimited unlimited files\n"), None);
        assert_eq!(booted("cpu 1 2\nbtime 1700000000\n"), Some(1_700_000_000.0));
        assert_eq!(
            (uptime("12.34 5.6\n"), uptime("-1 0"), uptime("inf"), uptime("")),
            (Some(12.34), None, None, None)
        );
    }
}
