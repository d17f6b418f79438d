//! What the status of one object says, and what the statuses of its kind usually say.

pub mod reading; // reads the status of any operator
pub(crate) mod coverage; // counts of a kind's objects by what their statuses say
