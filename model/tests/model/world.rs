//! Objects, kinds and watches that come and go.

mod kinds;
mod kind_changes;
mod scopes;
mod lists;

use loopwatch_model::observation::{Role, WatchedKind};

use crate::lab::kind;

/// Returns the watch of widgets as children.
fn child() -> WatchedKind {
    WatchedKind { role: Role::Child, ..kind() }
}
