//! The version of all JSON shapes.

pub(crate) const VERSION: u32 = 1;
