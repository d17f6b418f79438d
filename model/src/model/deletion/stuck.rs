//! Deletions that do not end: the controller of a finalizer is gone, another object must be deleted
//! first, or nobody knows. Each object has at most one of these findings, the one that names the
//! cause best.

use crate::finding::{Evidence, FindingCode, Value};
use crate::model::Model;
use crate::model::deletion::blocking_chains::{Blocker, READ_AGAIN, STANDSTILL};
use crate::model::deletion::finalizers;
use crate::model::findings::detection::Detection;
use crate::model::operator::controllers::Liveness;
use crate::model::world::finalizer_actors::{self, Actor};
use crate::model::world::lookups::ASK_AGAIN;
use crate::model::world::store::{Deletion, Flag, Record, Slot};
use crate::time::Timestamp;

/// A controller of a finalizer that has stopped, or will count as absent if nothing changes.
struct Absence {
    actor: String,
    /// It is a part of the operator.
    is_own: bool,
    last: Timestamp,
    due: Timestamp,
}

// === impl Model ===

impl Model {
    /// Returns the problem of a deletion, and what it will be if nothing changes.
    pub(crate) fn deletion_detections(&mut self, slot: Slot) -> Vec<Detection> {
        let Some((record, deletion)) = self.terminating(slot).filter(|(_, d)| !d.actors.is_empty())
        else {
            return Vec::new();
        };
        let absent = self.first_absence(record, deletion);
        if let Some(absence) = absent.as_ref().filter(|absence| absence.due <= self.now) {
            return vec![self.owner_absent(record, deletion, absence)];
        }

        if absent.is_some() {
            self.note_return(slot);
        }

        let Some((_, deletion)) = self.terminating(slot) else { return Vec::new() };
        let doubt_at = deletion.stuck_at(self.settings.finalizer_stuck_after);
        let is_collected = deletion
            .actors
            .iter()
            .any(|(finalizer, _)| finalizer_actors::is_of_garbage_collector(finalizer));
        let blocker = self.find_blocker(slot, doubt_at <= self.now);

        if let Some(watched) =
            blocker.as_ref().filter(|b| b.due <= self.now).and_then(|blocker| blocker.watched)
        {
            self.review_blocker(watched);
        }

        let Some((record, deletion)) = self.terminating(slot) else { return Vec::new() };
        let mut detections =
            Vec::from_iter(absent.map(|absence| self.owner_absent(record, deletion, &absence)));
        match &blocker {
            Some(blocker) => detections.push(self.blocked(record, deletion, blocker)),
            // Then it is time to read the dependents, or to read them again.
            None if is_collected => {
                let code = FindingCode::DeletionBlockedByDependent;
                let again = self.now.after(READ_AGAIN).after(ASK_AGAIN);
                let due = if doubt_at > self.now { doubt_at } else { again };
                detections.push(self.detect_deletion(record, code, deletion, due, Evidence::new));
            }
            None => {}
        }

        let blocked_at = blocker.map(|blocker| blocker.due);
        if blocked_at.is_none_or(|at| at > self.now) {
            let stuck = self.finalizer_stuck(record, deletion, blocked_at);
            let slow = self.cleanup_slow(record, deletion).filter(|_| stuck.due > self.now);
            detections.push(stuck);
            detections.extend(slow);
        }

        detections
    }

    /// Counts a finalizer that flaps and a deletion that has got stuck, and notes if the controller
    /// of a finalizer was absent meanwhile. The objects that wait for this one are reviewed.
    pub(crate) fn note_finalizer_findings(
        &mut self,
        slot: Slot,
        old: &[FindingCode],
        findings: &[FindingCode],
    ) {
        let opens = |code| findings.contains(&code) && !old.contains(&code);
        if opens(FindingCode::FinalizerFlapping)
            && let Some(mut context) = self.context(slot)
        {
            context.count_flapping();
        }

        if self.terminating(slot).is_none() || old == findings {
            return;
        }

        self.review_waiting_owners(slot, false);
        if !STANDSTILL.iter().any(|code| findings.contains(code)) {
            return;
        }

        let Some(mut context) = self.context(slot) else { return };
        context.count_timeout();
        if let Some(deletion) = context.record.hot.as_mut().and_then(|hot| hot.deletion.as_mut()) {
            deletion.was_abandoned |= findings.contains(&FindingCode::FinalizerOwnerAbsent);
        }
    }

    /// Notes that the controllers of an object's finalizers are alive. If one was absent until now,
    /// it needs time.
    fn note_return(&mut self, slot: Slot) {
        let now = self.now;
        let hot = self.store.get_mut(slot).and_then(|record| record.hot.as_mut());
        let Some(hot) = hot.filter(|hot| hot.findings.contains(&FindingCode::FinalizerOwnerAbsent))
        else {
            return;
        };

        if let Some(deletion) = &mut hot.deletion {
            deletion.resumed = Some(now);
        }
    }

    /// Returns when the deletion of an object counts as stuck, or the controller of one of its
    /// finalizers as absent.
    pub(crate) fn blocks_at(&self, record: &Record, deletion: &Deletion) -> Timestamp {
        let stuck =
            deletion.stuck_at(self.kind_of(record.watch).stuck_after(&self.settings, deletion));
        self.first_absence(record, deletion).map_or(stuck, |absence| absence.due.min(stuck))
    }

    /// Reviews an object that blocks others if no finding about it is open, so that its finding
    /// opens in the same step and explains theirs from the beginning.
    pub(crate) fn review_blocker(&mut self, slot: Slot) {
        let hot = self.store.get(slot).and_then(|record| record.hot.as_ref());
        if hot.is_none_or(|hot| !STANDSTILL.iter().any(|code| hot.findings.contains(code))) {
            self.reviews.objects.insert(slot);
        }
    }

    /// Detects that the controller that should remove a finalizer has stopped: it was alive before.
    fn owner_absent(&self, record: &Record, deletion: &Deletion, absence: &Absence) -> Detection {
        self.detect_deletion(
            record,
            FindingCode::FinalizerOwnerAbsent,
            deletion,
            absence.due,
            || {
                Evidence::new()
                    .with("actor", Value::Names(vec![absence.actor.clone()]))
                    .with("finalizers", Value::Names(finalizers(deletion)))
                    .with("terminating_for", Value::Age(deletion.since))
                    .with("last_seen", Value::Time(absence.last))
                    .with("absent_for", Value::Age(absence.last))
            },
        )
        .foreign_if(!absence.is_own)
    }

    /// Returns whether the operator should remove a finalizer.
    pub(crate) fn is_removed_by_operator(&self, finalizer: &str, actor: &Actor) -> bool {
        matches!(actor, Actor::Operator { .. })
            || finalizers::served_group(finalizer, &self.served_groups).is_some()
    }

    /// Detects that another object must be deleted first, and is stuck.
    fn blocked(&self, record: &Record, deletion: &Deletion, blocker: &Blocker) -> Detection {
        let code = FindingCode::DeletionBlockedByDependent;
        let detection = self.detect_deletion(record, code, deletion, blocker.due, || {
            Evidence::new()
                .text("blocker", blocker.name.clone())
                .with("blocker_finalizers", Value::Names(blocker.finalizers.clone()))
                .with("actor", Value::Names(blocker.actors.clone()))
                .with("chain", Value::Names(blocker.chain.clone()))
                .with("terminating_for", Value::Age(deletion.since))
                .with(
                    "last_progress",
                    Value::Time(deletion.last_progress.unwrap_or(deletion.since)),
                )
        });

        detection.blocked_by(blocker.watched.map(|slot| self.subject(slot)))
    }

    /// Detects a deletion that makes no progress, for no better known cause. If an object below it
    /// is not stuck yet, this waits until it is.
    fn finalizer_stuck(
        &self,
        record: &Record,
        deletion: &Deletion,
        blocked_at: Option<Timestamp>,
    ) -> Detection {
        let threshold = self.kind_of(record.watch).stuck_after(&self.settings, deletion);
        let stuck = deletion.stuck_at(threshold);
        let due = blocked_at.map_or(stuck, |at| at.max(stuck));
        self.detect_deletion(record, FindingCode::FinalizerStuck, deletion, due, || {
            Evidence::new()
                .with("actor", Value::Names(deletion.actor_texts()))
                .with("finalizers", Value::Names(finalizers(deletion)))
                .with("terminating_for", Value::Age(deletion.since))
                .with(
                    "last_progress",
                    Value::Time(deletion.last_progress.unwrap_or(deletion.since)),
                )
                .with("threshold", Value::Span(threshold))
        })
        .foreign_if(
            !deletion
                .actors
                .iter()
                .any(|(finalizer, actor)| self.is_removed_by_operator(finalizer, actor)),
        )
    }

    /// Detects a deletion that makes progress, or has not waited for long enough to be stuck, but
    /// takes longer than usual.
    fn cleanup_slow(&self, record: &Record, deletion: &Deletion) -> Option<Detection> {
        let kind = self.kind_of(record.watch);
        let own = deletion
            .own_finalizers()
            .map(|finalizer| (kind.slow_after(&self.settings, finalizer), finalizer));
        let ((after, learned), finalizer) = own.max_by_key(|((after, _), _)| *after)?;
        let due = deletion.attended_since().after(after);

        Some(self.detect_deletion(record, FindingCode::CleanupSlow, deletion, due, || {
            Evidence::new()
                .text("finalizer", finalizer.to_string())
                .with("actor", Value::Names(deletion.actor_texts()))
                .with("terminating_for", Value::Age(deletion.since))
                .with("threshold", Value::Span(after))
                .text("threshold_source", if learned { "learned" } else { "configured" })
        }))
    }

    /// Returns an object that is being deleted.
    pub(crate) fn terminating(&self, slot: Slot) -> Option<(&Record, &Deletion)> {
        let record = self.store.get(slot)?;
        Some((record, record.deletion()?))
    }

    /// Returns the controller that was or will be absent first.
    fn first_absence(&self, record: &Record, deletion: &Deletion) -> Option<Absence> {
        let group = &self.kind_of(record.watch).group;
        let absences = deletion.actors.iter().filter_map(|(finalizer, actor)| {
            let is_own = self.is_removed_by_operator(finalizer, actor);
            let (Liveness::SeenAlive { last, absent_at } | Liveness::Absent { last, absent_at }) =
                self.liveness(group, actor.controller()?, is_own)
            else {
                return None;
            };

            // A controller that is started on demand may need as long to come back.
            let due = absent_at.max(deletion.since.after(self.settings.owner_absent_after));
            Some(Absence { actor: actor.to_string(), is_own, last, due })
        });

        absences.min_by_key(|absence| absence.due)
    }

    /// Returns a detection about a deletion.
    fn detect_deletion(
        &self,
        record: &Record,
        code: FindingCode,
        deletion: &Deletion,
        due: Timestamp,
        evidence: impl FnOnce() -> Evidence,
    ) -> Detection {
        // Without managed fields, nothing shows who writes the object, so the finding must not
        // page.
        let detection = Detection::new(self.now, code, deletion.since, due, evidence)
            .weak_if(record.flags.has(Flag::Undated))
            .not_before(record.created());

        // Progress of the deletion shows that the operator no longer works on what came before it.
        let waited_since = deletion.waited_since.filter(|_| deletion.last_progress.is_none());
        Detection { waited_since, ..detection }
    }
}

fn finalizers(deletion: &Deletion) -> Vec<String> {
    deletion.actors.iter().map(|(finalizer, _)| finalizer.to_string()).collect()
}
