//! The JSON about one object, which `explain` also reads from a running loopwatch.

use loopwatch_model::snapshot::Explanation;
use loopwatch_model::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::findings::FindingView;
use super::version::VERSION;
use crate::export::view::BlindSpot;

/// `/api/v1/explain` and `explain -o json`.
#[derive(Debug, Serialize)]
pub(crate) struct ExplainResponse<'a> {
    version: u32,
    #[serde(flatten)]
    explanation: &'a Explanation,
    /// In hexadecimal, as a backend of traces shows it.
    #[serde(skip_serializing_if = "String::is_empty")]
    trace_id: String,
    findings: Vec<FindingView<'a>>,
    not_visible: &'a [BlindSpot],
}

/// [`ExplainResponse`] as `explain` reads it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Explained {
    #[serde(flatten)]
    pub(crate) explanation: Explanation,
    /// Empty without traces.
    pub(crate) trace_id: String,
    pub(crate) findings: Vec<FindingText>,
    pub(crate) not_visible: Vec<BlindSpot>,
}

/// A finding as `explain` reads it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct FindingText {
    pub(crate) id: String,
    pub(crate) code: String,
    pub(crate) severity: String,
    pub(crate) confidence: String,
    pub(crate) since: Timestamp,
    pub(crate) subject: SubjectText,
    pub(crate) explained_by: Option<String>,
    pub(crate) summary: String,
    pub(crate) advice: String,
    pub(crate) command: String,
    pub(crate) steps: Vec<StepText>,
}

/// A step that ends a finding as `explain` reads it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct StepText {
    pub(crate) purpose: String,
    pub(crate) command: String,
    pub(crate) danger: String,
}

/// The subject of a finding as `explain` reads it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct SubjectText {
    pub(crate) group: String,
    pub(crate) kind: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// `/api/v1/explain` and `explain -o json`.
#[must_use]
pub(crate) fn explain<'a>(
    explanation: &'a Explanation,
    trace_id: String,
    not_visible: &'a [BlindSpot],
) -> ExplainResponse<'a> {
    ExplainResponse {
        version: VERSION,
        explanation,
        trace_id,
        findings: explanation.findings.iter().map(FindingView::of).collect(),
        not_visible,
    }
}
