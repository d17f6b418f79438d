//! Writes samples for every object: approximately nine series each. `--object-series=all` turns
//! them on.

use loopwatch_model::snapshot::{ConditionState, ObjectRef};

use crate::export::metrics::encode::Samples;

pub(crate) fn state(object: &ObjectRef<'_>, samples: &mut Samples<'_>) {
    let ObjectRef { group, kind, namespace, name, state, .. } = *object;
    samples.put(&[group, kind, namespace, name, state.as_str()], 1_u64);
}

pub(crate) fn state_since(object: &ObjectRef<'_>, samples: &mut Samples<'_>) {
    samples.put(&identity(object), object.since);
}

pub(crate) fn created(object: &ObjectRef<'_>, samples: &mut Samples<'_>) {
    samples.put_some(&identity(object), object.created);
}

pub(crate) fn deletion(object: &ObjectRef<'_>, samples: &mut Samples<'_>) {
    samples.put_some(&identity(object), object.terminating_since);
}

pub(crate) fn generation(object: &ObjectRef<'_>, samples: &mut Samples<'_>) {
    samples.put(&identity(object), object.generation);
}

pub(crate) fn observed_generation(object: &ObjectRef<'_>, samples: &mut Samples<'_>) {
    samples.put_some(&identity(object), object.observed_generation);
}

/// Writes each condition type once, even if the object lists it twice: duplicate series would make
/// the scrape invalid.
pub(crate) fn conditions(object: &ObjectRef<'_>, samples: &mut Samples<'_>) {
    let ObjectRef { group, kind, namespace, name, conditions, .. } = *object;
    for (index, ConditionState { r#type: condition, status }) in conditions.iter().enumerate() {
        if !conditions[..index].iter().any(|earlier| earlier.r#type == *condition) {
            samples.put(&[group, kind, namespace, name, condition, status], 1_u64);
        }
    }
}

pub(crate) fn phase(object: &ObjectRef<'_>, samples: &mut Samples<'_>) {
    let ObjectRef { group, kind, namespace, name, phase, .. } = *object;
    if !phase.is_empty() {
        samples.put(&[group, kind, namespace, name, phase], 1_u64);
    }
}

pub(crate) fn finalizers(object: &ObjectRef<'_>, samples: &mut Samples<'_>) {
    if !object.finalizers.is_empty() {
        samples.put(&identity(object), object.finalizers.len() as u64);
    }
}

fn identity<'a>(object: &ObjectRef<'a>) -> [&'a str; 4] {
    [object.group, object.kind, object.namespace, object.name]
}
