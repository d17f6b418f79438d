//! The verdict on conflicts: a controller whose writes the API server refuses because the objects have
//! changed, again and again, so that nothing gets done. Another client may write the same objects all the
//! time, or the controller writes from old copies.
//!
//! A conflict by itself is normal: the controller reads the object again and succeeds. client-go counts
//! requests by status code only, so the creation of an object that exists already is a conflict, too.

use crate::finding::{FindingCode, Value};
use crate::model::findings::detection::{Detection, events_needed};
use crate::model::operator::scraped::{Scraped, of_loop};
use crate::model::world::World;

/// Conflicts must have occurred in at least this many of the ten parts of the window. A new
/// leader with old copies has them once.
const PARTS: usize = 3;

/// From this percentage of all requests on, conflicts are no side effect of other work.
const CONFLICT_PERCENT: u64 = 10;

/// If at least this percentage of the reconciles succeed, the controller gets its work done.
const DONE_PERCENT: u64 = 10;

const CODE: FindingCode = FindingCode::ConflictStorm;

/// Detects a controller that gets nothing done because of conflicts.
pub(super) fn conflict_storm(world: &World, scraped: &Scraped<'_>) -> Option<Detection> {
    let (refused, requests) = (&scraped.history.recent_conflicts, scraped.history.requests.sum());
    let (conflicts, since) = (refused.sum(), refused.first()?);
    let needed = u64::from(events_needed(scraped.is_open(CODE), world.settings.conflicts));
    let percent = conflicts.saturating_mul(100).checked_div(requests)?.min(100);
    if conflicts < needed || percent < CONFLICT_PERCENT || refused.parts() < PARTS {
        return None;
    }

    // The conflicts of all controllers are counted together. Those of this one are no more than its errors.
    let (failed, done) = (scraped.own.failed.sum(), scraped.own.done.sum());
    let ended = done.saturating_add(failed);
    let is_done = done.saturating_mul(100) >= ended.saturating_mul(DONE_PERCENT);
    if failed < needed || is_done || conflicts.saturating_mul(2) < failed {
        return None;
    }

    Some(of_loop(world, scraped, CODE, since, |evidence| {
        evidence
            .with("conflicts", Value::count(conflicts))
            .with("percent", Value::count(percent))
            .with("errors", Value::count(failed))
            .with("window", Value::Span(world.settings.api_window))
    }))
}
