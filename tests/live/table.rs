//! The table of faults and findings at the end of a run.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// One fault on one kind.
pub(crate) struct Row {
    /// The fault.
    pub(crate) fault: String,
    /// The kind of the object.
    pub(crate) on: String,
    /// The finding.
    pub(crate) found: String,
    /// The time from the effect of the fault to the finding.
    pub(crate) detected: Duration,
    /// The time that must pass before loopwatch may report it.
    pub(crate) threshold: Duration,
    /// The time from the cure until the finding closed.
    pub(crate) cleared: Duration,
    /// The number of other findings.
    pub(crate) false_positives: usize,
}

static ROWS: Mutex<Vec<Row>> = Mutex::new(Vec::new());

/// Adds a row.
pub(crate) fn add(row: Row) {
    ROWS.lock().unwrap_or_else(PoisonError::into_inner).push(row);
}

/// Prints the table unless it is empty.
pub(crate) fn print() {
    let mut rows = ROWS.lock().unwrap_or_else(PoisonError::into_inner);
    if rows.is_empty() {
        return;
    }

    rows.sort_by(|a, b| (&a.fault, &a.on).cmp(&(&b.fault, &b.on)));
    eprintln!(
        "\n| fault | on | found | threshold | found after | cleared after | false positives |"
    );
    eprintln!("|---|---|---|---|---|---|---|");

    for Row { fault, on, found, detected, threshold, cleared, false_positives } in rows.iter() {
        let [threshold, detected, cleared] =
            [threshold, detected, cleared].map(|span| format!("{:.1} s", span.as_secs_f64()));
        eprintln!(
            "| {fault} | {on} | {found} | {threshold} | {detected} | {cleared} | {false_positives} |"
        );
    }
}
