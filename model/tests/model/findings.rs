//! Open findings, their starts, causes, tuning and limits.

mod causes;
mod explanations;
mod time_limits;
mod night;
mod paging;
mod pages; // whether one object is enough
mod workers;
mod starts;
mod times;
mod annotations;
mod rules;
mod limits;
mod limits_of_texts;
mod lasting_limits;
mod room;
mod object_memory;
mod events;

use loopwatch_model::finding::Severity;

/// Returns the findings that alert if this one alone pages.
fn page(code: &str) -> [(String, Severity); 1] {
    [(code.to_owned(), Severity::Critical)]
}
