//! Settings of labs.

use loopwatch_model::settings::{FindingRule, Settings};

/// Returns default settings without learning.
pub fn unlearned() -> Settings {
    // Most stories about causes have one object. `findings/pages.rs` is about the number.
    Settings { learn_after: 0, page_objects: 1, ..Settings::default() }
}

/// Returns settings without learning, but with a rule for a finding.
pub fn ruled(finding: &str, rule: FindingRule) -> Settings {
    Settings { findings: [(finding.to_owned(), vec![rule])].into(), ..unlearned() }
}
