//! Schedules the lookups of reference targets: which references of primary objects to check, and
//! when.
//!
//! The target of a new reference is looked up soon, an absent one once a minute. All others are
//! looked up in turn, each approximately every ten minutes. A target of a watched kind costs no
//! request; all others together cost at most one per second.

mod table;

use std::sync::Arc;

use self::table::{MAX_STEP, STEP};
use crate::model::findings::detection::Detection;
use crate::model::findings::open_findings::OpenFindings;
use crate::model::part::{Part, StepContext, Version};
use crate::model::references::targets::{self, is_known_output};
use crate::model::world::crowd::{self, MAX_LEAVING};
use crate::model::world::intern::Symbol;
use crate::model::world::limits::Limit;
use crate::model::world::store::Slot;
use crate::model::world::{World, field_managers};
use crate::observation::{ObjectAddress, ObjectView, Role};
use crate::time::{Span, Timestamp};

pub(crate) use self::table::{Held, Index, MAX_OUTPUTS, Mark, References, State, seconds};

/// The number of the operator's field managers that are remembered per kind.
const MAX_WRITERS: usize = 8;
/// Separates the parts of a place. No name of a group, a kind or a namespace contains it.
const SEPARATOR: &str = "\0";

/// How the lookup of a reference went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lookup {
    /// A read was asked for.
    Asked,
    Done,
}

impl Part for References {
    fn seen(&mut self, step: &mut StepContext<'_>, version: &Version<'_>) {
        if version.has_other_spec {
            let live = !version.becomes_visible && version.is_live;
            self.update_references(step.world, version.slot, version.view, live);
        }

        self.note_writer(step.world, version.slot, version.view);
    }

    fn removed(&mut self, step: &mut StepContext<'_>, slot: Slot, _deleted: bool) {
        self.remove_references(step.world, slot);
    }

    fn detections(&mut self, step: &mut StepContext<'_>, slot: Slot) -> Vec<Detection> {
        self.dangling_reference(step.world, step.findings, slot).into_iter().collect()
    }

    fn next_due(&self) -> Option<Timestamp> {
        self.due
    }

    fn due(&mut self, step: &mut StepContext<'_>) {
        self.references_due(step.world, step.findings);
    }

    fn clock_stepped(&mut self, by_ms: i64) {
        self.shift(by_ms);
    }
}

impl References {
    /// Replaces the references of an object that has a new spec. `live` means that the spec changed
    /// just now.
    fn update_references(&mut self, world: &mut World, slot: Slot, view: &ObjectView, live: bool) {
        let Some(record) = world.store.get(slot) else { return };
        let (kind, namespace) =
            (world.watches[record.watch as usize].kind, record.namespace.clone());
        let is_primary = world.kinds[kind as usize].role == Role::Primary;
        let mut old = self.of(slot);

        if old.is_empty() && (view.references.is_empty() || !is_primary) {
            return;
        }

        let (state, since) =
            if live { (State::New, seconds(world.now)) } else { (State::Unchecked, 0) };
        for reference in
            view.references.iter().filter(|reference| is_primary && !reference.optional)
        {
            let Some(address) = targets::address_of(world, reference, kind, &view.key.namespace)
            else {
                continue;
            };
            if self.is_output(world, kind, &reference.slot) {
                continue;
            }

            let place = self.acquire_place(world, &namespace, &address, &reference.slot);
            let same = |index: &Index| {
                self.get(*index)
                    .is_some_and(|held| held.place == place && *held.name == *address.name)
            };
            if let Some(position) = old.iter().position(same) {
                old.swap_remove(position);
                world.shared.texts.release(place);
            } else {
                self.add_reference(world, Held::new(slot, place, &address.name, state, since));
            }
        }

        old.into_iter().for_each(|index| self.remove_reference(world, index));
        self.set_references_timer(world);
    }
}

/// Returns the namespace of an object.
fn namespace_of(world: &World, slot: Slot) -> Option<Arc<str>> {
    world.store.get(slot).map(|record| record.namespace.clone())
}

impl References {
    /// Returns the symbol for the place of a reference of an object in `namespace`. If the texts have
    /// no room, references of the namespace with most of them are forgotten, which frees theirs.
    fn acquire_place(
        &mut self,
        world: &mut World,
        namespace: &Arc<str>,
        address: &ObjectAddress,
        path: &str,
    ) -> Symbol {
        let ObjectAddress { group, kind, namespace: of, .. } = address;
        let place = [group.as_str(), kind, of, path].join(SEPARATOR);
        for _ in 0..MAX_LEAVING {
            if let Ok(symbol) = world.shared.texts.acquire(&*place) {
                return symbol;
            }

            let Some(other) = self.leaves_for(namespace, place.len()) else { break };
            world.count_dropped(Limit::References);
            self.forget_reference(world, other);
        }

        world.acquire_text(&place)
    }

    fn add_reference(&mut self, world: &mut World, held: Held) {
        if held.place == Symbol::default() {
            return; // too many texts, which is counted
        }

        let Some(namespace) = namespace_of(world, held.slot) else { return };
        if !self.make_room(world, &namespace, &held) {
            return world.shared.texts.release(held.place);
        }

        let is_new = held.state == State::New;
        let index = self.insert(&namespace, held);
        if is_new {
            self.enqueue(index, Some(world.now));
        }
    }

    /// Makes room for a reference: those of the namespace whose references take most leave. Returns
    /// whether there is room.
    fn make_room(&mut self, world: &mut World, namespace: &Arc<str>, held: &Held) -> bool {
        let has_room = |known: &Self| known.has_room(held);
        let leaves = |known: &Self| known.leaves_for(namespace, held.size());
        crowd::make_room(self, world, Limit::References, has_room, leaves, Self::forget_reference)
    }

    /// Removes a reference for lack of room, and reviews its object.
    fn forget_reference(&mut self, world: &mut World, index: Index) {
        world.agenda.objects.extend(self.get(index).map(|held| held.slot));
        self.remove_reference(world, index);
    }

    fn remove_reference(&mut self, world: &mut World, index: Index) {
        let of = self.get(index).and_then(|held| namespace_of(world, held.slot));
        let Some(namespace) = of else { return };
        if let Some(held) = self.remove(&namespace, index) {
            world.shared.texts.release(held.place);
        }
    }

    /// Forgets the references of an object.
    fn remove_references(&mut self, world: &mut World, slot: Slot) {
        self.of(slot).into_iter().for_each(|index| self.remove_reference(world, index));
    }

    /// Remembers the field manager that writes the status of an object with references.
    fn note_writer(&mut self, world: &World, slot: Slot, view: &ObjectView) {
        if view.references.is_empty() {
            return;
        }

        let Some(writer) = field_managers::status_writer(view) else { return };
        let Some(record) = world.store.get(slot) else { return };
        let known = self.writers.entry(world.watches[record.watch as usize].kind).or_default();

        if known.len() < MAX_WRITERS
            && !known.contains(&writer.name)
            && field_managers::is_controller(view, &writer.name)
        {
            known.insert(writer.name.clone());
        }
    }

    /// Returns the address of the target of a reference, and the path of its field.
    pub(crate) fn target_of(&self, world: &World, index: Index) -> Option<(ObjectAddress, String)> {
        let held = self.get(index)?;
        let mut parts = world.shared.texts.get(held.place).splitn(4, SEPARATOR).map(str::to_owned);
        let (group, kind, namespace) = (parts.next()?, parts.next()?, parts.next()?);
        Some((ObjectAddress { group, kind, namespace, name: held.name.to_string() }, parts.next()?))
    }

    /// Returns whether a field names an object that the operator creates.
    fn is_output(&self, world: &World, kind: u16, path: &str) -> bool {
        let state = &world.kinds[kind as usize];
        is_known_output(&state.group, &state.kind, path)
            || (!self.outputs.is_empty() && self.outputs.contains(&output(&state.name(), path)))
    }

    /// Remembers that a field of a kind names objects that the operator creates, and forgets
    /// references in that field.
    pub(crate) fn learn_output(&mut self, world: &mut World, kind: u16, path: &str) {
        if self.outputs.len() >= MAX_OUTPUTS {
            return world.count_dropped(Limit::Outputs);
        }

        self.outputs.insert(output(&world.kinds[kind as usize].name(), path));
        for index in 0..self.end() {
            let Some(slot) = self.get(index).map(|held| held.slot) else { continue };
            let of_kind = world
                .store
                .get(slot)
                .is_some_and(|record| world.watches[record.watch as usize].kind == kind);
            if of_kind && self.target_of(world, index).is_some_and(|(_, of_path)| of_path == path) {
                self.remove_reference(world, index);
                world.agenda.objects.insert(slot);
            }
        }
    }

    /// Handles the timer: looks up the references that are due, until one needs a read.
    fn references_due(&mut self, world: &mut World, findings: &OpenFindings) {
        let now = world.now;
        let round_is_due = self.round_due <= now;
        let (quota, every) = self.pace();

        if round_is_due {
            self.round_due = now.after(every);
        }

        let mut round = if round_is_due { quota } else { 0 };
        let mut round_first = std::mem::replace(&mut self.round_first, false);
        for _ in 0..MAX_STEP {
            let from_round =
                (round_first && round > 0) || self.queue.first().is_none_or(|(at, _)| *at > now);
            let next = if !from_round {
                self.take_queued(now)
            } else if round > 0 {
                round -= 1;
                self.take_round()
            } else {
                None
            };

            let Some(index) = next else { break };
            round_first = false;
            if self.look_up(world, findings, index) == Lookup::Asked {
                self.next_ask = now.after(STEP);
                self.round_first = !from_round && round_is_due;
                break;
            }
        }

        self.set_references_timer(world);
    }

    pub(super) fn set_references_timer(&mut self, world: &World) {
        let references = &self;
        let queued = references.queue.first().map(|(at, _)| *at);
        let round = (references.len() > 0).then_some(references.round_due);
        let due = queued.into_iter().chain(round).min().map(|due| due.max(references.next_ask));

        // A timer that is due now would fire again within the same step.
        self.due = due.map(|due| due.max(world.now.after(Span(1))));
    }
}

/// Returns the key of an output field.
fn output(kind: &str, path: &str) -> String {
    format!("{kind} {path}")
}
