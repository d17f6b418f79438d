//! The version of all shapes.

pub(crate) const VERSION: u32 = 1;
