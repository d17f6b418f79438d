//! Knative's controllers. Up to 2025, their metrics came from OpenCensus and began with the
//! component, for example `controller_`. Since then, they come from OpenTelemetry and begin with
//! `kn_`.

use loopwatch_model::observation::{Framework, Runtime};

use crate::sources::operator::scrape::normalize::rules::{Rule, Signal, Table, Take, Who};

/// OpenCensus. It exports the seconds of unfinished work as a histogram, which does not show the
/// current value.
pub(super) static TABLE: Table = Table {
    framework: Some(Framework::Knative),
    // Each object passes at once through a fast or a slow queue, and then waits in that of the
    // consumer.
    who: &[Who::Label("reconciler"), Who::Before("name", "-consumer")],
    also: &[],
    rules: &[
        Rule::ends("_reconcile_count", Signal::Succeeded).only("success", &["true"]),
        Rule::ends("_reconcile_count", Signal::Failed).only("success", &["false"]),
        Rule::ends("_reconcile_latency_count", Signal::Reconciles)
            .only("success", &["true", "false"]),
        Rule::ends("_reconcile_latency_sum", Signal::ReconcileSeconds)
            .only("success", &["true", "false"])
            .times(0.001),
        Rule::ends("_reconcile_latency_bucket", Signal::ReconcilesWithin)
            .only("success", &["true", "false"])
            .times(0.001),
        Rule::ends("_work_queue_depth", Signal::QueueDepth),
        Rule::ends("_workqueue_adds_total", Signal::QueueAdds),
        Rule::ends("_workqueue_retries_total", Signal::QueueRetries),
        Rule::ends("_workqueue_queue_latency_seconds_count", Signal::QueueWaits),
        Rule::ends("_workqueue_queue_latency_seconds_sum", Signal::QueueSeconds),
        Rule::ends("_go_num_gc", Signal::Runtime(Runtime::Go)),
        Rule::ends("_go_num_gc", Signal::GcCycles).take(Take::Largest).rank(2),
        Rule::ends("_go_next_gc", Signal::HeapGoal).take(Take::Largest).rank(2),
    ],
};

/// OpenTelemetry. It counts no results, and no status codes other than 200.
pub(super) static OPEN_TELEMETRY: Table = Table {
    framework: Some(Framework::Knative),
    who: &[Who::Label("name")],
    also: &[],
    rules: &[
        Rule::sum("kn_workqueue_process_duration_seconds_count", Signal::Reconciles),
        Rule::sum("kn_workqueue_process_duration_seconds_sum", Signal::ReconcileSeconds),
        Rule::sum("kn_workqueue_process_duration_seconds_bucket", Signal::ReconcilesWithin),
        Rule::sum("kn_workqueue_depth", Signal::QueueDepth),
        Rule::sum("kn_workqueue_adds_total", Signal::QueueAdds),
        Rule::sum("kn_workqueue_retries_total", Signal::QueueRetries),
        Rule::sum("kn_workqueue_queue_duration_seconds_count", Signal::QueueWaits),
        Rule::sum("kn_workqueue_queue_duration_seconds_sum", Signal::QueueSeconds),
        Rule::sum("kn_workqueue_unfinished_work_seconds", Signal::Unfinished),
    ],
};
