//! Webhooks that the API server calls for the operator's objects: those whose calls fail.
//!
//! ```text
//!   statuses ────────────┐
//!   watches of loopwatch ─┼─▶ reports ─▶ verdict ─▶ WebhookUnavailable, ConversionFailing
//!   Events ───────────────┘
//! ```
//!
//! Anybody may write Events about any object with any text, so these only raise a suspicion.

use std::collections::{BTreeMap, BTreeSet};

use crate::finding::{Confidence, FindingCode, Subject};
use crate::model::findings::detection::Detection;
use crate::model::machinery::reports::Reports;
use crate::model::machinery::verdict;
use crate::model::part::{Part, StepContext, Version};
use crate::model::world::store::Slot;
use crate::observation::{CalledWebhook, EventView, FailedCall, WatchId};
use crate::time::{Span, Timestamp};

/// The webhooks whose calls fail.
#[derive(Debug, Default)]
pub(crate) struct Webhooks {
    reports: Reports,
    /// The findings that are open, each with whether it is confirmed.
    found: BTreeMap<(FindingCode, Subject), bool>,
    /// When to judge all webhooks again; `None` if nobody reports any.
    review: Option<Timestamp>,
}

/// The longest time between two reviews of a webhook that somebody reports.
const REVIEW: Span = Span::secs(15);

impl Part for Webhooks {
    fn seen(&mut self, step: &mut StepContext<'_>, version: &Version<'_>) {
        let is_live = version.is_live && !version.becomes_visible;
        self.reports.note_object(step.world, version.slot, version.view, is_live);
        self.wait_for(step.world.now);
    }

    fn removed(&mut self, step: &mut StepContext<'_>, slot: Slot, _deleted: bool) {
        self.reports.forget_object(slot);
        self.judge_changed(step);
    }

    /// Judges the webhooks that an object reports, because its state may be another one. Has no
    /// detection about the object itself.
    fn detections(&mut self, step: &mut StepContext<'_>, slot: Slot) -> Vec<Detection> {
        if !self.reports.is_empty() {
            let changed = self.reports.take_changed(slot);
            self.judge(step, changed);
        }

        Vec::new()
    }

    fn next_due(&self) -> Option<Timestamp> {
        self.review
    }

    fn due(&mut self, step: &mut StepContext<'_>) {
        self.review = None;
        self.reports.forget_old(step.world);
        let mut all = self.reports.take_all_changed();
        all.extend(self.reports.webhooks());
        self.judge(step, all);
    }

    fn retune(&mut self, step: &mut StepContext<'_>) {
        self.due(step);
    }

    fn clock_stepped(&mut self, by_ms: i64) {
        self.reports.clock_stepped(by_ms);
        self.review = self.review.map(|at| at.shifted(by_ms));
    }
}

impl Webhooks {
    /// Takes the failure of a watch with the message of the API server, or its recovery.
    pub(crate) fn watch_told(&mut self, step: &mut StepContext<'_>, id: &WatchId, detail: &str) {
        let call = FailedCall::read(detail);
        let is_conversion =
            |call: &FailedCall| matches!(call.webhook, CalledWebhook::Conversion { .. });
        self.reports.note_watch(step.world.now, id, call.filter(is_conversion));
        self.judge_changed(step);
    }

    /// Takes an Event about an object of the operator.
    pub(crate) fn event_seen(&mut self, step: &mut StepContext<'_>, event: &EventView) {
        self.reports.note_event(step.world.now, event);
        self.judge_changed(step);
    }

    fn judge_changed(&mut self, step: &mut StepContext<'_>) {
        let changed = self.reports.take_all_changed();
        self.judge(step, changed);
    }

    /// Opens and closes the findings about some webhooks.
    fn judge(&mut self, step: &mut StepContext<'_>, webhooks: BTreeSet<CalledWebhook>) {
        let now = step.world.now;
        for webhook in webhooks {
            let Some(found) = verdict::subject(step.world, &webhook) else { continue };
            let is_open = self.found.get(&found) == Some(&true);
            let detection =
                verdict::detect(step.world, step.operator, &self.reports, &webhook, is_open);
            let due = detection.as_ref().map(|detection| detection.due);

            self.review = self.review.into_iter().chain(due.filter(|due| *due > now)).min();
            match detection.filter(|detection| detection.due <= now) {
                Some(detection) => {
                    let is_confirmed = detection.confidence == Confidence::Confirmed;
                    self.found.insert(found.clone(), is_confirmed);
                    step.findings.report(step.world, found.1, detection);
                }
                None if self.found.remove(&found).is_some() => {
                    step.findings.clear(now, found.0, &found.1);
                }
                None => {}
            }
        }

        self.wait_for(now);
    }

    /// Sets the next review, if anybody reports a webhook.
    fn wait_for(&mut self, now: Timestamp) {
        if !self.reports.is_empty() || !self.found.is_empty() {
            let review = now.after(REVIEW);
            self.review = Some(self.review.map_or(review, |known| known.min(review)));
        }
    }
}
