//! Findings: the problems that detectors report. [`FINDINGS`] is the table of all codes.
//!
//! Metrics, alert rules, the page, `check`, runbooks and `docs/findings.md` take all names, texts
//! and severities from this table and have no rules of their own.

mod command; // that a finding suggests
mod evidence;
mod steps; // that end a finding
mod subject;
mod table;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use self::command::shell_word;
pub use self::evidence::{Evidence, Value};
pub use self::steps::Step;
pub use self::subject::{NO_OBJECTS, Subject};
pub use self::table::{Alert, Area, Explainer, FINDINGS, FindingCode, FindingInfo, Severity};

use crate::instance::InstanceName;
use crate::time::{Span, Timestamp};

/// A problem, with its subject, its start and its evidence.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// A hash of code and subject, so that the same problem has the same ID after a restart and on
    /// every replica.
    pub id: FindingId,
    /// The kind of problem.
    pub code: FindingCode,
    /// The object, kind or part of loopwatch that has the problem.
    pub subject: Subject,
    /// When the problem began according to the best evidence, which may be before loopwatch noticed
    /// it.
    pub since: Timestamp,
    /// When the detector first reported it.
    pub found: Timestamp,
    /// How urgently a person must act: the severity of the code, unless settings, weak evidence or
    /// a more severe finding that it explains change it.
    pub severity: Severity,
    /// How certain the finding is.
    pub confidence: Confidence,
    /// Names and numbers that support the finding.
    pub evidence: Evidence,
    /// The open finding that explains this one; `None` for a root finding.
    pub explained_by: Option<FindingId>,
    /// When it begins to alert; `None` while it does not. After the finding that explained it has
    /// closed, this is in the future, because the operator needs time to catch up. A finding that
    /// has alerted for [`HOLD`] alerts until it closes, even if another one explains it by then:
    /// otherwise, people would believe that the problem is over.
    pub alerts_from: Option<Timestamp>,
}

/// How long a root finding must be open before its alert is posted, because a finding that explains
/// it may open a moment later.
pub const HOLD: Span = Span::secs(15);

/// A change of a finding, for logs, notifications and the timeline of a replay.
#[derive(Clone, Debug, PartialEq)]
pub struct FindingEvent {
    /// The time of the event.
    pub at: Timestamp,
    /// The change.
    pub change: Change,
    /// The finding at that time.
    pub finding: Finding,
}

/// A change of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The detector has reported the problem.
    Opened,
    /// The problem is gone or, if too many findings are open, a more severe finding has taken its
    /// place.
    Closed,
    /// Another finding now explains this open one, or no longer does.
    Explained,
}

/// Identifies a finding: 64 bits, written as hexadecimal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FindingId(pub u64);

/// How certain a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Confidence {
    /// Likely. People can see the finding, but it raises no alert.
    Suspected,
    /// Certain. Only confirmed findings can alert.
    Confirmed,
}

impl Finding {
    /// Returns the row of this finding's code in [`FINDINGS`].
    #[must_use]
    pub fn info(&self) -> &'static FindingInfo {
        self.code.info()
    }

    /// Returns whether loopwatch must collect the evidence anew after a restart, which takes a while:
    /// findings about controllers and about writes count what happens within a window, and those about
    /// webhooks and policies wait for the next failures.
    #[must_use]
    pub fn is_collected_anew(&self) -> bool {
        let is_collected = matches!(
            self.subject,
            Subject::Controller { .. } | Subject::Webhook { .. } | Subject::Policy { .. }
        );
        is_collected
            || self.info().area == Area::Writes
            || self.code == FindingCode::ConversionFailing
    }

    /// Returns one line for people: the meaning and the evidence, without the subject.
    #[must_use]
    pub fn summary(&self) -> String {
        let mut line = self.info().meaning.trim_end_matches('.').to_owned();
        for (index, (key, value)) in self.evidence.0.iter().enumerate() {
            line.push_str(if index == 0 { " (" } else { ", " });
            line.push_str(&key.replace('_', " "));
            line.push(' ');
            line.push_str(&value.to_string());
        }

        if !self.evidence.0.is_empty() {
            line.push(')');
        }

        line
    }

    /// Returns whether the finding counts for alerts at an instant. Its severity and confidence
    /// must also allow an alert.
    #[must_use]
    pub fn alerts_at(&self, at: Timestamp) -> bool {
        self.alerts_from.is_some_and(|from| from <= at)
    }

    /// Returns the namespace and the name of the Pod of the instance in the evidence; `None` without
    /// an instance, or if the operator runs outside of Kubernetes.
    #[must_use]
    pub fn instance_pod(&self) -> Option<(&str, &str)> {
        let Some(Value::Text(instance)) = self.evidence.0.get("instance") else { return None };
        InstanceName(instance).pod().filter(|_| !instance.contains(':'))
    }

    /// Returns the namespace of the subject. A controller has none of its own, but its Pod does. It
    /// is empty if there is none.
    #[must_use]
    pub fn place(&self) -> &str {
        let own = self.subject.namespace();
        match self.subject {
            Subject::Controller { .. } => {
                self.instance_pod().map_or(own, |(namespace, _)| namespace)
            }
            _ => own,
        }
    }
}

impl FindingEvent {
    /// Returns in words whether another finding now explains this one.
    #[must_use]
    pub const fn explanation(&self) -> &'static str {
        if self.finding.explained_by.is_some() {
            "explained by another finding"
        } else {
            "no longer explained"
        }
    }
}

impl FindingId {
    /// Returns the ID of `code` on `subject`: the 64-bit FNV-1a hash (draft-eastlake-fnv) of the
    /// code, group, kind, namespace and name, each followed by the byte `0xff`.
    #[must_use]
    pub fn of(code: FindingCode, subject: &Subject) -> Self {
        Self(fnv([code.name()].into_iter().chain(subject.parts())))
    }
}

impl fmt::Display for FindingId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl Confidence {
    /// `suspected` or `confirmed`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Suspected => "suspected",
            Self::Confirmed => "confirmed",
        }
    }
}

/// Returns the 64-bit FNV-1a hash (draft-eastlake-fnv) of texts, each followed by the byte `0xff`.
pub(crate) fn fnv<'a>(parts: impl IntoIterator<Item = &'a str>) -> u64 {
    let bytes = parts.into_iter().flat_map(|part| part.bytes().chain([0xff]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_that_pages_says_when_it_is_critical() {
        for info in FINDINGS {
            let pages = info.alert == Alert::Page;
            assert_eq!(pages, !info.critical_only.is_empty(), "{}", info.name);
            assert!(!pages || info.advice.ends_with(&format!("{}.", info.critical_only)));
        }
    }
}
