//! Snapshot, explanation and recent past.

mod explain;
mod rows;
mod recent_past;
mod kube_events;
mod recent_changes;
