//! What the faults showed: printed at the end of a run, and only by running.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// One fault on one kind.
pub(crate) struct Row {
    /// The fault.
    pub(crate) fault: String,
    /// On what.
    pub(crate) on: String,
    /// What was found.
    pub(crate) found: String,
    /// From the fault's effect to the finding.
    pub(crate) detected: Duration,
    /// The threshold that has to pass before it may be found.
    pub(crate) threshold: Duration,
    /// From the cure to the end of the finding.
    pub(crate) cleared: Duration,
    /// Findings on anything else, from beginning to end.
    pub(crate) false_positives: usize,
}

static ROWS: Mutex<Vec<Row>> = Mutex::new(Vec::new());

/// Adds a row.
pub(crate) fn add(row: Row) {
    ROWS.lock().unwrap_or_else(PoisonError::into_inner).push(row);
}

/// Prints the table, if there is anything in it.
pub(crate) fn print() {
    let mut rows = ROWS.lock().unwrap_or_else(PoisonError::into_inner);
    if rows.is_empty() {
        return;
    }
    rows.sort_by(|a, b| (&a.fault, &a.on).cmp(&(&b.fault, &b.on)));
    eprintln!("\n| fault | on | found | threshold | found after | cleared after | false positives |");
    eprintln!("|---|---|---|---|---|---|---|");
    for Row { fault, on, found, detected, threshold, cleared, false_positives } in rows.iter() {
        let [threshold, detected, cleared] =
            [threshold, detected, cleared].map(|span| format!("{:.1} s", span.as_secs_f64()));
        eprintln!("| {fault} | {on} | {found} | {threshold} | {detected} | {cleared} | {false_positives} |");
    }
}
