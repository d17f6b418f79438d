//! The references of primary objects whose target may be missing, and when to look for each target.
//!
//! A reference that appears is looked up soon, and one whose target is absent once a minute. All
//! others are looked up in turn, each about every ten minutes. A target of a watched kind costs no
//! request; all others together cost at most one per second.

mod table;

use crate::model::Model;
use crate::model::convergence::writers;
use crate::model::references::targets::is_known_output;
use crate::model::world::intern::Symbol;
use crate::model::world::store::Slot;
use crate::model::world::timers::Timer;
use crate::observation::{ObjectAddress, ObjectView, Role};
use crate::time::Span;

pub(crate) use self::table::{Held, Index, MAX_OUTPUTS, References, State, seconds};
use self::table::{MAX_STEP, STEP};

/// The maximum number of references that are kept.
pub(crate) const MAX_REFERENCES: usize = 50_000;
/// The maximum number of field managers of an operator that are remembered per kind.
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

// === impl Model ===

impl Model {
    /// Takes the references of a version of an object with a new spec. `live` tells that the spec
    /// changed just now.
    pub(crate) fn update_references(&mut self, slot: Slot, view: &ObjectView, live: bool) {
        let Some(record) = self.store.get(slot) else { return };
        let kind = self.watches[record.watch as usize].kind;
        let is_primary = self.kinds[kind as usize].role == Role::Primary;
        let mut old = self.references.of(slot);

        if old.is_empty() && (view.references.is_empty() || !is_primary) {
            return;
        }

        let (state, since) =
            if live { (State::New, seconds(self.now)) } else { (State::Unchecked, 0) };
        for reference in
            view.references.iter().filter(|reference| is_primary && !reference.optional)
        {
            let Some(address) = self.address_of(reference, &view.key.namespace) else { continue };
            if self.is_output(kind, &reference.slot) {
                continue;
            }

            let place = self.acquire_place(&address, &reference.slot);
            let same = |index: &Index| {
                self.references
                    .get(*index)
                    .is_some_and(|held| held.place == place && *held.name == *address.name)
            };
            if let Some(position) = old.iter().position(same) {
                old.swap_remove(position);
                self.texts.release(place);
            } else {
                self.add_reference(Held::new(slot, place, &address.name, state, since));
            }
        }

        old.into_iter().for_each(|index| self.remove_reference(index));
        self.set_references_timer();
    }

    fn acquire_place(&mut self, address: &ObjectAddress, path: &str) -> Symbol {
        let ObjectAddress { group, kind, namespace, .. } = address;
        self.acquire_text(&[group.as_str(), kind, namespace, path].join(SEPARATOR))
    }

    fn add_reference(&mut self, held: Held) {
        if held.place == Symbol::default() {
            return; // too many texts, which is counted
        }

        if self.references.len() >= MAX_REFERENCES {
            self.texts.release(held.place);
            return self.count_dropped("references");
        }

        let is_new = held.state == State::New;
        let index = self.references.insert(held);
        if is_new {
            self.references.enqueue(index, Some(self.now));
        }
    }

    fn remove_reference(&mut self, index: Index) {
        if let Some(held) = self.references.remove(index) {
            self.texts.release(held.place);
        }
    }

    /// Forgets the references of an object.
    pub(crate) fn remove_references(&mut self, slot: Slot) {
        self.references.of(slot).into_iter().for_each(|index| self.remove_reference(index));
    }

    /// Remembers the field manager that writes the status of an object with references.
    pub(crate) fn note_writer(&mut self, slot: Slot, view: &ObjectView) {
        let Some(writer) = writers::status_writer(view).filter(|_| !view.references.is_empty())
        else {
            return;
        };
        let Some(record) = self.store.get(slot) else { return };
        let known =
            self.references.writers.entry(self.watches[record.watch as usize].kind).or_default();

        if known.len() < MAX_WRITERS
            && !known.contains(&writer.name)
            && writers::is_controller(view, &writer.name)
        {
            known.insert(writer.name.clone());
        }
    }

    /// Returns the address of the target of a reference, and the path of its field.
    pub(crate) fn target_of(&self, index: Index) -> Option<(ObjectAddress, String)> {
        let held = self.references.get(index)?;
        let mut parts = self.texts.get(held.place).splitn(4, SEPARATOR).map(str::to_owned);
        let (group, kind, namespace) = (parts.next()?, parts.next()?, parts.next()?);
        Some((ObjectAddress { group, kind, namespace, name: held.name.to_string() }, parts.next()?))
    }

    /// Returns whether a field names an object that the operator creates.
    fn is_output(&self, kind: u16, path: &str) -> bool {
        let state = &self.kinds[kind as usize];
        is_known_output(&state.group, &state.kind, path)
            || (!self.references.outputs.is_empty()
                && self.references.outputs.contains(&output(&state.name(), path)))
    }

    /// Remembers that a field of a kind names objects that the operator creates, and forgets its
    /// references.
    pub(crate) fn learn_output(&mut self, kind: u16, path: &str) {
        if self.references.outputs.len() >= MAX_OUTPUTS {
            return self.count_dropped("outputs");
        }

        self.references.outputs.insert(output(&self.kinds[kind as usize].name(), path));
        for index in 0..self.references.end() {
            let Some(slot) = self.references.get(index).map(|held| held.slot) else { continue };
            let of_kind = self
                .store
                .get(slot)
                .is_some_and(|record| self.watches[record.watch as usize].kind == kind);
            if of_kind && self.target_of(index).is_some_and(|(_, of_path)| of_path == path) {
                self.remove_reference(index);
                self.reviews.objects.insert(slot);
            }
        }
    }

    /// Looks up all references that nobody has looked up yet, without regard to the rate of reads:
    /// for a dump, in which all answers are at hand, and in which time does not pass.
    pub fn look_up_all_references(&mut self) {
        while self.references.unchecked > 0 {
            let Some(index) = self.references.take_round() else { break };
            self.look_up(index);
        }
        self.finish_step();
    }

    /// Handles the timer: looks up the references that are due, until one needs a read.
    pub(crate) fn references_due(&mut self) {
        self.references.due = None;
        let now = self.now;
        let round_is_due = self.references.round_due <= now;
        let (quota, every) = self.references.pace();

        if round_is_due {
            self.references.round_due = now.after(every);
        }

        let mut round = if round_is_due { quota } else { 0 };
        let mut round_first = std::mem::replace(&mut self.references.round_first, false);
        for _ in 0..MAX_STEP {
            let from_round = (round_first && round > 0)
                || self.references.queue.first().is_none_or(|(at, _)| *at > now);
            let next = if !from_round {
                self.references.take_queued(now)
            } else if round > 0 {
                round -= 1;
                self.references.take_round()
            } else {
                None
            };

            let Some(index) = next else { break };
            round_first = false;
            if self.look_up(index) == Lookup::Asked {
                self.references.next_ask = now.after(STEP);
                self.references.round_first = !from_round && round_is_due;
                break;
            }
        }

        self.set_references_timer();
    }

    pub(super) fn set_references_timer(&mut self) {
        let references = &self.references;
        let queued = references.queue.first().map(|(at, _)| *at);
        let round = (references.len() > 0).then_some(references.round_due);
        let due = queued.into_iter().chain(round).min().map(|due| due.max(references.next_ask));

        // A timer that is due now would fire again within the same step.
        let due = due.map(|due| due.max(self.now.after(Span(1))));
        let old = std::mem::replace(&mut self.references.due, due);
        self.timers.set(Timer::References, old, due);
    }
}

/// Returns the entry of an output.
fn output(kind: &str, path: &str) -> String {
    format!("{kind} {path}")
}
