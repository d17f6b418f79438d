//! The output of the model.

mod outbox; // events, traces and probes to take from the model
mod snapshot; // totals and findings
mod explain; // one object, for people
mod findings_by_object;
mod family_tree; // its owners and children
mod recent_past; // the last hours, for charts
mod readiness; // for `/readyz`
mod rights; // of the operator's account
mod checkpoints; // what survives a restart
