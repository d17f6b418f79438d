//! Fingerprints of object trees, computed without building the trees.
//!
//! SipHash-1-3 hashes every text under the secret key, so nobody without the key can confirm a
//! guessed value. A keyed multiply-fold combines the results: in order for a list, and as a sum
//! over the entries for a map, so that the order of keys does not matter.

use siphasher::sip::SipHasher13;

/// The secret key of the fingerprints. Only fingerprints made with the same key can be compared.
#[derive(Clone, Copy)]
pub struct HashKey(pub [u8; 16]);

/// Hashes scalars under one key.
#[derive(Clone, Copy)]
pub(super) struct Hasher {
    texts: SipHasher13,
    left: u64,
    right: u64,
}

/// Two fingerprints of a value: of all its content, and of its settled content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Fingerprints {
    /// Of all content.
    pub(super) full: u64,
    /// Of the content without timestamps and heartbeats; `None` if nothing else is left.
    pub(super) settled: Option<u64>,
}

/// Combines the entries of a map or the items of a list.
#[derive(Clone, Copy, Default)]
pub(super) struct FingerprintSum {
    full: u64,
    settled: u64,
    count: u64,
}

// Arbitrary odd numbers that distinguish the types.
const NULL: u64 = 0x9e37_79b9_7f4a_7c15;
const FLAG: u64 = 0xbf58_476d_1ce4_e5b9;
const WHOLE: u64 = 0x94d0_49bb_1331_11eb;
const FLOAT: u64 = 0xd6e8_feb8_6659_fd93;
const LIST: u64 = 0xa076_1d64_78bd_642f;
const MAP: u64 = 0xe703_7ed1_a0b4_28db;

impl Hasher {
    pub(super) fn new(key: &HashKey) -> Self {
        let texts = SipHasher13::new_with_key(&key.0);
        // Odd, so that no multiplication loses the lowest bit.
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

    /// Folds two values into one. Not symmetric.
    pub(super) fn mix(&self, a: u64, b: u64) -> u64 {
        let product = u128::from(a ^ self.left) * u128::from(b.rotate_left(23) ^ self.right);
        let folded = (product as u64) ^ ((product >> 64) as u64);
        folded.wrapping_add(a.rotate_left(32)) ^ b
    }
}

impl Fingerprints {
    /// Fingerprints of a value that belongs to the settled content.
    pub(super) const fn stable(hash: u64) -> Self {
        Self { full: hash, settled: Some(hash) }
    }

    /// Fingerprints of a timestamp or a heartbeat, which only the full content includes.
    pub(super) const fn volatile(hash: u64) -> Self {
        Self { full: hash, settled: None }
    }
}

impl FingerprintSum {
    /// Adds a map's entry.
    pub(super) fn entry(&mut self, hasher: &Hasher, key: u64, value: Fingerprints) {
        self.count += 1;
        self.full = self.full.wrapping_add(hasher.mix(key, value.full));
        if let Some(settled) = value.settled {
            self.settled = self.settled.wrapping_add(hasher.mix(key, settled));
        }
    }

    /// Adds a list's item. If not `ordered`, the order of items does not change the settled
    /// fingerprint.
    pub(super) fn item(&mut self, hasher: &Hasher, value: Fingerprints, ordered: bool) {
        self.count += 1;
        self.full = hasher.mix(self.full, value.full);
        if let Some(settled) = value.settled {
            self.settled = if ordered {
                hasher.mix(self.settled, settled)
            } else {
                self.settled.wrapping_add(settled)
            };
        }
    }

    /// The fingerprint of the map.
    pub(super) fn map(self, hasher: &Hasher) -> Fingerprints {
        Fingerprints {
            full: hasher.mix(MAP ^ self.count, self.full),
            settled: Some(hasher.mix(MAP, self.settled)),
        }
    }

    /// The fingerprint of the list.
    pub(super) fn list(self, hasher: &Hasher) -> Fingerprints {
        Fingerprints {
            full: hasher.mix(LIST ^ self.count, self.full),
            settled: Some(hasher.mix(LIST, self.settled)),
        }
    }
}
