//! Profiles in the format of pprof.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use loopwatch::fuzzing::compare_profiles;
use loopwatch_model::observation::{
    GrowingStack, MAX_FRAMES, MAX_STACKS, MAX_WAITING, ProfileKind, WaitingStack,
};

use crate::limits::{bounded, is_plain};

/// The longest name of a function, in bytes; a byte that is not UTF-8 becomes three.
const MAX_NAME: usize = 3 * 256;

/// The input is the length of a profile, that profile and a later one. An engine seldom finds valid
/// gzip, so they may be without it.
pub(crate) fn profile(input: &[u8]) {
    let [high, low, profiles @ ..] = input else { return };
    let length = usize::from(u16::from_be_bytes([*high, *low])).min(profiles.len());
    let (earlier, later) = profiles.split_at(length);

    for kind in [ProfileKind::Heap, ProfileKind::Goroutines] {
        check(earlier, later, kind);
        let compared = compare_profiles(&packed(later), &packed(later), kind);
        assert!(
            compared.is_ok_and(|(growing, _)| growing.is_empty()) || read(later, kind).is_err()
        );
    }
}

fn check(earlier: &[u8], later: &[u8], kind: ProfileKind) {
    let (earlier, later) = (packed(earlier), packed(later));
    let input = [&earlier[..], &later].concat();
    let compare = || compare_profiles(&earlier, &later, kind);
    let Ok((growing, waiting)) = bounded(&input, 1 << 20, 1 << 12, compare) else { return };

    assert!(growing.len() <= MAX_STACKS && waiting.len() <= MAX_WAITING);
    assert!(growing.iter().all(|GrowingStack { growth, now, .. }| 0 < *growth && growth <= now));
    assert!(growing.is_sorted_by(|a, b| a.growth >= b.growth));

    let growing = growing.iter().map(|GrowingStack { functions, .. }| functions);
    for functions in growing.chain(waiting.iter().map(|WaitingStack { functions, .. }| functions)) {
        assert!(functions.len() <= MAX_FRAMES);
        assert!(functions.iter().all(|name| name.len() <= MAX_NAME && is_plain(name)));
    }
}

fn read(profile: &[u8], kind: ProfileKind) -> Result<(), String> {
    compare_profiles(&packed(profile), &packed(profile), kind).map(drop)
}

fn packed(profile: &[u8]) -> Vec<u8> {
    if profile.starts_with(&[0x1f, 0x8b]) {
        return profile.to_vec();
    }

    let mut packer = GzEncoder::new(Vec::new(), Compression::none());
    packer.write_all(profile).and_then(|()| packer.finish()).expect("in memory")
}
