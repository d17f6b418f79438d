//! What a detector reports, and what became of the report.

use crate::finding::{FindingId, Severity, Subject};
use crate::model::findings::detection::Detection;
use crate::time::Timestamp;

/// A detection about a subject, with the severity that the settings give it.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    pub(crate) subject: Subject,
    pub(crate) detection: Detection,
    pub(crate) severity: Severity,
    /// A rule of the settings sets the severity.
    pub(crate) is_fixed: bool,
    /// The operator should solve the problem, so a finding about the operator may explain it.
    pub(crate) of_operator: bool,
}

/// What may explain a finding, according to its last report.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Causes {
    /// The object of which a finding may explain this one.
    pub(super) blocker: Option<Box<Subject>>,
    /// Since when the object had waited for the operator when the problem began.
    pub(super) waited_since: Option<Timestamp>,
    /// A finding about the operator may explain this one.
    pub(super) of_operator: bool,
}

/// What became of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Raised {
    /// The finding is open.
    Open,
    /// There is no room for the finding; it opens when there is.
    Waiting,
    /// The limit is reached: this finding now waits or, if it is open, a less severe one does.
    Dropped,
}

impl Report {
    pub(super) fn id(&self) -> FindingId {
        FindingId::of(self.detection.code, &self.subject)
    }

    /// Removes and returns what may explain the finding.
    pub(super) fn take_causes(&mut self) -> Causes {
        Causes {
            blocker: self.detection.blocker.take().map(Box::new),
            waited_since: self.detection.waited_since,
            of_operator: self.of_operator,
        }
    }
}
