//! The process of loopwatch, from `/proc`.

use std::fs;

use crate::system::procfs::{self, Stat};

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

impl ProcessReadings {
    pub(super) fn now() -> Self {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let (stat, status) = (Stat::parse(&text("/proc/self/stat")), text("/proc/self/status"));

        // The directory of descriptors is itself open during the count.
        let open_fds =
            fs::read_dir("/proc/self/fd").ok().map(|fds| (fds.count() as u64).saturating_sub(1));
        Self {
            cpu_seconds: stat.as_ref().map(Stat::cpu_seconds),
            resident_bytes: procfs::kilobytes(&status, "VmRSS:"),
            virtual_bytes: procfs::kilobytes(&status, "VmSize:"),
            open_fds,
            max_fds: procfs::max_fds(&text("/proc/self/limits")),
            start_seconds: procfs::booted(&text("/proc/stat"))
                .zip(stat)
                .map(|(booted, stat)| booted + procfs::seconds(stat.start_ticks)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_can_be_read() {
        let process = ProcessReadings::now();
        assert!(process.resident_bytes.is_some_and(|bytes| bytes > 100_000), "{process:?}");
        assert!(process.open_fds.is_some_and(|fds| fds >= 3), "{process:?}");
        assert!(process.start_seconds.is_some_and(|start| start > 1.6e9), "{process:?}");
    }
}
