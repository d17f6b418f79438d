//! The bounds of the settings.
//!
//! The default of a setting shows its type, and the type its bounds. Only the settings with other
//! bounds have a row here.

use std::fmt;

use crate::time::Span;

/// The number of changes of a condition or a phase that the model keeps.
pub(crate) const KEPT_TRANSITIONS: usize = 24;
/// The number of versions of a hot loop that the model keeps.
pub(crate) const KEPT_VERSIONS: usize = 16;
/// The number of undone writes that the model keeps.
pub(crate) const KEPT_UNDONE_WRITES: usize = 64;
/// The number of reverts of a status that the model keeps.
pub(crate) const KEPT_REVERTS: usize = 8;
/// The number of returns of a child that the model keeps.
pub(crate) const KEPT_RETURNS: usize = 8;

/// The smallest and the largest value of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The smallest value; that of a duration in milliseconds.
    pub least: u64,
    /// The largest value, if there is one.
    pub most: Option<u64>,
    /// Whether the setting is a duration.
    pub is_duration: bool,
}

/// Zero has a meaning for these.
const MAY_BE_ZERO: &[&str] = &[
    "unacknowledged_early_after", // the learned percentile decides alone
    "settle",                     // the first status decides
    "reject_after",               // the first status decides
    "unsaid_after",               // nothing waits for a write
    "page_after",                 // every ticket pages at once
    "hazard_kept_for",            // the finding closes with its cause
    "recover_at_least",           // the factor decides alone
    "throttled_wait",             // any work that waits
    "scrape_expected_within",     // off
    "learn_after",                // off
    "orphan_siblings",            // objects of every kind
    // Limits: the model keeps none of these.
    "histories",
    "phases",
    "event_reasons",
    "condition_types",
    "finalizers",
    "namespaces",
    "object_series",
    "trace_bytes",
];

/// A larger number could never be reached, because the model keeps no more.
const MOST: &[(&str, usize)] = &[
    ("flap_transitions", KEPT_TRANSITIONS),
    ("cycle_returns", KEPT_TRANSITIONS - 2), // the first two phases return to none
    ("hot_loop_writes", KEPT_VERSIONS),
    ("fight_writes", KEPT_UNDONE_WRITES),
    ("status_reverts", KEPT_REVERTS),
    ("recreations", KEPT_RETURNS),
];

/// A percentage of growth, which may be more than the whole.
const GROWTH: &str = "memory_jump_percent";

impl Bounds {
    /// The bounds of a number.
    #[must_use]
    pub fn of_number(name: &str) -> Self {
        let kept = MOST.iter().find(|(row, _)| *row == name).map(|(_, most)| *most as u64);
        let whole = (name.ends_with("_percent") && name != GROWTH).then_some(100);
        Self { least: least(name), most: kept.or(whole), is_duration: false }
    }

    /// The bounds of a duration.
    #[must_use]
    pub fn of_duration(name: &str) -> Self {
        Self { least: least(name), most: None, is_duration: true }
    }

    /// Whether a value is within the bounds.
    #[must_use]
    pub fn contains(self, value: u64) -> bool {
        value >= self.least && self.most.is_none_or(|most| value <= most)
    }
}

fn least(name: &str) -> u64 {
    u64::from(!MAY_BE_ZERO.contains(&name))
}

impl fmt::Display for Bounds {
    /// `1 to 100`, `at least 1`, `more than 0s`, `any number`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.is_duration, self.least, self.most) {
            (true, 0, _) => f.write_str("any duration"),
            (true, ..) => write!(f, "more than {}", Span::ZERO),
            (false, least, Some(most)) => write!(f, "{least} to {most}"),
            (false, 0, None) => f.write_str("any number"),
            (false, least, None) => write!(f, "at least {least}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Settings;

    #[test]
    fn every_row_is_a_setting() {
        let all = serde_json::to_value(Settings::default()).expect("JSON");
        let (limits, spelt) = (&all["limits"], |name: &&str| name.ends_with("_annotation"));
        for name in MAY_BE_ZERO.iter().chain(MOST.iter().map(|(name, _)| name)).chain([&GROWTH]) {
            let value = if all[*name].is_null() { &limits[*name] } else { &all[*name] };
            assert!(!value.is_null() && !spelt(name), "{name} is no setting");
        }
    }

    #[test]
    fn bounds_contain_their_ends() {
        let percent = Bounds::of_number("page_percent");
        assert!(percent.contains(1) && percent.contains(100));
        assert!(!percent.contains(0) && !percent.contains(101));
        assert_eq!(percent.to_string(), "1 to 100");

        assert!(Bounds::of_number("memory_jump_percent").contains(500));
        assert_eq!(Bounds::of_number("restarts").to_string(), "at least 1");
        assert_eq!(Bounds::of_duration("regressed_after").to_string(), "more than 0s");
        assert!(Bounds::of_duration("scrape_expected_within").contains(0));
    }
}
