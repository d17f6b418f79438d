//! The process of an instance. Each signal comes from the better of its two sources, the kernel and
//! the instance's metrics.

use std::sync::Arc;

use crate::model::operator::{Instance, Operator};
use crate::observation::{MetricsView, ProcessView, Runtime};
use crate::snapshot::InstanceSummary;
use crate::time::Timestamp;

impl Operator {
    /// Returns the instances as snapshots show them, without those whose Pods are gone.
    pub(crate) fn summaries(&self) -> Vec<InstanceSummary> {
        let summary = |(name, instance): (&String, &Instance)| InstanceSummary {
            name: name.clone(),
            metrics: instance.metrics.clone(),
            scrape_failure: instance.scrape_failure,
            process: self.process_of(name, instance),
            by_kernel: instance
                .by_kernel
                .as_ref()
                .map(|(_, process)| process.clone())
                .unwrap_or_default(),
            recent: instance.recent.points().collect(),
        };
        self.instances.iter().filter(|(name, _)| self.may_run(name)).map(summary).collect()
    }

    /// Returns the process of an instance. If neither the kernel nor its metrics tell the memory limit,
    /// it is that of its container.
    fn process_of(&self, name: &str, instance: &Instance) -> ProcessView {
        let mut process = ProcessView { instance: name.to_owned(), ..instance.process_now() };
        let container = || self.pod_of(name).and_then(|pod| pod.containers.first());
        process.memory_limit =
            process.memory_limit.or_else(|| container().and_then(|it| it.memory_limit));

        process
    }
}

impl Instance {
    /// Returns its process as it was last seen.
    pub(super) fn process(&self) -> ProcessView {
        merge(self.by_kernel.as_ref(), self.metrics.as_ref())
    }

    /// Returns its process as it is now: without its metrics if the last scrape failed.
    fn process_now(&self) -> ProcessView {
        merge(
            self.by_kernel.as_ref(),
            self.metrics.as_ref().filter(|_| self.scrape_failure.is_none()),
        )
    }

    /// Returns its process, from the sources that have seen it since `from`.
    pub(super) fn process_since(&self, from: Timestamp) -> ProcessView {
        let kernel = self.by_kernel.as_ref().filter(|(at, _)| *at >= from);
        merge(kernel, self.metrics.as_ref().filter(|(at, _)| *at >= from))
    }
}

/// Takes each signal of a process from the better source.
fn merge(
    kernel: Option<&(Timestamp, ProcessView)>,
    metrics: Option<&(Timestamp, Arc<MetricsView>)>,
) -> ProcessView {
    let kernel = kernel.map(|(_, process)| process.clone()).unwrap_or_default();

    // A scrape from before the start of the process shows an earlier one. The start time in the
    // metrics cannot show that, because it is by the node's clock.
    let is_of_process = |at: Timestamp| kernel.started.is_none_or(|started| at >= started);
    let Some((_, metrics)) = metrics.filter(|(at, _)| is_of_process(*at)) else { return kernel };

    let reported = &metrics.process;
    ProcessView {
        instance: metrics.instance.clone(),
        pid: kernel.pid,
        started: kernel.started.or(reported.started),
        start_ticks: kernel.start_ticks,
        runtime: if reported.runtime == Runtime::Unknown {
            kernel.runtime
        } else {
            reported.runtime
        },
        cpu_seconds: kernel.cpu_seconds.or(reported.cpu_seconds),
        cpu_limit: kernel.cpu_limit.or(reported.cpu_limit),
        cpu_periods: kernel.cpu_periods.or(reported.cpu_periods),
        cpu_throttled_periods: kernel.cpu_throttled_periods.or(reported.cpu_throttled_periods),
        cpu_throttled_seconds: kernel.cpu_throttled_seconds.or(reported.cpu_throttled_seconds),
        resident: kernel.resident.or(reported.resident),
        anonymous: kernel.anonymous.or(reported.anonymous),
        working_set: kernel.working_set.or(reported.working_set),
        memory_limit: kernel.memory_limit.or(reported.memory_limit),
        live_heap: reported.live_heap.or(kernel.live_heap),
        heap_goal: reported.heap_goal.or(kernel.heap_goal),
        runtime_limit: reported.runtime_limit.or(kernel.runtime_limit),
        gc_percent: reported.gc_percent.or(kernel.gc_percent),
        gc_cycles: reported.gc_cycles.or(kernel.gc_cycles),
        gc_limited_cycle: reported.gc_limited_cycle.or(kernel.gc_limited_cycle),
        goroutines: reported.goroutines.or(kernel.goroutines),
        threads: kernel.threads.or(reported.threads),
        open_fds: kernel.open_fds.or(reported.open_fds),
        max_fds: kernel.max_fds.or(reported.max_fds),
        memory_pressure: kernel.memory_pressure.or(reported.memory_pressure),
        oom_kills: kernel.oom_kills.or(reported.oom_kills),
    }
}
