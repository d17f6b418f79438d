//! The failed attempts of a handler in the evidence of findings about objects.

use crate::finding::{Evidence, FindingCode, Value};
use crate::model::world::World;
use crate::model::world::store::Slot;

/// The findings whose evidence has the failed attempts.
const WITH_ATTEMPTS: [FindingCode; 6] = [
    FindingCode::Unacknowledged,
    FindingCode::Overdue,
    FindingCode::Regressed,
    FindingCode::NeverRecovered,
    FindingCode::FinalizerStuck,
    FindingCode::CleanupSlow,
];

/// Adds the handler that has failed most often in a row, if the framework notes that.
pub(super) fn with_attempts(
    world: &World,
    slot: Slot,
    code: FindingCode,
    evidence: Evidence,
) -> Evidence {
    let hot = world.store.get(slot).and_then(|record| record.hot.as_ref());
    match hot.and_then(|hot| hot.attempts.as_ref()) {
        Some(attempts) if WITH_ATTEMPTS.contains(&code) => evidence
            .with("attempts", Value::count(attempts.failed))
            .text("handler", &attempts.handler)
            .text("last_error", &attempts.error),
        _ => evidence,
    }
}
