//! Values of which only the fingerprint, and perhaps the scalar itself, is wanted.

use serde::de::{IgnoredAny, MapAccess, SeqAccess};

use super::MAX_DEPTH;
use super::hash::{Hasher, Pair, Sum};
use super::shape::{Key, Scalar, Shape, Take};
use super::words::{is_time, passes};

/// Shows a value to `see` and gives its fingerprint.
pub(super) struct Leaf<'h, F> {
    hasher: &'h Hasher,
    depth: u8,
    /// Whether the key marks a time or a heartbeat.
    passes: bool,
    /// Whether meaning is told from times at all.
    settles: bool,
    see: F,
}

// === impl Scalar ===

impl Scalar<'_> {
    /// The fingerprint, where times are as good as anything else.
    pub(super) fn hash_all(self, hasher: &Hasher) -> Pair {
        Pair::meant(match self {
            Self::Null | Self::Tree => hasher.null(),
            Self::Flag(value) => hasher.flag(value),
            Self::Whole(value) => hasher.whole(value),
            Self::Float(value) => hasher.float(value),
            Self::Text(value) => hasher.text(value),
        })
    }

    /// The fingerprint; `passes` says that the key marks a time or a heartbeat.
    pub(super) fn hash(self, hasher: &Hasher, passes: bool) -> Pair {
        let (hash, passes) = match self {
            Self::Null | Self::Tree => (hasher.null(), passes),
            Self::Flag(value) => (hasher.flag(value), false),
            Self::Whole(value) => (hasher.whole(value), passes),
            Self::Float(value) => (hasher.float(value), passes),
            Self::Text(value) => (hasher.text(value), passes || is_time(value)),
        };
        if passes { Pair::passing(hash) } else { Pair::meant(hash) }
    }
}

// === impl Leaf ===

impl<'h> Leaf<'h, fn(Scalar<'_>)> {
    /// Only the fingerprint.
    pub(super) fn unseen(hasher: &'h Hasher, depth: u8, passes: bool) -> Take<Self> {
        Take(Leaf { hasher, depth, passes, settles: true, see: |_| () })
    }

    /// Only the fingerprint of all that is there.
    pub(super) fn plain(hasher: &'h Hasher, depth: u8) -> Take<Self> {
        Take(Leaf { hasher, depth, passes: false, settles: false, see: |_| () })
    }

    fn below(hasher: &'h Hasher, depth: u8, passes: bool, settles: bool) -> Take<Self> {
        Take(Leaf { hasher, depth: depth + 1, passes, settles, see: |_| () })
    }
}

impl<'h, F: FnOnce(Scalar<'_>)> Leaf<'h, F> {
    pub(super) fn new(hasher: &'h Hasher, depth: u8, passes: bool, see: F) -> Take<Self> {
        Take(Leaf { hasher, depth, passes, settles: true, see })
    }
}

impl<'de, F: FnOnce(Scalar<'_>)> Shape<'de> for Leaf<'_, F> {
    type Out = Pair;

    fn scalar(self, scalar: Scalar<'_>) -> Pair {
        (self.see)(scalar);
        if self.settles { scalar.hash(self.hasher, self.passes) } else { scalar.hash_all(self.hasher) }
    }

    fn list<A: SeqAccess<'de>>(self, mut items: A) -> Result<Pair, A::Error> {
        (self.see)(Scalar::Tree);
        let Self { hasher, depth, passes, settles, .. } = self;
        let mut sum = Sum::default();
        if depth >= MAX_DEPTH {
            while items.next_element::<IgnoredAny>()?.is_some() {}
            return Ok(sum.list(hasher));
        }
        while let Some(item) = items.next_element_seed(Leaf::below(hasher, depth, passes, settles))? {
            sum.item(hasher, item, true);
        }
        Ok(sum.list(hasher))
    }

    fn map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Pair, A::Error> {
        (self.see)(Scalar::Tree);
        let Self { hasher, depth, settles, .. } = self;
        let mut sum = Sum::default();
        if depth >= MAX_DEPTH {
            while entries.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            return Ok(sum.map(hasher));
        }
        let seed = |key: &str| (hasher.text(key), settles && passes(key));
        while let Some((key, passing)) = entries.next_key_seed(Key(seed))? {
            let value = entries.next_value_seed(Leaf::below(hasher, depth, passing, settles))?;
            sum.entry(hasher, key, value);
        }
        Ok(sum.map(hasher))
    }
}
