//! Strimzi's operators, whose controllers are named after their kinds.

use loopwatch_model::observation::Framework;

use crate::sources::operator::scrape::normalize::rules::{Rule, Signal, Table, Who};

pub(super) static TABLE: Table = Table {
    framework: Some(Framework::Strimzi),
    who: &[Who::Label("kind")],
    also: &[],
    rules: &[
        Rule::sum("strimzi_reconciliations_successful_total", Signal::Succeeded),
        Rule::zero("strimzi_reconciliations_total", Signal::Succeeded),
        Rule::sum("strimzi_reconciliations_failed_total", Signal::Failed),
        Rule::zero("strimzi_reconciliations_total", Signal::Failed),
        Rule::sum("strimzi_reconciliations_duration_seconds_count", Signal::Reconciles),
        Rule::sum("strimzi_reconciliations_duration_seconds_sum", Signal::ReconcileSeconds),
        Rule::sum("strimzi_reconciliations_duration_seconds_bucket", Signal::ReconcilesWithin),
    ],
};
