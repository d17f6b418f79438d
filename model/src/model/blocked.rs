//! Deletions that do not end: the controller of a finalizer is gone, another object must be deleted first, or nobody knows.
//! Each object has at most one of these findings, the one that names the cause best.

use super::Model;
use super::controllers::Liveness;
use super::detection::Detection;
use super::store::{Deletion, Flag, Record, Slot};
use crate::finding::{Evidence, FindingCode, Value};
use crate::time::Timestamp;

// === impl Model ===

impl Model {
    /// Detects that the controller that should remove a finalizer has stopped: it was alive before.
    pub(crate) fn owner_absent(&mut self, slot: Slot) -> Option<Detection> {
        let (record, deletion) = self.terminating(slot)?;
        let (absent, last, due) = self.first_absence(record, deletion)?;
        Some(self.detect_deletion(record, FindingCode::FinalizerOwnerAbsent, deletion.since, due, || {
            Evidence::new()
                .with("actor", Value::Names(absent.clone()))
                .with("finalizers", Value::Names(finalizers(deletion)))
                .with("terminating_for", Value::Age(deletion.since))
                .with("last_seen", Value::Time(last))
                .with("absent_for", Value::Age(last))
        }))
    }

    /// Detects a deletion that makes no progress, for no better known cause.
    pub(crate) fn finalizer_stuck(&mut self, slot: Slot) -> Option<Detection> {
        let (record, deletion) = self.terminating(slot)?;
        if deletion.actors.is_empty() || self.is_owner_absent(record, deletion) {
            return None;
        }
        let threshold = self.kind_of(record.watch).stuck_after(&self.settings, deletion);
        let due = deletion.stuck_at(threshold);
        Some(self.detect_deletion(record, FindingCode::FinalizerStuck, deletion.since, due, || {
            Evidence::new()
                .with("actor", Value::Names(deletion.actor_texts()))
                .with("finalizers", Value::Names(finalizers(deletion)))
                .with("terminating_for", Value::Age(deletion.since))
                .with("last_progress", Value::Time(deletion.last_progress.unwrap_or(deletion.since)))
                .with("threshold", Value::Span(threshold))
        }))
    }

    /// Detects a deletion that makes progress, or has not waited for long enough to be stuck, but takes longer than usual.
    pub(crate) fn cleanup_slow(&mut self, slot: Slot) -> Option<Detection> {
        let (record, deletion) = self.terminating(slot)?;
        let kind = self.kind_of(record.watch);
        let own = deletion.own_finalizers().map(|finalizer| (kind.slow_after(&self.settings, finalizer), finalizer));
        let ((after, learned), finalizer) = own.max_by_key(|((after, _), _)| *after)?;
        let stuck = deletion.stuck_at(kind.stuck_after(&self.settings, deletion)) <= self.now;
        if stuck || self.is_owner_absent(record, deletion) {
            return None;
        }
        let due = deletion.since.after(after);
        Some(self.detect_deletion(record, FindingCode::CleanupSlow, deletion.since, due, || {
            Evidence::new()
                .text("finalizer", finalizer.to_string())
                .with("actor", Value::Names(deletion.actor_texts()))
                .with("terminating_for", Value::Age(deletion.since))
                .with("threshold", Value::Span(after))
                .text("threshold_source", if learned { "learned" } else { "configured" })
        }))
    }

    /// Notes that a deletion counts as timed out, and whether the controller of a finalizer was absent meanwhile.
    pub(crate) fn note_blocked(&mut self, slot: Slot, findings: &[FindingCode]) {
        use FindingCode::{DeletionBlockedByDependent, FinalizerOwnerAbsent, FinalizerStuck};
        if ![FinalizerOwnerAbsent, DeletionBlockedByDependent, FinalizerStuck].iter().any(|c| findings.contains(c)) {
            return;
        }
        let Some(mut context) = self.context(slot) else { return };
        context.count_timeout();
        if let Some(deletion) = context.record.hot.as_mut().and_then(|hot| hot.deletion.as_mut()) {
            deletion.was_abandoned |= findings.contains(&FinalizerOwnerAbsent);
        }
    }

    /// Returns an object that is being deleted.
    fn terminating(&self, slot: Slot) -> Option<(&Record, &Deletion)> {
        let record = self.store.get(slot)?;
        Some((record, record.hot.as_ref()?.deletion.as_ref()?))
    }

    /// Returns the text of the actor of a finalizer that is absent, or will be if nothing changes; when it was last seen; and
    /// when its absence is a finding.
    fn first_absence(&self, record: &Record, deletion: &Deletion) -> Option<(Vec<String>, Timestamp, Timestamp)> {
        let group = &self.kind_of(record.watch).group;
        let absences = deletion.actors.iter().filter_map(|(_, actor)| {
            let (Liveness::SeenAlive { last, absent_at } | Liveness::Absent { last, absent_at }) =
                self.liveness(group, actor.controller()?)
            else {
                return None;
            };
            // A controller that is started on demand may need as long to come back.
            let due = absent_at.max(deletion.since.after(self.settings.owner_absent_after));
            Some((vec![actor.to_string()], last, due))
        });
        absences.min_by_key(|(.., due)| *due)
    }

    fn is_owner_absent(&self, record: &Record, deletion: &Deletion) -> bool {
        self.first_absence(record, deletion).is_some_and(|(.., due)| due <= self.now)
    }

    /// Returns a detection about a deletion.
    fn detect_deletion(
        &self,
        record: &Record,
        code: FindingCode,
        since: Timestamp,
        due: Timestamp,
        evidence: impl FnOnce() -> Evidence,
    ) -> Detection {
        // Without managed fields, nothing shows who writes the object, so the finding must not page.
        Detection::new(self.now, code, since, due, evidence)
            .weak_if(record.flags.has(Flag::Undated))
            .not_before(record.created())
    }
}

fn finalizers(deletion: &Deletion) -> Vec<String> {
    deletion.actors.iter().map(|(finalizer, _)| finalizer.to_string()).collect()
}
