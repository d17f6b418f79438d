//! The Java virtual machine, as Micrometer and Prometheus' clients describe it.

use loopwatch_model::observation::Runtime;

use crate::sources::operator::scrape::normalize::rules::{Rule, Signal, Table, Take};

pub(super) static TABLE: Table = Table {
    framework: None,
    who: &[],
    also: &[],
    rules: &[
        // Micrometer.
        Rule::largest("jvm_threads_live_threads", Signal::Runtime(Runtime::Jvm)),
        Rule::largest("jvm_threads_live_threads", Signal::Threads),
        Rule::largest("jvm_gc_live_data_size_bytes", Signal::LiveHeap),
        // A pool without a maximum reports -1. Prometheus' client has one series for the whole
        // heap.
        Rule::sum("jvm_memory_max_bytes", Signal::RuntimeLimit)
            .only("area", &["heap"])
            .take(Take::SumOfKnown),
        Rule::sum("jvm_gc_pause_seconds_count", Signal::GcCycles),
        Rule::largest("process_cpu_time_ns_total", Signal::CpuSeconds).times(1e-9).rank(1),
        Rule::largest("process_files_open_files", Signal::OpenFds).rank(1),
        Rule::largest("process_files_max_files", Signal::MaxFds).rank(1),
        // Prometheus' client.
        Rule::largest("jvm_threads_current", Signal::Runtime(Runtime::Jvm)),
        Rule::largest("jvm_threads_current", Signal::Threads),
        Rule::sum("jvm_memory_pool_collection_used_bytes", Signal::LiveHeap).take(Take::SumOfKnown),
        Rule::sum("jvm_gc_collection_seconds_count", Signal::GcCycles),
        // Versions before 1.0.
        Rule::sum("jvm_memory_bytes_max", Signal::RuntimeLimit)
            .only("area", &["heap"])
            .take(Take::SumOfKnown),
    ],
};
