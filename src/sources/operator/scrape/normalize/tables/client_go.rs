//! client-go: its requests, and its work queues, which controller-runtime also uses.

use loopwatch_model::observation::Framework;

use crate::sources::operator::scrape::normalize::rules::{Rule, Signal, Table, Who};

/// The work queues. Newer versions of controller-runtime add the label `controller`, and `priority`
/// to the depth.
pub(super) static TABLE: Table = Table {
    framework: Some(Framework::ClientGo),
    who: &[Who::Label("controller"), Who::Label("name")],
    also: &[],
    rules: &[
        Rule::sum("workqueue_depth", Signal::QueueDepth),
        Rule::sum("workqueue_adds_total", Signal::QueueAdds),
        Rule::sum("workqueue_retries_total", Signal::QueueRetries),
        Rule::sum("workqueue_queue_duration_seconds_count", Signal::QueueWaits),
        Rule::sum("workqueue_queue_duration_seconds_sum", Signal::QueueSeconds),
        Rule::sum("workqueue_work_duration_seconds_count", Signal::Reconciles),
        Rule::sum("workqueue_work_duration_seconds_sum", Signal::ReconcileSeconds),
        Rule::sum("workqueue_work_duration_seconds_bucket", Signal::ReconcilesWithin),
        Rule::sum("workqueue_unfinished_work_seconds", Signal::Unfinished),
        Rule::largest("workqueue_longest_running_processor_seconds", Signal::LongestRunning),
    ],
};

/// The client and the leader election, which programs without a work queue also have.
pub(super) static CLIENT: Table = Table {
    framework: None,
    who: &[],
    also: &[],
    rules: &[
        Rule::sum("rest_client_requests_total", Signal::Requests),
        Rule::largest("leader_election_master_status", Signal::Leading),
    ],
};
