//! The part of the status that decided a verdict, of an object at rest: the model keeps no text of
//! it, only the statuses of its conditions and its phase.

use crate::model::status::reading::Reason;
use crate::model::status::reading::polarity::Polarity;
use crate::snapshot::ConditionState;

/// Returns the part as text for people, such as `Ready=True`; empty if what the model keeps does
/// not show it.
pub(crate) fn signal(reason: Reason, conditions: &[ConditionState], phase: &str) -> String {
    match reason {
        Reason::ReadyTrue => {
            let summary = |condition: &ConditionState| match Polarity::of(&condition.r#type) {
                Polarity::Summary(position) if condition.status == "true" => Some(position),
                _ => None,
            };
            let decisive =
                conditions.iter().filter_map(|condition| Some((summary(condition)?, condition)));
            let first = decisive.min_by_key(|(position, _)| *position);

            first.map(|(_, condition)| format!("{}=True", condition.r#type)).unwrap_or_default()
        }
        Reason::PhaseGood | Reason::PhaseDone | Reason::PhaseSuspended if !phase.is_empty() => {
            format!("phase {phase}")
        }
        _ => String::new(),
    }
}
