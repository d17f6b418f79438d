//! Who says that calls of a webhook fail: the statuses of objects, the watches of loopwatch, Kubernetes
//! Events, and Services without endpoints.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::world::World;
use crate::model::world::field_managers;
use crate::model::world::limits::{Limit, MAX_FAILED_CALLS};
use crate::model::world::store::Slot;
use crate::observation::{
    Condition, Consulted, EventView, FactValue, FailedCall, ObjectView, StatusSchema, WatchId,
};
use crate::time::{Span, Timestamp};

/// All reports.
#[derive(Debug, Default)]
pub(super) struct Reports {
    /// Those in the statuses of objects; at most [`MAX_FAILED_CALLS`] objects.
    of_objects: BTreeMap<Slot, Vec<ObjectReport>>,
    /// The objects that report each webhook; at most [`MAX_REPORTERS`] for each.
    reporters: BTreeMap<Consulted, BTreeSet<Slot>>,
    of_watches: BTreeMap<WatchId, Report>,
    /// Those in Events, at most [`MAX_EVENT_WEBHOOKS`] webhooks.
    of_events: BTreeMap<Consulted, EventReport>,
    /// Those of Services without an endpoint that is ready.
    of_endpoints: BTreeMap<Consulted, EndpointReport>,
    /// The webhooks whose reports have changed.
    changed: BTreeSet<Consulted>,
}

/// A report, with its beginning.
#[derive(Clone, Debug)]
pub(super) struct Report {
    pub(super) call: FailedCall,
    pub(super) since: Timestamp,
}

/// A report in the status of an object.
#[derive(Clone, Debug)]
pub(super) struct ObjectReport {
    pub(super) report: Report,
    /// Whether a controller wrote it, not somebody who may write the object.
    pub(super) is_trusted: bool,
    /// Since when the status no longer says so; `None` if it does.
    quiet_since: Option<Timestamp>,
}

/// A report in Events.
#[derive(Debug)]
pub(super) struct EventReport {
    pub(super) report: Report,
    pub(super) last: Timestamp,
    /// The namespace of the Event that introduced the webhook.
    namespace: String,
}

/// The report of a Service that has no endpoint that is ready.
#[derive(Debug)]
pub(super) struct EndpointReport {
    pub(super) report: Report,
    /// Whether loopwatch has seen one that was ready before.
    pub(super) was_ready: bool,
    /// Whether the Service does not exist.
    pub(super) is_absent: bool,
}

/// The maximum number of webhooks in the reports of one object.
const MAX_PER_OBJECT: usize = 4;

/// The maximum number of objects that report one webhook. More say nothing new.
const MAX_REPORTERS: usize = 64;

/// The maximum number of webhooks that only Events name. Anybody may write Events, so those of one
/// namespace introduce at most half of them.
const MAX_EVENT_WEBHOOKS: usize = 16;

/// How long an Event counts. The API server repeats none for longer while the failure lasts.
const EVENTS_FOR: Span = Span::mins(5);

/// How long a report counts after the status no longer has it. A controller that tries again says first that it
/// works on the object.
const RETRIES_FOR: Span = Span::mins(1);

/// A condition that is older than this may have changed for another reason.
const RECENT: Span = Span::mins(2);

impl Reports {
    pub(super) fn is_empty(&self) -> bool {
        self.of_objects.is_empty()
            && self.of_watches.is_empty()
            && self.of_events.is_empty()
            && self.of_endpoints.is_empty()
            && self.changed.is_empty()
    }

    /// Returns all webhooks that somebody reports.
    pub(super) fn webhooks(&self) -> BTreeSet<Consulted> {
        let of_watches = self.of_watches.values().map(|report| &report.call.consulted);
        let others = self.of_events.keys().chain(self.of_endpoints.keys());
        self.reporters.keys().chain(of_watches).chain(others).cloned().collect()
    }

    /// Removes and returns the webhooks whose reports have changed, or that this object reports.
    pub(super) fn take_changed(&mut self, slot: Slot) -> BTreeSet<Consulted> {
        let mut changed = self.take_all_changed();
        let own = self.of_objects.get(&slot).into_iter().flatten();
        changed.extend(own.map(|own| own.report.call.consulted.clone()));
        changed
    }

    pub(super) fn take_all_changed(&mut self) -> BTreeSet<Consulted> {
        std::mem::take(&mut self.changed)
    }

    /// Takes the status of an object. `is_live` tells whether it has just changed.
    pub(super) fn note_object(
        &mut self,
        world: &mut World,
        slot: Slot,
        view: &ObjectView,
        is_live: bool,
    ) {
        let calls = failed_calls(view);
        if calls.is_empty() && !self.of_objects.contains_key(&slot) {
            return;
        }

        if calls.is_empty() {
            let reports = self.of_objects.entry(slot).or_default();
            reports.iter_mut().for_each(|it| _ = it.quiet_since.get_or_insert(world.now));
            return;
        }

        let earlier = self.forget_object(slot);
        if self.of_objects.len() >= MAX_FAILED_CALLS {
            return world.count_dropped(Limit::FailedCalls);
        }

        let is_trusted = is_trusted(world, slot, view);
        let mut reports: Vec<ObjectReport> = Vec::new();
        for (call, changed) in calls {
            let is_same = |known: &&ObjectReport| known.report.call.consulted == call.consulted;
            let is_known = reports.iter().any(|known| is_same(&known));
            if is_known || reports.len() >= MAX_PER_OBJECT || !self.add(&call.consulted, slot) {
                continue;
            }

            let changed = changed.filter(|at| *at <= world.now);
            let changed = changed.filter(|at| !is_live || world.now.since(*at) <= RECENT);
            let known = earlier.iter().find(is_same).map(|known| known.report.since);
            let since = known.or(changed).unwrap_or(world.now);
            let report = Report { call, since };
            reports.push(ObjectReport { report, is_trusted, quiet_since: None });
        }

        if !reports.is_empty() {
            self.of_objects.insert(slot, reports);
        }
    }

    /// Adds an object to those that report a webhook, unless there are enough.
    fn add(&mut self, webhook: &Consulted, slot: Slot) -> bool {
        let reporters = self.reporters.entry(webhook.clone()).or_default();
        let has_room = reporters.len() < MAX_REPORTERS;
        if has_room {
            reporters.insert(slot);
            self.changed.insert(webhook.clone());
        }

        has_room
    }

    /// Forgets what an object reports, and returns it.
    pub(super) fn forget_object(&mut self, slot: Slot) -> Vec<ObjectReport> {
        let reports = self.of_objects.remove(&slot).unwrap_or_default();
        for ObjectReport { report, .. } in &reports {
            let webhook = &report.call.consulted;
            self.changed.insert(webhook.clone());
            if let Some(reporters) = self.reporters.get_mut(webhook) {
                reporters.remove(&slot);
                if reporters.is_empty() {
                    self.reporters.remove(webhook);
                }
            }
        }

        reports
    }

    /// Takes the failure of a watch. `None` means that it fails for another reason, or no longer.
    pub(super) fn note_watch(&mut self, now: Timestamp, id: &WatchId, call: Option<FailedCall>) {
        let known = self.of_watches.remove(id);
        self.changed.extend(known.iter().map(|known| known.call.consulted.clone()));
        let Some(call) = call else { return };

        let is_same = |known: &Report| known.call.consulted == call.consulted;
        let since = known.filter(is_same).map_or(now, |known| known.since);
        self.changed.insert(call.consulted.clone());
        self.of_watches.insert(id.clone(), Report { call, since });
    }

    /// Takes an Event.
    pub(super) fn note_event(&mut self, now: Timestamp, event: &EventView) {
        let at = event.at.map_or(now, |at| at.min(now));
        let call = FailedCall::known_or_read(event.failed_call.as_deref(), &event.message);
        let Some(call) = call.filter(|_| now.since(at) < EVENTS_FOR) else { return };

        let namespace = &event.about.namespace;
        let known = self.of_events.get_mut(&call.consulted);
        if let Some(known) = known {
            known.last = known.last.max(at);
            known.report.call = call.clone();
        } else if self.may_introduce(namespace) {
            let report = Report { call: call.clone(), since: at };
            let event = EventReport { report, last: at, namespace: namespace.clone() };
            self.of_events.insert(call.consulted.clone(), event);
        }

        self.changed.insert(call.consulted);
    }

    /// Takes the webhooks whose Services have no endpoint that is ready.
    pub(super) fn note_endpoints(&mut self, unready: BTreeMap<Consulted, EndpointReport>) {
        let known = std::mem::replace(&mut self.of_endpoints, unready);
        let over = known.into_keys().filter(|webhook| !self.of_endpoints.contains_key(webhook));
        self.changed.extend(over.chain(self.of_endpoints.keys().cloned()));
    }

    fn may_introduce(&self, namespace: &str) -> bool {
        let of_namespace = self.of_events.values().filter(|event| event.namespace == namespace);
        self.of_events.len() < MAX_EVENT_WEBHOOKS && of_namespace.count() < MAX_EVENT_WEBHOOKS / 2
    }

    /// Forgets Events that are too old, what statuses no longer say, and watches that have ended.
    pub(super) fn forget_old(&mut self, world: &World) {
        let is_over = |report: &ObjectReport| {
            report.quiet_since.is_some_and(|since| world.now.since(since) >= RETRIES_FOR)
        };
        let over = self.of_objects.iter().filter(|(_, reports)| reports.iter().any(is_over));
        let over: Vec<Slot> = over.map(|(slot, _)| *slot).collect();
        over.into_iter().for_each(|slot| _ = self.forget_object(slot));

        let is_old = |event: &EventReport| world.now.since(event.last) >= EVENTS_FOR;
        let has_ended = |id: &WatchId| {
            world.find_watch(id).is_none_or(|number| !world.watches[number as usize].active)
        };

        let changed = &mut self.changed;
        self.of_events.retain(|webhook, event| {
            let keeps = !is_old(event);
            changed.extend((!keeps).then(|| webhook.clone()));
            keeps
        });
        self.of_watches.retain(|id, report| {
            let keeps = !has_ended(id);
            changed.extend((!keeps).then(|| report.call.consulted.clone()));
            keeps
        });
    }

    /// Returns the reports of objects about a webhook.
    pub(super) fn of_objects(
        &self,
        webhook: &Consulted,
    ) -> impl Iterator<Item = (Slot, &ObjectReport)> {
        let slots = self.reporters.get(webhook).into_iter().flatten();
        slots.filter_map(move |slot| {
            let reports = self.of_objects.get(slot)?;
            let report = reports.iter().find(|it| it.report.call.consulted == *webhook)?;
            Some((*slot, report))
        })
    }

    /// Returns the report of watches about a webhook.
    pub(super) fn of_watch(&self, webhook: &Consulted) -> Option<&Report> {
        let reports = self.of_watches.values().filter(|report| report.call.consulted == *webhook);
        reports.min_by_key(|report| report.since)
    }

    pub(super) fn of_events(&self, webhook: &Consulted) -> Option<&EventReport> {
        self.of_events.get(webhook)
    }

    pub(super) fn of_endpoints(&self, webhook: &Consulted) -> Option<&EndpointReport> {
        self.of_endpoints.get(webhook)
    }

    /// Moves all instants of loopwatch's own clock by `by_ms` milliseconds.
    pub(super) fn clock_stepped(&mut self, by_ms: i64) {
        let quiet = self.of_objects.values_mut().flatten().filter_map(|it| it.quiet_since.as_mut());
        quiet.for_each(|at| *at = at.shifted(by_ms));

        let of_objects = self.of_objects.values_mut().flatten().map(|it| &mut it.report);
        let of_events = self.of_events.values_mut();
        let of_events = of_events.flat_map(|it| [&mut it.report.since, &mut it.last]);
        let of_endpoints = self.of_endpoints.values_mut().map(|it| &mut it.report);
        let reports = of_objects.chain(self.of_watches.values_mut()).chain(of_endpoints);
        let instants = reports.map(|report| &mut report.since).chain(of_events);
        instants.for_each(|at| *at = at.shifted(by_ms));
    }
}

/// Returns the failed calls that the status of an object reports, with the times of the conditions.
fn failed_calls(view: &ObjectView) -> Vec<(FailedCall, Option<Timestamp>)> {
    let of_condition = |condition: &Condition| {
        let known = condition.failed_call.as_deref();
        Some((FailedCall::known_or_read(known, &condition.message)?, condition.changed))
    };
    let of_conditions = view.conditions.iter().filter_map(of_condition);

    let facts = view.facts.iter().filter_map(|fact| match &fact.value {
        FactValue::Text(text) => Some(text.as_str()),
        FactValue::Flag(_) | FactValue::Number(_) => None,
    });
    let attempts = view.attempts.iter().map(|attempts| attempts.error.as_str());
    let of_texts = facts.chain(attempts).filter_map(FailedCall::read);

    of_conditions.chain(of_texts.map(|call| (call, None))).collect()
}

/// Returns whether only a controller can have written the status: whoever may write the object cannot
/// write its status, and it was no person who wrote it last.
fn is_trusted(world: &World, slot: Slot, view: &ObjectView) -> bool {
    let Some(record) = world.store.get(slot) else { return false };
    let kind = world.kind_of(record.watch);
    let writer = field_managers::status_writer(view);
    let is_of_person = writer.is_some_and(|writer| field_managers::is_of_person(&writer.name));

    kind.status != StatusSchema::InBody && !kind.suspected && !is_of_person
}
