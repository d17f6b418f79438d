//! The Java Operator SDK with Micrometer: `MicrometerMetricsV2`, and the deprecated
//! `MicrometerMetrics`, which writes the controller into the names of gauges.

use loopwatch_model::observation::Framework;

use crate::sources::operator::scrape::normalize::rules::{Rule, Signal, Table, Take, Who};

pub(super) static TABLE: Table = Table {
    framework: Some(Framework::JavaOperatorSdk),
    who: &[Who::Label("controller_name"), Who::Label("controller"), Who::Rest],
    also: &[],
    rules: &[
        Rule::sum("reconciliations_success_total", Signal::Succeeded),
        Rule::zero("reconciliations_active", Signal::Succeeded),
        Rule::sum("reconciliations_failure_total", Signal::Failed),
        Rule::zero("reconciliations_active", Signal::Failed),
        Rule::sum("reconciliations_execution_duration_seconds_count", Signal::Reconciles),
        Rule::sum("reconciliations_execution_duration_seconds_sum", Signal::ReconcileSeconds),
        Rule::sum("reconciliations_execution_duration_milliseconds_count", Signal::Reconciles)
            .rank(1),
        Rule::sum("reconciliations_execution_duration_milliseconds_sum", Signal::ReconcileSeconds)
            .times(0.001)
            .rank(1),
        Rule::sum("reconciliations_execution_duration_seconds_bucket", Signal::ReconcilesWithin),
        Rule::sum(
            "reconciliations_execution_duration_milliseconds_bucket",
            Signal::ReconcilesWithin,
        )
        .times(0.001)
        .rank(1),
        Rule::sum("reconciliations_active", Signal::WorkersBusy),
        Rule::sum("reconciliations_queue", Signal::QueueDepth),
        // The framework counts objects when it puts them into the queue.
        Rule::sum("reconciliations_started_total", Signal::QueueAdds),
        Rule::zero("reconciliations_active", Signal::QueueAdds),
        Rule::sum("operator_sdk_controllers_execution_reconcile_success_total", Signal::Succeeded),
        Rule::sum("operator_sdk_controllers_execution_cleanup_success_total", Signal::Succeeded),
        Rule::zero("operator_sdk_controllers_execution_reconcile_seconds_count", Signal::Succeeded),
        Rule::sum("operator_sdk_controllers_execution_reconcile_failure_total", Signal::Failed),
        Rule::sum("operator_sdk_controllers_execution_cleanup_failure_total", Signal::Failed),
        Rule::zero("operator_sdk_controllers_execution_reconcile_seconds_count", Signal::Failed),
        Rule::sum("operator_sdk_controllers_execution_reconcile_seconds_count", Signal::Reconciles),
        Rule::sum("operator_sdk_controllers_execution_cleanup_seconds_count", Signal::Reconciles),
        Rule::sum(
            "operator_sdk_controllers_execution_reconcile_seconds_sum",
            Signal::ReconcileSeconds,
        ),
        Rule::sum(
            "operator_sdk_controllers_execution_cleanup_seconds_sum",
            Signal::ReconcileSeconds,
        ),
        Rule::sum(
            "operator_sdk_controllers_execution_reconcile_milliseconds_count",
            Signal::Reconciles,
        )
        .rank(1),
        Rule::sum(
            "operator_sdk_controllers_execution_reconcile_milliseconds_sum",
            Signal::ReconcileSeconds,
        )
        .times(0.001)
        .rank(1),
        Rule::sum(
            "operator_sdk_controllers_execution_reconcile_seconds_bucket",
            Signal::ReconcilesWithin,
        ),
        Rule::sum(
            "operator_sdk_controllers_execution_cleanup_seconds_bucket",
            Signal::ReconcilesWithin,
        ),
        Rule::begins("operator_sdk_reconciliations_executions_", Signal::WorkersBusy),
        // The queue of this version includes the objects that it reconciles.
        Rule::begins("operator_sdk_reconciliations_queue_size_", Signal::QueueDepth),
        Rule::begins("operator_sdk_reconciliations_executions_", Signal::QueueDepth)
            .take(Take::Less),
    ],
};
