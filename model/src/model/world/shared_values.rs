//! The texts and lists that an object shares with others: its phase, its conditions and its
//! finalizers.

use std::sync::Arc;

use crate::model::world::intern::{ConditionSet, Interner, Symbol};
use crate::model::world::kinds::OTHER;
use crate::model::world::limits::MAX_INTERNED;

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
    pub(crate) fn new() -> Self {
        let mut finalizer_sets: Interner<[Arc<str>]> = Interner::new(MAX_INTERNED, Arc::new([]));
        let other = finalizer_sets.acquire([Arc::from(OTHER)].as_slice());
        Self {
            texts: Interner::new(MAX_INTERNED, "".into()),
            condition_sets: Interner::new(MAX_INTERNED, Arc::new([])),
            finalizer_sets,
            other_finalizers: other.unwrap_or_default(),
        }
    }
}
