//! Answers the model's questions: counts of objects, and lookups of single objects.

mod counts;
mod object_lookups;

pub(crate) use self::counts::{WatchTargets, answer_counts};
pub(crate) use self::object_lookups::{ObjectLookups, WatchedChildKinds, answer_lookups};
