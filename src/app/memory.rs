//! Bounds from the memory that we may use: a sidecar that is killed for its memory takes its host's Pod down.

use loopwatch_model::settings::{Limits, Settings};
use tracing::info;

/// What the program takes before any object.
const BASE_BYTES: u64 = 24 * 1024 * 1024;

/// What one object takes with everything about it when many of them change: three times an idle one (measured).
const OBJECT_BYTES: u64 = 900;

/// At this part of the limit nothing more is taken in, in percent.
const PART: u64 = 85;

/// The settings with bounds that fit the container's memory limit, where there is one and nobody chose other bounds.
pub(super) fn bounded(mut settings: Settings) -> Settings {
    if settings.limits.objects == Limits::default().objects
        && let Some(limit) = limit()
    {
        settings.limits.objects = objects(limit).min(settings.limits.objects);
        info!(memory_limit_bytes = limit, objects = settings.limits.objects, "bounds follow the memory limit");
    }
    settings
}

fn objects(limit: u64) -> usize {
    let usable = (limit / 100 * PART).saturating_sub(BASE_BYTES);
    usize::try_from(usable / OBJECT_BYTES).unwrap_or(usize::MAX).max(1_000)
}

/// The memory limit of our cgroup (version 2, else 1).
fn limit() -> Option<u64> {
    let files = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];
    let text = files.iter().find_map(|file| std::fs::read_to_string(file).ok())?;
    // `max`, or a number near 2^63 in version 1, means none.
    text.trim().parse::<u64>().ok().filter(|bytes| *bytes < 1 << 50)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manifests_limit_has_room_for_fifty_thousand_objects() {
        assert!(objects(96 * 1024 * 1024) > 50_000);
        assert_eq!(objects(1), 1_000, "a tiny limit still shows something");
    }
}
