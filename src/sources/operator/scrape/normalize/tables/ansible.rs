//! Operators of the Ansible Operator SDK, which uses controller-runtime: a run that fails returns
//! an error to it.

use loopwatch_model::observation::Framework;

use crate::sources::operator::scrape::normalize::rules::{Rule, Signal, Table};

pub(super) static TABLE: Table = Table {
    framework: Some(Framework::Ansible),
    who: &[],
    also: &[Framework::ControllerRuntime, Framework::ClientGo],
    rules: &[
        Rule::sum("ansible_operator_build_info", Signal::Framework),
        Rule::sum("ansible_operator_reconcile_result", Signal::Framework),
        Rule::sum("ansible_operator_reconciles_count", Signal::Framework),
    ],
};
