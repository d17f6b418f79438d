//! Where this process runs: its machine and its Pod.

pub(crate) mod coarse_timers; // common instants, so that the process wakes up less often
pub(crate) mod files; // files that others may replace
pub(crate) mod open_files; // the limit on open files
pub(crate) mod own_pod; // the Pod of this process, according to its environment
pub(crate) mod procfs; // parsers for /proc
pub(crate) mod stamp; // versions of a file
