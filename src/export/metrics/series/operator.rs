//! Writes samples about the operator itself: its loop and its processes.

use loopwatch_model::observation::{ControllerView, InstanceName, MetricsView, ProcessView};
use loopwatch_model::snapshot::{InstanceSummary, OperatorSummary};

use super::Exposition;
use crate::export::metrics::encode::{SampleValue, Samples};

/// Calls `write` with the Pod and each controller of each instance whose last scrape succeeded.
fn each_controller(shown: &Exposition, mut write: impl FnMut(&str, &ControllerView)) {
    each_content(shown, |pod, metrics| {
        metrics.controllers.iter().for_each(|controller| write(pod, controller))
    });
}

/// Calls `write` with each instance whose last scrape succeeded, and its metrics.
fn each_scrape(shown: &Exposition, mut write: impl FnMut(&InstanceSummary, &MetricsView)) {
    for instance in &shown.snapshot.operator.instances {
        if let (None, Some((_, metrics))) = (&instance.scrape_failure, &instance.metrics) {
            write(instance, metrics);
        }
    }
}

/// Does the same with the Pods of the instances whose metrics everybody may see.
fn each_content(shown: &Exposition, mut write: impl FnMut(&str, &MetricsView)) {
    each_scrape(shown, |instance, metrics| {
        if !shown.withholds(instance) {
            write(pod(instance), metrics);
        }
    });
}

/// The process of an instance, as far as everybody may see it.
fn process<'a>(shown: &Exposition, instance: &'a InstanceSummary) -> &'a ProcessView {
    if shown.withholds(instance) { &instance.by_kernel } else { &instance.process }
}

/// Writes numbers of each process, one per type.
fn types<T: Into<SampleValue> + Copy>(
    shown: &Exposition,
    samples: &mut Samples<'_>,
    numbers: impl Fn(&ProcessView) -> Vec<(&'static str, Option<T>)>,
) {
    for instance in &shown.snapshot.operator.instances {
        for (name, number) in numbers(process(shown, instance)) {
            samples.put_some(&[pod(instance), name], number);
        }
    }
}

/// Writes a number of each process.
fn each_process<T: Into<SampleValue>>(
    shown: &Exposition,
    samples: &mut Samples<'_>,
    number: impl Fn(&ProcessView) -> Option<T>,
) {
    for instance in &shown.snapshot.operator.instances {
        samples.put_some(&[pod(instance)], number(process(shown, instance)));
    }
}

/// Returns the name of the instance's Pod, or the address of its metrics.
fn pod(instance: &InstanceSummary) -> &str {
    InstanceName(&instance.name).label()
}

pub(crate) fn up(shown: &Exposition, samples: &mut Samples<'_>) {
    samples.put_some(&[], shown.snapshot.operator.health.up.map(u64::from));
}

pub(crate) fn down_info(shown: &Exposition, samples: &mut Samples<'_>) {
    for sign in &shown.snapshot.operator.down_signs {
        samples.put(&[sign.as_str()], 1_u64);
    }
}

pub(crate) fn recovery(shown: &Exposition, samples: &mut Samples<'_>) {
    samples.put_some(&[], shown.snapshot.operator.health.recovery);
}

pub(crate) fn restarts(shown: &Exposition, samples: &mut Samples<'_>) {
    for pod in shown.snapshot.operator.view.iter().flat_map(|view| &view.pods) {
        for container in &pod.containers {
            samples.put(&[&pod.name, &container.name], u64::from(container.restarts));
        }
    }
}

pub(crate) fn info(shown: &Exposition, samples: &mut Samples<'_>) {
    let OperatorSummary { view, revision, framework, .. } = &shown.snapshot.operator;
    if view.is_some() {
        samples.put(
            &[framework.as_str(), revision.label(), &revision.version, &revision.image],
            1_u64,
        );
    }
}

pub(crate) fn signals(shown: &Exposition, samples: &mut Samples<'_>) {
    for instance in &shown.snapshot.operator.instances {
        let metrics = instance
            .metrics
            .as_ref()
            .filter(|_| instance.scrape_failure.is_none())
            .map(|(_, view)| view);
        let offers = |has: fn(&ControllerView) -> bool| {
            metrics.is_some_and(|view| view.controllers.iter().any(has))
        };

        let process = &instance.process;
        for (signal, available) in [
            ("reconciles", offers(|c| c.succeeded.is_some() || c.failed.is_some())),
            ("reconcile_duration", offers(|c| c.reconcile_seconds.is_some())),
            ("running_reconciles", offers(|c| c.longest_running_seconds.is_some())),
            ("panics", offers(|c| c.panicked.is_some())),
            ("queue", offers(|c| c.queue_depth.is_some())),
            ("workers", offers(|c| c.workers_busy.is_some() && c.workers_max.is_some())),
            ("requests", metrics.is_some_and(|view| !view.requests.is_empty())),
            ("leader", metrics.is_some_and(|view| view.leading.is_some())),
            ("live_heap", process.live_heap.is_some()),
            ("memory", process.resident.is_some() || process.anonymous.is_some()),
            ("memory_limit", process.memory_limit.is_some() || process.runtime_limit.is_some()),
            ("tasks", process.goroutines.is_some() || process.threads.is_some()),
            ("file_descriptors", process.open_fds.is_some()),
        ] {
            samples.put(&[pod(instance), signal], u64::from(available));
        }
    }
}

pub(crate) fn reconciles(shown: &Exposition, samples: &mut Samples<'_>) {
    each_controller(shown, |pod, controller| {
        for (result, count) in [
            ("success", controller.succeeded),
            ("error", controller.failed),
            ("panic", controller.panicked),
        ] {
            samples.put_some(&[pod, &controller.name, result], count);
        }
    });
}

pub(crate) fn requeues(shown: &Exposition, samples: &mut Samples<'_>) {
    each_controller(shown, |pod, c| samples.put_some(&[pod, &c.name], c.requeued));
}

pub(crate) fn reconcile_seconds(shown: &Exposition, samples: &mut Samples<'_>) {
    each_controller(shown, |pod, c| {
        let Some(all) = c.reconcile_seconds else { return };
        let unbounded = std::iter::once((f64::INFINITY, all.count));
        let buckets = c.reconcile_buckets.iter().copied().chain(unbounded);
        samples.buckets(&[pod, &c.name], buckets, all.sum, all.count, |_| None);
    });
}

pub(crate) fn longest_running(shown: &Exposition, samples: &mut Samples<'_>) {
    each_controller(shown, |pod, c| samples.put_some(&[pod, &c.name], c.longest_running_seconds));
}

pub(crate) fn queue_depth(shown: &Exposition, samples: &mut Samples<'_>) {
    each_controller(shown, |pod, c| samples.put_some(&[pod, &c.name], c.queue_depth));
}

pub(crate) fn queue_adds(shown: &Exposition, samples: &mut Samples<'_>) {
    each_controller(shown, |pod, c| samples.put_some(&[pod, &c.name], c.queue_adds));
}

pub(crate) fn queue_retries(shown: &Exposition, samples: &mut Samples<'_>) {
    each_controller(shown, |pod, c| samples.put_some(&[pod, &c.name], c.queue_retries));
}

pub(crate) fn queue_seconds(shown: &Exposition, samples: &mut Samples<'_>) {
    each_controller(shown, |pod, c| {
        samples.put_some(&[pod, &c.name], c.queue_seconds.map(|all| all.sum))
    });
}

pub(crate) fn unfinished(shown: &Exposition, samples: &mut Samples<'_>) {
    each_controller(shown, |pod, c| samples.put_some(&[pod, &c.name], c.unfinished_seconds));
}

pub(crate) fn workers_busy(shown: &Exposition, samples: &mut Samples<'_>) {
    each_controller(shown, |pod, c| samples.put_some(&[pod, &c.name], c.workers_busy));
}

pub(crate) fn workers_max(shown: &Exposition, samples: &mut Samples<'_>) {
    each_controller(shown, |pod, c| samples.put_some(&[pod, &c.name], c.workers_max));
}

pub(crate) fn requests(shown: &Exposition, samples: &mut Samples<'_>) {
    each_content(shown, |pod, metrics| {
        metrics.requests.iter().for_each(|(code, count)| samples.put(&[pod, code], *count));
    });
}

pub(crate) fn writes(shown: &Exposition, samples: &mut Samples<'_>) {
    each_content(shown, |pod, metrics| {
        metrics.writes.iter().for_each(|(method, count)| samples.put(&[pod, method], *count));
    });
}

pub(crate) fn withheld(shown: &Exposition, samples: &mut Samples<'_>) {
    for instance in &shown.snapshot.operator.instances {
        let number = instance.metrics.is_some().then(|| u64::from(shown.withholds(instance)));
        samples.put_some(&[pod(instance)], number);
    }
}

pub(crate) fn scrape_seconds(shown: &Exposition, samples: &mut Samples<'_>) {
    each_scrape(shown, |instance, metrics| samples.put(&[pod(instance)], metrics.took));
}

pub(crate) fn scrape_series(shown: &Exposition, samples: &mut Samples<'_>) {
    each_content(shown, |pod, metrics| samples.put(&[pod], metrics.series));
}

pub(crate) fn memory(shown: &Exposition, samples: &mut Samples<'_>) {
    types(shown, samples, |process| {
        vec![
            ("resident", process.resident),
            ("anonymous", process.anonymous),
            ("working_set", process.working_set),
            ("live_heap", process.live_heap),
            ("heap_goal", process.heap_goal),
        ]
    });
}

pub(crate) fn memory_limit(shown: &Exposition, samples: &mut Samples<'_>) {
    types(shown, samples, |process| {
        vec![("container", process.memory_limit), ("runtime", process.runtime_limit)]
    });
}

pub(crate) fn memory_pressure(shown: &Exposition, samples: &mut Samples<'_>) {
    each_process(shown, samples, |process| process.memory_pressure.map(|percent| percent / 100.0));
}

pub(crate) fn oom_kills(shown: &Exposition, samples: &mut Samples<'_>) {
    each_process(shown, samples, |process| process.oom_kills);
}

pub(crate) fn tasks(shown: &Exposition, samples: &mut Samples<'_>) {
    types(shown, samples, |process| {
        vec![("goroutines", process.goroutines), ("threads", process.threads)]
    });
}

pub(crate) fn open_fds(shown: &Exposition, samples: &mut Samples<'_>) {
    each_process(shown, samples, |process| process.open_fds);
}

pub(crate) fn max_fds(shown: &Exposition, samples: &mut Samples<'_>) {
    each_process(shown, samples, |process| process.max_fds);
}

pub(crate) fn cpu_seconds(shown: &Exposition, samples: &mut Samples<'_>) {
    each_process(shown, samples, |process| process.cpu_seconds);
}

pub(crate) fn cpu_limit(shown: &Exposition, samples: &mut Samples<'_>) {
    each_process(shown, samples, |process| process.cpu_limit);
}

pub(crate) fn cpu_periods(shown: &Exposition, samples: &mut Samples<'_>) {
    each_process(shown, samples, |process| process.cpu_periods);
}

pub(crate) fn cpu_throttled_periods(shown: &Exposition, samples: &mut Samples<'_>) {
    each_process(shown, samples, |process| process.cpu_throttled_periods);
}

pub(crate) fn cpu_throttled_seconds(shown: &Exposition, samples: &mut Samples<'_>) {
    each_process(shown, samples, |process| process.cpu_throttled_seconds);
}

pub(crate) fn gc_cycles(shown: &Exposition, samples: &mut Samples<'_>) {
    each_process(shown, samples, |process| process.gc_cycles);
}

pub(crate) fn start(shown: &Exposition, samples: &mut Samples<'_>) {
    each_process(shown, samples, |process| process.started);
}
