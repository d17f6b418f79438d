//! How exporters look at the model: a snapshot, and walks over all objects in pages.

use std::sync::{Mutex, MutexGuard, PoisonError};

use loopwatch_model::model::Model;
use loopwatch_model::snapshot::{Cursor, ObjectRef, ObjectRow, ObjectState, Snapshot};

/// What exporters need of a model. A lock is held during each call and no longer.
pub trait View: Send + Sync {
    /// What the model shows now.
    fn snapshot(&self) -> Snapshot;

    /// Shows at most `limit` objects from `cursor` on; `None` when there are no more.
    fn visit(&self, cursor: Cursor, limit: usize, show: &mut dyn FnMut(ObjectRef<'_>)) -> Option<Cursor>;

    /// Those of at most `limit` objects from `cursor` on that pass `filter`, with everything known of them.
    fn select(&self, cursor: Cursor, limit: usize, filter: &Filter) -> (Vec<ObjectRow>, Option<Cursor>);
}

/// Which objects are wanted; what is `None` is not asked about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// API group; `Some("")` is the core group.
    pub group: Option<String>,
    /// Kind.
    pub kind: Option<String>,
    /// Namespace; `Some("")` are cluster-scoped objects.
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

    fn visit(&self, cursor: Cursor, limit: usize, show: &mut dyn FnMut(ObjectRef<'_>)) -> Option<Cursor> {
        lock(self).visit(cursor, limit, show)
    }

    fn select(&self, cursor: Cursor, limit: usize, filter: &Filter) -> (Vec<ObjectRow>, Option<Cursor>) {
        let model = lock(self);
        let mut any = false;
        let next =
            model.visit(cursor, limit, &mut |o| any |= filter.wants(o.group, o.kind, o.namespace, o.name, o.state));
        if !any {
            return (Vec::new(), next); // most pages of a narrow question: nothing was copied
        }
        let (mut rows, next) = model.rows(cursor, limit);
        rows.retain(|row| filter.wants(&row.group, &row.kind, &row.namespace, &row.name, row.state));
        (rows, next)
    }
}

/// A panic elsewhere while the lock was held must not end the exporter too: what is there is shown.
pub fn lock(model: &Mutex<Model>) -> MutexGuard<'_, Model> {
    model.lock().unwrap_or_else(PoisonError::into_inner)
}

// === impl Filter ===

impl Filter {
    /// Whether an object with these properties is wanted.
    #[must_use]
    pub fn wants(&self, group: &str, kind: &str, namespace: &str, name: &str, state: ObjectState) -> bool {
        let is = |wanted: &Option<String>, actual: &str| wanted.as_deref().is_none_or(|wanted| wanted == actual);
        is(&self.group, group)
            && is(&self.kind, kind)
            && is(&self.namespace, namespace)
            && is(&self.name, name)
            && self.state.is_none_or(|wanted| wanted == state)
    }
}
