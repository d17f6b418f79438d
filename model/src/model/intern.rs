//! Strings and small lists that many objects share, kept once.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::snapshot::ConditionState;

/// Stands for one value of an [`Interner`]. The default stands for the empty value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Symbol(u32);

/// Holds each value once. It never forgets, so it is bounded; past the bound every new value is the empty one.
#[derive(Debug)]
pub(crate) struct Interner<T: ?Sized> {
    values: Vec<Arc<T>>,
    index: BTreeMap<Arc<T>, Symbol>,
    bound: usize,
}

/// The conditions of an object, in document order.
pub(crate) type Shape = [ConditionState];

// === impl Interner ===

impl<T: ?Sized + Ord> Interner<T> {
    pub(crate) fn new(bound: usize, empty: Arc<T>) -> Self {
        let index = BTreeMap::from([(empty.clone(), Symbol::default())]);
        Self { values: vec![empty], index, bound }
    }

    /// The symbol of `value`, and whether it fits: `Err` holds the symbol of the empty value.
    pub(crate) fn intern(&mut self, value: &T) -> Result<Symbol, Symbol>
    where
        for<'a> Arc<T>: From<&'a T>,
    {
        if let Some(symbol) = self.index.get(value) {
            return Ok(*symbol);
        }
        let next = u32::try_from(self.values.len()).unwrap_or(u32::MAX);
        if self.values.len() >= self.bound || next == u32::MAX {
            return Err(Symbol::default());
        }
        let shared: Arc<T> = value.into();
        self.values.push(shared.clone());
        self.index.insert(shared, Symbol(next));
        Ok(Symbol(next))
    }

    pub(crate) fn get(&self, symbol: Symbol) -> &Arc<T> {
        self.values.get(symbol.0 as usize).unwrap_or(&self.values[0]) // the empty value is always there
    }
}
