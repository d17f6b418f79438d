//! Presents a snapshot to people and scripts.

pub(crate) mod json; // the stable JSON shapes
pub(crate) mod page; // the web page
pub(crate) mod report; // the output of `check`, `replay`, `explain` and `what-if`
