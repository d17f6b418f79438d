//! The signals of a process: those of the kernel, and those of its own metrics.

use crate::model::operator::Instance;
use crate::model::operator::history::STALE_AFTER;
use crate::model::operator::trends::series::Source;
use crate::observation::{ContainerView, Durations, MetricsView, ProcessView, Runtime};
use crate::time::{Span, Timestamp};

/// The signals of a process at one instant. Those that are not available are absent.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Signals {
    pub(super) started: Option<Timestamp>,
    /// Which process of the instance it is, counted from zero.
    pub(super) number: u32,
    /// How often its container was restarted.
    pub(super) restarts: Option<u32>,
    /// The best signal of a leak, in bytes: the live heap, else anonymous memory, else resident
    /// memory.
    pub(super) memory: Option<f64>,
    /// Whether `memory` is the live heap.
    pub(super) heap: bool,
    /// Where `memory`, `used` and `tasks` come from.
    pub(super) sources: Sources,
    /// The value of `memory` at which the limit is reached.
    pub(super) capacity: Option<f64>,
    /// The memory that counts towards the limit, in bytes.
    pub(super) used: Option<f64>,
    /// The container's memory limit, in bytes.
    pub(super) limit: Option<f64>,
    /// The limit that the runtime tries to keep, such as `GOMEMLIMIT`, in bytes.
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
    /// The container's CPU limit, in CPUs.
    pub(super) cpu_limit: Option<f64>,
    /// The periods of that limit, as the kernel last counted them.
    pub(super) cpu: Option<CpuPeriods>,
    /// The waits in the queues of all controllers.
    pub(super) queued: Option<Durations>,
    /// Whether its metrics say that it does not lead.
    pub(super) standby: bool,
    /// Whether it may serve profiles. loopwatch reads only those of Go.
    pub(super) has_profiles: bool,
    /// Whether the runtime fills its memory with garbage before it collects any, whatever is alive.
    hoards: bool,
}

/// The periods of the CPU limit of a container.
#[derive(Clone, Copy, Debug)]
pub(super) struct CpuPeriods {
    /// When they were read.
    pub(super) at: Timestamp,
    pub(super) periods: u64,
    pub(super) throttled: u64,
}

/// The sources of the signals that have several. Those without a value do not count.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sources {
    pub(super) memory: Source,
    pub(super) used: Source,
    pub(super) tasks: Source,
}

/// A Go process needs at least this much memory besides its heap. For a while, its resident memory
/// may be smaller than its heap goal.
const LEAST_OTHER: f64 = 16.0 * 1024.0 * 1024.0;

/// The share of the limit that is assumed for everything besides the heap if resident memory is not
/// known.
const ASSUMED_OTHER: f64 = 0.1;

/// A heap goal of at least this share of the limit of the runtime means that only the limit starts
/// collections, as with `GOGC=off`.
const HOARDS: f64 = 0.9;

/// The memory besides the heap up to which resident memory shows nothing, as a share of the limit of
/// the heap and in bytes: code, stacks and buffers of a JVM.
const BESIDES_HEAP: (f64, f64) = (1.0 / 3.0, 64.0 * 1024.0 * 1024.0);

/// The assumed `GOGC` if it is not known.
const GC_PERCENT: u64 = 100;

/// A limit of this size or more means that there is none: the kernel reports a huge number instead.
const NO_LIMIT: u64 = 1 << 60;

impl Signals {
    /// Returns the signals of an instance. `container` is its container, if its Pod is visible.
    pub(super) fn of(
        now: Timestamp,
        instance: &Instance,
        container: Option<&ContainerView>,
    ) -> Self {
        let from = now.before(STALE_AFTER);
        let process = instance.process_since(from);
        let metrics =
            instance.metrics.as_ref().filter(|(at, _)| *at >= from).map(|(_, metrics)| metrics);
        let number = |number: Option<u64>| number.map(|number| number as f64);
        let limit =
            |limit: Option<u64>| number(limit.filter(|limit| (1..NO_LIMIT).contains(limit)));
        let is_go = process.runtime == Runtime::Go || process.goroutines.is_some();

        let mut signals = Self {
            started: process.started,
            number: instance.replaced,
            restarts: container.map(|container| container.restarts),
            memory: number(process.live_heap.or(process.anonymous).or(process.resident)),
            heap: process.live_heap.is_some(),
            sources: Sources::of(instance, from, &process),
            capacity: None,
            used: number(process.working_set.or(process.resident)),
            limit: limit(process.memory_limit)
                .or(number(container.and_then(|container| container.memory_limit))),
            runtime_limit: limit(process.runtime_limit),
            heap_goal: number(process.heap_goal),
            gc_cycles: process.gc_cycles,
            gc_limited_cycle: process.gc_limited_cycle,
            tasks: number(process.goroutines.or(process.threads)),
            goroutines: process.goroutines.is_some(),
            descriptors: number(process.open_fds),
            max_descriptors: limit(process.max_fds),
            cpu_limit: process.cpu_limit,
            cpu: CpuPeriods::of(instance, from),
            queued: metrics.and_then(|metrics| queued(metrics)),
            standby: metrics.and_then(|metrics| metrics.leading) == Some(false),
            has_profiles: is_go,
            hoards: process.runtime == Runtime::Jvm,
        };

        let percent = process.gc_percent.unwrap_or(GC_PERCENT);
        signals.capacity = signals.capacity(number(process.resident), is_go.then_some(percent));
        let goal = signals.heap_goal.zip(signals.runtime_limit);
        signals.hoards |= goal.is_some_and(|(goal, limit)| goal >= HOARDS * limit);
        signals
    }

    /// Takes the values of signals from earlier ones that came from a better source.
    pub(super) fn keep_memory(&mut self, last: &Self) {
        (self.memory, self.heap, self.capacity) = (last.memory, last.heap, last.capacity);
        (self.runtime_limit, self.sources.memory) = (last.runtime_limit, last.sources.memory);
    }

    pub(super) fn keep_tasks(&mut self, last: &Self) {
        (self.tasks, self.goroutines) = (last.tasks, last.goroutines);
        self.sources.tasks = last.sources.tasks;
    }

    /// Returns whether growth of `memory` may be garbage: the runtime fills the memory up to its
    /// limit by design, and only the live heap would show what stays.
    pub(super) fn may_be_garbage(&self) -> bool {
        let (share, bytes) = BESIDES_HEAP;
        let most = |limit: f64| limit * (1.0 + share) + bytes;
        let is_beyond = |limit: f64| self.memory.is_some_and(|memory| memory > most(limit));
        self.hoards && !self.heap && !self.runtime_limit.is_some_and(is_beyond)
    }

    /// Returns for how long the process has run.
    pub(super) fn uptime(&self, now: Timestamp) -> Option<Span> {
        self.started.map(|started| now.since(started))
    }

    /// Returns the memory to forecast with its source, and the value at which it reaches its limit.
    pub(super) fn foreseen(&self) -> (Option<(f64, Source)>, Option<f64>) {
        match self.fills_by_design() && self.heap {
            true => (self.memory.map(|live| (live, self.sources.memory)), self.capacity),
            false => (self.used.map(|used| (used, self.sources.used)), self.limit),
        }
    }

    /// Returns whether the memory in use shows nothing, because garbage fills it by design, and the
    /// heap after a collection is not known.
    pub(super) fn is_obscured(&self) -> bool {
        self.fills_by_design() && !self.heap
    }

    /// Returns whether the runtime lets garbage fill the memory up to a limit of its own, below that
    /// of the container.
    fn fills_by_design(&self) -> bool {
        let keeps = |own: f64| self.limit.is_none_or(|limit| own < limit);
        self.runtime_limit.map_or(self.hoards, keeps)
    }

    /// Returns the value of the memory signal at which the limit of the runtime or of the container
    /// is reached. Between two collections, the heap of Go grows by `gc_percent`, until it reaches
    /// the limit of the runtime.
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

        let other =
            if self.heap_goal.is_some() { other } else { (ASSUMED_OTHER * total).max(LEAST_OTHER) };
        let growing = self.limit.map(|limit| (limit - other) / (1.0 + gc_percent as f64 / 100.0));
        let limited =
            self.runtime_limit.map(|limit| limit.min(self.limit.unwrap_or(limit)) - other);

        limited.or(growing).map(|capacity| capacity.max(0.0))
    }
}

impl CpuPeriods {
    /// Returns the last reading since `from`.
    fn of(instance: &Instance, from: Timestamp) -> Option<Self> {
        let (at, kernel) = instance.by_kernel.as_ref().filter(|(at, _)| *at >= from)?;
        let (periods, throttled) = kernel.cpu_periods.zip(kernel.cpu_throttled_periods)?;
        Some(Self { at: *at, periods, throttled })
    }
}

/// Returns the waits in the queues of all controllers; `None` if no framework metric shows them.
fn queued(metrics: &MetricsView) -> Option<Durations> {
    let waits = metrics.controllers.iter().filter_map(|controller| controller.queue_seconds);
    waits.reduce(|all, waits| Durations {
        count: all.count.saturating_add(waits.count),
        sum: all.sum + waits.sum,
    })
}

impl Sources {
    fn of(instance: &Instance, from: Timestamp, process: &ProcessView) -> Self {
        let by_kernel = instance.by_kernel.as_ref().filter(|(at, _)| *at >= from);
        let has_threads = by_kernel.is_some_and(|(_, kernel)| kernel.threads.is_some());
        Self {
            memory: match (process.live_heap, process.anonymous) {
                (Some(_), _) => Source::LiveHeap,
                (None, Some(_)) => Source::Anonymous,
                (None, None) => Source::Resident,
            },
            used: match process.working_set {
                Some(_) => Source::WorkingSet,
                None => Source::Resident,
            },
            tasks: match process.goroutines {
                Some(_) => Source::Goroutines,
                None if has_threads => Source::Threads,
                None => Source::OwnThreads,
            },
        }
    }
}

impl Default for Sources {
    fn default() -> Self {
        Self { memory: Source::Resident, used: Source::Resident, tasks: Source::OwnThreads }
    }
}
