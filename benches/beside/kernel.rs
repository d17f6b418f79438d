//! CPU time and memory of a process, as the kernel reports them.

use std::time::Duration;

/// The unit of CPU time in `/proc`.
pub(crate) const TICK: Duration = Duration::from_millis(10);

/// The CPU time of a process since its start.
pub(crate) fn cpu(pid: i32) -> Duration {
    let stat = proc(pid, "stat");

    // The program name may contain spaces, so count from its closing parenthesis. User and system
    // time are fields 14 and 15, see proc(5).
    let fields = stat.rsplit_once(") ").map(|(_, rest)| rest.split(' ')).into_iter().flatten();
    let ticks = fields.skip(11).take(2).filter_map(|field| field.parse::<u32>().ok()).sum::<u32>();
    TICK * ticks
}

/// A line of `/proc/PID/status`, in bytes.
pub(crate) fn memory(pid: i32, field: &str) -> u64 {
    let status = proc(pid, "status");
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    let kibibytes = line.and_then(|rest| rest.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kibibytes.unwrap_or_else(|| panic!("no {field} in:\n{status}")) * 1024
}

fn proc(pid: i32, file: &str) -> String {
    let path = format!("/proc/{pid}/{file}");
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}
