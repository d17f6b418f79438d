//! The texts and lists that an object shares with others: its phase, its conditions and its
//! finalizers.

use std::sync::Arc;

use crate::model::world::intern::{ConditionSet, Interner, Symbol};
use crate::model::world::kinds::OTHER;
use crate::model::world::limits::MAX_INTERNED;
use crate::settings::Limits;

pub(crate) use crate::model::world::limits::MAX_CONDITIONS;

/// The texts and lists that objects share.
#[derive(Debug)]
pub(crate) struct SharedValues {
    pub(crate) texts: Interner<str>,
    pub(crate) condition_sets: Interner<ConditionSet>,
    pub(crate) finalizer_sets: Interner<[Arc<str>]>,
    /// Stands for the finalizer sets that do not fit.
    pub(super) other_finalizers: Symbol,
}

impl SharedValues {
    pub(crate) fn new(limits: &Limits) -> Self {
        let memory = memory_limit(limits);
        let mut finalizer_sets: Interner<[Arc<str>]> =
            Interner::new(MAX_INTERNED, memory, Arc::new([]));
        let other = finalizer_sets.acquire([Arc::from(OTHER)].as_slice());
        Self {
            texts: Interner::new(MAX_INTERNED, memory, "".into()),
            condition_sets: Interner::new(MAX_INTERNED, memory, Arc::new([])),
            finalizer_sets,
            other_finalizers: other.unwrap_or_default(),
        }
    }

    /// Takes changed limits.
    pub(crate) fn set_limits(&mut self, limits: &Limits) {
        let memory = memory_limit(limits);
        self.texts.set_memory_limit(memory);
        self.condition_sets.set_memory_limit(memory);
        self.finalizer_sets.set_memory_limit(memory);
    }

    /// Returns the memory of all values, in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.texts.memory() + self.condition_sets.memory() + self.finalizer_sets.memory()
    }
}

/// Returns the memory that the values of one sort may take, in bytes: an eighth of what the objects
/// may take together.
const fn memory_limit(limits: &Limits) -> usize {
    limits.object_memory() / 8
}
