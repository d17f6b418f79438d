//! Writes that should not happen: an operator that rewrites an object on every pass, two writers that
//! undo each other's writes, and older statuses that are written back.
//!
//! ```text
//!   a live version ──▶ change ──▶ pulses (8 bytes per object that is written)
//!                                    │ often
//!                                    ▼
//!                                 suspects ──┬─ last versions ────────▶ HotLoop
//!                                            ├─ writes to each part ──▶ WriteFight
//!                                            └─ reverts ──────────────▶ StatusReverted
//!   the counts of all versions of a kind ──────────────────────────────▶ RedundantStatusWrites
//!   a child that is deleted and comes back ──▶ recreations ────────────▶ RecreateLoop
//! ```
//!
//! The API server stores no version for a write that changes nothing at all, so a watch shows only
//! the writes that change something: times, metadata that the model does not read, or the same thing
//! back and forth.

mod author; // who wrote a version
mod change; // what a version changes
mod fields; // which fields the writes to a suspect change
mod fights; // the rule for two writers
mod hot_loop; // the rule for one writer
mod line; // the last writes to one part of an object
mod pulses; // counts of versions, for all objects
pub(crate) mod recreations; // children that are deleted and created again and again
mod redundant; // the rule for a whole kind
mod reverts; // the rule for older statuses
mod seen; // one version
mod suspects; // the last versions of few objects
mod totals; // who writes how much

use crate::model::findings::detection::Detection;
use crate::model::part::{Part, StepContext, Version};
use crate::model::world::World;
use crate::model::world::store::Slot;
use crate::model::writes::author::Writers;
use crate::model::writes::change::Change;
use crate::model::writes::pulses::Pulses;
use crate::model::writes::redundant::Redundant;
use crate::model::writes::seen::Seen;
use crate::model::writes::suspects::Suspects;
use crate::observation::{ObjectKey, ObjectView, WatchId};
use crate::time::{Span, Timestamp};

/// How often the part forgets what is over.
const REVIEW: Span = Span::secs(15);

/// The number of versions within two minutes from which on the part follows an object: wasted ones, and
/// ones that change it.
const FOLLOWED_FROM: (u8, u8) = (4, 3);

/// The writes of all objects.
#[derive(Debug, Default)]
pub(crate) struct Writes {
    pulses: Pulses,
    suspects: Suspects,
    redundant: Redundant,
    /// When to forget what is over; `None` if there is nothing.
    review: Option<Timestamp>,
}

impl Part for Writes {
    fn seen(&mut self, step: &mut StepContext<'_>, version: &Version<'_>) {
        let Version { slot, view, .. } = *version;
        if !version.is_live || version.becomes_visible || version.is_reread {
            self.suspects.interrupt(slot);
            return;
        }

        let world = &mut *step.world;
        let change = Change::of(world, slot, view);
        totals::count(world, slot, view, change.is_some_and(|change| change.is_waste));
        let Some(change) = change else { return };
        if !change.is_waste && !change.is_real() {
            return;
        }

        let generation_falls = generation_falls(world, slot, view);
        self.follow(world, slot, change, generation_falls);
        self.note(world, slot, view, change, generation_falls);
        if self.review.is_none_or(|at| at <= world.now) {
            self.review = Some(world.now.after(REVIEW));
        }
    }

    fn removed(&mut self, _step: &mut StepContext<'_>, slot: Slot, _deleted: bool) {
        self.pulses.forget(slot);
        self.suspects.forget(slot);
    }

    fn detections(&mut self, step: &mut StepContext<'_>, slot: Slot) -> Vec<Detection> {
        let Some(suspect) = self.suspects.of(slot) else { return Vec::new() };
        let all_per_minute = self.pulses.all_per_minute(step.world.now);
        let found = [
            hot_loop::detect(step, slot, suspect, all_per_minute),
            fights::detect(step, slot, suspect),
            reverts::detect(step, slot, &suspect.reverts, &suspect.fields),
        ];
        let found: Vec<Detection> = found.into_iter().flatten().collect();

        // A finding that somebody has switched off is never open.
        let is_open = found.iter().any(|detection| step.world.has_open(detection.code, slot));
        if let Some(suspect) = self.suspects.of_mut(slot).filter(|_| is_open) {
            suspect.fields.ask(step.world, slot);
        }
        found
    }

    fn next_due(&self) -> Option<Timestamp> {
        self.review.filter(|_| !self.is_idle())
    }

    /// Forgets what is over, and reviews the objects that this part follows: nobody else reviews an
    /// object that has come to rest.
    fn due(&mut self, step: &mut StepContext<'_>) {
        let now = step.world.now;
        self.pulses.forget_old(now);
        step.world.agenda.objects.extend(self.suspects.slots());
        self.suspects.forget_old(now, step.world.settings.revert_window);
        self.redundant.due(step);

        self.review = (!self.is_idle()).then(|| now.after(REVIEW));
    }

    fn clock_stepped(&mut self, by_ms: i64) {
        self.pulses = Pulses::default();
        self.suspects.clock_stepped(by_ms);
        self.redundant.clock_stepped(by_ms);
        self.review = self.review.map(|at| at.shifted(by_ms));
    }
}

impl Writes {
    /// Takes the fields in which the last versions of an object differ.
    pub(crate) fn fields_told(
        &mut self,
        step: &mut StepContext<'_>,
        watch: &WatchId,
        object: &ObjectKey,
        fields: Vec<String>,
    ) {
        let world = &mut *step.world;
        let watch = world.find_watch(watch);
        let slot = watch.and_then(|watch| world.store.find(watch, &object.namespace, &object.name));
        if let Some((slot, suspect)) =
            slot.and_then(|slot| Some((slot, self.suspects.of_mut(slot)?)))
        {
            suspect.fields.note(fields);
            world.agenda.objects.insert(slot);
        }
    }

    fn is_idle(&self) -> bool {
        self.pulses.is_empty() && self.suspects.is_empty() && self.redundant.is_idle()
    }

    /// Counts a version, and begins to follow the object if it is written often. A status that is
    /// written back is rare enough to be followed at once.
    fn follow(&mut self, world: &mut World, slot: Slot, change: Change, generation_falls: bool) {
        let count = self.pulses.count(world.now, slot, change.is_waste);
        let (wasted, real) = FOLLOWED_FROM;
        let is_often = count >= if change.is_waste { wasted } else { real };

        if is_often || generation_falls {
            let earlier = if change.is_waste { count - 1 } else { 0 };
            self.suspects.follow(world, slot, earlier);
        }
    }

    /// Adds a version of an object that the part follows.
    fn note(
        &mut self,
        world: &World,
        slot: Slot,
        view: &ObjectView,
        change: Change,
        generation_falls: bool,
    ) {
        let Some(suspect) = self.suspects.of_mut(slot) else { return };
        let writers = Writers::of(world, view, |_| true);
        let at = suspect.written_at(world.now, writers.last());
        let seen = Seen::new(at, change, writers.only().cloned(), view);

        if change.spec {
            let writers = Writers::of(world, view, |owns| owns.spec);
            suspect.spec.note(seen.at, view.hashes.spec, writers);
        }
        if change.status {
            let writers = Writers::of(world, view, |owns| owns.status);
            suspect.status.note(seen.at, view.hashes.settled, writers);
        }
        if change.status || generation_falls {
            suspect.reverts.note(&suspect.versions, &seen, generation_falls);
        }
        suspect.note(seen);
    }
}

/// Whether the status is about an older spec than the status before.
fn generation_falls(world: &World, slot: Slot, view: &ObjectView) -> bool {
    let Some(record) = world.store.get(slot) else { return false };
    let (before, now) = (record.observed.some(), view.observed_generation);
    before.zip(now).is_some_and(|(before, now)| now < before)
        && view.generation >= record.generation.number()
}
