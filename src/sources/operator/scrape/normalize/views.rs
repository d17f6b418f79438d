//! Turns sheets into views of controllers and of the process.

use loopwatch_model::observation::{ControllerView, Durations, ProcessView, Runtime};
use loopwatch_model::time::Timestamp;

use super::rules::Signal;
use super::sheet::Sheet;

/// Converts a sample to a count; `None` if it is not one. The text format has only floating-point
/// numbers.
pub(super) fn whole(value: f64) -> Option<u64> {
    /// 2^63: runtimes report the largest integer if there is no limit.
    const NO_LIMIT: f64 = 9_223_372_036_854_775_808.0;

    (0.0..NO_LIMIT).contains(&value).then(|| value.round() as u64)
}

fn seconds(value: f64) -> Option<f64> {
    (value.is_finite() && value >= 0.0).then_some(value)
}

pub(super) fn controller_view(name: String, sheet: &Sheet) -> ControllerView {
    let count = |signal| sheet.get(signal).and_then(whole);
    let durations = |number, sum| {
        Some(Durations { count: count(number)?, sum: sheet.get(sum).and_then(seconds)? })
    };

    let all = durations(Signal::Reconciles, Signal::ReconcileSeconds);

    ControllerView {
        name,
        succeeded: count(Signal::Succeeded),
        failed: count(Signal::Failed),
        requeued: count(Signal::Requeued),
        panicked: count(Signal::Panicked),
        reconcile_seconds: all,
        reconcile_buckets: buckets(sheet, all),
        workers_busy: count(Signal::WorkersBusy),
        workers_max: count(Signal::WorkersMax),
        queue_depth: count(Signal::QueueDepth),
        queue_adds: count(Signal::QueueAdds),
        queue_retries: count(Signal::QueueRetries),
        queue_seconds: durations(Signal::QueueWaits, Signal::QueueSeconds),
        unfinished_seconds: sheet.get(Signal::Unfinished).and_then(seconds),
        longest_running_seconds: sheet.get(Signal::LongestRunning).and_then(seconds),
    }
}

/// Returns the buckets of reconciles. The operator may count while it writes them, so each one is at
/// least the one before, and at most the number of all reconciles.
fn buckets(sheet: &Sheet, all: Option<Durations>) -> Vec<(f64, u64)> {
    let Some(all) = all else { return Vec::new() };
    let known = sheet.buckets().filter_map(|(bound, value)| Some((bound, whole(value)?)));
    let rising = known.scan(0, |least, (bound, count)| {
        *least = count.max(*least).min(all.count);
        Some((bound, *least))
    });
    rising.collect()
}

pub(super) fn process_view(sheet: &Sheet, runtime: Runtime) -> ProcessView {
    let count = |signal| sheet.get(signal).and_then(whole);
    let positive = |signal| count(signal).filter(|number| *number > 0);
    ProcessView {
        runtime,
        started: sheet.get(Signal::Started).and_then(|at| whole(at * 1000.0)).and_then(instant),
        cpu_seconds: sheet.get(Signal::CpuSeconds).and_then(seconds),
        resident: positive(Signal::Resident),
        // Runtimes report 0 before the first garbage collection.
        live_heap: positive(Signal::LiveHeap),
        heap_goal: positive(Signal::HeapGoal),
        runtime_limit: positive(Signal::RuntimeLimit),
        gc_percent: count(Signal::GcPercent),
        gc_cycles: count(Signal::GcCycles),
        gc_limited_cycle: count(Signal::GcLimitedCycle),
        goroutines: count(Signal::Goroutines),
        threads: positive(Signal::Threads),
        open_fds: count(Signal::OpenFds),
        max_fds: positive(Signal::MaxFds),
        ..ProcessView::default()
    }
}

fn instant(ms: u64) -> Option<Timestamp> {
    i64::try_from(ms).ok().filter(|ms| *ms > 0).map(Timestamp)
}
