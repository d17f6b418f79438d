//! CPU time, memory and connections of a process, as the kernel reports them in `/proc`.

use std::fmt::Display;
use std::time::Duration;

/// The unit of CPU time in `/proc`.
pub const TICK: Duration = Duration::from_millis(10);

/// Returns the CPU time that a process has used, in user and system mode.
pub fn cpu(pid: impl Display) -> Duration {
    let stat = read(pid, "stat");

    // The program name may contain spaces, so count from its closing parenthesis. User and
    // system time are fields 14 and 15, see proc(5).
    let fields = stat.rsplit_once(") ").map(|(_, rest)| rest.split(' ')).into_iter().flatten();
    let ticks = fields.skip(11).take(2).filter_map(|field| field.parse::<u32>().ok()).sum::<u32>();
    TICK * ticks
}

/// Returns a line of `/proc/PID/status`, such as `VmHWM` for the peak of the resident memory, in
/// bytes.
pub fn memory(pid: impl Display, field: &str) -> u64 {
    let status = read(pid, "status");
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    let kibibytes = line.and_then(|rest| rest.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kibibytes.unwrap_or_else(|| panic!("no {field} in:\n{status}")) * 1024
}

/// Returns the number of open TCP connections that were accepted at this port, of any process.
pub fn connections(port: u16) -> usize {
    let local = format!(":{port:04X}");
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(std::fs::read_to_string);
    let lines = tables.iter().flatten().flat_map(|table| table.lines());
    let established = lines.filter(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let is_local = fields.next().is_some_and(|address| address.ends_with(&local));
        is_local && fields.nth(1) == Some("01")
    });
    established.count()
}

fn read(pid: impl Display, file: &str) -> String {
    let path = format!("/proc/{pid}/{file}");
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}
