//! Fingerprints of trees that are never built.
//!
//! Every text goes through SipHash-1-3 under the secret key, so nobody without the key can confirm a guessed value.
//! What comes out is combined with a keyed multiply-fold: a list by order, a map as a sum over its entries, so that
//! the order of keys does not matter.

use siphasher::sip::SipHasher13;

use super::HashKey;

/// The key, made ready.
#[derive(Clone, Copy)]
pub(super) struct Hasher {
    texts: SipHasher13,
    left: u64,
    right: u64,
}

/// The two fingerprints of a value: as it is, and of its meaning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Fingerprints {
    /// As it is.
    pub(super) full: u64,
    /// Without timestamps and heartbeats; `None` when nothing else is left.
    pub(super) settled: Option<u64>,
}

/// Adds up the entries of a map or the items of a list.
#[derive(Clone, Copy, Default)]
pub(super) struct FingerprintSum {
    full: u64,
    settled: u64,
    count: u64,
}

// Arbitrary odd numbers that keep types apart.
const NULL: u64 = 0x9e37_79b9_7f4a_7c15;
const FLAG: u64 = 0xbf58_476d_1ce4_e5b9;
const WHOLE: u64 = 0x94d0_49bb_1331_11eb;
const FLOAT: u64 = 0xd6e8_feb8_6659_fd93;
const LIST: u64 = 0xa076_1d64_78bd_642f;
const MAP: u64 = 0xe703_7ed1_a0b4_28db;

// === impl Hasher ===

impl Hasher {
    pub(super) fn new(key: &HashKey) -> Self {
        let texts = SipHasher13::new_with_key(&key.0);
        // Odd, so that neither multiplication loses the lowest bit.
        Self { texts, left: texts.hash(b"left") | 1, right: texts.hash(b"right") | 1 }
    }

    pub(super) fn text(&self, text: &str) -> u64 {
        self.texts.hash(text.as_bytes())
    }

    pub(super) fn null(&self) -> u64 {
        self.mix(NULL, 0)
    }

    pub(super) fn flag(&self, value: bool) -> u64 {
        self.mix(FLAG, u64::from(value))
    }

    pub(super) fn whole(&self, value: i64) -> u64 {
        self.mix(WHOLE, value.cast_unsigned())
    }

    pub(super) fn float(&self, value: f64) -> u64 {
        self.mix(FLOAT, value.to_bits())
    }

    /// Folds two values into one; not symmetric.
    pub(super) fn mix(&self, a: u64, b: u64) -> u64 {
        let product = u128::from(a ^ self.left) * u128::from(b.rotate_left(23) ^ self.right);
        let folded = (product as u64) ^ ((product >> 64) as u64);
        folded.wrapping_add(a.rotate_left(32)) ^ b
    }
}

// === impl Fingerprints ===

impl Fingerprints {
    /// A value that means what it says.
    pub(super) const fn stable(hash: u64) -> Self {
        Self { full: hash, settled: Some(hash) }
    }

    /// A timestamp or a heartbeat: part of the whole, but not of the meaning.
    pub(super) const fn volatile(hash: u64) -> Self {
        Self { full: hash, settled: None }
    }
}

// === impl FingerprintSum ===

impl FingerprintSum {
    /// Adds a map's entry.
    pub(super) fn entry(&mut self, hasher: &Hasher, key: u64, value: Fingerprints) {
        self.count += 1;
        self.full = self.full.wrapping_add(hasher.mix(key, value.full));
        if let Some(settled) = value.settled {
            self.settled = self.settled.wrapping_add(hasher.mix(key, settled));
        }
    }

    /// Adds a list's item; in an unordered list the order of items has no meaning.
    pub(super) fn item(&mut self, hasher: &Hasher, value: Fingerprints, ordered: bool) {
        self.count += 1;
        self.full = hasher.mix(self.full, value.full);
        if let Some(settled) = value.settled {
            self.settled = if ordered { hasher.mix(self.settled, settled) } else { self.settled.wrapping_add(settled) };
        }
    }

    /// The fingerprint of the map.
    pub(super) fn map(self, hasher: &Hasher) -> Fingerprints {
        Fingerprints { full: hasher.mix(MAP ^ self.count, self.full), settled: Some(hasher.mix(MAP, self.settled)) }
    }

    /// The fingerprint of the list.
    pub(super) fn list(self, hasher: &Hasher) -> Fingerprints {
        Fingerprints { full: hasher.mix(LIST ^ self.count, self.full), settled: Some(hasher.mix(LIST, self.settled)) }
    }
}
