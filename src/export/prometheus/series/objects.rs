//! Objects and obligations.

use loopwatch_model::observation::Role;
use loopwatch_model::snapshot::{ConditionState, KindSummary, ObjectState, Outcome};

use super::Exposition;
use crate::export::prometheus::encode::Samples;

/// A state gets a series when it first occurs in a namespace, and keeps it, so that its return to zero is visible.
pub(crate) fn objects(_: &Exposition, kind: &KindSummary, samples: &mut Samples<'_>) {
    for (namespace, totals) in &kind.namespaces {
        for (index, state) in ObjectState::ALL.iter().enumerate() {
            let (count, ms) = (totals.states[index], totals.state_ms[index]);
            if count > 0 || ms > 0 || *state == ObjectState::Converged {
                samples.put(&[&kind.group, &kind.kind, namespace, state.as_str()], count);
            }
        }
    }
}

pub(crate) fn object_seconds(_: &Exposition, kind: &KindSummary, samples: &mut Samples<'_>) {
    for (namespace, totals) in &kind.namespaces {
        for (state, ms) in ObjectState::ALL.iter().zip(totals.state_ms) {
            if ms > 0 || *state == ObjectState::Converged {
                samples.put(&[&kind.group, &kind.kind, namespace, state.as_str()], ms as f64 / 1000.0);
            }
        }
    }
}

pub(crate) fn obligations(_: &Exposition, kind: &KindSummary, samples: &mut Samples<'_>) {
    if !has_obligations(kind) {
        return;
    }
    for (namespace, totals) in &kind.namespaces {
        for (outcome, count) in Outcome::ALL.iter().zip(totals.obligations) {
            samples.put(&[&kind.group, &kind.kind, namespace, outcome.as_str()], count);
        }
    }
}

pub(crate) fn deadline(_: &Exposition, kind: &KindSummary, samples: &mut Samples<'_>) {
    if has_obligations(kind) {
        samples.put(&[&kind.group, &kind.kind, kind.deadline_source.as_str()], kind.deadline);
    }
}

pub(crate) fn acknowledge(_: &Exposition, kind: &KindSummary, samples: &mut Samples<'_>) {
    if has_obligations(kind) {
        samples.histogram(&[&kind.group, &kind.kind], &kind.totals.acknowledge);
    }
}

pub(crate) fn convergence(_: &Exposition, kind: &KindSummary, samples: &mut Samples<'_>) {
    if has_obligations(kind) {
        samples.histogram(&[&kind.group, &kind.kind], &kind.totals.convergence);
    }
}

pub(crate) fn unconverged_oldest(shown: &Exposition, kind: &KindSummary, samples: &mut Samples<'_>) {
    let age = kind.oldest_unconverged.map(|since| shown.snapshot.at.since(since));
    samples.put_some(&[&kind.group, &kind.kind], age);
}

pub(crate) fn object_unconverged(shown: &Exposition, samples: &mut Samples<'_>) {
    for row in shown.snapshot.unhealthy.iter().take(shown.object_series) {
        samples.put_some(&[&row.group, &row.kind, &row.namespace, &row.name, row.reason], row.unconverged_since);
    }
}

pub(crate) fn condition_objects(_: &Exposition, kind: &KindSummary, samples: &mut Samples<'_>) {
    for (ConditionState { r#type: condition, status }, count) in &kind.totals.conditions {
        samples.put(&[&kind.group, &kind.kind, condition, status], *count);
    }
}

pub(crate) fn condition_flaps(_: &Exposition, kind: &KindSummary, samples: &mut Samples<'_>) {
    for (condition, count) in &kind.totals.flaps {
        samples.put(&[&kind.group, &kind.kind, condition], *count);
    }
}

pub(crate) fn phase_objects(_: &Exposition, kind: &KindSummary, samples: &mut Samples<'_>) {
    for (phase, count) in &kind.totals.phases {
        samples.put(&[&kind.group, &kind.kind, phase], *count);
    }
}

pub(crate) fn control_loop_health(shown: &Exposition, samples: &mut Samples<'_>) {
    for (namespace, health) in &shown.snapshot.health {
        samples.put(&[namespace], *health as u64);
    }
}

/// Whether spec changes of this kind open obligations. Child kinds have none: loopwatch reads only their metadata.
fn has_obligations(kind: &KindSummary) -> bool {
    kind.role == Role::Primary
}
