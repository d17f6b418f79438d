//! Versions of objects: each is compared with the previous one, and the resulting `Update` goes to
//! every part of the model that depends on it. Then the object is judged.
//!
//! This file shows the path of one version through the parts.

use crate::model::Model;
use crate::model::convergence::{silent_status, workloads};
use crate::model::part::Version;
use crate::model::references::cross_namespace;
use crate::model::steps::{lifetime, room};
use crate::model::visibility::lists;
use crate::model::world::limits::Limit;
use crate::model::world::store::{self, Generation, Slot};
use crate::observation::{ObjectKey, ObjectView};
use crate::snapshot::Outcome;

/// What the model already knows about an object when a version of it arrives.
enum Known {
    /// Nothing: the object is new.
    Nothing,
    /// An earlier version.
    Earlier(Slot),
    /// This version, or a later one.
    Settled,
}

impl Model {
    /// Handles a version of an object from a list, or from a watch event if `live`.
    pub(crate) fn object_seen(&mut self, watch: u16, mut view: ObjectView, live: bool) {
        let version = store::version_number(&view.version);
        if live {
            lists::version_reached(&mut self.world, &mut self.findings, watch, version, true);
        }

        if room::cut_names(&mut view) {
            self.world.count_dropped(Limit::ObjectNames);
        }

        self.world.changes = self.world.changes.saturating_add(u64::from(live));
        let known = match self.recognize(watch, &view, version, live) {
            Known::Settled => return,
            Known::Earlier(slot) => Some(slot),
            Known::Nothing => None,
        };
        if self.world.kind_of(watch).generation_is_unreliable() {
            // Each status write increments the generation, so the observed generation is always
            // behind.
            view.observed_generation = None;
            view.conditions.iter_mut().for_each(|condition| condition.observed_generation = None);
        }

        // Much may have happened to an object that returns since the model last had room for it.
        let new = known.is_none();
        let returns = new && self.world.watches[watch as usize].is_excluded(&view.key);
        let live = live && !returns;
        let reread = self.world.watches[watch as usize].lists.reread;
        let becomes_visible =
            new && !(live && cross_namespace::is_new_object(&self.world, watch, &view));
        if new {
            self.make_room_for(watch, &view.key);
        }

        let known_or_new = known.or_else(|| lifetime::insert_object(&mut self.world, watch, &view));
        let Some(slot) = known_or_new else { return };
        if new {
            self.parts.ownership.review_logically_owned(&mut self.world, slot);
        }

        workloads::review_owners(&mut self.world, slot);
        let same_spec = !new
            && self
                .world
                .store
                .get(slot)
                .is_some_and(|record| record.spec_hash == view.hashes.spec);

        let seen = Version {
            slot,
            view: &view,
            is_live: live,
            has_other_spec: !same_spec || reread,
            becomes_visible,
            is_reread: reread,
        };
        let (parts, mut step) = self.parts();
        parts.seen(&mut step, &seen);
        self.update_object(slot, &view, version, new, live);

        if live {
            silent_status::expect_statuses(&mut self.world, &mut self.traces, watch);
        }

        self.review_object(slot);
        self.traces.trace_version(&self.world, slot, &view);
        workloads::review_owners(&mut self.world, slot);
        self.operator.operator_shows_life(&mut self.world);
        self.keep_within_memory(slot);
    }

    /// Finds what the model already knows about an object when a version of it arrives, and marks
    /// the object as part of the current list. A recreated object replaces the earlier one.
    fn recognize(&mut self, watch: u16, view: &ObjectView, version: u64, live: bool) -> Known {
        let Some(slot) = self.world.store.find(watch, &view.key.namespace, &view.key.name) else {
            return Known::Nothing;
        };
        let watch_state = &mut self.world.watches[watch as usize];
        let Some(record) = self.world.store.get_mut(slot) else { return Known::Nothing };
        let generation = Generation::of(view.generation);
        let is_later = (view.created, generation) > (record.created(), record.generation);

        if live && record.is_newer_than(version) && !is_later {
            return Known::Settled; // a late delivery from an earlier connection
        }

        if record.uid != store::uid_number(&view.uid) {
            // The object was deleted and recreated, but no delete event arrived.
            self.remove_object(slot, Outcome::Deleted);
            return Known::Nothing;
        }

        if record.epoch != watch_state.lists.epoch {
            record.epoch = watch_state.lists.epoch;
            watch_state.lists.current += 1;
        }

        let unchanged = record.version == version && version != 0 && !watch_state.lists.reread;
        if unchanged { Known::Settled } else { Known::Earlier(slot) }
    }

    /// Handles a watch event of this version that shows the deletion of an object.
    pub(crate) fn object_deleted(&mut self, watch: u16, key: &ObjectKey, version: &str) {
        let version = store::version_number(version);
        lists::version_reached(&mut self.world, &mut self.findings, watch, version, true);
        self.world.changes = self.world.changes.saturating_add(1);
        self.world.watches[watch as usize].include(key);

        let known = self.world.store.find(watch, &key.namespace, &key.name);
        if let Some(slot) = known
            .filter(|slot| !self.world.store.get(*slot).is_some_and(|r| r.is_newer_than(version)))
        {
            self.remove_object(slot, Outcome::Deleted);
        }
    }
}
