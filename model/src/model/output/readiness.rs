//! Readiness: whether every watch has completed its first list.

use crate::model::Model;
use crate::observation::SourceId;

impl Model {
    /// Returns the watches that could complete their first list but have not: those that have all
    /// permissions and do not fail. Before the first discovery, returns `discovery`. Anybody may
    /// ask, so this costs far less than a snapshot.
    #[must_use]
    pub fn pending(&self) -> Vec<String> {
        if self.world.watches.is_empty() && !self.world.sources.is_known(&SourceId::Discovery) {
            return vec![SourceId::Discovery.to_string()];
        }

        let unlisted = self
            .world
            .watches
            .iter()
            .filter(|watch| watch.active && !watch.lists.synced && watch.missing.is_empty());
        let pending =
            unlisted.filter(|watch| self.world.sources.is_up(&SourceId::Watch(watch.id.clone())));

        pending.map(|watch| watch.id.to_string()).collect()
    }
}
