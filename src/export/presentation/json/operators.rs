//! The JSON about many operators.

use std::collections::BTreeMap;

use serde::Serialize;

use super::findings::SubjectView;
use super::named_states;
use super::version::VERSION;
use crate::export::view::{OperatorSummary, Operators};

/// `/api/v1/operators`.
#[derive(Debug, Serialize)]
pub(crate) struct OperatorsResponse<'a> {
    version: u32,
    /// Worst first.
    operators: Vec<OperatorView<'a>>,
    /// Workloads that loopwatch does not judge.
    not_judged: Vec<NotJudgedView<'a>>,
    /// Custom resources that no operator owns.
    unclaimed_kinds: &'a [String],
    /// Whether loopwatch has looked through the whole cluster once.
    complete: bool,
}

#[derive(Debug, Serialize)]
struct OperatorView<'a> {
    /// `NAMESPACE/NAME`, as in the label `operator`.
    operator: &'a str,
    health: &'static str,
    findings: FindingCounts,
    /// The most severe finding, if any is at least a warning.
    #[serde(skip_serializing_if = "Option::is_none")]
    worst: Option<WorstView<'a>>,
    states: BTreeMap<&'static str, u64>,
    kinds: &'a [String],
    /// Kinds that another operator may own.
    suspected_kinds: &'a [String],
}

#[derive(Debug, Serialize)]
struct WorstView<'a> {
    code: &'static str,
    subject: SubjectView<'a>,
    summary: String,
}

#[derive(Debug, Serialize)]
struct FindingCounts {
    critical: u64,
    warning: u64,
    info: u64,
}

#[derive(Debug, Serialize)]
struct NotJudgedView<'a> {
    workload: &'a str,
    why: &'static str,
}

/// `/api/v1/operators`.
#[must_use]
pub(crate) fn operators(all: &Operators) -> OperatorsResponse<'_> {
    let Operators { operators, skipped, unclaimed, is_complete } = all;
    let not_judged = skipped.iter().map(|it| NotJudgedView { workload: &it.name, why: it.why });
    OperatorsResponse {
        version: VERSION,
        operators: operators.iter().map(view).collect(),
        not_judged: not_judged.collect(),
        unclaimed_kinds: unclaimed,
        complete: *is_complete,
    }
}

fn view(operator: &OperatorSummary) -> OperatorView<'_> {
    let [critical, warning, info] = operator.findings;
    OperatorView {
        operator: &operator.name,
        health: operator.health.as_str(),
        findings: FindingCounts { critical, warning, info },
        worst: operator.worst.as_ref().map(|finding| WorstView {
            code: finding.code.name(),
            subject: SubjectView::of(&finding.subject),
            summary: finding.summary(),
        }),
        states: named_states(operator.states),
        kinds: &operator.kinds,
        suspected_kinds: &operator.suspected_kinds,
    }
}
