//! The processes of the operator.

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// A process of the operator. Signals that the reader could not get are absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessView {
    /// The instance.
    pub instance: String,
    /// Its process number; absent if it comes from metrics.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// When the process started. From the kernel, it is converted to the clock of the observations
    /// and may be off by some seconds after a clock step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started: Option<Timestamp>,
    /// When the process started, in hundredths of a second since the node booted; absent if it
    /// comes from metrics. Clock steps do not change it, so a different number means a different
    /// process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_ticks: Option<u64>,
    /// Its language runtime.
    pub runtime: Runtime,
    /// CPU time since its start, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_seconds: Option<f64>,
    /// The container's CPU limit, in CPUs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_limit: Option<f64>,
    /// The periods of the CPU limit in which the container wanted to run, since its start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_periods: Option<u64>,
    /// The periods among them in which the kernel throttled the container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_throttled_periods: Option<u64>,
    /// For how long the kernel has throttled the container's CPUs in all, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_throttled_seconds: Option<f64>,
    /// Resident memory, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resident: Option<u64>,
    /// Resident memory that is not backed by files, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub anonymous: Option<u64>,
    /// Memory of the container that the kernel cannot reclaim easily, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub working_set: Option<u64>,
    /// The container's memory limit, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_limit: Option<u64>,
    /// Heap that was in use after the last garbage collection, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub live_heap: Option<u64>,
    /// The size of the heap at which the next garbage collection begins, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heap_goal: Option<u64>,
    /// The limit that the runtime tries to keep (`GOMEMLIMIT`, `-Xmx`), in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime_limit: Option<u64>,
    /// `GOGC`, in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gc_percent: Option<u64>,
    /// Garbage collections since its start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gc_cycles: Option<u64>,
    /// The last garbage collection in which the runtime limited its own CPU time; 0 if there was
    /// none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gc_limited_cycle: Option<u64>,
    /// Goroutines of Go; absent for other runtimes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub goroutines: Option<u64>,
    /// Threads of the operating system, or live threads of the JVM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<u64>,
    /// Open file descriptors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_fds: Option<u64>,
    /// The maximum number of open file descriptors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_fds: Option<u64>,
    /// The share of the last 60 s in which at least one task of the container waited for memory, in
    /// percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_pressure: Option<f64>,
    /// How often the kernel has killed a process of the container because of its memory limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oom_kills: Option<u64>,
}

/// A language runtime.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Runtime {
    /// Go.
    Go,
    /// A Java virtual machine.
    Jvm,
    /// Python.
    Python,
    /// None, or one that loopwatch does not recognize.
    #[default]
    Unknown,
}
