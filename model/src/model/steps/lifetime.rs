//! Objects that enter and leave the model.

use std::sync::Arc;

use crate::model::Model;
use crate::model::convergence::object_context::{self, ObjectContext};
use crate::model::convergence::workloads;
use crate::model::deletion::blocking_chains;
use crate::model::status::coverage::{StatusContent, StatusSummary};
use crate::model::status::reading::{Reason, Verdict};
use crate::model::steps::{review, room};
use crate::model::world::World;
use crate::model::world::intern::Symbol;
use crate::model::world::kinds::OTHER;
use crate::model::world::limits::Limit;
use crate::model::world::store::{self, Flag, Flags, Generation, Record, Slot};
use crate::model::world::symbols::Symbols;
use crate::model::world::timers::Timer;
use crate::observation::ObjectView;
use crate::snapshot::{ObjectState, Outcome};
use crate::time::Timestamp;

/// Where an object is: its watch with the current epoch, and its namespace with its index in that
/// watch.
struct ObjectPlace {
    watch: u16,
    epoch: u32,
    namespace: Arc<str>,
    namespace_index: u32,
}

/// Adds an object that the model does not know yet. Returns `None` if a limit on objects is
/// reached.
pub(super) fn insert_object(world: &mut World, watch: u16, view: &ObjectView) -> Option<Slot> {
    if let Some(limit) = room::reached(world) {
        world.watches[watch as usize].exclude(&view.key);
        world.count_dropped(limit);
        return None;
    }

    world.watches[watch as usize].include(&view.key);
    let (namespace, namespace_index) = count_in_namespace(world, watch, &view.key.namespace);
    let watch_state = &mut world.watches[watch as usize];
    watch_state.totals.objects += 1;
    watch_state.lists.current += 1;
    world.kinds[watch_state.kind as usize].objects += 1;

    let place = ObjectPlace { watch, epoch: watch_state.lists.epoch, namespace, namespace_index };
    let slot = world.store.insert(Record::new(view, place, world.now));
    world.add_to_graph(slot);
    Some(slot)
}

/// Counts a new object, whose state is not known yet, in its namespace. Returns the shared name of
/// the namespace and its index in the watch. If there are too many namespaces, the new one replaces
/// an empty one.
fn count_in_namespace(world: &mut World, watch: u16, name: &str) -> (Arc<str>, u32) {
    let (now, limit) = (world.now, world.settings.limits.namespaces);
    let watch_state = &mut world.watches[watch as usize];
    let blind = watch_state.blindness.blind.is_some();
    let (index, fits, evicted) = watch_state.namespace(name, limit, now);

    if let Some(evicted) = evicted {
        world.retire_namespace(watch, OTHER.into(), &evicted.at(now, blind));
    }

    if !fits {
        world.count_dropped(Limit::Namespaces);
    }

    let Some(known) = world.watches[watch as usize].namespaces.get_mut(index as usize) else {
        return (name.into(), index);
    };
    known.count_to(now, blind);
    known.totals.states[ObjectState::Unknown as usize] += 1;

    let shared = if *known.name == *name { known.name.clone() } else { name.into() };
    (shared, index)
}

impl Model {
    /// Removes an object and ends its obligation, if one is open, with `outcome`.
    pub(crate) fn remove_object(&mut self, slot: Slot, outcome: Outcome) {
        let subject = self.world.subject(slot);
        self.traces.trace_child(&self.world, slot, true);

        let Some(mut context) = object_context::context(&mut self.world, &mut self.traces, slot)
        else {
            return;
        };
        context.close_obligation(outcome);
        context.clear_unconverged();
        context.finish_deletion(outcome == Outcome::Deleted);
        context.uncount_phase_and_conditions();
        context.remove_from_totals();
        review::update_kind(&mut self.world, slot, None);
        workloads::review_owners(&mut self.world, slot);

        let deleted = outcome == Outcome::Deleted;
        let (parts, mut step) = self.parts();
        parts.removed(&mut step, slot, deleted);
        blocking_chains::review_waiting_owners(&mut self.world, slot, deleted);
        self.world.remove_from_graph(slot, deleted);

        let Some(record) = self.world.store.remove(slot) else { return };
        self.world.release_symbols(Symbols::of(&record));
        if let Some(hot) = &record.hot {
            self.world.agenda.timers.set(Timer::Object(slot), hot.due, None);
            for code in &hot.findings {
                self.findings.clear(self.world.now, *code, &subject);
            }
        }

        self.world.unhealthy.remove(&slot);
        self.world.unready_workloads.remove(&slot);
        self.world.agenda.objects.remove(&slot);
        self.world.kinds[self.world.watches[record.watch as usize].kind as usize]
            .silent_status
            .listed_silent
            .remove(&slot);
        self.world.histories.remove(&record.namespace, &slot);

        let watch = &mut self.world.watches[record.watch as usize];
        watch.blindness.postponed.remove(&slot);
        watch.totals.objects = watch.totals.objects.saturating_sub(1);
        watch.lists.current -= u64::from(watch.lists.epoch == record.epoch);
        self.world.agenda.kinds.insert(watch.kind);
    }
}

impl Record {
    /// Returns the record of an object before its first version is handled.
    fn new(view: &ObjectView, place: ObjectPlace, now: Timestamp) -> Self {
        Self {
            uid: store::uid_number(&view.uid),
            namespace: place.namespace,
            name: view.key.name.as_str().into(),
            version: 0,
            generation: Generation::default(),
            observed: Generation::default(),
            spec_hash: 0,
            stable_status_hash: 0,
            since: now,
            owners: None,
            hot: None,
            created: view.created.and_then(|t| u32::try_from(t.0 / 1000).ok()).unwrap_or(0),
            spec_changed: 0,
            last_convergence_secs: 0,
            namespace_index: place.namespace_index,
            epoch: place.epoch,
            phase: Symbol::default(),
            conditions: Symbol::default(),
            finalizers: Symbol::default(),
            watch: place.watch,
            state: ObjectState::Unknown,
            reason: Reason::default(),
            verdict: Verdict::Unknown,
            silence: StatusSummary::default(),
            flags: Flags::default(),
        }
    }
}

impl ObjectContext<'_> {
    fn remove_from_totals(&mut self) {
        self.namespace.count_to(self.now, self.blind);
        let count = &mut self.namespace.totals.states[self.record.state as usize];
        *count = count.saturating_sub(1);
        self.kind.objects = self.kind.objects.saturating_sub(1);
        self.kind.silent_status.coverage.count(self.record.silence.content(), StatusContent::Other);
        self.record.flags.set(Flag::MalformedConditions, false);
    }
}
