//! The process of loopwatch, as `/proc` shows it.

use std::fs;

/// Statistics from `/proc/self`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProcessReadings {
    /// CPU time in user and system mode, in seconds.
    pub cpu_seconds: Option<f64>,
    /// Resident memory, in bytes.
    pub resident_bytes: Option<u64>,
    /// Address space, in bytes.
    pub virtual_bytes: Option<u64>,
    /// Open file descriptors.
    pub open_fds: Option<u64>,
    /// Maximum number of open file descriptors.
    pub max_fds: Option<u64>,
    /// Start time, in seconds since 1970.
    pub start_seconds: Option<f64>,
}

/// Linux reports times in hundredths of a second on every architecture that runs Kubernetes.
const TICKS_PER_SECOND: f64 = 100.0;

// === impl ProcessReadings ===

impl ProcessReadings {
    pub(super) fn now() -> Self {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let (stat, status) = (text("/proc/self/stat"), text("/proc/self/status"));
        // The directory itself is open during the count.
        let open_fds = fs::read_dir("/proc/self/fd").ok().map(|fds| (fds.count() as u64).saturating_sub(1));
        Self {
            cpu_seconds: field(&stat, 14)
                .zip(field(&stat, 15))
                .map(|(user, system)| (user + system) / TICKS_PER_SECOND),
            resident_bytes: kilobytes(&status, "VmRSS:"),
            virtual_bytes: kilobytes(&status, "VmSize:"),
            open_fds,
            max_fds: max_fds(&text("/proc/self/limits")),
            start_seconds: booted(&text("/proc/stat"))
                .zip(field(&stat, 22))
                .map(|(booted, ticks)| booted + ticks / TICKS_PER_SECOND),
        }
    }
}

/// Field `number` of `/proc/self/stat`, counted as in proc(5). Field 2 is the command in brackets, which may contain
/// spaces and brackets.
fn field(stat: &str, number: usize) -> Option<f64> {
    let after_command = stat.rsplit_once(')')?.1;
    after_command.split_whitespace().nth(number.checked_sub(3)?)?.parse().ok()
}

fn kilobytes(status: &str, name: &str) -> Option<u64> {
    let value = status.lines().find_map(|line| line.strip_prefix(name))?;
    value.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

fn max_fds(limits: &str) -> Option<u64> {
    let soft = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    soft.split_whitespace().next()?.parse().ok() // "unlimited" is not a number
}

fn booted(stat: &str) -> Option<f64> {
    stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_command_names_do_not_shift_fields() {
        let stat = "7 (a) b (c) R 1 7 7 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 4 0 4321 1000 200";
        assert_eq!(field(stat, 14), Some(250.0));
        assert_eq!(field(stat, 15), Some(50.0));
        assert_eq!(field(stat, 22), Some(4321.0));
        assert_eq!(field(stat, 99), None);
        assert_eq!(field("", 14), None);
    }

    #[test]
    fn other_files_are_read_by_name() {
        assert_eq!(kilobytes("VmSize:\t  20 kB\nVmRSS:\t     3 kB\n", "VmRSS:"), Some(3072));
        assert_eq!(max_fds("Limit  Soft  Hard\nMax open files   1024   524288   files\n"), Some(1024));
        assert_eq!(max_fds("Max open files   unlimited unlimited files\n"), None);
        assert_eq!(booted("cpu 1 2\nbtime 1700000000\n"), Some(1_700_000_000.0));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_can_be_read() {
        let process = ProcessReadings::now();
        assert!(process.resident_bytes.is_some_and(|bytes| bytes > 100_000), "{process:?}");
        assert!(process.open_fds.is_some_and(|fds| fds >= 3), "{process:?}");
        assert!(process.start_seconds.is_some_and(|start| start > 1.6e9), "{process:?}");
    }
}
