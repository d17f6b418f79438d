//! Python's runtime.

use loopwatch_model::observation::Runtime;

use crate::sources::operator::scrape::normalize::rules::{Rule, Signal, Table};

pub(super) static TABLE: Table = Table {
    framework: None,
    who: &[],
    also: &[],
    rules: &[
        Rule::largest("python_info", Signal::Runtime(Runtime::Python)),
        Rule::sum("python_gc_collections_total", Signal::GcCycles),
    ],
};
