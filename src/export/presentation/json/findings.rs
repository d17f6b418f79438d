//! The JSON about findings, and about their openings and closings.

use std::collections::BTreeMap;

use loopwatch_model::finding::{Change, Evidence, Finding, FindingEvent, Step, Subject, Value};
use loopwatch_model::time::Timestamp;
use serde::Serialize;

use crate::export::view::runbook_command;

/// The opening or closing of a finding in a replay, with the finding at that time.
#[derive(Debug, Serialize)]
pub(crate) struct EventView<'a> {
    at: Timestamp,
    change: &'static str,
    id: String,
    code: &'static str,
    severity: &'static str,
    confidence: &'static str,
    since: Timestamp,
    subject: SubjectView<'a>,
    explained_by: Option<String>,
    evidence: BTreeMap<&'static str, &'a Value>,
}

#[derive(Debug, Serialize)]
pub(crate) struct FindingView<'a> {
    id: String,
    code: &'static str,
    severity: &'static str,
    confidence: &'static str,
    since: Timestamp,
    found: Timestamp,
    subject: SubjectView<'a>,
    explained_by: Option<String>,
    evidence: BTreeMap<&'static str, &'a Value>,
    summary: String,
    advice: &'static str,
    command: String,
    /// The command that prints the runbook.
    runbook: String,
    /// The steps that end the finding, in their order; for objects that nobody deletes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    steps: Vec<StepView>,
}

/// A step that ends a finding.
#[derive(Debug, Serialize)]
pub(crate) struct StepView {
    purpose: &'static str,
    command: String,
    /// Absent if the command changes nothing.
    #[serde(skip_serializing_if = "str::is_empty")]
    danger: &'static str,
}

/// The subject of a finding.
#[derive(Debug, Serialize)]
pub(crate) struct SubjectView<'a> {
    group: &'a str,
    kind: &'a str,
    namespace: &'a str,
    name: &'a str,
}

impl<'a> FindingView<'a> {
    pub(crate) fn of(finding: &'a Finding) -> Self {
        let Finding {
            id,
            code: _,
            subject,
            since,
            found,
            severity,
            confidence,
            evidence,
            explained_by,
            alerts_from: _,
        } = finding;

        let (info, Evidence(evidence)) = (finding.info(), evidence);
        Self {
            id: id.to_string(),
            code: info.name,
            severity: severity.as_str(),
            confidence: confidence.as_str(),
            since: *since,
            found: *found,
            subject: SubjectView::of(subject),
            explained_by: explained_by.map(|root| root.to_string()),
            evidence: evidence.iter().map(|(key, value)| (*key, value)).collect(),
            summary: finding.summary(),
            advice: info.advice,
            command: finding.command(),
            runbook: runbook_command(info.name),
            steps: finding.steps().into_iter().map(StepView::of).collect(),
        }
    }
}

impl StepView {
    fn of(step: Step) -> Self {
        let Step { purpose, command, danger } = step;
        Self { purpose, command, danger }
    }
}

impl<'a> EventView<'a> {
    pub(super) fn of(event: &'a FindingEvent) -> Self {
        let FindingEvent { at, change, finding } = event;
        Self {
            at: *at,
            change: match change {
                Change::Opened => "opened",
                Change::Closed => "closed",
                Change::Explained => "explained",
            },
            id: finding.id.to_string(),
            code: finding.code.name(),
            severity: finding.severity.as_str(),
            confidence: finding.confidence.as_str(),
            since: finding.since,
            subject: SubjectView::of(&finding.subject),
            explained_by: finding.explained_by.map(|root| root.to_string()),
            evidence: finding.evidence.0.iter().map(|(key, value)| (*key, value)).collect(),
        }
    }
}

impl<'a> SubjectView<'a> {
    pub(super) fn of(subject: &'a Subject) -> Self {
        let (group, kind) = (subject.group(), subject.kind());
        Self { group, kind, namespace: subject.namespace(), name: subject.name() }
    }
}
