//! The report of a detector, and its effect.

use std::sync::Arc;

use crate::finding::{FindingId, Severity, Subject};
use crate::model::findings::detection::Detection;
use crate::time::{Span, Timestamp};

/// A detection about a subject, with the severity that the settings give it.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    pub(crate) subject: Subject,
    pub(crate) detection: Detection,
    pub(crate) severity: Severity,
    /// Whether a rule of the settings sets the severity.
    pub(crate) is_fixed: bool,
    /// Whether the operator should solve the problem, so that a finding about it may explain this
    /// one.
    pub(crate) of_operator: bool,
    /// When the finding pages; `None` if it is not about an object, or never pages.
    pub(crate) pages_if: Option<PagesIf>,
}

/// When a finding about an object pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PagesIf {
    pub(crate) rule: PageRule,
    /// The number of objects with the finding that is enough if they are in several namespaces, or if
    /// the kind has objects in one namespace only.
    pub(crate) objects: usize,
    /// The number of objects with the finding that are so many of the kind that it is enough wherever
    /// they are.
    pub(crate) share: usize,
    /// Whether the kind has objects in several namespaces.
    pub(crate) has_namespaces: bool,
    /// How long a finding has to be open to have lasted.
    pub(crate) lasts: Span,
    /// Whether that time counts from when the problem became a finding, even if loopwatch found it later.
    pub(crate) counts_from_due: bool,
}

/// Which findings of a kind page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PageRule {
    /// Each: the object is marked as critical. It counts among the many.
    AtOnce,
    /// Those of many objects, and each that has lasted.
    ManyOrLasting,
    /// Those that have lasted, if so many of the kind have.
    MostLasting,
}

/// The facts that decide which findings may explain a finding, from its last report.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Causes {
    /// The object that blocks this one. A finding about it may explain this one.
    pub(super) blocker: Option<Box<Subject>>,
    /// When the object began to wait for the operator, which may be before the problem began.
    pub(super) waited_since: Option<Timestamp>,
    /// Whether a finding about the operator may explain this one.
    pub(super) of_operator: bool,
    /// The reason for which the object fails. A finding about its kind explains only this one.
    pub(super) reason: Option<Arc<str>>,
}

/// The effect of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Raised {
    /// The finding is open.
    Open,
    /// The finding has waited for room since an earlier report.
    Waiting,
    /// The limit is reached. Either this new finding waits for room, or it is open and a less
    /// severe one waits.
    Dropped,
}

impl Report {
    pub(super) fn id(&self) -> FindingId {
        FindingId::of(self.detection.code, &self.subject)
    }

    /// Removes and returns the causes.
    pub(super) fn take_causes(&mut self) -> Causes {
        Causes {
            blocker: self.detection.blocker.take().map(Box::new),
            waited_since: self.detection.waited_since,
            of_operator: self.of_operator,
            reason: self.detection.reason.take(),
        }
    }
}
