//! The template of kube-rs, whose metrics have a prefix that each operator chooses. Before version
//! 0.85 of kube, the template had other names.

use loopwatch_model::observation::Framework;

use crate::sources::operator::scrape::normalize::rules::{Rule, Signal, Table, Take, Who};

pub(super) static TABLE: Table = Table {
    framework: Some(Framework::KubeRs),
    who: &[Who::Rest],
    also: &[],
    rules: &[
        // The counter of runs grows when a reconcile begins, but durations and errors count when it
        // ends, so only these two show successes.
        Rule::ends("_reconcile_duration_seconds_count", Signal::Succeeded),
        Rule::ends("_reconcile_failures_total", Signal::Succeeded).take(Take::Less),
        Rule::ends("_reconciliation_errors_total", Signal::Succeeded).take(Take::Less),
        Rule::ends("_reconcile_failures_total", Signal::Failed),
        Rule::ends("_reconciliation_errors_total", Signal::Failed),
        // A counter with labels appears only with the first error.
        Rule::ends("_reconcile_runs_total", Signal::Failed).take(Take::Zero),
        Rule::ends("_reconciliations_total", Signal::Failed).take(Take::Zero),
        Rule::ends("_reconcile_duration_seconds_count", Signal::Reconciles),
        Rule::ends("_reconcile_duration_seconds_sum", Signal::ReconcileSeconds),
        Rule::ends("_reconcile_duration_seconds_bucket", Signal::ReconcilesWithin),
    ],
};
