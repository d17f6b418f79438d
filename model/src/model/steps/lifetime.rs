//! How an object enters the model, and leaves it.

use std::sync::Arc;

use crate::model::Model;
use crate::model::convergence::object_context::ObjectContext;
use crate::model::status::coverage::{Silence, Voice};
use crate::model::status::reading::{Reason, Verdict};
use crate::model::world::intern::Symbol;
use crate::model::world::kinds::OTHER;
use crate::model::world::shared_values::Symbols;
use crate::model::world::store::{self, Flag, Flags, Record, Slot};
use crate::model::world::timers::Timer;
use crate::observation::ObjectView;
use crate::snapshot::{ObjectState, Outcome};
use crate::time::Timestamp;

/// Where an object is: its watch with the current epoch, and its namespace with the position in
/// that watch.
struct Place {
    watch: u16,
    epoch: u32,
    namespace: Arc<str>,
    namespace_index: u32,
}

// === impl Model ===

impl Model {
    /// Adds an object that the model does not know yet. Returns `None` if `limits.objects` is
    /// reached.
    pub(super) fn insert_object(&mut self, watch: u16, view: &ObjectView) -> Option<Slot> {
        if self.store.len() >= self.settings.limits.objects {
            self.watches[watch as usize].exclude(&view.key);
            self.count_dropped("objects");
            return None;
        }

        self.watches[watch as usize].include(&view.key);
        let (namespace, namespace_index) = self.count_in_namespace(watch, &view.key.namespace);
        let watch_state = &mut self.watches[watch as usize];
        watch_state.totals.objects += 1;
        watch_state.current += 1;
        self.kinds[watch_state.kind as usize].objects += 1;

        let place = Place { watch, epoch: watch_state.epoch, namespace, namespace_index };
        let slot = self.store.insert(Record::new(view, place, self.now));
        self.add_to_graph(slot);
        Some(slot)
    }

    /// Counts a new object in its namespace, whose state nobody knows yet. Returns the name that
    /// the objects of the namespace share, and the position of the namespace in the watch. If there
    /// is no room for one more namespace, the totals of an empty one make room.
    fn count_in_namespace(&mut self, watch: u16, name: &str) -> (Arc<str>, u32) {
        let (now, limit) = (self.now, self.settings.limits.namespaces);
        let watch_state = &mut self.watches[watch as usize];
        let blind = watch_state.blind.is_some();
        let (index, fits, evicted) = watch_state.namespace(name, limit, now);

        if let Some(evicted) = evicted {
            self.retire_namespace(watch, OTHER.into(), &evicted.at(now, blind));
        }

        if !fits {
            self.count_dropped("namespaces");
        }

        let Some(known) = self.watches[watch as usize].namespaces.get_mut(index as usize) else {
            return (name.into(), index);
        };
        known.count_to(now, blind);
        known.totals.states[ObjectState::Unknown as usize] += 1;

        let shared = if *known.name == *name { known.name.clone() } else { name.into() };
        (shared, index)
    }

    /// Removes an object and ends its obligation, if one is open, with `outcome`.
    pub(crate) fn remove_object(&mut self, slot: Slot, outcome: Outcome) {
        self.remove_crossings(slot, outcome == Outcome::Deleted);
        self.remove_references(slot);
        self.soft_deleted.remove(&slot);
        self.remove_configuration(slot);

        let subject = self.subject(slot);
        self.trace_child(slot, true);

        let Some(mut context) = self.context(slot) else { return };
        context.close_obligation(outcome);
        context.clear_unconverged();
        context.finish_deletion(outcome == Outcome::Deleted);
        context.uncount_phase_and_conditions();
        context.remove_from_totals();
        self.update_kind(slot, None);
        self.review_owners(slot);

        self.orphans.remove(slot);
        self.review_logically_owned(slot);
        self.links_removed(slot, outcome == Outcome::Deleted);
        self.review_waiting_owners(slot, outcome == Outcome::Deleted);
        self.remove_from_graph(slot, outcome == Outcome::Deleted);

        let Some(record) = self.store.remove(slot) else { return };
        self.release_symbols(Symbols::of(&record));
        if let Some(hot) = &record.hot {
            self.timers.set(Timer::Object(slot), hot.due, None);
            for code in &hot.findings {
                self.open_findings.clear(self.now, *code, &subject);
            }
        }

        self.unhealthy.remove(&slot);
        self.unready_workloads.remove(&slot);
        self.reviews.objects.remove(&slot);
        self.kinds[self.watches[record.watch as usize].kind as usize].listed_silent.remove(&slot);
        self.histories -= usize::from(record.flags.has(Flag::HasHistory));

        let watch = &mut self.watches[record.watch as usize];
        watch.postponed.remove(&slot);
        watch.totals.objects = watch.totals.objects.saturating_sub(1);
        watch.current -= u64::from(watch.epoch == record.epoch);
        self.reviews.kinds.insert(watch.kind);

        if self.containers.has_namespace(&record.namespace) || self.containers.has_definitions() {
            self.containers_changed();
        }
    }
}

// === impl Record ===

impl Record {
    /// Returns the record of an object of which the model has not handled any version.
    fn new(view: &ObjectView, place: Place, now: Timestamp) -> Self {
        Self {
            uid: store::uid_number(&view.uid),
            namespace: place.namespace,
            name: view.key.name.as_str().into(),
            version: 0,
            generation: 0,
            observed: 0,
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
            silence: Silence::default(),
            flags: Flags::default(),
        }
    }
}

// === impl ObjectContext ===

impl ObjectContext<'_> {
    fn remove_from_totals(&mut self) {
        self.namespace.count_to(self.now, self.blind);
        let count = &mut self.namespace.totals.states[self.record.state as usize];
        *count = count.saturating_sub(1);
        self.kind.objects = self.kind.objects.saturating_sub(1);
        self.kind.voices.count(self.record.silence.voice(), Voice::Other);
        self.record.flags.set(Flag::MalformedConditions, false);
    }
}
