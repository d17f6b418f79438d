//! How much memory the objects take together, and each share of them.
//!
//! The objects of one namespace have a share together. The objects of a kind without a namespace
//! have one, too. If the memory for objects is used up, a share that takes more than the average
//! makes room for the others; see `steps/room.rs`.

use std::collections::HashMap;
use std::sync::Arc;

use crate::model::world::store::ids::Slot;

/// The memory of all objects, in units of [`UNIT`].
#[derive(Debug, Default)]
pub(crate) struct Shares {
    by_slot: Vec<u16>,
    total: usize,
    by_namespace: HashMap<Arc<str>, usize>,
    /// The shares of objects without a namespace, by watch.
    by_watch: HashMap<u16, usize>,
}

/// The resolution of the memory of one object, in bytes: an object takes at most 2 MiB.
const UNIT: usize = 32;

impl Shares {
    /// Returns the memory of all objects, in bytes.
    pub(crate) fn total(&self) -> usize {
        self.total.saturating_mul(UNIT)
    }

    /// Returns the share of the objects of this watch in this namespace, if there is any yet. The unit
    /// is that of [`Self::largest`].
    pub(crate) fn of(&self, watch: u16, namespace: &str) -> Option<usize> {
        let share = match namespace {
            "" => self.by_watch.get(&watch),
            _ => self.by_namespace.get(namespace),
        };
        share.copied()
    }

    /// Returns the largest share.
    pub(crate) fn largest(&self) -> usize {
        let shares = self.by_namespace.values().chain(self.by_watch.values());
        shares.copied().max().unwrap_or_default()
    }

    /// Returns whether the share of an object takes at least the average. `newcomers` is the number of
    /// shares that have no object yet.
    pub(crate) fn is_above_average(&self, watch: u16, namespace: &str, newcomers: usize) -> bool {
        self.of(watch, namespace).unwrap_or_default() >= self.average(newcomers)
    }

    /// Returns the average share, if there were so many `newcomers` in addition.
    fn average(&self, newcomers: usize) -> usize {
        let shares = self.by_namespace.len() + self.by_watch.len() + newcomers;
        (self.total / shares.max(1)).max(1)
    }

    /// Sets the memory of an object, in bytes; 0 removes it.
    pub(super) fn set(&mut self, slot: Slot, watch: u16, namespace: &Arc<str>, bytes: usize) {
        let position = slot as usize;
        if self.by_slot.len() <= position {
            self.by_slot.resize(position + 1, 0);
        }

        let new = u16::try_from(bytes.div_ceil(UNIT)).unwrap_or(u16::MAX);
        let old = std::mem::replace(&mut self.by_slot[position], new);
        if old == new {
            return;
        }

        let (old, new) = (usize::from(old), usize::from(new));
        self.total = (self.total + new).saturating_sub(old);
        if namespace.is_empty() {
            update(&mut self.by_watch, &watch, old, new);
        } else {
            update(&mut self.by_namespace, namespace, old, new);
        }
    }
}

/// Changes the part of an object in a share, which it adds or removes if necessary.
fn update<K: Clone + Eq + std::hash::Hash>(
    shares: &mut HashMap<K, usize>,
    key: &K,
    old: usize,
    new: usize,
) {
    match shares.get_mut(key) {
        Some(share) => {
            *share = (*share + new).saturating_sub(old);
            if *share == 0 {
                shares.remove(key);
            }
        }
        None => drop(shares.insert(key.clone(), new)),
    }
}
