//! Values of which only the fingerprint, and perhaps the scalar itself, is wanted.

use serde::de::{IgnoredAny, MapAccess, SeqAccess};

use super::MAX_DEPTH;
use super::hash::{Hasher, Pair, Sum};
use super::shape::{Key, Shape, Take};
use super::words::{is_time, passes};

/// A value, if it is a scalar.
#[derive(Clone, Copy, Debug)]
pub(super) enum Scalar<'a> {
    Null,
    Flag(bool),
    Whole(i64),
    Float(f64),
    Text(&'a str),
    /// A list or a map.
    Tree,
}

/// Shows a value to `see` and gives its fingerprint.
pub(super) struct Leaf<'h, F> {
    hasher: &'h Hasher,
    depth: u8,
    passes: bool,
    see: F,
}

// === impl Scalar ===

impl Scalar<'_> {
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
        Take(Leaf { hasher, depth, passes, see: |_| () })
    }
}

impl<'h, F: FnOnce(Scalar<'_>)> Leaf<'h, F> {
    pub(super) fn new(hasher: &'h Hasher, depth: u8, passes: bool, see: F) -> Take<Self> {
        Take(Leaf { hasher, depth, passes, see })
    }

    fn scalar(self, scalar: Scalar<'_>) -> Pair {
        (self.see)(scalar);
        scalar.hash(self.hasher, self.passes)
    }
}

impl<'de, F: FnOnce(Scalar<'_>)> Shape<'de> for Leaf<'_, F> {
    type Out = Pair;

    fn other(self) -> Pair {
        self.scalar(Scalar::Tree)
    }

    fn null(self) -> Pair {
        self.scalar(Scalar::Null)
    }

    fn flag(self, value: bool) -> Pair {
        self.scalar(Scalar::Flag(value))
    }

    fn whole(self, value: i64) -> Pair {
        self.scalar(Scalar::Whole(value))
    }

    fn float(self, value: f64) -> Pair {
        self.scalar(Scalar::Float(value))
    }

    fn text(self, value: &str) -> Pair {
        self.scalar(Scalar::Text(value))
    }

    fn list<A: SeqAccess<'de>>(self, mut items: A) -> Result<Pair, A::Error> {
        (self.see)(Scalar::Tree);
        let (hasher, mut sum) = (self.hasher, Sum::default());
        if self.depth >= MAX_DEPTH {
            while items.next_element::<IgnoredAny>()?.is_some() {}
            return Ok(sum.list(hasher));
        }
        while let Some(item) = items.next_element_seed(Leaf::unseen(hasher, self.depth + 1, self.passes))? {
            sum.item(hasher, item, true);
        }
        Ok(sum.list(hasher))
    }

    fn map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Pair, A::Error> {
        (self.see)(Scalar::Tree);
        let (hasher, mut sum) = (self.hasher, Sum::default());
        if self.depth >= MAX_DEPTH {
            while entries.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            return Ok(sum.map(hasher));
        }
        while let Some((key, passing)) = entries.next_key_seed(Key(|key: &str| (hasher.text(key), passes(key))))? {
            let value = entries.next_value_seed(Leaf::unseen(hasher, self.depth + 1, passing))?;
            sum.entry(hasher, key, value);
        }
        Ok(sum.map(hasher))
    }
}
