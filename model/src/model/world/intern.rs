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
    /// The maximum number of values.
    limit: usize,
    /// The memory of the values, in bytes.
    memory: usize,
    /// The maximum of `memory`.
    memory_limit: usize,
}

/// A value of an interner.
pub(crate) trait Interned {
    /// Returns the memory that the value takes, in bytes, without its place in the interner.
    fn memory(&self) -> usize;
}

/// What a value takes in the interner, in bytes.
const PLACE: usize = 96;

/// The types and statuses of an object's conditions, in document order.
pub(crate) type ConditionSet = [ConditionState];

impl<T: ?Sized + Ord + Interned> Interner<T> {
    /// An interner of at most `limit` values, which take at most `memory_limit` bytes.
    pub(crate) fn new(limit: usize, memory_limit: usize, empty: Arc<T>) -> Self {
        let index = BTreeMap::from([(empty.clone(), Symbol::default())]);
        let values = vec![(empty.clone(), 0)];
        Self { values, free: Vec::new(), index, empty, limit, memory: 0, memory_limit }
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

        let memory = self.memory.saturating_add(value.memory() + PLACE);
        if self.index.len() >= self.limit || memory > self.memory_limit {
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
        self.memory = memory;
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
            self.memory = self.memory.saturating_sub(freed.memory() + PLACE);
        }
    }

    pub(crate) fn get(&self, symbol: Symbol) -> &Arc<T> {
        self.values.get(symbol.0 as usize).map_or(&self.empty, |(value, _)| value)
    }

    /// Returns the memory of all values, in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.memory
    }

    /// Changes the maximum. Values that are in use stay.
    pub(crate) fn set_memory_limit(&mut self, bytes: usize) {
        self.memory_limit = bytes;
    }
}

impl Interned for str {
    fn memory(&self) -> usize {
        self.len()
    }
}

impl Interned for ConditionSet {
    fn memory(&self) -> usize {
        let conditions = self.iter();
        conditions.map(|condition| size_of_val(condition) + condition.r#type.len() + 16).sum()
    }
}

impl Interned for [Arc<str>] {
    fn memory(&self) -> usize {
        self.iter().map(|text| size_of_val(text) + text.len() + 16).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_counts_the_values_in_use() {
        let mut texts: Interner<str> = Interner::new(3, 1000, "".into());
        let (a, b) = (texts.acquire("a").expect("fits"), texts.acquire("b").expect("fits"));

        assert_eq!(texts.acquire("a"), Ok(a), "stored once");
        assert_eq!(texts.acquire("c"), Err(Symbol::default()), "full");

        texts.release(a);
        assert_eq!(&**texts.get(a), "a", "one reference is left");

        texts.release(a);
        let c = texts.acquire("c").expect("fits now");

        assert_eq!((&**texts.get(b), &**texts.get(c)), ("b", "c"));
    }

    #[test]
    fn long_values_reach_the_limit_on_memory_first_and_free_it() {
        let mut texts: Interner<str> = Interner::new(100, 1_000, "".into());
        let long = |letter: &str| letter.repeat(400);
        let a = texts.acquire(&long("a")).expect("fits");
        texts.acquire(&long("b")).expect("fits");

        assert_eq!(texts.acquire("c"), Err(Symbol::default()), "full");
        assert_eq!(texts.acquire(&long("a")), Ok(a), "takes no memory again");

        texts.release(a);
        texts.release(a);
        assert_eq!(texts.memory(), 400 + PLACE);
        texts.acquire("c").expect("fits now");
    }
}
