//! The process, as Prometheus' clients describe it in every language.

use crate::sources::operator::scrape::normalize::rules::{Rule, Signal, Table};

pub(super) static TABLE: Table = Table {
    framework: None,
    who: &[],
    also: &[],
    rules: &[
        Rule::largest("process_start_time_seconds", Signal::Started),
        Rule::largest("process_cpu_seconds_total", Signal::CpuSeconds),
        Rule::largest("process_resident_memory_bytes", Signal::Resident),
        Rule::largest("process_open_fds", Signal::OpenFds),
        Rule::largest("process_max_fds", Signal::MaxFds),
    ],
};

/// What the Prometheus client for Rust adds. The client does not report its language.
pub(super) static RUST: Table = Table {
    framework: None,
    who: &[],
    also: &[],
    rules: &[Rule::largest("process_threads", Signal::Threads)],
};
