//! Interned values: texts and small lists that many objects share are stored once, for as long as
//! an object refers to them.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::snapshot::ConditionState;

/// A handle to one value of an [`Interner`]. The default refers to the empty value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Symbol(u32);

/// Stores each distinct value once and counts the references to it. It frees a value with its last
/// reference, so its limit counts the values in use.
#[derive(Debug)]
pub(crate) struct Interner<T: ?Sized> {
    /// The values with their reference counts. The empty value is never freed.
    values: Vec<(Arc<T>, u32)>,
    free: Vec<u32>,
    index: BTreeMap<Arc<T>, Symbol>,
    empty: Arc<T>,
    limit: usize,
}

/// The types and statuses of an object's conditions, in document order.
pub(crate) type ConditionSet = [ConditionState];

impl<T: ?Sized + Ord> Interner<T> {
    pub(crate) fn new(limit: usize, empty: Arc<T>) -> Self {
        let index = BTreeMap::from([(empty.clone(), Symbol::default())]);
        Self { values: vec![(empty.clone(), 0)], free: Vec::new(), index, empty, limit }
    }

    /// Adds a reference to `value` and returns its symbol. If the value is new and the limit is
    /// reached, returns the symbol of the empty value as an error.
    pub(crate) fn acquire(&mut self, value: &T) -> Result<Symbol, Symbol>
    where
        for<'a> Arc<T>: From<&'a T>,
    {
        if let Some(symbol) = self.index.get(value) {
            let count = &mut self.values[symbol.0 as usize].1;
            *count = count.saturating_add(1);
            return Ok(*symbol);
        }

        if self.index.len() >= self.limit {
            return Err(Symbol::default());
        }

        let shared: Arc<T> = value.into();
        let symbol = match self.free.pop() {
            Some(position) => {
                self.values[position as usize] = (shared.clone(), 1);
                Symbol(position)
            }
            None => {
                let Ok(position) = u32::try_from(self.values.len()) else {
                    return Err(Symbol::default());
                };
                self.values.push((shared.clone(), 1));

                Symbol(position)
            }
        };

        self.index.insert(shared, symbol);
        Ok(symbol)
    }

    /// Drops a reference that [`Interner::acquire`] has added.
    pub(crate) fn release(&mut self, symbol: Symbol) {
        if symbol == Symbol::default() {
            return;
        }

        let Some((value, count)) = self.values.get_mut(symbol.0 as usize) else { return };
        *count = count.saturating_sub(1);
        if *count == 0 {
            let freed = std::mem::replace(value, self.empty.clone());
            self.index.remove(&*freed);
            self.free.push(symbol.0);
        }
    }

    pub(crate) fn get(&self, symbol: Symbol) -> &Arc<T> {
        self.values.get(symbol.0 as usize).map_or(&self.empty, |(value, _)| value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_counts_the_values_in_use() {
        let mut texts: Interner<str> = Interner::new(3, "".into());
        let (a, b) = (texts.acquire("a").expect("fits"), texts.acquire("b").expect("fits"));

        assert_eq!(texts.acquire("a"), Ok(a), "stored once");
        assert_eq!(texts.acquire("c"), Err(Symbol::default()), "full");

        texts.release(a);
        assert_eq!(&**texts.get(a), "a", "one reference is left");

        texts.release(a);
        let c = texts.acquire("c").expect("fits now");

        assert_eq!((&**texts.get(b), &**texts.get(c)), ("b", "c"));
    }
}
