//! Series of every object, for those who ask for them: about nine of each.

use loopwatch_model::snapshot::ObjectRef;

use super::Samples;

pub(super) fn object_state(object: &ObjectRef<'_>, samples: &mut Samples<'_>) {
    let ObjectRef { group, kind, namespace, name, state, .. } = *object;
    samples.put(&[group, kind, namespace, name, state.as_str()], 1_u64);
}

pub(super) fn object_state_since(object: &ObjectRef<'_>, samples: &mut Samples<'_>) {
    samples.put(&[object.group, object.kind, object.namespace, object.name], object.since);
}

pub(super) fn object_created(object: &ObjectRef<'_>, samples: &mut Samples<'_>) {
    if let Some(created) = object.created {
        samples.put(&[object.group, object.kind, object.namespace, object.name], created);
    }
}

pub(super) fn object_deletion(object: &ObjectRef<'_>, samples: &mut Samples<'_>) {
    if let Some(since) = object.terminating_since {
        samples.put(&[object.group, object.kind, object.namespace, object.name], since);
    }
}

pub(super) fn object_generation(object: &ObjectRef<'_>, samples: &mut Samples<'_>) {
    samples.put(&[object.group, object.kind, object.namespace, object.name], object.generation);
}

pub(super) fn object_observed_generation(object: &ObjectRef<'_>, samples: &mut Samples<'_>) {
    if let Some(observed) = object.observed_generation {
        samples.put(&[object.group, object.kind, object.namespace, object.name], observed);
    }
}

/// An object that has a condition twice has a bug; a series twice would be ours.
pub(super) fn object_condition(object: &ObjectRef<'_>, samples: &mut Samples<'_>) {
    let ObjectRef { group, kind, namespace, name, conditions, .. } = *object;
    for (index, (condition, status)) in conditions.iter().enumerate() {
        if !conditions[..index].iter().any(|(earlier, _)| earlier == condition) {
            samples.put(&[group, kind, namespace, name, condition, status], 1_u64);
        }
    }
}

pub(super) fn object_phase(object: &ObjectRef<'_>, samples: &mut Samples<'_>) {
    let ObjectRef { group, kind, namespace, name, phase, .. } = *object;
    if !phase.is_empty() {
        samples.put(&[group, kind, namespace, name, phase], 1_u64);
    }
}

pub(super) fn object_finalizers(object: &ObjectRef<'_>, samples: &mut Samples<'_>) {
    if object.finalizers > 0 {
        samples.put(&[object.group, object.kind, object.namespace, object.name], object.finalizers as u64);
    }
}
