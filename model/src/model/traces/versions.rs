//! Adds to traces what versions of objects show: links, conditions, and children that become ready.

use std::collections::BTreeSet;

use crate::model::traces::{CONTEXTS, MAX_OWNERS, OWNERS, OpenStep, Traces, name_of};
use crate::model::world::World;
use crate::model::world::store::Slot;
use crate::observation::{Condition, ObjectView};
use crate::reference::ObjectName;
use crate::snapshot::ObjectState;
use crate::time::Span;
use crate::trace::{StepKind, TraceKey, TraceLink, TracePart};

pub(crate) use crate::model::world::shared_values::MAX_CONDITIONS;

impl Traces {
    /// Adds a version of an object to its trace and to those of its owners.
    pub(crate) fn trace_version(&mut self, world: &World, slot: Slot, view: &ObjectView) {
        if !self.on {
            return;
        }

        let begun = self.begun.take();
        if begun == Some(slot) {
            self.link_trace(world, slot, view);
            if let Some(watch) = world.store.get(slot).map(|record| record.watch) {
                self.trace_early_events(
                    world,
                    slot,
                    world.watches[usize::from(watch)].kind,
                    &view.key,
                );
            }
        }

        self.trace_conditions(world, slot, view, begun == Some(slot));
        self.trace_child(world, slot, false);
    }

    /// Links a trace that has just begun to others.
    fn link_trace(&mut self, world: &World, slot: Slot, view: &ObjectView) {
        let owners = world.owners_of(slot).iter().filter_map(|owner| world.find_uid(owner.uid()));
        let owners =
            owners.filter_map(|owner| Some((world.store.get(owner)?.uid, self.open.get(&owner)?)));
        let owner = owners.map(|(uid, trace)| TraceLink::Owner(trace.key(uid))).next();
        let context = CONTEXTS
            .iter()
            .find_map(|name| view.annotations.get(*name))
            .cloned()
            .map(TraceLink::Context);

        let Some(uid) = world.store.get(slot).map(|record| record.uid) else { return };
        let Some(trace) = self.open.get_mut(&slot) else { return };
        let previous = match trace.part {
            TracePart::Generation(generation) if generation > 1 && !trace.late => {
                let part = TracePart::Generation(generation - 1);
                Some(TraceLink::Previous(TraceKey { part, ..trace.key(uid) }))
            }
            _ => None,
        };

        trace.links.extend([previous, owner, context].into_iter().flatten());
    }

    /// Adds the conditions of a version to the object's trace: each status of a condition is a
    /// step. If the trace has `begun` with this version, the steps start at the transition times,
    /// which are whole seconds.
    fn trace_conditions(&mut self, world: &World, slot: Slot, view: &ObjectView, begun: bool) {
        let now = world.now;
        let Some(trace) = self.open.get_mut(&slot) else { return };
        let top_level = || view.conditions.iter().filter(|c| c.at.is_empty()).take(MAX_CONDITIONS);

        for step in trace.steps.iter_mut().filter(|step| step.end.is_none()) {
            let StepKind::Condition { r#type, status, reason } = &mut step.kind else { continue };
            match top_level()
                .find(|condition| condition.r#type == *r#type && condition.status == *status)
            {
                Some(condition) => reason.clone_from(&condition.reason),
                None => step.end = Some(now),
            }
        }

        let shows = |condition: &&Condition| {
            let same = |kind: &StepKind| matches!(kind, StepKind::Condition { r#type, .. } if *r#type == condition.r#type);
            trace.steps.iter().any(|step| step.end.is_none() && same(&step.kind))
        };
        let new = top_level().filter(|condition| !shows(condition)).map(|condition| {
            let Condition { r#type, status, reason, changed, .. } = condition.clone();
            let since =
                changed.map_or(trace.start, |at| at.clamp(trace.start, now.max(trace.start)));
            OpenStep::new(
                StepKind::Condition { r#type, status, reason },
                if begun { since } else { now },
            )
        });

        let new: Vec<OpenStep> = new.collect();
        new.into_iter().for_each(|step| self.add(slot, step));
    }

    /// Adds the state of an object to the trace of the nearest owner that has one. `gone` means
    /// that the object was deleted.
    pub(crate) fn trace_child(&mut self, world: &World, slot: Slot, gone: bool) {
        if self.open.is_empty() {
            return;
        }

        let (Some(owner), Some(record)) = (self.traced_owner(world, slot), world.store.get(slot))
        else {
            return;
        };
        let (now, uid, created, state) = (world.now, record.uid, record.created(), record.state);
        let ready = gone || matches!(state, ObjectState::Converged | ObjectState::Finished);
        let says_nothing = state == ObjectState::Unknown && !gone;
        let Some(trace) = self.open.get_mut(&owner) else { return };
        let last = trace.steps.iter_mut().rev().find(|step| step.child == uid);

        match last {
            Some(step) if step.end.is_none() => {
                return if ready {
                    step.end = Some(now)
                };
            }
            Some(_) if ready || says_nothing => return,
            _ => {}
        }

        let is_new = created.is_some_and(|created| created.after(Span::secs(1)) > trace.start);
        if (ready || says_nothing) && (!is_new || gone) {
            return; // it existed before the trace
        }

        let begins = created
            .filter(|_| is_new)
            .map_or(now, |created| created.clamp(trace.start, now.max(trace.start)));
        let end = (ready || says_nothing).then_some(now);
        let step = OpenStep {
            kind: StepKind::Child(object_name(world, slot)),
            child: uid,
            start: begins,
            end,
        };

        self.add(owner, step);
    }

    /// Returns the nearest owner with a trace.
    fn traced_owner(&self, world: &World, slot: Slot) -> Option<Slot> {
        let (mut seen, mut level) = (BTreeSet::from([slot]), vec![slot]);
        for _ in 0..OWNERS {
            let owners = level.iter().flat_map(|slot| world.owners_of(*slot));
            let owners = owners.filter_map(|owner| world.find_uid(owner.uid()));
            level = owners.filter(|owner| seen.insert(*owner)).take(MAX_OWNERS).collect();

            if let Some(traced) = level.iter().find(|owner| self.open.contains_key(owner)) {
                return Some(*traced);
            }
        }

        None
    }
}

fn object_name(world: &World, slot: Slot) -> ObjectName {
    world.store.get(slot).map_or_else(ObjectName::default, |record| {
        let kind = world.kind_of(record.watch);
        name_of(&kind.group, &kind.kind, record)
    })
}
