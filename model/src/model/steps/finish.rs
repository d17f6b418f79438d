//! The subjects to review although no event about them arrived, and their review at the end of each
//! step.
//!
//! The model adds them when sight returns, a list ends, it reads a kind in another way, settings
//! change, or there is room for findings again. It adds only subjects with something to decide, so
//! the cost follows the change.

use std::collections::BTreeSet;

use crate::finding::FindingId;
use crate::model::Model;
use crate::model::world::kinds::Watch;
use crate::model::world::store::Slot;
use crate::model::world::timers::Timer;

/// Subjects to review. The order makes replays deterministic. The number of objects limits the
/// size.
#[derive(Debug, Default)]
pub(crate) struct Reviews {
    pub(crate) objects: BTreeSet<Slot>,
    /// Kinds as a whole. The detectors over relations look at them after all objects.
    pub(crate) kinds: BTreeSet<u16>,
    /// The operator itself.
    pub(crate) operator: bool,
}

// === impl Model ===

impl Model {
    /// Ends a step: reviews what is due for a review, and settles the findings.
    pub(crate) fn finish_step(&mut self) {
        let (limit, recovers_within) = (self.settings.limits.findings, self.settings.deadline);
        loop {
            while let Some(slot) = self.reviews.objects.pop_first() {
                self.review_object(slot);
            }

            while let Some(kind) = self.reviews.kinds.pop_first() {
                self.review_kind(kind);
            }

            if std::mem::take(&mut self.reviews.operator) {
                self.review_operator();
            }

            self.open_findings.settle(self.now, limit, recovers_within);
            if !self.open_findings.take_overflow(limit) {
                break;
            }

            self.review_everything();
        }

        for _ in 0..self.open_findings.take_lost_events() {
            self.count_dropped("finding_events");
        }

        self.count_dropped_traces();
        self.open_findings.settle(self.now, limit, recovers_within);
    }

    /// Marks all objects with something to decide, all kinds and the operator for a review.
    pub(crate) fn review_everything(&mut self) {
        let undecided =
            self.store.iter().filter(|(_, record)| record.hot.is_some()).map(|(slot, _)| slot);
        self.reviews.objects.extend(undecided);
        self.reviews.kinds.extend(0..u16::try_from(self.kinds.len()).unwrap_or(u16::MAX));
        self.reviews.operator = true;
    }

    /// Once all watches have been listed after a restart, forgets the start times of problems that
    /// are over.
    pub(crate) fn forget_restored(&mut self) {
        // A watch that the account may not open, or whose source fails, may never be listed.
        let is_due = |watch: &Watch| {
            watch.active && !watch.seen_before && watch.missing.is_empty() && !watch.failing
        };
        let waits = |model: &Self| model.watches.iter().any(is_due);
        if !self.open_findings.has_restored() || waits(self) {
            return;
        }

        let slots: Vec<Slot> = self
            .store
            .iter()
            .filter(|(_, record)| record.hot.is_some())
            .map(|(slot, _)| slot)
            .collect();

        let mut ids = BTreeSet::new();
        for slot in slots {
            let subject = self.subject(slot);
            ids.extend(
                self.relation_detections(slot).iter().map(|d| FindingId::of(d.code, &subject)),
            );

            let Some(context) = self.context(slot) else { continue };
            ids.extend(
                context
                    .detections()
                    .iter()
                    .map(|detection| FindingId::of(detection.code, &subject)),
            );
        }

        for number in 0..self.kinds.len() {
            let number = u16::try_from(number).unwrap_or(u16::MAX);
            let subject = self.kind_subject(number);
            ids.extend(
                self.kind_detections(number).iter().map(|d| FindingId::of(d.code, &subject)),
            );
        }

        let of_operator = self.operator_detections();
        ids.extend(
            of_operator.iter().map(|(subject, detection)| FindingId::of(detection.code, subject)),
        );
        self.open_findings.keep_restored(self.now, &ids);
    }

    /// Sets the timer that closes held findings.
    pub(crate) fn findings_due(&mut self) {
        let due = self.open_findings.expire(self.now);
        let old = std::mem::replace(&mut self.findings_due, due);
        self.timers.set(Timer::Findings, old, due);
    }
}
