//! The recent past: the last hours up to now, for charts.

use crate::model::Model;
use crate::snapshot::RecentPast;

impl Model {
    /// Returns the last hours, including a point for now.
    #[must_use]
    pub fn recent_past(&self) -> RecentPast {
        let (present, _) = self.recent_past.past_point(&self.world, &self.findings);
        let past = self.findings.past();
        let mut events: Vec<_> = past.events().chain(self.operator.operator_events()).collect();
        events.sort_by_key(|event| event.at);

        RecentPast {
            at: self.world.now,
            points: self.recent_past.points().chain([present]).collect(),
            events,
            forgotten: past.forgotten(),
        }
    }
}
