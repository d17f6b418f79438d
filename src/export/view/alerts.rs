//! Which alert covers a finding, and whether the finding raises it.

use loopwatch_model::finding::{Alert, Explainer, Finding, FindingInfo, Severity};
use loopwatch_model::snapshot::Snapshot;
use loopwatch_model::time::Span;

/// The alert that covers all tickets, and critical findings without their own alert.
pub(crate) const TICKET: &str = "LoopwatchFinding";

/// How long a new leader needs until it sees the causes that the previous leader saw.
const SEES_WITHIN: Span = Span::mins(10);

/// Whether a finding raises no alert, because another one explains it or its alert can still wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum IsExplained {
    No,
    Yes,
    /// Only the loopwatch of another replica may see the cause.
    Unknown,
}

impl IsExplained {
    pub(crate) fn of(finding: &Finding, snapshot: &Snapshot) -> Self {
        match finding.alerts_at(snapshot.at) {
            false => Self::Yes,
            true if is_cause_elsewhere(finding, snapshot, SEES_WITHIN) => Self::Unknown,
            true => Self::No,
        }
    }

    /// The value of the label `explained`.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::No => "false",
            Self::Yes => "true",
            Self::Unknown => "unknown",
        }
    }
}

/// Returns whether only the loopwatch of another replica may see the cause of a finding, because
/// that replica has recently led.
#[must_use]
pub(crate) fn is_cause_elsewhere(finding: &Finding, snapshot: &Snapshot, lately: Span) -> bool {
    let by_operator = |explainer: &Explainer| {
        matches!(
            explainer,
            Explainer::Operator(_)
                | Explainer::Outage(_)
                | Explainer::Controller(_)
                | Explainer::Worker(_)
        )
    };

    let is_led_elsewhere =
        snapshot.operator.health.led_elsewhere.is_some_and(|at| snapshot.at.since(at) < lately);
    is_led_elsewhere && finding.info().explained_by.iter().any(by_operator)
}

/// The name of the alert that covers a finding with a severity, both in the rules of `alerts/` and
/// in loopwatch's own postings; `None` if the finding does not alert.
#[must_use]
pub(crate) fn alert_name(info: &FindingInfo, severity: Severity) -> Option<String> {
    match (info.alert, severity) {
        (_, Severity::Info) => None,
        (Alert::Page, Severity::Critical) => Some(format!("Loopwatch{}", info.name)),
        _ => Some(TICKET.to_owned()),
    }
}
