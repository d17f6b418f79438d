//! Restores the text of the signal that decided the verdict on an object at rest. The model keeps
//! only the phase of such an object and the statuses of its conditions.

use crate::model::status::reading::Reason;
use crate::model::status::reading::polarity::Polarity;
use crate::snapshot::ConditionState;

/// Returns the signal as text for people, such as `Ready=True`; empty if the model did not keep
/// enough to tell.
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
