//! References to other objects, and their targets.

mod cross_namespace;
mod dangling;
mod needed;
mod lookups;
mod late_targets;
