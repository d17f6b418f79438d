//! Fingerprints values from which the decoder needs nothing else, except sometimes the scalar.

use serde::de::{IgnoredAny, MapAccess, SeqAccess};

use super::hash::{FingerprintSum, Fingerprints, Hasher};
use super::limits::MAX_DEPTH;
use super::shape::{AnyShape, MapKey, Scalar, Visit};
use super::words::{is_timestamp, is_volatile};

/// Passes a scalar to `see` and returns the fingerprints of any value.
pub(super) struct Opaque<'h, F> {
    hasher: &'h Hasher,
    depth: u8,
    /// Whether the key marks a time or a heartbeat.
    volatile: bool,
    /// Whether the settled fingerprint leaves out times and heartbeats.
    skips_volatile: bool,
    see: F,
}

impl Scalar<'_> {
    /// The fingerprints, with times as part of the settled content.
    pub(super) fn hash_all(self, hasher: &Hasher) -> Fingerprints {
        Fingerprints::stable(match self {
            Self::Null | Self::Tree => hasher.null(),
            Self::Flag(value) => hasher.flag(value),
            Self::Whole(value) => hasher.whole(value),
            Self::Float(value) => hasher.float(value),
            Self::Text(value) => hasher.text(value),
        })
    }

    /// The fingerprints. If `volatile`, the key marks a time or a heartbeat.
    pub(super) fn hash(self, hasher: &Hasher, volatile: bool) -> Fingerprints {
        let (hash, volatile) = match self {
            Self::Null | Self::Tree => (hasher.null(), volatile),
            Self::Flag(value) => (hasher.flag(value), false),
            Self::Whole(value) => (hasher.whole(value), volatile),
            Self::Float(value) => (hasher.float(value), volatile),
            Self::Text(value) => (hasher.text(value), volatile || is_timestamp(value)),
        };
        if volatile { Fingerprints::volatile(hash) } else { Fingerprints::stable(hash) }
    }
}

impl<'h> Opaque<'h, fn(Scalar<'_>)> {
    /// A value in the status: the settled fingerprint leaves out times and heartbeats.
    pub(super) fn status(hasher: &'h Hasher, depth: u8, volatile: bool) -> Visit<Self> {
        Visit(Opaque { hasher, depth, volatile, skips_volatile: true, see: |_| () })
    }

    /// A value in the spec: all content counts.
    pub(super) fn spec(hasher: &'h Hasher, depth: u8) -> Visit<Self> {
        Visit(Opaque { hasher, depth, volatile: false, skips_volatile: false, see: |_| () })
    }

    fn below(hasher: &'h Hasher, depth: u8, volatile: bool, skips_volatile: bool) -> Visit<Self> {
        Visit(Opaque { hasher, depth: depth + 1, volatile, skips_volatile, see: |_| () })
    }
}

impl<'h, F: FnOnce(Scalar<'_>)> Opaque<'h, F> {
    pub(super) fn new(hasher: &'h Hasher, depth: u8, volatile: bool, see: F) -> Visit<Self> {
        Visit(Opaque { hasher, depth, volatile, skips_volatile: true, see })
    }
}

impl<'de, F: FnOnce(Scalar<'_>)> AnyShape<'de> for Opaque<'_, F> {
    type Out = Fingerprints;

    fn scalar(self, scalar: Scalar<'_>) -> Fingerprints {
        (self.see)(scalar);
        if self.skips_volatile {
            scalar.hash(self.hasher, self.volatile)
        } else {
            scalar.hash_all(self.hasher)
        }
    }

    fn list<A: SeqAccess<'de>>(self, mut items: A) -> Result<Fingerprints, A::Error> {
        (self.see)(Scalar::Tree);
        let Self { hasher, depth, volatile, skips_volatile, .. } = self;
        let mut sum = FingerprintSum::default();

        if depth >= MAX_DEPTH {
            while items.next_element::<IgnoredAny>()?.is_some() {}
            return Ok(sum.list(hasher));
        }

        while let Some(item) =
            items.next_element_seed(Opaque::below(hasher, depth, volatile, skips_volatile))?
        {
            sum.item(hasher, item, true);
        }

        Ok(sum.list(hasher))
    }

    fn map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Fingerprints, A::Error> {
        (self.see)(Scalar::Tree);
        let Self { hasher, depth, skips_volatile, .. } = self;
        let mut sum = FingerprintSum::default();

        if depth >= MAX_DEPTH {
            while entries.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            return Ok(sum.map(hasher));
        }

        let seed = |key: &str| (hasher.text(key), skips_volatile && is_volatile(key));
        while let Some((key, volatile)) = entries.next_key_seed(MapKey(seed))? {
            let value =
                entries.next_value_seed(Opaque::below(hasher, depth, volatile, skips_volatile))?;
            sum.entry(hasher, key, value);
        }

        Ok(sum.map(hasher))
    }
}
