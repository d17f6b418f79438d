//! What loopwatch sends by itself. Each receiver may be slow, broken or gone, so each has a queue and
//! a task of its own.

mod post; // requests to receivers
mod problems; // each problem of a receiver once in the log
mod attempts; // repeats what a receiver has not accepted
mod leadership; // the replica that sends what all replicas see
pub(crate) mod alertmanager; // alerts for Alertmanager
pub(crate) mod notify; // events for a webhook
pub mod traces; // spans for a collector

#[cfg(test)]
pub(crate) mod fake_receiver; // a receiver that answers as a test says
