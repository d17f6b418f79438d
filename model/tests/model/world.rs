//! Objects, kinds and watches that come and go.

mod kinds;
mod kind_changes;
mod scopes;
mod lists;
