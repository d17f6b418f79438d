//! The end of each step: reviews the subjects that are marked for review although no event about
//! them arrived.
//!
//! They are marked when visibility returns, a list ends, a kind is read differently, settings
//! change, or there is room for findings again. Only subjects with something to decide are marked,
//! so the cost is proportional to the change.

use std::collections::BTreeSet;

use crate::finding::FindingId;
use crate::model::Model;
use crate::model::convergence::object_context;
use crate::model::steps::kinds;
use crate::model::world::kinds::Watch;
use crate::model::world::limits::Limit;
use crate::model::world::store::Slot;

impl Model {
    /// Ends a step: reviews the marked subjects, and settles the findings.
    pub(crate) fn finish_step(&mut self) {
        if std::mem::take(&mut self.world.agenda.restored_findings) {
            self.forget_restored();
        }

        let settings = &self.world.settings;
        let (limit, recovers_within) = (settings.limits.findings, settings.deadline);
        loop {
            while let Some(slot) = self.world.agenda.objects.pop_first() {
                self.review_object(slot);
            }

            while let Some(kind) = self.world.agenda.kinds.pop_first() {
                kinds::review_kind(&mut self.world, &mut self.findings, kind);
            }

            if std::mem::take(&mut self.world.agenda.operator) {
                self.operator.review_operator(&mut self.world, &mut self.findings);
            }

            self.findings.report_exceeded_limits(&mut self.world);
            self.findings.page_due(&self.world);
            self.findings.settle(self.world.now, limit, recovers_within);
            if !self.findings.take_overflow(limit) {
                break;
            }

            self.world.review_everything();
        }

        for _ in 0..self.findings.take_lost_events() {
            self.world.count_dropped(Limit::FindingEvents);
        }

        self.traces.count_dropped_traces(&mut self.world);
        self.findings.report_exceeded_limits(&mut self.world);
        self.findings.page_due(&self.world);
        self.findings.settle(self.world.now, limit, recovers_within);
        self.findings.set_timer(&mut self.world);
        self.parts.set_timers(&mut self.world.agenda.timers);
    }

    /// Once all watches have been listed after a restart, forgets the start times of problems that
    /// are over.
    pub(crate) fn forget_restored(&mut self) {
        // A watch that the account may not open, or whose source fails, may never be listed.
        let is_due = |watch: &Watch| {
            watch.active
                && !watch.blindness.seen_before
                && watch.missing.is_empty()
                && !watch.blindness.failing
        };
        let waits = |model: &Self| model.world.watches.iter().any(is_due);
        if !self.findings.has_restored() || waits(self) {
            return;
        }

        let slots: Vec<Slot> = self
            .world
            .store
            .iter()
            .filter(|(_, record)| record.hot.is_some())
            .map(|(slot, _)| slot)
            .collect();

        let mut ids = BTreeSet::new();
        for slot in slots {
            let subject = self.world.subject(slot);
            ids.extend(
                self.relation_detections(slot).iter().map(|d| FindingId::of(d.code, &subject)),
            );

            let Some(context) = object_context::context(&mut self.world, &mut self.traces, slot)
            else {
                continue;
            };
            ids.extend(
                context
                    .detections()
                    .iter()
                    .map(|detection| FindingId::of(detection.code, &subject)),
            );
        }

        for number in 0..self.world.kinds.len() {
            let number = u16::try_from(number).unwrap_or(u16::MAX);
            let subject = self.world.kind_subject(number);
            ids.extend(
                kinds::kind_detections(&self.world, number)
                    .iter()
                    .map(|d| FindingId::of(d.code, &subject)),
            );
        }

        let of_operator = self.operator.operator_detections(&self.world);
        ids.extend(
            of_operator.iter().map(|(subject, detection)| FindingId::of(detection.code, subject)),
        );
        self.findings.keep_restored(self.world.now, &ids);
    }
}
