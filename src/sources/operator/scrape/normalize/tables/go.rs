//! Go's runtime.

use loopwatch_model::observation::Runtime;

use crate::sources::operator::scrape::normalize::rules::{Rule, Signal, Table};

pub(super) static TABLE: Table = Table {
    framework: None,
    who: &[],
    also: &[],
    rules: &[
        Rule::largest("go_info", Signal::Runtime(Runtime::Go)),
        Rule::largest("go_goroutines", Signal::Runtime(Runtime::Go)),
        Rule::largest("go_goroutines", Signal::Goroutines),
        Rule::largest("go_threads", Signal::Threads),
        Rule::largest("go_gc_heap_live_bytes", Signal::LiveHeap),
        Rule::largest("go_gc_heap_goal_bytes", Signal::HeapGoal),
        Rule::largest("go_memstats_next_gc_bytes", Signal::HeapGoal).rank(1),
        Rule::largest("go_gc_gomemlimit_bytes", Signal::RuntimeLimit),
        Rule::largest("go_gc_gogc_percent", Signal::GcPercent),
        Rule::largest("go_gc_cycles_total_gc_cycles_total", Signal::GcCycles),
        Rule::largest("go_gc_duration_seconds_count", Signal::GcCycles).rank(1),
        Rule::largest("go_gc_limiter_last_enabled_gc_cycle", Signal::GcLimitedCycle),
    ],
};
