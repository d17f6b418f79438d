//! Objects that had converged when they left the model, although they may still exist: their watch
//! ended or lost its permission, or there was no room for them. When one returns with the same
//! spec, the model knows that it had converged, and since when it had regressed.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::model::world::crowd::Crowd;
use crate::time::Timestamp;

/// Objects that have left, each by the fingerprint of its UID and its spec.
#[derive(Debug, Default)]
pub(crate) struct Departed {
    converged: BTreeMap<u64, Departure>,
    /// The same objects by namespace, in the order in which they left.
    by_namespace: Crowd<Arc<str>, (u64, u64)>,
    /// The number of the last departure.
    last: u64,
}

/// An object that had converged before it left.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Departure {
    number: u64,
    pub(crate) left: Timestamp,
    /// Since when it was no longer converged.
    pub(crate) regressed: Option<Timestamp>,
}

/// What one object takes, in bytes, with its entries in both indexes.
const SIZE: usize = 96;

impl Departed {
    /// Returns the memory of all of them, in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.converged.len() * SIZE
    }

    /// Adds an object that leaves now; `spec` is the fingerprint of its UID and its spec. Beyond
    /// `limit`, an earlier one of the namespace that has most is forgotten, or else an earlier one of
    /// the same namespace.
    pub(crate) fn add(
        &mut self,
        limit: usize,
        namespace: &Arc<str>,
        spec: u64,
        left: Timestamp,
        regressed: Option<Timestamp>,
    ) {
        self.take(namespace, spec);
        if self.by_namespace.len() >= limit {
            let largest = self.by_namespace.gives_way_to(namespace, 1).unwrap_or(namespace).clone();
            let Some((_, earlier)) = self.by_namespace.first(&largest).copied() else { return };
            self.take(&largest, earlier);
        }

        self.last += 1;
        let number = self.last;
        self.converged.insert(spec, Departure { number, left, regressed });
        self.by_namespace.insert(namespace, (number, spec), 1);
    }

    /// Removes an object that has returned.
    pub(crate) fn take(&mut self, namespace: &Arc<str>, spec: u64) -> Option<Departure> {
        let departure = self.converged.remove(&spec)?;
        self.by_namespace.remove(namespace, &(departure.number, spec));
        Some(departure)
    }

    /// Moves all instants of loopwatch's own clock by `by_ms` milliseconds.
    pub(crate) fn rebase(&mut self, by_ms: i64) {
        for Departure { left, regressed, .. } in self.converged.values_mut() {
            *left = left.shifted(by_ms);
            regressed.iter_mut().for_each(|since| *since = since.shifted(by_ms));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_that_fills_the_table_does_not_make_it_forget_others() {
        let (honest, hostile): (Arc<str>, Arc<str>) = ("team-a".into(), "tenant-b".into());
        let mut departed = Departed::default();
        departed.add(10, &honest, 1, Timestamp(1), Some(Timestamp(0)));
        for spec in 100..200 {
            departed.add(10, &hostile, spec, Timestamp(2), None);
        }
        departed.add(10, &honest, 2, Timestamp(3), None);

        assert_eq!(departed.converged.len(), 10);
        let first = departed.take(&honest, 1).expect("it is remembered");
        assert_eq!((first.left, first.regressed), (Timestamp(1), Some(Timestamp(0))));
        assert!(departed.take(&honest, 2).is_some());
        assert!(departed.take(&hostile, 199).is_some(), "the last one");
        assert!(departed.take(&hostile, 100).is_none(), "the first one");
    }
}
