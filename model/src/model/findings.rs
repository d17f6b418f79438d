//! Findings, from the conclusion of a detector to an open finding and its events.

pub(crate) mod detection; // the conclusion of one detector about one subject
pub(crate) mod ledger; // opens findings as settings, annotations and limits allow
pub(crate) mod open_findings; // findings from opening to closing
pub(crate) mod past_events; // the latest finding events
pub mod tuning; // settings and annotations that silence a finding or change its severity
