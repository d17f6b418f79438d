//! The thresholds of one of many operators: its share of the memory, and what may page.

use loopwatch_model::finding::{Alert, FINDINGS, Severity};
use loopwatch_model::settings::{FindingRule, OBJECT_BYTES, Settings};

/// The memory of a model without objects, in bytes (measured).
const MODEL_BYTES: usize = 512 << 10;

/// The memory that a model may take with any limit on its objects, in bytes.
const LEAST_BYTES: usize = MODEL_BYTES + (1 << 20);

/// The smallest share. It still shows something.
const LEAST: usize = 100;

/// Limit on operators, in any memory.
const MAX_OPERATORS: usize = 200;

/// The part of the limit on objects that belongs to the operators that own kinds only in single namespaces, as a
/// divisor, and the number of them for which it is enough. Tenants may create such operators, one after
/// another, and objects that are there stay when a share shrinks. That is why this share never changes.
const FOR_NARROW: usize = 4;
const MAX_NARROW: usize = 50;

/// The number of operators that have room: all of them, and those that own kinds only in single namespaces.
pub(super) fn places(settings: &Settings) -> (usize, usize) {
    let memory = settings.limits.objects.saturating_mul(OBJECT_BYTES);
    let all = (memory / LEAST_BYTES).clamp(1, MAX_OPERATORS);
    (all, all.div_ceil(FOR_NARROW).min(MAX_NARROW))
}

/// Limits the objects of one of many operators. Those that own a kind in the whole cluster may each have twice
/// as many as if all `wide` ones were equal, because they are not. A problem of the others, or of their
/// objects, pages nobody, because a tenant may have made it.
pub(super) fn of_one(mut settings: Settings, wide: usize, is_wide: bool) -> Settings {
    let all = settings.limits.objects;
    let for_narrow = all / FOR_NARROW;
    let share = match (is_wide, wide) {
        (true, 0 | 1) => all - for_narrow,
        (true, _) => {
            let share = (all - for_narrow).saturating_mul(2) / wide.saturating_add(1);
            share.saturating_sub(MODEL_BYTES / OBJECT_BYTES)
        }
        (false, _) => for_narrow / MAX_NARROW,
    };
    settings.limits.objects = share.max(LEAST.min(all));

    if !is_wide {
        let may_page = |alert| matches!(alert, Alert::Page | Alert::TicketUnlessMost);
        for finding in FINDINGS.iter().filter(|it| may_page(it.alert)) {
            // After the rules of the user, the first of which decides.
            let rule = FindingRule { severity: Some(Severity::Warning), ..FindingRule::default() };
            settings.findings.entry(finding.name.to_owned()).or_default().push(rule);
        }
    }

    settings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_of_single_namespaces_have_a_fixed_share() {
        let mut settings = Settings::default();
        settings.limits.objects = 200_000;
        let share = |wide, is_wide| of_one(settings.clone(), wide, is_wide).limits.objects;
        assert_eq!((share(1, true), share(2, true), share(29, true)), (150_000, 99_418, 9_418));
        assert_eq!((share(0, false), share(100, false)), (1_000, 1_000));
        assert_eq!(share(10_000, true), LEAST, "a small share still shows something");

        let (all, narrow) = places(&settings);
        assert!(all < MAX_OPERATORS && all * LEAST_BYTES <= 200_000 * OBJECT_BYTES);
        assert!(narrow * share(0, false) <= 200_000 / FOR_NARROW);
    }

    #[test]
    fn an_operator_of_single_namespaces_pages_nobody() {
        let rules = |is_wide| of_one(Settings::default(), 1, is_wide).findings;
        assert!(rules(true).is_empty());

        let narrow = rules(false);
        for page in ["OperatorDown", "Failing", "Unacknowledged", "Overdue"] {
            assert!(narrow.contains_key(page), "{page}");
        }
        assert!(narrow.values().flatten().all(|rule| rule.severity == Some(Severity::Warning)));

        let mut own = Settings::default();
        let rule = FindingRule { severity: Some(Severity::Info), ..FindingRule::default() };
        own.findings.insert("OperatorDown".to_owned(), vec![rule.clone()]);
        let rules = of_one(own, 1, false).findings;
        assert_eq!(rules["OperatorDown"][0], rule, "the rule of the user decides");
    }
}
