//! Operators of the Ansible Operator SDK. It uses controller-runtime, to which a failed run returns
//! an error.

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
