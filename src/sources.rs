//! Where observations come from. Sources may fail; a failure is an observation like any other.

pub mod decode;
