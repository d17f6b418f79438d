//! What a status says about work in progress on an object that had converged. Such work, planned or
//! periodic, is not a fault.

use crate::model::status::reading::polarity::Polarity;
use crate::model::status::reading::reasons::sense;
use crate::model::status::reading::senses::Sense;
use crate::model::status::reading::words::Words;
use crate::model::status::reading::{Reason, phases, runs};
use crate::observation::{Condition, ConditionStatus, ObjectView};
use crate::snapshot::ConditionState;
use crate::time::Timestamp;

/// Returns whether a condition that means work in progress, such as `Reconciling`, is false.
pub(crate) fn says_idle(object: &ObjectView) -> bool {
    object.conditions.iter().any(|condition| {
        condition.at.is_empty()
            && condition.status == ConditionStatus::False
            && Polarity::of(&condition.r#type) == Polarity::InProgress
    })
}

/// Returns whether the reason of a condition means work in progress, or its message if the reason
/// has no meaning.
pub(crate) fn reports_work(condition: &Condition) -> bool {
    let said = sense(&condition.reason).or_else(|| sense(&condition.message));
    said == Some(Sense::InProgress)
}

/// Returns whether conditions, each a type with its status, include one that sums up the whole object
/// and is true, and none that is not.
pub(crate) fn stands<'a>(conditions: impl Iterator<Item = (&'a str, &'a str)>) -> bool {
    let mut summaries = conditions
        .filter(|(name, _)| matches!(Polarity::of(name), Polarity::Summary(_)))
        .peekable();
    summaries.peek().is_some() && summaries.all(|(_, status)| status == "true")
}

/// Returns the conditions that sum up the whole object, such as `Ready`.
fn summaries(object: &ObjectView) -> impl Iterator<Item = &Condition> {
    let own = object.conditions.iter().filter(|condition| condition.at.is_empty());
    own.filter(|it| matches!(Polarity::of(&it.r#type), Polarity::Summary(_)))
}

/// Returns since when a condition that sums up the whole object has not been true; the earliest time, if there
/// are several.
pub(crate) fn unmet_since(object: &ObjectView) -> Option<Timestamp> {
    let unmet = summaries(object).filter(|condition| condition.status != ConditionStatus::True);
    unmet.filter_map(|condition| condition.changed).min()
}

/// Words for work that moves an object to another place and changes nothing of its spec.
const MOVES: [&str; 4] = ["evacuating", "migrating", "moving", "relocating"];

/// Returns since when the summaries of an object that is being moved have all been true; `None` if one is
/// not, or does not say.
pub(crate) fn stands_since(object: &ObjectView) -> Option<Timestamp> {
    let phase = Words::of(phases::own_phase(object));
    let moves = MOVES.iter().any(|word| phase.has(word));
    let all_true = summaries(object).all(|condition| condition.status == ConditionStatus::True);
    let since: Option<Vec<Timestamp>> =
        summaries(object).map(|condition| condition.changed).collect();
    since?.into_iter().max().filter(|_| moves && all_true)
}

/// Returns whether the operator says that it works on the object: a phase or a true condition means
/// work in progress and decided the verdict, and no condition says that the object is not healthy.
pub(crate) fn is_at_work(reason: Reason, conditions: &[ConditionState], phase: &str) -> bool {
    let unhealthy = |condition: &ConditionState| match Polarity::of(&condition.r#type) {
        Polarity::Summary(_) => condition.status == "false",
        Polarity::Lacking => condition.status == "true",
        _ => false,
    };
    let works = |condition: &ConditionState| {
        condition.status == "true" && Polarity::of(&condition.r#type) == Polarity::InProgress
    };

    let said = match reason {
        Reason::InMotion => true,
        Reason::PhaseInMotion => runs::names_work(phase),
        Reason::ReadyUnknown | Reason::ConditionUnknown => {
            runs::names_work(phase) || conditions.iter().any(works)
        }
        _ => false,
    };
    said && !conditions.iter().any(unhealthy)
}
