//! The hot part of a record: what the model keeps of the few objects that are unconverged, being
//! deleted or have a history.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::finding::FindingCode;
use crate::model::world::annotations::Annotated;
use crate::model::world::finalizer_actors::Actor;
use crate::model::world::kinds::failures::Failure;
use crate::model::world::store::told::Told;
use crate::observation::HandlerAttempts;
use crate::snapshot::{DeadlineSource, Outcome};
use crate::time::{Span, Timestamp};

/// The hot part, kept while an object is unconverged, being deleted, or has a history, findings, or
/// annotations that tune findings.
#[derive(Debug, Default)]
pub(crate) struct HotRecord {
    /// When the object's timer is due.
    pub(crate) due: Option<Timestamp>,
    /// The part of the status that decided the verdict.
    pub(crate) signal: String,
    /// The message of the deciding condition.
    pub(crate) message: String,
    /// The handler of the operator that has failed most often in a row.
    pub(crate) attempts: Option<Box<HandlerAttempts>>,
    pub(crate) unconverged: Option<Unconverged>,
    /// Few hot records have one.
    pub(crate) deletion: Option<Box<Deletion>>,
    pub(crate) history: Option<Box<History>>,
    /// How the object fails, as its kind counts it.
    pub(crate) failure: Option<Box<Failure>>,
    /// When the object entered its phase, if loopwatch, or an earlier process that found it stuck,
    /// saw that.
    pub(crate) phase_since: Option<Timestamp>,
    /// The annotations of the object that tune findings about it.
    pub(crate) annotated: Option<Box<Annotated>>,
    /// The findings about the object that are open, or wait for room.
    pub(crate) findings: Vec<FindingCode>,
}

/// The state of an object that is expected to converge and has not.
#[derive(Debug, Default)]
pub(crate) struct Unconverged {
    /// When the object became unconverged. A newer spec does not reset this.
    pub(crate) since: Timestamp,
    /// The obligation that the current spec opened; `None` after a regression.
    pub(crate) obligation: Option<Obligation>,
    /// The first spec change that the operator has not acknowledged. A newer spec does not reset
    /// this, so loopwatch finds a dead operator although something keeps changing the spec.
    pub(crate) unacknowledged_since: Option<Timestamp>,
    /// The status says that the object is not ready, whichever spec the status is about.
    pub(crate) unready: bool,
    /// When the object stopped being converged without a spec change.
    pub(crate) regressed_since: Option<Timestamp>,
    /// Only the times in the object suggest that it had converged before, and its status names work
    /// that makes an object for the first time.
    pub(crate) perhaps_never_converged: bool,
    /// The conditions have changed since the regression began, although the object has not
    /// recovered.
    pub(crate) restless: bool,
    /// The end of the deadline of the last spec change, if the regression began before it: the
    /// rollout of that change may have begun late. For an object that was resumed, the end of its
    /// deadline.
    pub(crate) rollout_until: Option<Timestamp>,
    /// The end of the deadline of the first spec change after the regression, which may repair the
    /// object.
    pub(crate) mended_by: Option<Timestamp>,
    /// When the current work began: at the first spec change or retry since the last rejection. A
    /// newer spec does not reset this, so loopwatch finds an object that never gets ready although
    /// something keeps changing its spec.
    pub(crate) working_since: Timestamp,
    /// The last write of the status according to the managed fields.
    pub(crate) last_status_write: Option<Timestamp>,
    /// The start times come from the times in the object, and not from when loopwatch saw it.
    pub(crate) dated: bool,
    /// The fingerprint of the last spec that converged, and how long that took.
    pub(crate) last_converged: Option<(u64, Span)>,
    /// An earlier process found that the object does not recover with this spec, which had
    /// converged before.
    pub(crate) not_recovered: bool,
    /// The last status write since the spec change.
    pub(crate) status_written: Option<Timestamp>,
    /// The field manager that wrote the status last, even if that was before the spec change.
    pub(crate) status_writer: String,
    /// The status says that a run of the object is under way.
    pub(crate) runs: bool,
    /// Earlier spec changes that a newer one superseded before the operator acknowledged them, the
    /// first one first. They have no outcome yet.
    pub(crate) superseded: Vec<Superseded>,
}

/// A spec change that a newer one superseded before the operator acknowledged it.
#[derive(Clone, Debug)]
pub(crate) struct Superseded {
    /// The generation of its spec; 0 if the kind has none.
    pub(crate) generation: i64,
    pub(crate) opened: Timestamp,
    /// When it counts as late.
    pub(crate) slo_deadline: Timestamp,
}

/// The operator's obligation to acknowledge one spec change and to converge.
#[derive(Clone, Debug)]
pub(crate) struct Obligation {
    pub(crate) opened: Timestamp,
    /// The generation of its spec; 0 if the kind has none.
    pub(crate) generation: i64,
    /// When the finding about a missed deadline opens.
    pub(crate) deadline: Timestamp,
    pub(crate) deadline_source: DeadlineSource,
    /// When the obligation counts as late. A learned deadline never moves this.
    pub(crate) slo_deadline: Timestamp,
    /// `opened` comes from timestamps of the object, with a resolution of one second: histograms
    /// leave it out.
    pub(crate) backfilled: bool,
    /// The spec is the object's first one.
    pub(crate) creation: bool,
    /// No person asked for this: the operator changed the spec itself, or the object was resumed or
    /// runs again. The obligation has deadlines, but it counts towards no total.
    pub(crate) uncounted: bool,
    /// A failure counts as a regression, not as an answer to the spec, because nobody asked for
    /// anything new: the operator changed the spec itself, or somebody resumed an object that had
    /// converged or regressed.
    pub(crate) unasked: bool,
    /// A part of it happened while the watch was blind, so its times are neither measured nor
    /// learned.
    pub(crate) unmeasured: bool,
    /// The status said converged all along, so it may be about the earlier spec.
    pub(crate) stale: bool,
    pub(crate) acknowledged: Option<Timestamp>,
    /// When the status began to say converged.
    pub(crate) converged_since: Option<Timestamp>,
    /// When the status began to say failed.
    pub(crate) failed_since: Option<Timestamp>,
    /// The status says converged but may describe the old spec: it has no `observedGeneration`, and
    /// no write of it has been seen since the spec change.
    pub(crate) unconfirmed: bool,
    /// The outcome, once it has been counted.
    pub(crate) outcome: Option<Outcome>,
}

/// The deletion of an object.
#[derive(Debug)]
pub(crate) struct Deletion {
    pub(crate) since: Timestamp,
    /// When loopwatch saw it begin.
    pub(crate) seen: Option<Timestamp>,
    /// Since when the object had waited for the operator when somebody deleted it.
    pub(crate) waited_since: Option<Timestamp>,
    /// The last progress that loopwatch saw.
    pub(crate) last_progress: Option<Timestamp>,
    /// The last progress that is beyond doubt: a finalizer went, or the status showed a new phase or
    /// a number that counts towards an end.
    pub(crate) last_step: Option<Timestamp>,
    /// Fingerprints of the phases and conditions that the object has shown since. Returning to one
    /// is not progress.
    pub(crate) shown: Vec<u64>,
    /// The texts of the status since.
    pub(crate) told: Told,
    /// Each finalizer with the actor that should remove it, in the order of `metadata.finalizers`.
    pub(crate) actors: Vec<(Arc<str>, Actor)>,
    /// The newest write in the managed fields, by the API server's clock.
    pub(crate) newest_write: Option<Timestamp>,
    /// The controller of a finalizer was found absent during the deletion, so its duration shows
    /// nothing.
    pub(crate) was_abandoned: bool,
    /// Since when this process has known the deletion, if an earlier one had found the controller of
    /// a finalizer absent. That holds until the controller shows life.
    pub(crate) found_absent: Option<Timestamp>,
    /// From when the time of the controllers counts instead of `since`: an absent one returned then,
    /// or somebody has set the API server's clock since the deletion began.
    pub(crate) attended: Option<Timestamp>,
    /// The deletion has counted as timed out.
    pub(crate) timed_out: bool,
    /// It timed out by a threshold that loopwatch had learned.
    pub(crate) unusually_late: bool,
}

/// Recent changes of an object's phase and conditions without a spec change, and of its finalizers.
#[derive(Debug, Default)]
pub(crate) struct History {
    pub(crate) phases: VecDeque<(Timestamp, Arc<str>)>,
    pub(crate) transitions: Vec<Transitions>,
    /// Finalizers that were removed although the object was not being deleted, and added again.
    pub(crate) finalizers: VecDeque<FinalizerChange>,
}

/// A change of the finalizers of an object that is not being deleted.
#[derive(Debug)]
pub(crate) struct FinalizerChange {
    pub(crate) finalizer: Arc<str>,
    pub(crate) at: Timestamp,
    /// Whether it was removed; otherwise, it was added again.
    pub(crate) removed: bool,
    /// The field manager that did it, if it is known.
    pub(crate) by: Option<Arc<str>>,
    /// Another writer than the controller of the finalizer removed it.
    pub(crate) lost: bool,
}

/// The recent transitions of one condition.
#[derive(Debug)]
pub(crate) struct Transitions {
    pub(crate) condition: Arc<str>,
    /// When they happened, in order.
    pub(crate) changes: VecDeque<Timestamp>,
    /// The reasons of the transitions, at most two.
    pub(crate) reasons: Vec<String>,
}

impl Unconverged {
    /// Returns since when the object has waited for the operator.
    pub(crate) fn waits_since(&self) -> Timestamp {
        self.unacknowledged_since.unwrap_or(self.working_since)
    }

    /// Moves all instants of loopwatch's own clock by `by_ms` milliseconds.
    pub(super) fn rebase(&mut self, by_ms: i64) {
        let shift = |at: &mut Timestamp| *at = at.shifted(by_ms);
        if !self.dated {
            shift(&mut self.since);
            shift(&mut self.working_since);
            [&mut self.unacknowledged_since, &mut self.regressed_since]
                .into_iter()
                .flatten()
                .for_each(shift);
        }

        [&mut self.rollout_until, &mut self.mended_by, &mut self.status_written]
            .into_iter()
            .flatten()
            .for_each(shift);
        for change in self.superseded.iter_mut().filter(|_| !self.dated) {
            [&mut change.opened, &mut change.slo_deadline].into_iter().for_each(shift);
        }
        if let Some(obligation) = self.obligation.as_mut() {
            let Obligation {
                opened,
                deadline,
                slo_deadline,
                acknowledged,
                converged_since,
                failed_since,
                ..
            } = obligation;

            if !self.dated {
                [opened, deadline, slo_deadline].into_iter().for_each(shift);
            }

            [acknowledged, converged_since, failed_since].into_iter().flatten().for_each(shift);
        }
    }
}
