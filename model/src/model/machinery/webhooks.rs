//! Webhooks that the API server calls for the operator's objects and Pods: those whose calls fail, or
//! will fail.
//!
//! ```text
//!   statuses ─────────────┐
//!   watches of loopwatch ─┼─▶ reports ─▶ verdict ─▶ WebhookUnavailable, ConversionFailing
//!   Events ───────────────┤
//!   EndpointSlices ───────┤
//!   configurations ───────┴─▶ registrations ─┬─▶ hazards ─▶ WebhookCertificate, WebhookDeadlock,
//!   metrics ────────────────▶ latencies ─────┘              WebhookSlow
//! ```
//!
//! Anybody may write Events about any object with any text, so these only raise a suspicion.

use std::collections::{BTreeMap, BTreeSet};

use crate::finding::{Confidence, FindingCode, Subject};
use crate::model::findings::detection::Detection;
use crate::model::machinery::hazards;
use crate::model::machinery::latencies::Latencies;
use crate::model::machinery::registrations::Registrations;
use crate::model::machinery::reports::Reports;
use crate::model::machinery::verdict;
use crate::model::part::{Part, StepContext, Version};
use crate::model::world::World;
use crate::model::world::store::Slot;
use crate::observation::{
    Consulted, DefinitionView, EndpointsView, EventView, FailedCall, MetricsView, WatchId,
    WebhookKind, WebhookView,
};
use crate::time::{Span, Timestamp};

/// The webhooks whose calls fail.
#[derive(Debug, Default)]
pub(crate) struct Webhooks {
    reports: Reports,
    registrations: Registrations,
    latencies: Latencies,
    /// The findings about registrations that are open.
    hazards: BTreeSet<(FindingCode, Subject)>,
    /// The findings about failing calls that are open.
    found: BTreeMap<Consulted, Found>,
    /// When to judge all webhooks again; `None` if there are none.
    review: Option<Timestamp>,
}

/// An open finding about failing calls.
#[derive(Debug)]
struct Found {
    code: FindingCode,
    subject: Subject,
    is_confirmed: bool,
}

/// The longest time between two reviews of a webhook.
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
        self.judge_registrations(step);
        let mut all = self.reports.take_all_changed();
        all.extend(self.reports.webhooks());
        self.judge(step, all);
    }

    fn retune(&mut self, step: &mut StepContext<'_>) {
        self.due(step);
    }

    fn clock_stepped(&mut self, by_ms: i64) {
        self.reports.clock_stepped(by_ms);
        self.registrations.clock_stepped(by_ms);
        self.latencies.clock_stepped(by_ms);
        self.review = self.review.map(|at| at.shifted(by_ms));
    }
}

impl Webhooks {
    /// Takes the failure of a watch with the message of the API server, or its recovery.
    pub(crate) fn watch_told(&mut self, step: &mut StepContext<'_>, id: &WatchId, detail: &str) {
        let call = FailedCall::read(detail);
        let is_conversion =
            |call: &FailedCall| matches!(call.consulted, Consulted::Conversion { .. });
        self.reports.note_watch(step.world.now, id, call.filter(is_conversion));
        self.judge_changed(step);
    }

    /// Takes all webhooks of one kind of configuration.
    pub(crate) fn listed(
        &mut self,
        step: &mut StepContext<'_>,
        kind: WebhookKind,
        webhooks: Vec<WebhookView>,
    ) {
        self.registrations.note_webhooks(step.world, kind, webhooks);
        self.due(step);
    }

    /// Takes a definition, whose objects a webhook may convert.
    pub(crate) fn definition_seen(
        &mut self,
        step: &mut StepContext<'_>,
        definition: &DefinitionView,
    ) {
        self.registrations.note_definition(step.world.now, definition);
        self.wait_for(step.world.now);
    }

    /// Returns the names of the definitions with a conversion webhook.
    pub(crate) fn definitions(&self) -> impl Iterator<Item = &String> {
        self.registrations.definitions()
    }

    /// Forgets a definition that is gone.
    pub(crate) fn definition_gone(&mut self, name: &str) {
        self.registrations.forget_definition(name);
    }

    /// Takes the endpoints of the Services of webhooks.
    pub(crate) fn endpoints_listed(
        &mut self,
        step: &mut StepContext<'_>,
        endpoints: Vec<EndpointsView>,
    ) {
        self.registrations.note_endpoints(step.world.now, endpoints);
        self.due(step);
    }

    /// Takes a scrape of the operator's metrics.
    pub(crate) fn scraped(&mut self, step: &mut StepContext<'_>, view: &MetricsView) {
        if !view.webhooks.is_empty() || !self.latencies.is_empty() {
            self.latencies.note(step.world.now, view);
            self.judge_registrations(step);
            self.judge_changed(step);
        }
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
    fn judge(&mut self, step: &mut StepContext<'_>, webhooks: BTreeSet<Consulted>) {
        let now = step.world.now;
        for webhook in webhooks {
            let known = self.found.remove(&webhook);
            let is_open = known.as_ref().is_some_and(|known| known.is_confirmed);
            let named = verdict::subject(step.world, &self.registrations, &webhook);
            let detection =
                verdict::detect(step.world, step.operator, &self.reports, &webhook, is_open);
            let detection = detection.map(|it| self.with_covered_kinds(step.world, &webhook, it));
            let due = detection.as_ref().map(|detection| detection.due);

            self.review = self.review.into_iter().chain(due.filter(|due| *due > now)).min();
            let detection = detection.filter(|detection| detection.due <= now);
            if let Some(((code, subject), detection)) = named.zip(detection) {
                let is_confirmed = detection.confidence == Confidence::Confirmed;
                step.findings.report(step.world, subject.clone(), detection);
                self.found.insert(webhook, Found { code, subject, is_confirmed });
            } else if let Some(Found { code, subject, .. }) = known {
                step.findings.clear(now, code, &subject);
            }
        }

        self.wait_for(now);
    }

    /// Adds the kinds that a webhook covers to those that depend on it.
    fn with_covered_kinds(
        &self,
        world: &World,
        webhook: &Consulted,
        mut detection: Detection,
    ) -> Detection {
        if let Consulted::Admission(name) = webhook {
            let mut covered = self.registrations.covered_kinds(world, name);
            covered.retain(|kind| !detection.affects.contains(kind));
            detection.affects.extend(covered);
        }

        detection
    }

    /// Opens and closes the findings about registrations, and reports those that nobody can answer.
    fn judge_registrations(&mut self, step: &mut StepContext<'_>) {
        let now = step.world.now;
        self.latencies.forget_old(now);
        self.reports.note_endpoints(self.registrations.without_endpoints(step.world));
        let known = std::mem::take(&mut self.hazards);
        let (world, operator) = (&*step.world, step.operator);
        let (registrations, latencies) = (&self.registrations, &self.latencies);
        let detections = hazards::detections(world, operator, registrations, latencies, &known);

        for (found, detection) in detections {
            if detection.due > now {
                self.review = self.review.into_iter().chain([detection.due]).min();
            } else {
                step.findings.report(step.world, found.1.clone(), detection);
                self.hazards.insert(found);
            }
        }

        let over = known.difference(&self.hazards);
        over.for_each(|(code, subject)| step.findings.clear(now, *code, subject));
    }

    /// Sets the next review, if there are webhooks.
    fn wait_for(&mut self, now: Timestamp) {
        let is_idle = self.reports.is_empty() && self.registrations.is_empty();
        if !is_idle || !self.found.is_empty() || !self.hazards.is_empty() {
            let review = now.after(REVIEW);
            self.review = Some(self.review.map_or(review, |known| known.min(review)));
        }
    }
}
