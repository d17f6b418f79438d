//! The JSON about the last hours.

use loopwatch_model::finding::Severity;
use loopwatch_model::snapshot::{Happening, ObjectState, PastEvent, PastPoint, RecentPast};
use loopwatch_model::time::Timestamp;
use serde::Serialize;

use super::findings::SubjectView;
use super::version::VERSION;

/// `/api/v1/timeline`.
#[derive(Debug, Serialize)]
pub(crate) struct TimelineResponse<'a> {
    version: u32,
    at: Timestamp,
    /// The severities that the numbers of `findings` in each point stand for.
    severities: [&'static str; Severity::ALL.len()],
    /// The states that the numbers of `states` in each point stand for.
    states: Vec<&'static str>,
    points: &'a [PastPoint],
    events: Vec<EventView<'a>>,
    /// The number of finding events that loopwatch has forgotten.
    forgotten: u64,
}

#[derive(Debug, Serialize)]
struct EventView<'a> {
    at: Timestamp,
    change: &'static str,
    /// For the event of a finding.
    #[serde(skip_serializing_if = "Option::is_none")]
    finding: Option<FindingOfEvent<'a>>,
    /// For an event of the operator.
    #[serde(skip_serializing_if = "Option::is_none")]
    operator: Option<OperatorOfEvent<'a>>,
}

#[derive(Debug, Serialize)]
struct FindingOfEvent<'a> {
    code: &'static str,
    severity: &'static str,
    subject: SubjectView<'a>,
}

#[derive(Debug, Serialize)]
struct OperatorOfEvent<'a> {
    name: &'a str,
    detail: &'a str,
}

/// `/api/v1/timeline`.
#[must_use]
pub(crate) fn timeline(past: &RecentPast) -> TimelineResponse<'_> {
    TimelineResponse {
        version: VERSION,
        at: past.at,
        severities: Severity::ALL.map(Severity::as_str),
        states: ObjectState::ALL.iter().map(|state| state.as_str()).collect(),
        points: &past.points,
        events: past.events.iter().map(EventView::of).collect(),
        forgotten: past.forgotten,
    }
}

impl<'a> EventView<'a> {
    fn of(event: &'a PastEvent) -> Self {
        let at = event.at;
        match &event.what {
            Happening::Finding { change, code, severity, subject } => {
                let finding = FindingOfEvent { code, severity, subject: SubjectView::of(subject) };
                Self { at, change, finding: Some(finding), operator: None }
            }
            Happening::Operator { change, name, detail } => {
                Self { at, change, finding: None, operator: Some(OperatorOfEvent { name, detail }) }
            }
        }
    }
}
