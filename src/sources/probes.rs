//! Answers the model's questions: counts of objects, lookups of single objects, and the fields that the
//! writes to an object change.

mod changed_fields;
mod counts;
mod object_lookups;

pub(crate) use self::changed_fields::answer_fields;
pub(crate) use self::counts::{WatchTargets, answer_counts};
pub(crate) use self::object_lookups::{ObjectLookups, WatchedChildKinds, answer_lookups};
