//! Room for objects. If the limit on the number of objects or on their memory is reached, shares
//! that take more than the average make room for the others: nobody who fills the model can hide
//! the objects of other namespaces and kinds. Quiet children leave first.

use crate::cut::cut;
use crate::model::Model;
use crate::model::visibility::lists;
use crate::model::world::World;
use crate::model::world::limits::{Limit, MAX_OBJECT_NAMES};
use crate::model::world::store::{Record, Shares, Slot};
use crate::observation::{ObjectKey, ObjectView, OwnerReference, Reference, Role};
use crate::snapshot::Outcome;

/// How many objects the search for one that leaves looks at.
const SEARCHED: Slot = 512;

/// How many objects leave in one step at most. One version of one object needs at most as much
/// memory as some dozens of idle ones.
const MAX_LEAVING: usize = 64;

/// How little is lost when an object leaves, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Loss {
    /// A child that is at rest.
    QuietChild,
    /// Another object at rest.
    Quiet,
    /// An object about which something is open.
    Open,
}

/// Drops the names of an object beyond [`MAX_OBJECT_NAMES`], so that no object takes much more
/// memory than others. Returns whether it has dropped any.
pub(super) fn cut_names(view: &mut ObjectView) -> bool {
    let lists = [
        ("many_finalizers", cut(&mut view.finalizers, MAX_OBJECT_NAMES, String::len)),
        ("many_owners", cut(&mut view.owners, MAX_OBJECT_NAMES, owner_names)),
        ("many_references", cut(&mut view.references, MAX_OBJECT_NAMES, reference_names)),
    ];
    let has_cut_reads = cut(&mut view.startup, MAX_OBJECT_NAMES, |read| read.name.len());

    // Others must know that a list is not complete.
    for (lint, _) in lists.into_iter().filter(|(_, is_cut)| *is_cut) {
        if let Err(position) = view.lints.binary_search_by(|known| known.as_str().cmp(lint)) {
            view.lints.insert(position, lint.to_owned());
        }
    }

    has_cut_reads || lists.into_iter().any(|(_, is_cut)| is_cut)
}

fn owner_names(owner: &OwnerReference) -> usize {
    owner.api_version.len() + owner.kind.len() + owner.name.len()
}

fn reference_names(reference: &Reference) -> usize {
    let Reference { slot, group, kind, namespace, name, .. } = reference;
    slot.len() + group.len() + kind.len() + namespace.len() + name.len()
}

/// Returns the limit on objects that is reached, if one is.
pub(super) fn reached(world: &World) -> Option<Limit> {
    let limits = &world.settings.limits;
    if world.store.len() >= limits.objects {
        return Some(Limit::Objects);
    }

    exceeds_memory(world).then_some(Limit::ObjectMemory)
}

fn exceeds_memory(world: &World) -> bool {
    let memory = world.store.shares().total().saturating_add(world.shared.memory());
    let memory = memory.saturating_add(world.departed.memory());
    memory > world.settings.limits.object_memory()
}

impl Model {
    /// Makes room for a new object, if a limit is reached and its share takes less than the average.
    /// An object of one of the largest shares leaves.
    pub(super) fn make_room_for(&mut self, watch: u16, key: &ObjectKey) {
        let Some(limit) = reached(&self.world) else { return };
        let shares = self.world.store.shares();
        let newcomers = usize::from(shares.of(watch, &key.namespace).is_none());
        if shares.is_above_average(watch, &key.namespace, newcomers) {
            return;
        }

        if let Some(slot) = self.least_missed_of_largest() {
            self.leave(slot, limit);
        }
    }

    /// Lets objects leave until all of them are within the memory for objects, after a change of
    /// one of them. Those that leave belong to the share that has grown, if it takes at least the
    /// average, so nobody makes the objects of others leave by growing their own.
    pub(super) fn keep_within_memory(&mut self, changed: Slot) {
        if !exceeds_memory(&self.world) {
            return;
        }

        let Some(record) = self.world.store.get(changed) else { return };
        let (watch, namespace) = (record.watch, record.namespace.clone());
        for _ in 0..MAX_LEAVING {
            let found = match self.world.store.shares().is_above_average(watch, &namespace, 0) {
                true => self.least_missed_beside(changed, watch, &namespace),
                false => self.least_missed_of_largest(),
            };

            let slot = found.unwrap_or(changed);
            self.leave(slot, Limit::ObjectMemory);
            if slot == changed || !exceeds_memory(&self.world) {
                return;
            }
        }
    }

    /// Returns the object that is missed least among the others of a share.
    fn least_missed_beside(&mut self, but: Slot, watch: u16, namespace: &str) -> Option<Slot> {
        self.least_missed(|_, slot, record| {
            let is_of_share =
                *record.namespace == *namespace && (!namespace.is_empty() || record.watch == watch);
            slot != but && is_of_share
        })
    }

    /// Returns the object that is missed least among those of shares of which none takes less than
    /// half of the largest one.
    fn least_missed_of_largest(&mut self) -> Option<Slot> {
        let enough = self.world.store.shares().largest().div_ceil(2);
        self.least_missed(|shares, _, record| {
            shares.of(record.watch, &record.namespace).unwrap_or_default() >= enough
        })
    }

    /// Returns the object that is missed least among the next ones in the store that are eligible.
    fn least_missed(
        &mut self,
        is_eligible: impl Fn(&Shares, Slot, &Record) -> bool,
    ) -> Option<Slot> {
        let slots = self.world.store.next_slots(SEARCHED);
        let world = &self.world;
        let candidates = slots.filter_map(|slot| {
            let record = world.store.get(slot)?;
            let is_child = world.kind_of(record.watch).role != Role::Primary;
            let loss = match (record.hot.is_some(), is_child) {
                (true, _) => Loss::Open,
                (false, true) => Loss::QuietChild,
                (false, false) => Loss::Quiet,
            };

            is_eligible(world.store.shares(), slot, record).then_some((loss, slot))
        });

        candidates.min().map(|(_, slot)| slot)
    }

    /// Removes an object for which there is no room, which says nothing about the object. If it
    /// returns, it is judged by what is known about its spec.
    fn leave(&mut self, slot: Slot, limit: Limit) {
        let Some(record) = self.world.store.get(slot) else { return };
        let (watch, name) = (record.watch, record.name.to_string());
        let key = ObjectKey { namespace: record.namespace.to_string(), name };

        lists::remember_converged(&mut self.world, slot);
        self.remove_object(slot, Outcome::Unknown);
        self.world.watches[watch as usize].exclude(&key);
        self.world.count_dropped(limit);
    }
}
