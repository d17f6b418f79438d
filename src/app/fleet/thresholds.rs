//! The thresholds of one of many operators: its share of the memory, and what may page.

use loopwatch_model::finding::{Alert, Area, FINDINGS, Severity};
use loopwatch_model::settings::{FindingRule, OBJECT_BYTES, Settings};

/// The memory of a model without objects, in bytes (measured).
const MODEL_BYTES: usize = 512 << 10;

/// The memory that a model may take with any limit on its objects, in bytes.
const LEAST_BYTES: usize = MODEL_BYTES + (1 << 20);

/// The smallest share. It still shows something.
const LEAST: usize = 100;

/// Limit on operators, in any memory.
const MAX_OPERATORS: usize = 200;

/// The number of operators that have room.
pub(super) fn places(settings: &Settings) -> usize {
    let memory = settings.limits.objects.saturating_mul(OBJECT_BYTES);
    (memory / LEAST_BYTES).clamp(1, MAX_OPERATORS)
}

/// Limits the objects of one of many operators to an equal share, because the shares of all must fit into the
/// memory: tenants may create objects, and operators. A problem of an operator that owns nothing in the
/// whole cluster pages nobody, because a tenant may have made it.
pub(super) fn of_one(mut settings: Settings, operators: usize, is_wide: bool) -> Settings {
    let (all, operators) = (settings.limits.objects, operators.max(1));
    let models = if operators > 1 { MODEL_BYTES / OBJECT_BYTES } else { 0 };
    let share = (all / operators).saturating_sub(models);
    settings.limits.objects = share.max(LEAST.min(all));

    if !is_wide {
        let about_it = |area| matches!(area, Area::Operator | Area::Process);
        let pages = FINDINGS.iter().filter(|it| it.alert == Alert::Page && about_it(it.area));
        for finding in pages {
            let rule = FindingRule { severity: Some(Severity::Warning), ..FindingRule::default() };
            settings.findings.entry(finding.name.to_owned()).or_default().insert(0, rule);
        }
    }

    settings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shares_of_all_operators_fit_into_the_memory() {
        let mut settings = Settings::default();
        settings.limits.objects = 50_000;
        let share = |operators| of_one(settings.clone(), operators, true).limits.objects;
        assert_eq!((share(1), share(3), share(24)), (50_000, 16_084, 1_501));
        assert_eq!(share(1_000), LEAST, "a small share still shows something");

        let places = places(&settings);
        assert!(places < MAX_OPERATORS && places * LEAST_BYTES <= 50_000 * OBJECT_BYTES);
    }

    #[test]
    fn an_operator_of_single_namespaces_pages_nobody() {
        let rules = |is_wide| of_one(Settings::default(), 1, is_wide).findings;
        assert!(rules(true).is_empty());

        let narrow = rules(false);
        let names: Vec<&str> = narrow.keys().map(String::as_str).collect();
        let expected = [
            "ApiErrors",
            "MemoryExhaustionPredicted",
            "OperatorDown",
            "RestartLoop",
            "StartupOutOfMemory",
        ];
        assert_eq!(names, expected);
        assert!(narrow.values().flatten().all(|rule| rule.severity == Some(Severity::Warning)));
    }
}
