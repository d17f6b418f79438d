//! Writes samples about references between objects, and about soft deletion.

use loopwatch_model::observation::Role;
use loopwatch_model::snapshot::KindSummary;

use super::Exposition;
use crate::export::metrics::encode::Samples;

pub(crate) fn dangling(_: &Exposition, kind: &KindSummary, samples: &mut Samples<'_>) {
    for (reference, count) in &kind.dangling {
        samples.put(&[&kind.group, &kind.kind, reference], *count);
    }
}

pub(crate) fn crossing(_: &Exposition, kind: &KindSummary, samples: &mut Samples<'_>) {
    if shows_references(kind) {
        samples.put(&[&kind.group, &kind.kind], kind.totals.cross_references);
    }
}

pub(crate) fn crossing_changes(_: &Exposition, kind: &KindSummary, samples: &mut Samples<'_>) {
    if shows_references(kind) {
        for (change, count) in
            ["appeared", "disappeared"].iter().zip(kind.totals.cross_reference_changes)
        {
            samples.put(&[&kind.group, &kind.kind, change], count);
        }
    }
}

pub(crate) fn soft_deleted(_: &Exposition, kind: &KindSummary, samples: &mut Samples<'_>) {
    for (phase, summary) in &kind.soft_deleted {
        samples.put(&[&kind.group, &kind.kind, phase.as_str()], summary.objects);
    }
}

pub(crate) fn soft_deleted_oldest(
    shown: &Exposition,
    kind: &KindSummary,
    samples: &mut Samples<'_>,
) {
    for (phase, summary) in &kind.soft_deleted {
        let age = summary.oldest.map(|oldest| shown.snapshot.at.since(oldest));
        samples.put_some(&[&kind.group, &kind.kind, phase.as_str()], age);
    }
}

pub(crate) fn stale_configuration(_: &Exposition, kind: &KindSummary, samples: &mut Samples<'_>) {
    if kind.stale_configuration > 0 {
        samples.put(&[&kind.group, &kind.kind], kind.stale_configuration);
    }
}

/// Returns whether loopwatch reads the spec of the kind. Of many child kinds, it reads only the
/// metadata.
fn shows_references(kind: &KindSummary) -> bool {
    kind.role == Role::Primary
}
