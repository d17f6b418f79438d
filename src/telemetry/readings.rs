//! Reads metrics at each scrape: process, allocator, runtime.

use super::process::ProcessReadings;

/// Metrics of loopwatch itself, read at each scrape. Values that cannot be read are absent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Readings {
    pub process: ProcessReadings,
    pub allocator: AllocatorReadings,
    pub runtime: RuntimeReadings,
}

/// Statistics of the memory allocator, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct AllocatorReadings {
    /// Allocated and not yet freed.
    pub allocated: Option<u64>,
    /// In pages with at least one allocation.
    pub active: Option<u64>,
    /// Resident, including metadata.
    pub resident: Option<u64>,
    /// Address space without memory behind it.
    pub retained: Option<u64>,
}

/// Statistics of the asynchronous runtime.
#[derive(Clone, Copy, Debug, Default)]
pub struct RuntimeReadings {
    pub workers: Option<u64>,
    pub tasks: Option<u64>,
    /// Tasks that wait for a worker.
    pub queue: Option<u64>,
    /// Time that workers were busy, in seconds, summed over all workers.
    pub busy_seconds: Option<f64>,
}

impl Readings {
    /// Reads all metrics.
    #[must_use]
    pub fn now() -> Self {
        Self {
            process: ProcessReadings::now(),
            allocator: AllocatorReadings::now(),
            runtime: RuntimeReadings::now(),
        }
    }
}

impl AllocatorReadings {
    #[cfg(feature = "jemalloc")]
    fn now() -> Self {
        use tikv_jemalloc_ctl::{epoch, stats};

        // jemalloc updates its statistics only when the epoch advances.
        if epoch::advance().is_err() {
            return Self::default();
        }

        let bytes = |read: tikv_jemalloc_ctl::Result<usize>| read.ok().map(|bytes| bytes as u64);
        Self {
            allocated: bytes(stats::allocated::read()),
            active: bytes(stats::active::read()),
            resident: bytes(stats::resident::read()),
            retained: bytes(stats::retained::read()),
        }
    }

    #[cfg(not(feature = "jemalloc"))]
    fn now() -> Self {
        Self::default()
    }
}

impl RuntimeReadings {
    fn now() -> Self {
        let Ok(handle) = tokio::runtime::Handle::try_current() else {
            return Self::default();
        };
        let metrics = handle.metrics();
        let workers = metrics.num_workers();
        let busy = (0..workers)
            .map(|worker| metrics.worker_total_busy_duration(worker).as_secs_f64())
            .sum();

        Self {
            workers: Some(workers as u64),
            tasks: Some(metrics.num_alive_tasks() as u64),
            queue: Some(metrics.global_queue_depth() as u64),
            busy_seconds: Some(busy),
        }
    }
}
