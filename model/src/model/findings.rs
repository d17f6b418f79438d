//! Findings from the conclusion of a detector to the alert.

pub(crate) mod detection; // the conclusion of one detector about one subject
pub(crate) mod ledger; // opens them as settings, annotations and limits allow
pub(crate) mod open_findings; // from opening to closing
pub(crate) mod past_events; // the latest of them
pub mod tuning; // settings and annotations that silence a finding or change its severity
