//! The signals of a process: those of the kernel, and those of its own metrics.

use super::super::Instance;
use crate::observation::{ProcessView, Runtime};
use crate::time::{Span, Timestamp};

/// The signals of a process at one instant. Those that are not available are absent.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Signals {
    pub(super) started: Option<Timestamp>,
    /// How often its container was restarted.
    pub(super) restarts: Option<u32>,
    /// The best signal of a leak, in bytes: the live heap, else anonymous memory, else resident memory.
    pub(super) memory: Option<f64>,
    /// Whether `memory` is the live heap.
    pub(super) heap: bool,
    /// The value of `memory` at which the limit is reached.
    pub(super) capacity: Option<f64>,
    /// The memory that counts towards the limit, in bytes.
    pub(super) used: Option<f64>,
    /// The container's memory limit, in bytes.
    pub(super) limit: Option<f64>,
    /// The limit that the runtime keeps, in bytes.
    pub(super) runtime_limit: Option<f64>,
    pub(super) heap_goal: Option<f64>,
    pub(super) gc_cycles: Option<u64>,
    pub(super) gc_limited_cycle: Option<u64>,
    /// Goroutines, else threads.
    pub(super) tasks: Option<f64>,
    /// Whether `tasks` are goroutines.
    pub(super) goroutines: bool,
    pub(super) descriptors: Option<f64>,
    pub(super) max_descriptors: Option<f64>,
    /// Whether it waits for another replica to end.
    pub(super) standby: bool,
    /// Whether it may have profiles: only Go's are read.
    pub(super) has_profiles: bool,
}

/// Older signals do not describe the process as it is now.
const FRESH: Span = Span::mins(5);

/// A process of Go needs at least this much besides its heap. Resident memory may be less than the sum for a while.
const LEAST_OTHER: f64 = 16.0 * 1024.0 * 1024.0;

/// The share of the limit that is assumed for everything besides the heap if resident memory is not known.
const ASSUMED_OTHER: f64 = 0.1;

/// `GOGC`, if it is not known.
const GC_PERCENT: u64 = 100;

/// Limits from here on are none: the kernel reports a huge number instead.
const NO_LIMIT: u64 = 1 << 60;

// === impl Signals ===

impl Signals {
    /// Returns the signals of an instance. `container` has the restarts and the memory limit of its container.
    pub(super) fn of(now: Timestamp, instance: &Instance, container: Option<(u32, Option<u64>)>) -> Self {
        let none = ProcessView::default();
        let fresh = |at: Timestamp| now.since(at) <= FRESH;
        let kernel = instance.process.as_ref().filter(|(at, _)| fresh(*at)).map_or(&none, |(_, process)| process);
        let metrics = instance.metrics.as_ref().filter(|(at, _)| fresh(*at)).map(|(_, metrics)| metrics);
        let own = metrics.map_or(&none, |metrics| &metrics.process);
        let number = |of: fn(&ProcessView) -> Option<u64>| of(kernel).or_else(|| of(own)).map(|number| number as f64);
        let limit = |of: fn(&ProcessView) -> Option<u64>| {
            of(kernel).or_else(|| of(own)).filter(|limit| (1..NO_LIMIT).contains(limit)).map(|limit| limit as f64)
        };
        let resident = number(|process| process.resident);
        let live = number(|process| process.live_heap);
        let goroutines = number(|process| process.goroutines);
        let is_go = kernel.runtime == Runtime::Go || own.runtime == Runtime::Go || goroutines.is_some();
        let by_container = container.and_then(|(_, limit)| limit).map(|limit| limit as f64);
        let mut signals = Self {
            started: kernel.started.or(own.started),
            restarts: container.map(|(restarts, _)| restarts),
            memory: live.or(number(|process| process.anonymous)).or(resident),
            heap: live.is_some(),
            capacity: None,
            used: number(|process| process.working_set).or(resident),
            limit: limit(|process| process.memory_limit).or(by_container),
            runtime_limit: limit(|process| process.runtime_limit),
            heap_goal: number(|process| process.heap_goal),
            gc_cycles: own.gc_cycles.or(kernel.gc_cycles),
            gc_limited_cycle: own.gc_limited_cycle.or(kernel.gc_limited_cycle),
            tasks: goroutines.or(number(|process| process.threads)),
            goroutines: goroutines.is_some(),
            descriptors: number(|process| process.open_fds),
            max_descriptors: limit(|process| process.max_fds),
            standby: metrics.and_then(|metrics| metrics.leading) == Some(false),
            has_profiles: is_go,
        };
        let percent = own.gc_percent.or(kernel.gc_percent).unwrap_or(GC_PERCENT);
        signals.capacity = signals.capacity(resident, is_go.then_some(percent));
        signals
    }

    /// Returns for how long the process has run.
    pub(super) fn uptime(&self, now: Timestamp) -> Option<Span> {
        self.started.map(|started| now.since(started))
    }

    /// Returns the memory to look ahead, and the value at which its limit is reached. A runtime with a limit of its own fills
    /// its memory with garbage up to that by design, so only its live heap shows anything.
    pub(super) fn foreseen(&self) -> (Option<f64>, Option<f64>) {
        let keeps = |own: &f64| self.limit.is_none_or(|limit| *own < limit);
        match self.runtime_limit.filter(keeps) {
            Some(_) => (self.memory.filter(|_| self.heap), self.capacity),
            None => (self.used, self.limit),
        }
    }

    /// Returns the value of the memory signal at which the limit of the runtime or of the container is reached. Between
    /// two collections, the heap of Go grows by `gc_percent`, until it reaches the limit of the runtime.
    fn capacity(&self, resident: Option<f64>, gc_percent: Option<u64>) -> Option<f64> {
        if !self.heap {
            return self.limit;
        }
        let Some(gc_percent) = gc_percent else {
            return self.runtime_limit.or(self.limit); // a heap with a maximum size, as in Java
        };
        let total = self.runtime_limit.or(self.limit)?;
        let other = match resident {
            Some(resident) => (resident - self.heap_goal.unwrap_or_default()).max(LEAST_OTHER),
            None => ASSUMED_OTHER * total,
        };
        let other = if self.heap_goal.is_some() { other } else { (ASSUMED_OTHER * total).max(LEAST_OTHER) };
        let growing = self.limit.map(|limit| (limit - other) / (1.0 + gc_percent as f64 / 100.0));
        let limited = self.runtime_limit.map(|limit| limit.min(self.limit.unwrap_or(limit)) - other);
        limited.or(growing).map(|capacity| capacity.max(0.0))
    }
}
