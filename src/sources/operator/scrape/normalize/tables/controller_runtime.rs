//! controller-runtime (Go), including Kubebuilder and the Operator SDK.

use loopwatch_model::observation::Framework;

use crate::sources::operator::scrape::normalize::rules::{Rule, Signal, Table, Who};

/// The webhooks that the operator serves. Programs without a controller also have them.
pub(super) static WEBHOOKS: Table = Table {
    framework: None,
    who: &[],
    also: &[],
    rules: &[
        Rule::sum("controller_runtime_webhook_latency_seconds_count", Signal::WebhookCalls),
        Rule::sum("controller_runtime_webhook_latency_seconds_sum", Signal::WebhookSeconds),
    ],
};

pub(super) static TABLE: Table = Table {
    framework: Some(Framework::ControllerRuntime),
    who: &[Who::Label("controller")],
    also: &[Framework::ClientGo],
    rules: &[
        Rule::sum("controller_runtime_reconcile_total", Signal::Succeeded)
            .only("result", &["success", "requeue", "requeue_after"]),
        Rule::sum("controller_runtime_reconcile_total", Signal::Failed).only("result", &["error"]),
        Rule::sum("controller_runtime_reconcile_total", Signal::Requeued)
            .only("result", &["requeue", "requeue_after"]),
        Rule::sum("controller_runtime_reconcile_panics_total", Signal::Panicked),
        Rule::sum("controller_runtime_reconcile_time_seconds_count", Signal::Reconciles),
        Rule::sum("controller_runtime_reconcile_time_seconds_sum", Signal::ReconcileSeconds),
        Rule::sum("controller_runtime_reconcile_time_seconds_bucket", Signal::ReconcilesWithin),
        Rule::sum("controller_runtime_active_workers", Signal::WorkersBusy),
        Rule::sum("controller_runtime_max_concurrent_reconciles", Signal::WorkersMax),
    ],
};
