//! What a status says about work in progress on an object that had converged. Such work, planned or
//! periodic, is not a fault.

use crate::model::status::reading::polarity::Polarity;
use crate::observation::{ConditionStatus, ObjectView};

/// Returns whether a condition that means work in progress, such as `Reconciling`, is false.
pub(crate) fn says_idle(object: &ObjectView) -> bool {
    object.conditions.iter().any(|condition| {
        condition.at.is_empty()
            && condition.status == ConditionStatus::False
            && Polarity::of(&condition.r#type) == Polarity::InProgress
    })
}
