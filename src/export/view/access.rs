//! Read access to the model for exporters: a snapshot, and iteration over all objects in batches.

use std::sync::Mutex;

use loopwatch_model::model::Model;
use loopwatch_model::observation::ObjectAddress;
use loopwatch_model::snapshot::{Cursor, Explanation, ObjectRef, ObjectRow, RecentPast, Snapshot};

use crate::lock::lock;

/// Read access to a model. Each call holds the lock only until it returns.
pub trait View: Send + Sync {
    fn snapshot(&self) -> Snapshot;

    /// Returns the watches whose first list has neither completed nor failed; `discovery` until it
    /// has run once.
    fn pending(&self) -> Vec<String>;

    /// Calls `show` for at most `limit` objects, starting at `cursor`. Returns the next cursor, or
    /// `None` at the end.
    fn visit(
        &self,
        cursor: Cursor,
        limit: usize,
        show: &mut dyn FnMut(ObjectRef<'_>),
    ) -> Option<Cursor>;

    /// Visits at most `visits` objects, starting at `cursor`, until `room` of them match. Returns
    /// the matching objects in full, and the next cursor.
    fn select(
        &self,
        cursor: Cursor,
        visits: usize,
        room: usize,
        is_wanted: &dyn Fn(&ObjectRef<'_>) -> bool,
    ) -> (Vec<ObjectRow>, Option<Cursor>);

    /// Returns everything about one object; `None` if the model does not know it.
    fn explain(&self, object: &ObjectAddress) -> Option<Explanation>;

    fn recent_past(&self) -> RecentPast;
}

impl View for Mutex<Model> {
    fn snapshot(&self) -> Snapshot {
        lock(self).snapshot()
    }

    fn pending(&self) -> Vec<String> {
        lock(self).pending()
    }

    fn visit(
        &self,
        cursor: Cursor,
        limit: usize,
        show: &mut dyn FnMut(ObjectRef<'_>),
    ) -> Option<Cursor> {
        lock(self).visit(cursor, limit, show)
    }

    fn select(
        &self,
        cursor: Cursor,
        visits: usize,
        room: usize,
        is_wanted: &dyn Fn(&ObjectRef<'_>) -> bool,
    ) -> (Vec<ObjectRow>, Option<Cursor>) {
        lock(self).select(cursor, visits, room, is_wanted)
    }

    fn explain(&self, object: &ObjectAddress) -> Option<Explanation> {
        lock(self).explain(object)
    }

    fn recent_past(&self) -> RecentPast {
        lock(self).recent_past()
    }
}
