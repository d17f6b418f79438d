//! Conditions that matter only together with another part of the status.

use crate::model::status::reading::polarity::Polarity;
use crate::model::status::reading::reasons::{sense, show};
use crate::model::status::reading::roles::is_work_done;
use crate::model::status::reading::senses::Sense;
use crate::model::status::reading::signals::Signal;
use crate::model::status::reading::words::Words;
use crate::model::status::reading::{Reason, Verdict};
use crate::observation::ConditionStatus::{False, True};
use crate::observation::{Condition, FactValue, ObjectView};

/// Lists that hold conditions, or entries with conditions.
const CONDITION_LISTS: &[&str] = &["status.conditions", "status.parents", "status.ancestors"];

/// Returns a signal if the operator writes conditions, but none about the health of the object yet.
///
/// Either such a list is empty, or no type in it has a meaning. In the second case, the
/// conditions must also be the only place with an `observedGeneration`.
pub(super) fn none_about_health(object: &ObjectView) -> Option<Signal> {
    let new = |text| Some(Signal::new(Verdict::Progressing, Reason::NoSummaryYet, text));
    let mut top_level = object.conditions.iter().filter(|condition| condition.at.is_empty());
    match top_level.clone().next() {
        None => {
            let is_empty = |path: &&&str| object.fact(path) == Some(&FactValue::Number(0));
            let list = CONDITION_LISTS.iter().find(is_empty)?;
            new(format!("{list}=[]"))
        }
        Some(first)
            if object.observed_generation.is_none()
                && newest_generation(object, |_| true).is_some() =>
        {
            if top_level.all(|condition| Polarity::is_unknown(&condition.r#type)) {
                new(show(first))
            } else {
                None
            }
        }
        _ => None,
    }
}

/// Returns a signal if a top-level condition says that a part is not healthy:
/// `DaemonHealthy=False`.
pub(super) fn unhealthy_part(object: &ObjectView) -> Option<Signal> {
    let condition = object.conditions.iter().find(|condition| {
        let names_health = || {
            let words = Words::of(&condition.r#type);
            words.len() > 1 && words.last() == "healthy"
        };

        condition.at.is_empty() && condition.status == False && names_health()
    })?;
    Some(Signal::new(Verdict::Failed, Reason::FaultTrue, show(condition)))
}

/// Returns a signal if a condition that means a fault is true although its reason is good. Only
/// counts can settle this contradiction.
pub(super) fn doubtful_fault(object: &ObjectView) -> Option<Signal> {
    let condition = object.conditions.iter().find(|condition| {
        condition.at.is_empty()
            && condition.status == True
            && Polarity::of(&condition.r#type) == Polarity::Fault
            && matches!(sense(&condition.reason), Some(Sense::Good | Sense::Done))
    })?;
    Some(Signal::new(Verdict::Failed, Reason::FaultTrue, show(condition)))
}

/// Returns the generation that the status is about. Many operators set `observedGeneration` only in
/// their conditions. Flux sets that of the status only after a success, so a summary that is not true may
/// be about a later generation.
pub(crate) fn observed_generation(object: &ObjectView) -> Option<i64> {
    let is_unmet = |condition: &&Condition| {
        condition.status != True && matches!(Polarity::of(&condition.r#type), Polarity::Summary(_))
    };
    match object.observed_generation {
        Some(own) => Some(own.max(newest_generation(object, is_unmet).unwrap_or(own))),
        None => newest_generation(object, |_| true),
    }
}

/// Returns whether the status still has the negative `observedGeneration` with which it was created. The
/// operator (Flux) replaces it after its first success.
pub(crate) fn is_unobserved(object: &ObjectView) -> bool {
    matches!(object.fact("status.observedGeneration"), Some(FactValue::Number(..=-1)))
}

/// Returns the newest generation that some of the top-level conditions report.
fn newest_generation(object: &ObjectView, is_of: impl Fn(&&Condition) -> bool) -> Option<i64> {
    let top_level = object.conditions.iter().filter(|condition| condition.at.is_empty());
    top_level.filter(is_of).filter_map(|condition| condition.observed_generation).max()
}

/// Returns whether the condition `Progressing` says that the rollout is complete.
pub(super) fn rolled_out(object: &ObjectView) -> bool {
    object.conditions.iter().any(|condition| {
        condition.r#type == "Progressing" && condition.status == True && is_work_done(condition)
    })
}
