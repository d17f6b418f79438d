//! What is read at each scrape: process, allocator, runtime.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use super::process::Process;
use crate::export::catalog::Family;

/// Reads everything anew each time.
#[derive(Debug)]
pub(super) struct Collected;

impl Collector for Collected {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let encoder = &mut encoder;
        allocator(encoder)?;
        runtime(encoder)?;
        let process = Process::read();
        counter(encoder, Family::ProcessCpu, process.cpu_seconds)?;
        gauge(encoder, Family::ProcessResident, process.resident_bytes.map(|bytes| bytes as f64))?;
        gauge(encoder, Family::ProcessVirtual, process.virtual_bytes.map(|bytes| bytes as f64))?;
        gauge(encoder, Family::ProcessOpenFds, process.open_fds.map(|fds| fds as f64))?;
        gauge(encoder, Family::ProcessMaxFds, process.max_fds.map(|fds| fds as f64))?;
        gauge(encoder, Family::ProcessStart, process.start_seconds)
    }
}

#[cfg(feature = "jemalloc")]
fn allocator(encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    use tikv_jemalloc_ctl::{epoch, stats};

    // Statistics stand still until the epoch advances.
    if epoch::advance().is_err() {
        return Ok(());
    }
    let bytes = |read: tikv_jemalloc_ctl::Result<usize>| read.ok().map(|bytes| bytes as f64);
    gauge(encoder, Family::AllocatorAllocated, bytes(stats::allocated::read()))?;
    gauge(encoder, Family::AllocatorActive, bytes(stats::active::read()))?;
    gauge(encoder, Family::AllocatorResident, bytes(stats::resident::read()))?;
    gauge(encoder, Family::AllocatorRetained, bytes(stats::retained::read()))
}

#[cfg(not(feature = "jemalloc"))]
fn allocator(_: &mut DescriptorEncoder<'_>) -> fmt::Result {
    Ok(())
}

fn runtime(encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let Ok(handle) = tokio::runtime::Handle::try_current() else {
        return Ok(());
    };
    let metrics = handle.metrics();
    let workers = metrics.num_workers();
    let busy: f64 = (0..workers).map(|worker| metrics.worker_total_busy_duration(worker).as_secs_f64()).sum();
    gauge(encoder, Family::RuntimeWorkers, Some(workers as f64))?;
    gauge(encoder, Family::RuntimeTasks, Some(metrics.num_alive_tasks() as f64))?;
    gauge(encoder, Family::RuntimeQueue, Some(metrics.global_queue_depth() as f64))?;
    counter(encoder, Family::RuntimeBusy, Some(busy))
}

fn gauge(encoder: &mut DescriptorEncoder<'_>, family: Family, value: Option<f64>) -> fmt::Result {
    value.map_or(Ok(()), |value| write(encoder, family, &ConstGauge::new(value)))
}

fn counter(encoder: &mut DescriptorEncoder<'_>, family: Family, value: Option<f64>) -> fmt::Result {
    value.map_or(Ok(()), |value| write(encoder, family, &ConstCounter::new(value)))
}

fn write(encoder: &mut DescriptorEncoder<'_>, family: Family, metric: &impl EncodeMetric) -> fmt::Result {
    let row = family.metric();
    let encoder = encoder.encode_descriptor(row.family_name(), row.help, None, metric.metric_type())?;
    metric.encode(encoder)
}
