//! Writes samples about objects and obligations.

use loopwatch_model::histogram::Histogram;
use loopwatch_model::observation::Role;
use loopwatch_model::snapshot::{
    ConditionState, Durations, EarlierRevisions, EventReason, KindSummary, ObjectRow, ObjectState,
    Outcome, RevisionTotals,
};

use super::Exposition;
use crate::export::metrics::encode::Samples;
use crate::telemetry::Counted;

/// A kind's totals under each revision of the operator.
struct Revisions<'a> {
    /// The label of the current revision.
    current: &'a str,
    earlier: Option<&'a EarlierRevisions>,
    /// The label and the totals of the previous revision.
    previous: Option<(&'a str, &'a RevisionTotals)>,
}

/// A state gets a series when it first occurs in a namespace, and keeps it, so that its return to
/// zero is visible.
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
                samples
                    .put(&[&kind.group, &kind.kind, namespace, state.as_str()], ms as f64 / 1000.0);
            }
        }
    }
}

/// Writes all outcomes of all namespaces under the operator's current revision, including those
/// that have not occurred yet, and the totals under the previous revision.
pub(crate) fn obligations(shown: &Exposition, kind: &KindSummary, samples: &mut Samples<'_>) {
    if !has_obligations(kind) {
        return;
    }

    let revisions = Revisions::of(shown, kind);
    for (namespace, totals) in &kind.namespaces {
        let earlier = revisions.earlier.and_then(|earlier| earlier.all.obligations.get(namespace));
        for (index, outcome) in Outcome::ALL.iter().enumerate() {
            let count =
                totals.obligations[index].saturating_sub(earlier.map_or(0, |counts| counts[index]));
            let labels = [&*kind.group, &*kind.kind, namespace, revisions.current];
            let is_late =
                *outcome == Outcome::Late && count > 0 && !shown.metrics.exemplars.is_empty();
            let exemplar = is_late.then(|| {
                shown.metrics.exemplars.get(&Counted::Late { labels: labels.map(str::to_owned) })
            });

            let [group, name, namespace, revision] = labels;
            samples.put_with(
                &[group, name, namespace, revision, outcome.as_str()],
                count,
                exemplar.flatten(),
            );
        }

        let Some((revision, earlier)) = revisions.previous else { continue };
        let counts = earlier.obligations.get(namespace).into_iter().flatten();
        for (outcome, count) in Outcome::ALL.iter().zip(counts) {
            samples.put(&[&kind.group, &kind.kind, namespace, revision, outcome.as_str()], *count);
        }
    }
}

pub(crate) fn namespace_convergence_samples(
    shown: &Exposition,
    kind: &KindSummary,
    samples: &mut Samples<'_>,
) {
    of_namespaces(shown, kind, |labels, convergences| samples.put(labels, convergences.count));
}

pub(crate) fn namespace_convergence_seconds(
    shown: &Exposition,
    kind: &KindSummary,
    samples: &mut Samples<'_>,
) {
    of_namespaces(shown, kind, |labels, convergences| samples.put(labels, convergences.seconds()));
}

/// Passes on the convergences of each namespace, with their labels: under the operator's current
/// revision, also if there are none yet, and under the previous one.
fn of_namespaces(
    shown: &Exposition,
    kind: &KindSummary,
    mut put: impl FnMut(&[&str; 4], Durations),
) {
    if !has_obligations(kind) {
        return;
    }

    let Revisions { current, earlier, previous } = Revisions::of(shown, kind);
    for (namespace, totals) in &kind.namespaces {
        let before = earlier.and_then(|earlier| earlier.all.convergences.get(namespace));
        let now = totals.convergences.less(before.copied().unwrap_or_default());
        put(&[&kind.group, &kind.kind, namespace, current], now);

        let Some((revision, earlier)) = previous else { continue };
        if let Some(then) = earlier.convergences.get(namespace) {
            put(&[&kind.group, &kind.kind, namespace, revision], *then);
        }
    }
}

pub(crate) fn deadline(_: &Exposition, kind: &KindSummary, samples: &mut Samples<'_>) {
    if has_obligations(kind) {
        samples.put(&[&kind.group, &kind.kind, kind.deadline_source.as_str()], kind.deadline);
    }
}

pub(crate) fn acknowledge(shown: &Exposition, kind: &KindSummary, samples: &mut Samples<'_>) {
    let exemplar = |labels, bucket| Counted::Acknowledge { labels, bucket };
    histogram(
        shown,
        kind,
        samples,
        (&kind.totals.acknowledge, |totals| &totals.acknowledge),
        exemplar,
    );
}

pub(crate) fn convergence(shown: &Exposition, kind: &KindSummary, samples: &mut Samples<'_>) {
    let exemplar = |labels, bucket| Counted::Convergence { labels, bucket };
    histogram(
        shown,
        kind,
        samples,
        (&kind.totals.convergence, |totals| &totals.convergence),
        exemplar,
    );
}

fn histogram(
    shown: &Exposition,
    kind: &KindSummary,
    samples: &mut Samples<'_>,
    (all, of): (&Histogram, fn(&RevisionTotals) -> &Histogram),
    counted: fn([String; 3], usize) -> Counted,
) {
    if !has_obligations(kind) {
        return;
    }

    let Revisions { current, earlier, previous } = Revisions::of(shown, kind);
    let labels = [&*kind.group, &*kind.kind, current];
    let exemplars = &shown.metrics.exemplars;
    let any = !exemplars.is_empty();
    let exemplar =
        |bucket| any.then(|| exemplars.get(&counted(labels.map(str::to_owned), bucket))).flatten();

    match earlier {
        None => samples.histogram_with(&labels, all, exemplar),
        Some(earlier) => samples.histogram_with(&labels, &all.less(of(&earlier.all)), exemplar),
    }

    if let Some((revision, totals)) = previous {
        samples.histogram(&[&kind.group, &kind.kind, revision], of(totals));
    }
}

pub(crate) fn unconverged_oldest(
    shown: &Exposition,
    kind: &KindSummary,
    samples: &mut Samples<'_>,
) {
    let age = kind.oldest_unconverged.map(|since| shown.snapshot.at.since(since));
    samples.put_some(&[&kind.group, &kind.kind], age);
}

pub(crate) fn object_unconverged(row: &ObjectRow, samples: &mut Samples<'_>) {
    samples.put_some(
        &[&row.group, &row.kind, &row.namespace, &row.name, row.reason],
        row.unconverged_since,
    );
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

pub(crate) fn writes(_: &Exposition, kind: &KindSummary, samples: &mut Samples<'_>) {
    for (manager, counts) in &kind.totals.writes {
        samples.put(&[&kind.group, &kind.kind, manager], counts.versions);
    }
}

pub(crate) fn wasted_writes(_: &Exposition, kind: &KindSummary, samples: &mut Samples<'_>) {
    for (manager, counts) in &kind.totals.writes {
        samples.put(&[&kind.group, &kind.kind, manager], counts.wasted);
    }
}

pub(crate) fn events(_: &Exposition, kind: &KindSummary, samples: &mut Samples<'_>) {
    for (EventReason { r#type: severity, reason }, count) in &kind.totals.events {
        samples.put(&[&kind.group, &kind.kind, severity, reason], *count);
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

pub(crate) fn namespace_info(shown: &Exposition, samples: &mut Samples<'_>) {
    for (namespace, team) in &shown.snapshot.teams {
        samples.put(&[namespace, team], 1_u64);
    }
}

impl<'a> Revisions<'a> {
    fn of(shown: &'a Exposition, kind: &'a KindSummary) -> Self {
        let operator = &shown.snapshot.operator;
        let earlier = kind.earlier.as_deref();
        let previous = operator.previous_revision.as_deref();
        Self {
            current: operator.revision.label(),
            earlier,
            previous: previous.zip(earlier.map(|earlier| &earlier.previous)),
        }
    }
}

/// Whether spec changes of this kind open obligations. Those of child kinds do not: loopwatch reads
/// only their metadata.
fn has_obligations(kind: &KindSummary) -> bool {
    kind.role == Role::Primary
}
