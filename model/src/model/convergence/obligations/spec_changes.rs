//! Spec changes: whether loopwatch saw one happen, or the object's timestamps must show when it
//! did.

use crate::model::convergence::object_context::{ObjectContext, Update};
use crate::model::convergence::obligations::Opening;
use crate::model::status::reading::Acknowledged;
use crate::model::status::reading::Verdict;
use crate::model::world::departed::Departure;
use crate::model::world::field_managers::{last_spec_write, spec_written, status_writer};
use crate::model::world::store::Flag;
use crate::observation::StatusShape;
use crate::time::{Span, Timestamp};

impl ObjectContext<'_> {
    /// Handles a spec change. If it happened while the watch was interrupted, the object's
    /// timestamps say when.
    pub(super) fn spec_changed(&mut self, update: &Update<'_>) {
        let written = spec_written(update.view).map(|written| written.min(self.now));
        let by_operator = match self.record.obligation().map(|obligation| obligation.opened) {
            // A person may have changed the spec before the operator did.
            Some(opened) if !update.live => {
                update.spec_written_by_operator
                    && written.is_some_and(|written| written <= opened.after(Span::secs(1)))
            }
            _ => update.spec_written_by_operator,
        };

        // An event shows the last write, whoever made it. Managed fields do not show every write
        // through `scale`.
        let in_blindness =
            |at: &Timestamp| at.after(Span::secs(1)) >= self.lost && self.is_before_return(*at);
        let last = last_spec_write(update.view).filter(|last| update.live && in_blindness(last));
        if by_operator {
            // By filling in defaults or counting revisions, an operator can neither extend its own
            // obligation nor end a regression.
            if self.record.unconverged().is_none() {
                self.open_obligation(update, self.now, Opening::Own);
            }
        } else if update.live && last.is_none() {
            self.open_obligation(update, self.now, Opening::Live);
        } else {
            // Some writes, such as those through `scale`, do not update the time in their managed
            // fields.
            let known = self.record.spec_change().max(self.record.created());
            let newer =
                |at: &Timestamp| known.is_none_or(|known| *at >= known.after(Span::secs(1)));
            self.open_obligation(
                update,
                last.or(written.filter(newer)).unwrap_or(self.now),
                Opening::Backfilled,
            );
        }
    }

    /// Records when a spec changed that loopwatch sees only now, because its rollout may still be
    /// under way.
    pub(super) fn note_spec_change(&mut self, update: &Update<'_>) {
        let first = update.view.generation == 1; // as old as the object, whoever wrote last
        let by_person = first || (update.view.generation > 1 && !update.spec_written_by_operator);
        let written = spec_written(update.view).filter(|_| by_person).map(|at| at.min(self.now));

        if written > self.record.spec_change() {
            self.record.set_spec_change(written, true);
        }
    }

    /// Recalls that an object had converged with this spec before it left the model.
    pub(super) fn recall_departed(&mut self, update: &Update<'_>) -> Option<Departure> {
        let spec = self.record.spec_identity(self.kind.generation_is_unreliable())?;
        let departure = self.departed.take(&self.record.namespace, spec)?;
        if update.verdict != Verdict::Unknown {
            self.record.since = departure.left;
            self.record.flags.set(Flag::SpecConverged, true);
            self.record.flags.set(Flag::ConvergedUnseen, departure.regressed.is_none());
            self.note_spec_change(update);
        }

        Some(departure)
    }

    /// Returns whether an object that is new to the model existed before: it was not visible, or
    /// did not fit.
    pub(super) fn is_old(&self, update: &Update<'_>) -> bool {
        let created = update.view.created.filter(|_| update.verdict != Verdict::Unknown);
        created.is_some_and(|created| self.is_before_return(created))
    }

    /// Returns whether something happened before visibility returned. A watch resumes from its last
    /// resource version, so events from before may arrive later. Times in objects are whole
    /// seconds.
    pub(super) fn is_before_return(&self, at: Timestamp) -> bool {
        at.after(Span::secs(1)) <= self.regained
    }
}

/// Returns the time of the last status write since `opened`, if the object shows one, and the field
/// manager that writes the status.
pub(crate) fn status_write(update: &Update<'_>, opened: Timestamp) -> (Option<Timestamp>, String) {
    let writer = status_writer(update.view);
    let name = writer.map_or_else(String::new, |m| m.name.clone());
    let time = writer.and_then(|m| m.time);

    if update.new && update.acknowledged != Acknowledged::No {
        // The status of a new object is about the current spec unless its times say otherwise. A
        // dump may have no managed fields.
        let outdated =
            time.zip(spec_written(update.view)).is_some_and(|(status, spec)| status < spec);
        let current = update.view.status == StatusShape::Filled && !outdated;
        return (current.then(|| time.unwrap_or(opened).max(opened)), name);
    }

    // Times in managed fields are whole seconds, so a write within the same second may have been
    // before `opened`.
    let second_after = opened.after(Span::secs(1));
    (time.filter(|time| !update.spec_changed && *time >= second_after), name)
}
