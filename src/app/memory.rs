//! Limits derived from the container's memory limit: if the kernel kills a sidecar for its memory,
//! the operator's Pod suffers.

use loopwatch_model::settings::{OBJECT_BYTES, Settings};
use tracing::info;

use crate::sources::operator::own_memory_limit;

/// Memory of the program without objects, in bytes.
const BASE_BYTES: u64 = 24 * 1024 * 1024;

/// Share of the memory limit that loopwatch uses, in percent.
const SHARE: u64 = 85;

/// Lowers the limit on objects to fit the container's memory limit. No setting lifts that: who may change the
/// settings in the cluster cannot make the kernel kill loopwatch.
pub(super) fn limited(settings: Settings) -> Settings {
    let Some(limit) = own_memory_limit() else { return settings };
    let settings = fitting(settings, limit);
    info!(
        memory_limit_bytes = limit,
        objects = settings.limits.objects,
        "derived the limit on objects from the memory limit"
    );

    settings
}

fn fitting(mut settings: Settings, limit: u64) -> Settings {
    settings.limits.objects = objects(limit).min(settings.limits.objects);
    settings
}

fn objects(limit: u64) -> usize {
    let usable = (limit / 100 * SHARE).saturating_sub(BASE_BYTES);
    (usize::try_from(usable).unwrap_or(usize::MAX) / OBJECT_BYTES).max(1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_lowers_the_limit_and_does_not_raise_it() {
        let fitting = |objects: usize| {
            let mut settings = Settings::default();
            settings.limits.objects = objects;
            fitting(settings, 128 << 20).limits.objects
        };

        assert_eq!((fitting(900_000), fitting(500)), (objects(128 << 20), 500));
    }

    #[test]
    fn the_memory_limit_of_the_manifests_allows_fifty_thousand_objects() {
        assert!(objects(96 * 1024 * 1024) > 50_000);
        assert_eq!(objects(1), 1_000, "a tiny limit still shows something");
    }
}
