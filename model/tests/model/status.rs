//! The reading of statuses, and what the statuses of a kind say.

mod reading;
mod reasons;
mod coverage;
