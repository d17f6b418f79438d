//! Compares a version of an object with the previous one.

use std::hash::{Hash as _, Hasher as _};

use crate::model::convergence::object_context::{ObjectContext, Restored, Update};
use crate::model::status::reading::{self, Acknowledged, Reading, Verdict};
use crate::model::world::field_managers;
use crate::model::world::store::Generation;
use crate::observation::{ConditionStatus, ObjectView};
use crate::time::Timestamp;

impl ObjectContext<'_> {
    pub(crate) fn compare<'v>(
        &self,
        view: &'v ObjectView,
        reading: &Reading,
        new: bool,
        live: bool,
        about_earlier: Option<Verdict>,
    ) -> Update<'v> {
        let record = &*self.record;
        let generation = Generation::of(view.generation);
        let hashed = view.hashes.spec != 0 && record.spec_hash != 0;
        let differs = if hashed {
            view.hashes.spec != record.spec_hash
        } else {
            generation != record.generation
        };
        let status_changed = !new && view.hashes.settled != record.stable_status_hash;

        let old_verdict = record.verdict;
        let mut verdict = self.verdict_on(reading, live);
        if about_earlier == Some(Verdict::Finished) && (new || old_verdict == Verdict::Finished) {
            verdict = Verdict::Finished; // a finished run does not answer a later spec change
        }

        // A listed version may be several changes later, and the last of them may have undone the
        // first. Deleting an object increments its generation, too.
        let next = record.generation.number().saturating_add(1);
        let undone = !live && view.deleted.is_none() && generation.number() > next;
        Update {
            view,
            verdict,
            old_verdict,
            acknowledged_more: !new
                && Generation::of(reading::observed_generation(view).unwrap_or(0))
                    > record.observed,
            acknowledged: reading.acknowledged,
            new,
            live,
            spec_changed: !new
                && (differs || (undone && !self.kind.generation_is_unreliable()))
                && (generation > record.generation
                    || generation == Generation::default()
                    || self.kind.generation_is_unreliable()),
            status_changed,
            spec_written_by_operator: field_managers::spec_written_by_operator(
                view,
                self.known_spec_write(),
            ),
            old_spec_hash: record.spec_hash,
            lost_at: lost_at(view, verdict, reading),
            all_lost_at: all_lost_at(view, verdict, reading),
            about_earlier,
            restored: Restored::default(),
        }
    }

    /// Returns whether the managed fields show that the status of an unconverged object has been
    /// written since the previous version. Fingerprints of the status do not show this if loopwatch
    /// now reads the kind differently.
    pub(crate) fn is_status_written(&self, view: &ObjectView, version: u64) -> bool {
        let written = field_managers::status_writer(view).and_then(|m| m.time);
        version != self.record.version
            && self.record.unconverged().is_some_and(|u| written > u.last_status_write)
    }

    /// Returns the time up to which spec writes by people are known.
    fn known_spec_write(&self) -> Timestamp {
        let changed = self.record.spec_change().unwrap_or(Timestamp(0));
        let opened = self.record.obligation().map_or(Timestamp(0), |obligation| obligation.opened);
        changed.max(opened).max(self.record.created().unwrap_or(changed))
    }

    /// Returns a fingerprint of the phase and the conditions.
    pub(crate) fn shown(&self) -> u64 {
        let mut hasher = std::hash::DefaultHasher::new(); // the same in every process
        (self.texts.get(self.record.phase), self.condition_sets.get(self.record.conditions))
            .hash(&mut hasher);
        hasher.finish()
    }
}

/// Returns the verdict on an earlier spec, if the status is about that one.
pub(crate) fn about_earlier(
    group: &str,
    kind: &str,
    view: &ObjectView,
    reading: &Reading,
) -> Option<Verdict> {
    (reading.acknowledged == Acknowledged::No)
        .then(|| reading::read(group, kind, &without_generation(view)).verdict)
}

/// Returns the view without anything that says which spec the status is about.
fn without_generation(view: &ObjectView) -> ObjectView {
    let mut view = ObjectView { observed_generation: None, ..view.clone() };
    view.conditions.iter_mut().for_each(|condition| condition.observed_generation = None);
    view
}

/// Returns when an unconverged object stopped being converged: when the condition or the phase that
/// decided the verdict changed or, if another part of the status decided it or nothing shows when, the
/// latest transition among the false conditions. Returns `None` if its status is about an earlier spec.
fn lost_at(view: &ObjectView, verdict: Verdict, reading: &Reading) -> Option<Timestamp> {
    let unconverged = matches!(verdict, Verdict::Progressing | Verdict::Failed);
    if !unconverged || reading.acknowledged == Acknowledged::No {
        return None;
    }

    let top_level = || view.conditions.iter().filter(|c| c.at.is_empty());
    let named = reading.part();
    let decided = top_level().find(|c| c.r#type == named).and_then(|c| c.changed);
    let decided = decided.or_else(|| reading::phase_changed(view, named));
    let lost = top_level()
        .filter(|c| c.status == ConditionStatus::False && reading::describes_health(&c.r#type));

    decided.or_else(|| lost.filter_map(|c| c.changed).max())
}

/// Returns the earliest transition among the phase and the conditions that show an object as
/// unconverged. Before it, none contradicted convergence. Returns `None` if a time is missing, or if
/// something else decided the verdict.
fn all_lost_at(view: &ObjectView, verdict: Verdict, reading: &Reading) -> Option<Timestamp> {
    lost_at(view, verdict, reading)?;
    let named = reading.part();
    let top_level = || view.conditions.iter().filter(|c| c.at.is_empty());
    let condition = top_level().find(|c| c.r#type == named);
    let entered = match condition {
        Some(condition) => condition.changed?,
        None => reading::phase_changed(view, named)?,
    };

    let mut bad = top_level().filter(|c| reading::is_bad(c));
    bad.try_fold(entered, |first, condition| Some(first.min(condition.changed?)))
}
