//! Whether one problem can be the cause of another one, by the times at which both began, and by
//! what has worked since.
//!
//! A cause begins before its effect has lasted for too long. Then it must either have begun, or
//! have become much worse, shortly before the effect, or it must keep everything from working that
//! the effect waits for. A problem that others survive explains nothing any more: if the operator
//! is done with several later changes, it does not wait for the end of the problem.

use crate::finding::{Area, Explainer, Finding, FindingCode, Subject};
use crate::model::findings::open_findings::OpenFindings;
use crate::model::findings::open_findings::record::Record;
use crate::model::world::kinds::completed::Work;
use crate::time::{Span, Timestamp};

/// How much later than its effect the problem of a controller may seem to begin. For example, a
/// change of an object makes its reconciles fail, and only the next scrapes show the failures.
pub(super) const SHOWN_WITHIN: Span = Span::mins(2);

/// How long after the beginning of a problem that does not block its effects may begin.
const ACUTE_FOR: Span = Span::mins(30);

impl OpenFindings {
    /// Returns whether `cause` may be the cause of `effect`, as far as times show it. Findings about
    /// one object or one process name the same problem, so they have no limit in time. A worker
    /// that hangs has a limit of its own, and so has a cause that the detector has shown.
    pub(super) fn times_fit(&self, explainer: Explainer, cause: &Record, effect: &Record) -> bool {
        let is_limited = match &cause.finding.subject {
            Subject::Operator { .. } | Subject::Controller { .. } => {
                cause.finding.info().area == Area::Operator
            }
            Subject::Kind { .. } => true,
            Subject::Webhook { .. } | Subject::Policy { .. } | Subject::Definition { .. } => {
                matches!(explainer, Explainer::Machinery(_))
            }
            _ => false,
        };
        let is_shown = matches!(explainer, Explainer::Worker(_) | Explainer::Blocker(_));
        if !is_limited || is_shown {
            return true;
        }

        let since = effect.finding.since;
        if let (Explainer::Kind(_), Some(reach)) = (explainer, &cause.reach) {
            // The object is one of those that fail for the same reason.
            let began = reach.since.after(SHOWN_WITHIN);
            return since <= reach.since.after(ACUTE_FOR)
                && !self.is_overtaken(effect, since, began);
        }

        let begins = |at: Timestamp| began_before(explainer, at, effect);
        let is_acute = cause.starts().any(|at| begins(at) && since <= at.after(ACUTE_FOR));
        let blocks = || {
            cause
                .blocking_since
                .is_some_and(|at| begins(at) && !self.works_since(at, cause, effect))
        };

        // Work that was done before the cause began shows nothing about it.
        let began = cause.blocking_since.unwrap_or(cause.finding.since);
        !self.is_overtaken(effect, since, began.after(SHOWN_WITHIN)) && (is_acute || blocks())
    }

    /// Returns whether the operator has worked on what the effect is about since a problem began
    /// long before.
    fn works_since(&self, began: Timestamp, cause: &Record, effect: &Record) -> bool {
        let began = began.after(SHOWN_WITHIN);
        if let Subject::Controller { name } = &effect.finding.subject {
            return self.operator.succeeded.get(name).is_some_and(|at| *at > began);
        }

        // While a queue is long, objects wait for their turn.
        let is_queue =
            matches!(cause.finding.code, FindingCode::QueueBacklog | FindingCode::WorkersSaturated);
        !is_queue && self.is_overtaken(effect, began, began)
    }

    /// Returns whether the operator was done after `worked` with several changes of other objects of
    /// the same kind that began after `begun`.
    fn is_overtaken(&self, effect: &Record, begun: Timestamp, worked: Timestamp) -> bool {
        let completed = || self.operator.completed.get(&effect.finding.subject.whole_kind()?);
        let is_object = matches!(effect.finding.subject, Subject::Object { .. });
        is_object
            && completed()
                .is_some_and(|done| done.several_since(work_of(&effect.finding), begun, worked))
    }
}

/// Returns whether a problem that began at `at` may be the cause of `effect`.
fn began_before(explainer: Explainer, at: Timestamp, effect: &Record) -> bool {
    match explainer {
        // These have been compared with the effect, or with the time for which it has waited.
        Explainer::Controller(_) | Explainer::Worker(_) | Explainer::Reconciled(_) => true,
        Explainer::Outage(_) => at <= effect.finding.since,
        // Before it is due, the operator still had time.
        _ => at <= effect.due.after(SHOWN_WITHIN),
    }
}

/// Returns the work that the subject of a finding waits for.
fn work_of(finding: &Finding) -> Work {
    match finding.code {
        FindingCode::Unacknowledged | FindingCode::StatusLag | FindingCode::Starved => {
            Work::Acknowledgement
        }
        _ if finding.info().area == Area::Deletion => Work::Deletion,
        _ => Work::Convergence,
    }
}
