//! A detection: the conclusion of one detector about one subject.
//!
//! A detector is one function. It says when a problem began and when it becomes a finding, so the
//! same threshold sets the timer and opens the finding. The detectors in `detectors.rs` look at a
//! single object, those in `deletion/stuck.rs` at several objects.

use std::sync::Arc;

use crate::finding::{Confidence, Evidence, FindingCode, Subject};
use crate::model::world::kinds::failures::FailureSort;
use crate::time::Timestamp;

/// A problem that is a finding now, or will become one if nothing changes.
#[derive(Clone, Debug)]
pub(crate) struct Detection {
    pub(crate) code: FindingCode,
    /// When the problem began.
    pub(crate) since: Timestamp,
    /// When the problem becomes a finding. If this is in the future, it sets the timer of the
    /// subject.
    pub(crate) due: Timestamp,
    /// The evidence; empty before the problem is due.
    pub(crate) evidence: Evidence,
    /// Whether the evidence does not justify a page. The finding is then at most a warning.
    pub(crate) weak: bool,
    /// Whether the problem harms nothing yet. The finding is then information only.
    pub(crate) harmless: bool,
    /// Whether somebody has marked the object as critical, so that a finding about it alone may page.
    pub(crate) critical: bool,
    pub(crate) confidence: Confidence,
    /// The earliest start that this finding may take over from a finding of an earlier run. A
    /// finding that began before it was about another problem.
    pub(crate) not_before: Option<Timestamp>,
    /// The object that blocks this one, or the subject whose problem causes this one. A finding about
    /// it may explain this one.
    pub(crate) blocker: Option<Subject>,
    /// When the object began to wait for the operator, which may be before the problem began.
    pub(crate) waited_since: Option<Timestamp>,
    /// Whether nothing that depends on the subject works while the problem lasts. If other work
    /// goes on, the problem explains only what begins soon after it.
    pub(crate) blocks: bool,
    /// When the problem last became much worse.
    pub(crate) worse_since: Option<Timestamp>,
    /// Whether another program than the operator should solve the problem. No finding about the
    /// operator explains it then.
    pub(crate) foreign: bool,
    /// Whether the operator works nevertheless, so that the finding explains no other one.
    pub(crate) aside: bool,
    /// The signal that shows the failure of an object. A finding about its kind may explain only
    /// objects that fail for the same reason.
    pub(crate) reason: Option<Arc<str>>,
    /// The objects of a kind whose problem is the same.
    pub(crate) reach: Option<Reach>,
    /// The kinds and sources that depend on the subject. The finding may explain those about them, about
    /// their objects and their controllers.
    pub(crate) affects: Vec<Subject>,
}

/// The objects of a kind whose problems a finding about the kind may explain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reach {
    /// The reason for which they fail.
    pub(crate) reason: Arc<str>,
    /// Their namespace, unless the reason is common to several namespaces.
    pub(crate) only_in: Option<Arc<str>>,
    /// When enough of them failed.
    pub(crate) since: Timestamp,
    /// How they fail. A restart of loopwatch forgets changes that were rejected.
    pub(crate) sort: FailureSort,
}

/// Returns how many events within a window a finding needs, given the number that opens it: an
/// `open` one needs half as many, rounded up, so that it does not flap around the threshold.
pub(crate) const fn events_needed(open: bool, to_open: u32) -> u32 {
    if open { to_open.div_ceil(2) } else { to_open }
}

/// Returns how many of `objects` are at least `percent` of them.
pub(crate) fn percent_of(objects: u64, percent: u32) -> usize {
    let enough = objects.saturating_mul(u64::from(percent)).div_ceil(100);
    usize::try_from(enough).unwrap_or(usize::MAX)
}

impl Detection {
    /// Returns a detection. Calls `evidence` only if the problem is due.
    pub(crate) fn new(
        now: Timestamp,
        code: FindingCode,
        since: Timestamp,
        due: Timestamp,
        evidence: impl FnOnce() -> Evidence,
    ) -> Self {
        let evidence = if due <= now { evidence() } else { Evidence::new() };
        Self {
            code,
            since,
            due,
            evidence,
            weak: false,
            harmless: false,
            critical: false,
            confidence: Confidence::Confirmed,
            not_before: None,
            blocker: None,
            waited_since: None,
            blocks: true,
            worse_since: None,
            foreign: false,
            aside: false,
            reason: None,
            reach: None,
            affects: Vec::new(),
        }
    }

    /// Sets the earliest possible start, unless a later one is set.
    pub(crate) fn not_before(self, earliest: Option<Timestamp>) -> Self {
        Self { not_before: self.not_before.max(earliest), ..self }
    }

    /// Lowers the confidence to suspected if `suspected`.
    pub(crate) fn suspected_if(self, suspected: bool) -> Self {
        let confidence = if suspected { Confidence::Suspected } else { self.confidence };
        Self { confidence, ..self }
    }

    /// Sets the object that blocks this one, or the subject whose problem causes this one.
    pub(crate) fn blocked_by(self, blocker: Option<Subject>) -> Self {
        Self { blocker, ..self }
    }

    /// Makes another program than the operator responsible if `foreign`.
    pub(crate) fn foreign_if(self, foreign: bool) -> Self {
        Self { foreign, ..self }
    }

    /// Lets the finding explain no other one if `aside`.
    pub(crate) fn aside_if(self, aside: bool) -> Self {
        Self { aside, ..self }
    }

    /// Sets whether nothing that depends on the subject works while the problem lasts.
    pub(crate) fn blocks_if(self, blocks: bool) -> Self {
        Self { blocks, ..self }
    }

    /// Sets when the problem last became much worse.
    pub(crate) fn worse_since(self, worse_since: Option<Timestamp>) -> Self {
        Self { worse_since, ..self }
    }

    /// Sets the signal that shows the failure of an object.
    pub(crate) fn for_reason(self, reason: Arc<str>) -> Self {
        Self { reason: Some(reason), ..self }
    }

    /// Sets which objects of a kind have the same problem.
    pub(crate) fn reaching(self, reach: Reach) -> Self {
        Self { reach: Some(reach), ..self }
    }

    /// Sets which kinds and sources depend on the subject.
    pub(crate) fn affecting(self, affects: Vec<Subject>) -> Self {
        Self { affects, ..self }
    }

    /// Lets the finding page although it is about one object, if `critical`.
    pub(crate) fn critical_if(self, critical: bool) -> Self {
        Self { critical, ..self }
    }

    /// Makes the finding information only if `harmless`.
    pub(crate) fn harmless_if(self, harmless: bool) -> Self {
        Self { harmless, ..self }
    }

    /// Makes the detection weak if `weak`.
    pub(crate) fn weak_if(self, weak: bool) -> Self {
        Self { weak, ..self }
    }
}
