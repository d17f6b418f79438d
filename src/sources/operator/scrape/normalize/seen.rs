//! A set that remembers which values it has seen, as hashes only.

use std::collections::HashSet;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash, Hasher};

/// Hashes of the values, at most [`LIMIT`].
#[derive(Default)]
pub(super) struct SeenSeries(HashSet<u64, BuildHasherDefault<Hashed>>);

/// A hasher for values that are already hashes: it returns them unchanged.
#[derive(Default)]
pub(super) struct Hashed(u64);

/// The maximum number of hashes, which take 0.6 MiB.
const LIMIT: usize = 57_344;

impl SeenSeries {
    /// Adds a value. Returns true if it is new, or if there is no room for it.
    pub(super) fn insert<T: Hash>(&mut self, thing: &T) -> bool {
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(thing);
        if self.0.len() >= LIMIT { !self.0.contains(&hash) } else { self.0.insert(hash) }
    }

    pub(super) fn len(&self) -> u32 {
        u32::try_from(self.0.len()).unwrap_or(u32::MAX)
    }
}

impl Hasher for Hashed {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0 << 8 | u64::from(*byte));
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
