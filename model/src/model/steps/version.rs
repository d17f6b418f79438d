//! Objects: each new version of one is compared with the previous one; the result, an
//! [`Update`](crate::model::convergence::object_context::Update), goes to every part of the model that depends on it. Then the
//! object is judged.
//!
//! This file is the tour of one version; the parts are listed in the order in which it passes them.

use crate::finding::Subject;
use crate::model::Model;
use crate::model::world::store::{self, Slot};
use crate::observation::{ObjectKey, ObjectView};
use crate::snapshot::Outcome;

/// What the model knows about an object of which it gets a version.
enum Known {
    /// Nothing: the object is new.
    Nothing,
    /// An earlier version.
    Earlier(Slot),
    /// This version, or a later one.
    Settled,
}

// === impl Model ===

impl Model {
    /// Handles a version of an object from a list, or from a watch event if `live`.
    pub(crate) fn object_seen(&mut self, watch: u16, mut view: ObjectView, live: bool) {
        if live {
            self.version_reached(watch, &view.version, true);
        }

        let version = store::version_number(&view.version);
        let known = match self.recognize(watch, &view, version, live) {
            Known::Settled => return,
            Known::Earlier(slot) => Some(slot),
            Known::Nothing => None,
        };
        if self.kind_of(watch).generation_is_unreliable() {
            // Each status write increments the generation, so the observed generation is always
            // behind.
            view.observed_generation = None;
            view.conditions.iter_mut().for_each(|condition| condition.observed_generation = None);
        }

        let new = known.is_none();
        let reread = self.watches[watch as usize].reread;
        let comes_into_sight = new && !(live && self.is_new_object(watch, &view));
        let Some(slot) = known.or_else(|| self.insert_object(watch, &view)) else { return };

        self.review_owners(slot);
        let same_spec =
            !new && self.store.get(slot).is_some_and(|record| record.spec_hash == view.hashes.spec);
        if !same_spec || reread {
            self.update_crossings(slot, &view, !comes_into_sight && !reread);
            self.update_references(slot, &view, !comes_into_sight && live);
        }

        self.note_writer(slot, &view);
        self.update_soft_deletion(slot, &view);
        self.update_configuration(slot, &view);
        self.update_object(slot, &view, version, new, live);

        if live {
            self.expect_statuses(watch);
        }

        self.review_object(slot);
        self.trace_version(slot, &view);
        self.review_owners(slot);
        self.operator_shows_life();
    }

    /// Finds what the model knows about an object of which it gets a version, and marks it as part
    /// of the current list. An object that somebody recreated replaces the earlier one.
    fn recognize(&mut self, watch: u16, view: &ObjectView, version: u64, live: bool) -> Known {
        let Some(slot) = self.store.find(watch, &view.key.namespace, &view.key.name) else {
            return Known::Nothing;
        };
        let watch_state = &mut self.watches[watch as usize];
        let Some(record) = self.store.get_mut(slot) else { return Known::Nothing };
        let is_later = (view.created, view.generation) > (record.created(), record.generation);

        if live && record.is_newer_than(version) && !is_later {
            return Known::Settled; // an earlier connection has delivered it late
        }

        if record.uid != store::uid_number(&view.uid) {
            // Deleted and recreated without a delete event.
            self.remove_object(slot, Outcome::Deleted);
            return Known::Nothing;
        }

        if record.epoch != watch_state.epoch {
            record.epoch = watch_state.epoch;
            watch_state.current += 1;
        }

        let unchanged = record.version == version && version != 0 && !watch_state.reread;
        if unchanged { Known::Settled } else { Known::Earlier(slot) }
    }

    /// Handles the deletion of an object, which a watch event of this version shows.
    pub(crate) fn object_deleted(&mut self, watch: u16, key: &ObjectKey, version: &str) {
        self.version_reached(watch, version, true);
        self.watches[watch as usize].include(key);

        let known = self.store.find(watch, &key.namespace, &key.name);
        let version = store::version_number(version);
        if let Some(slot) =
            known.filter(|slot| !self.store.get(*slot).is_some_and(|r| r.is_newer_than(version)))
        {
            self.remove_object(slot, Outcome::Deleted);
        }
    }

    /// Returns the object as the subject of a finding.
    pub(crate) fn subject(&self, slot: Slot) -> Subject {
        let (group, kind, namespace, name) =
            self.store.get(slot).map_or_else(Default::default, |record| {
                let kind = self.kind_of(record.watch);
                (
                    kind.group.to_string(),
                    kind.kind.to_string(),
                    record.namespace.to_string(),
                    record.name.to_string(),
                )
            });
        Subject::Object { group, kind, namespace, name }
    }
}
