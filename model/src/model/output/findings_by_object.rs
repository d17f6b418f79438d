//! The open findings about each object.

use std::collections::BTreeMap;

use crate::finding::Subject;

/// The codes of the open findings about each object.
pub(crate) type FindingsByObject<'a> = BTreeMap<&'a Subject, Vec<&'static str>>;
