//! Objects, resource versions and UIDs as numbers, which take less memory than texts.

/// The position of an object in the store.
pub(crate) type Slot = u32;

/// Returns a resource version as a number, or 0 if it is not one. Numeric versions of one resource
/// can be compared (KEP-5504).
pub(crate) fn version_number(version: &str) -> u64 {
    version.parse().unwrap_or(0)
}

/// The number of an empty UID. It does not distinguish objects.
pub(crate) const NO_UID: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;

/// Returns a UID as a number: the 128 bits of a UUID, or the fingerprint of any other text.
pub(crate) fn uid_number(text: &str) -> u128 {
    // Each version of each object has several UIDs, and shifts of 64 bits are faster than of 128.
    let mut halves = [0_u64; 2];
    let mut digits = 0;
    for byte in text.bytes().filter(|byte| *byte != b'-') {
        let Some(digit) = char::from(byte).to_digit(16) else { return fingerprint(text) };
        let Some(half) = halves.get_mut(digits / 16) else { return fingerprint(text) };
        *half = *half << 4 | u64::from(digit);
        digits += 1;
    }

    if digits == 32 && text.len() == 36 {
        u128::from(halves[0]) << 64 | u128::from(halves[1])
    } else {
        fingerprint(text)
    }
}

/// Formats the number of a UID as a UUID.
pub(crate) fn uid_text(uid: u128) -> String {
    let hex = format!("{uid:032x}");
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

/// Returns the 128-bit FNV-1a hash (draft-eastlake-fnv).
fn fingerprint(text: &str) -> u128 {
    text.bytes().fold(NO_UID, |hash, byte| {
        (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b)
    })
}
