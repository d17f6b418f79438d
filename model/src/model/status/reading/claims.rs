//! Whether a status claims that something runs, and not only that a spec was accepted.

use crate::model::status::reading::Reason;
use crate::model::status::reading::polarity::{Polarity, SUMMARY_TYPES};
use crate::model::status::reading::words::Words;
use crate::snapshot::ConditionState;

/// The words of conditions and phases that are about something that runs. Others, such as
/// `Accepted`, `Synced` and `Deployed`, say that the operator has done its work.
const RUNS: &[&str] =
    &["ready", "available", "healthy", "operational", "running", "online", "serving"];

/// Returns the claim of a converged status that something runs, such as `Ready=True`; `None` if it
/// makes none.
pub(crate) fn claim(reason: Reason, conditions: &[ConditionState], phase: &str) -> Option<String> {
    match reason {
        Reason::ReadyTrue => claiming(
            conditions,
            |condition| matches!(Polarity::of(condition), Polarity::Summary(at) if usize::from(at) < SUMMARY_TYPES.len()),
        ),
        Reason::ConditionsTrue => claiming(conditions, |_| true),
        Reason::PhaseGood => runs(phase).then(|| format!("phase {phase}")),
        Reason::FlagTrue | Reason::CountsMet => Reason::words(reason.as_str()).map(str::to_owned),
        _ => None,
    }
}

/// Returns the first condition that is true, counts and is about something that runs.
fn claiming(conditions: &[ConditionState], counts: impl Fn(&str) -> bool) -> Option<String> {
    let is_claim = |condition: &&ConditionState| {
        condition.status == "true" && counts(&condition.r#type) && runs(&condition.r#type)
    };
    conditions.iter().find(is_claim).map(|condition| format!("{}=True", condition.r#type))
}

fn runs(text: &str) -> bool {
    let words = Words::of(text);
    RUNS.iter().any(|word| words.has(word))
}
