//! Interned values: texts and small lists that many objects share are stored once.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::snapshot::ConditionState;

/// A handle to one value of an [`Interner`]. The default refers to the empty value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Symbol(u32);

/// Stores each distinct value once. It never frees a value, so it accepts at most `limit` of them.
#[derive(Debug)]
pub(crate) struct Interner<T: ?Sized> {
    values: Vec<Arc<T>>,
    index: BTreeMap<Arc<T>, Symbol>,
    limit: usize,
}

/// The types and statuses of an object's conditions, in document order.
pub(crate) type ConditionSet = [ConditionState];

// === impl Interner ===

impl<T: ?Sized + Ord> Interner<T> {
    pub(crate) fn new(limit: usize, empty: Arc<T>) -> Self {
        let index = BTreeMap::from([(empty.clone(), Symbol::default())]);
        Self { values: vec![empty], index, limit }
    }

    /// Returns the symbol of `value`. If the value is new and the limit is reached, returns the symbol of the empty
    /// value as an error.
    pub(crate) fn intern(&mut self, value: &T) -> Result<Symbol, Symbol>
    where
        for<'a> Arc<T>: From<&'a T>,
    {
        if let Some(symbol) = self.index.get(value) {
            return Ok(*symbol);
        }
        let next = u32::try_from(self.values.len()).unwrap_or(u32::MAX);
        if self.values.len() >= self.limit || next == u32::MAX {
            return Err(Symbol::default());
        }
        let shared: Arc<T> = value.into();
        self.values.push(shared.clone());
        self.index.insert(shared, Symbol(next));
        Ok(Symbol(next))
    }

    pub(crate) fn get(&self, symbol: Symbol) -> &Arc<T> {
        self.values.get(symbol.0 as usize).unwrap_or(&self.values[0]) // `new` inserts the empty value
    }
}
