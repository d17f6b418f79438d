//! Adds Kubernetes Events to traces. All Events with the same type, reason and reporter share one
//! step, which counts them.

use crate::model::kube_events::{reason_word, severity};
use crate::model::traces::{EarlyEvent, OpenStep, Traces};
use crate::model::world::World;
use crate::model::world::store::Slot;
use crate::observation::{EventView, ObjectKey};
use crate::time::{Span, Timestamp};
use crate::trace::StepKind;

/// The maximum number of steps of Events in one trace: anybody may write Events, and other steps
/// need room, too.
const MAX_EVENT_STEPS: usize = 16;

/// How long an Event waits for the change that it is about: the two arrive on different
/// connections, and either may be delayed for a moment.
const EARLY: Span = Span(500);

/// The maximum number of waiting Events. Beyond it, the oldest are forgotten.
const MAX_EARLY: usize = 64;

/// The precision of times in Events of the older form.
const SECOND: Span = Span::secs(1);

impl Traces {
    /// Adds an Event to a trace, unless it happened before the trace began.
    fn add_event(&mut self, slot: Slot, event: &EventView, at: Timestamp) {
        let Some(trace) = self.open.get_mut(&slot).filter(|trace| at >= trace.start) else {
            return;
        };
        let same = StepKind::Event {
            r#type: severity(&event.r#type),
            reason: reason_word(&event.reason).to_owned(),
            reporter: event.reporter.clone(),
            count: 0,
        };

        let known = trace
            .steps
            .iter_mut()
            .find_map(|step| Some((count_of(&mut step.kind, &same)?, &mut step.end)));
        if let Some((count, end)) = known {
            *count = count.saturating_add(event.added);
            *end = Some(end.map_or(at, |end| end.max(at)));
            return;
        }

        let is_event = |step: &&OpenStep| matches!(step.kind, StepKind::Event { .. });
        if trace.steps.iter().filter(is_event).count() >= MAX_EVENT_STEPS {
            return self.drop_step(slot);
        }

        let mut kind = same;
        if let StepKind::Event { count, .. } = &mut kind {
            *count = event.added;
        }

        self.add(slot, OpenStep { end: Some(at), ..OpenStep::new(kind, at) });
    }

    /// Keeps an Event for a trace that may begin in a moment.
    fn wait_for_trace(&mut self, now: Timestamp, kind: u16, event: &EventView) {
        if self.early.len() >= MAX_EARLY {
            self.early.pop_front();
        }
        self.early.push_back(EarlyEvent { seen: now, kind, event: event.clone() });
    }
}

impl Traces {
    /// Adds an Event about an object to its trace. An Event without an open trace waits for a
    /// moment.
    pub(crate) fn trace_event(&mut self, world: &World, watch: u16, kind: u16, event: &EventView) {
        if !self.on || event.added == 0 {
            return;
        }

        let slot = world.store.find(watch, &event.about.namespace, &event.about.name);
        match slot.filter(|slot| self.open.contains_key(slot)) {
            Some(slot) => self.add_event(slot, event, instant(event.at, world.now)),
            None => self.wait_for_trace(world.now, kind, event),
        }
    }

    /// Adds the Events that arrived just before the change that they are about.
    pub(super) fn trace_early_events(
        &mut self,
        world: &World,
        slot: Slot,
        kind: u16,
        about: &ObjectKey,
    ) {
        let (now, early) = (world.now, std::mem::take(&mut self.early));
        for early in early.into_iter().filter(|early| early.seen.after(EARLY) >= now) {
            match early.kind == kind && early.event.about == *about {
                true => self.add_event(slot, &early.event, now),
                false => self.early.push_back(early),
            }
        }
    }
}

/// Returns the count of a step of the same Events.
fn count_of<'s>(step: &'s mut StepKind, same: &StepKind) -> Option<&'s mut u64> {
    let StepKind::Event { r#type, reason, reporter, count } = step else { return None };
    let StepKind::Event { r#type: type_of, reason: reason_of, reporter: reporter_of, .. } = same
    else {
        return None;
    };

    ((&*r#type, &*reason, &*reporter) == (type_of, reason_of, reporter_of)).then_some(count)
}

/// Returns when an Event happened: loopwatch usually sees it at once, and its timestamp may be in
/// whole seconds.
fn instant(at: Option<Timestamp>, now: Timestamp) -> Timestamp {
    match at {
        Some(at) if at.0 % SECOND.0 == 0 => now.min(at.after(SECOND)),
        Some(at) => now.min(at),
        None => now,
    }
}
