//! Sends alerts, events and traces. Each receiver may be slow, broken or gone, so each has its own
//! queue and task.

mod post; // requests to receivers
mod problems; // logs each problem of a receiver once
mod attempts; // repeats what a receiver has not accepted
mod origin; // who sends
mod leadership; // the one replica that sends what all replicas see
pub(crate) mod alertmanager; // alerts for Alertmanager
pub(crate) mod notify; // events for a webhook
pub mod traces; // spans for a collector

pub use self::origin::Origin;

#[cfg(test)]
pub(crate) mod fake_receiver; // a receiver that responds as a test sets
