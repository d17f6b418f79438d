//! The weight of observations in the channel: objects can have so long texts that the channel must
//! count kibibytes, not only observations.

use loopwatch_model::observation::{
    Condition, Consulted, Fact, FactValue, FailedCall, Manager, ObjectView, Observation,
};

/// The weight of all observations that may be in the channel at once, in KiB.
pub(super) const MAX: u32 = 4 * 1024;

/// What an entry of a list takes in addition to its texts, in bytes.
const ENTRY: usize = 96;

/// Returns the weight of an observation in KiB: 0 for all but fat objects.
pub(super) fn of(observation: &Observation) -> u32 {
    let bytes = match observation {
        Observation::Listed { object, .. } | Observation::Applied { object, .. } => of_view(object),
        _ => 0,
    };

    u32::try_from(bytes / 1024).unwrap_or(MAX).min(MAX)
}

/// Returns the memory of the lists of an object and their texts, in bytes, approximately.
fn of_view(view: &ObjectView) -> usize {
    let conditions = sum(&view.conditions, |condition| {
        let Condition { at, r#type, reason, message, failed_call, .. } = condition;
        let call = failed_call.as_deref().map_or(0, of_call);
        at.len() + r#type.len() + reason.len() + message.len() + call
    });
    let facts = sum(&view.facts, |Fact { path, value }| match value {
        FactValue::Text(text) => path.len() + text.len(),
        FactValue::Flag(_) | FactValue::Number(_) => path.len(),
    });
    let managers = sum(&view.managers, |Manager { name, finalizers, .. }| {
        name.len() + sum(finalizers, String::len)
    });
    let owners = sum(&view.owners, |owner| {
        owner.api_version.len() + owner.kind.len() + owner.name.len() + owner.uid.len()
    });
    let references =
        sum(&view.references, |reference| reference.slot.len() + reference.name.len() + ENTRY);
    let attempts = sum(&view.attempts, |attempts| attempts.handler.len() + attempts.error.len());
    let annotations = view.annotations.iter().chain(&view.labels);
    let annotations = annotations.map(|(key, value)| key.len() + value.len() + ENTRY);

    conditions
        + facts
        + managers
        + owners
        + references
        + attempts
        + annotations.sum::<usize>()
        + sum(&view.finalizers, String::len)
        + sum(&view.startup, |read| read.name.len())
}

fn of_call(call: &FailedCall) -> usize {
    let name = match &call.consulted {
        Consulted::Admission(name) => name.len(),
        Consulted::Conversion { group, kind } => group.len() + kind.len(),
        Consulted::Policy { name, .. } => name.len(),
    };
    ENTRY + name + call.service.len()
}

fn sum<T>(list: &[T], texts: impl Fn(&T) -> usize) -> usize {
    list.iter().map(|item| texts(item) + ENTRY).sum()
}
