//! Limits derived from the container's memory limit: if the kernel kills a sidecar for its memory,
//! the operator's Pod suffers.

use loopwatch_model::settings::{Limits, OBJECT_BYTES, Settings};
use tracing::info;

use crate::sources::operator::own_memory_limit;

/// Memory of the program without objects, in bytes.
const BASE_BYTES: u64 = 24 * 1024 * 1024;

/// Share of the memory limit that loopwatch uses, in percent.
const SHARE: u64 = 85;

/// Lowers the limit on objects to fit the container's memory limit, unless the user has set another
/// limit.
pub(super) fn limited(mut settings: Settings) -> Settings {
    if settings.limits.objects == Limits::default().objects
        && let Some(limit) = own_memory_limit()
    {
        settings.limits.objects = objects(limit).min(settings.limits.objects);
        info!(
            memory_limit_bytes = limit,
            objects = settings.limits.objects,
            "derived the limit on objects from the memory limit"
        );
    }

    settings
}

/// Limits the objects of one of many operators to its share: twice as many as if all were equal, because
/// they are not.
pub(super) fn shared(mut settings: Settings, operators: usize) -> Settings {
    let all = settings.limits.objects;
    let share = all.saturating_mul(2) / operators.saturating_add(1);
    settings.limits.objects = share.clamp(1_000.min(all), all);
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
    fn operators_share_the_limit() {
        let mut settings = Settings::default();
        settings.limits.objects = 50_000;
        let share = |operators| shared(settings.clone(), operators).limits.objects;

        assert_eq!((share(1), share(3), share(24)), (50_000, 25_000, 4_000));
        assert_eq!(share(1_000), 1_000, "a small share still shows something");
    }

    #[test]
    fn the_memory_limit_of_the_manifests_allows_fifty_thousand_objects() {
        assert!(objects(96 * 1024 * 1024) > 50_000);
        assert_eq!(objects(1), 1_000, "a tiny limit still shows something");
    }
}
