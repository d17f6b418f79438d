//! Read access to the model for exporters: a snapshot, and iteration over all objects in batches.

use std::sync::{Mutex, MutexGuard, PoisonError};

use loopwatch_model::model::Model;
use loopwatch_model::observation::ObjectAddress;
use loopwatch_model::snapshot::{Cursor, Explanation, ObjectRef, ObjectRow, ObjectState, Snapshot};

/// Read access to a model. Each call holds the lock only until it returns.
pub trait View: Send + Sync {
    /// Returns the current snapshot.
    fn snapshot(&self) -> Snapshot;

    /// Returns the watches that have neither completed their first list nor failed; `discovery` until it has run once.
    fn pending(&self) -> Vec<String>;

    /// Calls `show` for at most `limit` objects from `cursor` on. Returns the next cursor, or `None` at the end.
    fn visit(&self, cursor: Cursor, limit: usize, show: &mut dyn FnMut(ObjectRef<'_>)) -> Option<Cursor>;

    /// Like `visit`, but returns the visited objects that match `filter`, in full.
    fn select(&self, cursor: Cursor, limit: usize, filter: &Filter) -> (Vec<ObjectRow>, Option<Cursor>);

    /// Returns everything about one object; `None` if the model does not see it.
    fn explain(&self, object: &ObjectAddress) -> Option<Explanation>;
}

/// Criteria for objects; `None` matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// API group; `Some("")` is the core group.
    pub group: Option<String>,
    /// Kind.
    pub kind: Option<String>,
    /// Namespace; `Some("")` selects cluster-scoped objects.
    pub namespace: Option<String>,
    /// Name.
    pub name: Option<String>,
    /// State.
    pub state: Option<ObjectState>,
}

// === impl Mutex<Model> ===

impl View for Mutex<Model> {
    fn snapshot(&self) -> Snapshot {
        lock(self).snapshot()
    }

    fn pending(&self) -> Vec<String> {
        lock(self).pending()
    }

    fn visit(&self, cursor: Cursor, limit: usize, show: &mut dyn FnMut(ObjectRef<'_>)) -> Option<Cursor> {
        lock(self).visit(cursor, limit, show)
    }

    fn select(&self, cursor: Cursor, limit: usize, filter: &Filter) -> (Vec<ObjectRow>, Option<Cursor>) {
        let model = lock(self);
        let mut any = false;
        let next =
            model.visit(cursor, limit, &mut |o| any |= filter.matches(o.group, o.kind, o.namespace, o.name, o.state));
        if !any {
            return (Vec::new(), next); // the common case for narrow filters, which avoids copying rows
        }
        let (mut rows, next) = model.rows(cursor, limit);
        rows.retain(|row| filter.matches(&row.group, &row.kind, &row.namespace, &row.name, row.state));
        (rows, next)
    }

    fn explain(&self, object: &ObjectAddress) -> Option<Explanation> {
        lock(self).explain(object)
    }
}

/// Locks the model. Ignores poisoning, so that a panic in another task does not stop the exporters too.
pub fn lock(model: &Mutex<Model>) -> MutexGuard<'_, Model> {
    model.lock().unwrap_or_else(PoisonError::into_inner)
}

// === impl Filter ===

impl Filter {
    /// Whether an object with these properties matches.
    #[must_use]
    pub fn matches(&self, group: &str, kind: &str, namespace: &str, name: &str, state: ObjectState) -> bool {
        let is = |wanted: &Option<String>, actual: &str| wanted.as_deref().is_none_or(|wanted| wanted == actual);
        is(&self.group, group)
            && is(&self.kind, kind)
            && is(&self.namespace, namespace)
            && is(&self.name, name)
            && self.state.is_none_or(|wanted| wanted == state)
    }
}
