//! Writes samples about deletions and finalizers.

use loopwatch_model::snapshot::{DeletionVerdict, FinalizerOutcome, KindSummary, ObjectState};

use super::Exposition;
use crate::export::metrics::encode::Samples;

pub(crate) fn terminating_objects(_: &Exposition, kind: &KindSummary, samples: &mut Samples<'_>) {
    samples.put(&[&kind.group, &kind.kind], kind.states()[ObjectState::Terminating as usize]);
}

pub(crate) fn finalizer_objects(_: &Exposition, kind: &KindSummary, samples: &mut Samples<'_>) {
    for (finalizer, summary) in &kind.finalizers {
        for (verdict, count) in DeletionVerdict::ALL.iter().zip(summary.waiting) {
            samples.put(&[&kind.group, &kind.kind, finalizer, verdict.as_str()], count);
        }
    }
}

pub(crate) fn finalizer_oldest(shown: &Exposition, kind: &KindSummary, samples: &mut Samples<'_>) {
    for (finalizer, summary) in &kind.finalizers {
        let age = summary.oldest.map(|since| shown.snapshot.at.since(since));
        samples.put_some(&[&kind.group, &kind.kind, finalizer], age);
    }
}

pub(crate) fn finalizer_removal(_: &Exposition, kind: &KindSummary, samples: &mut Samples<'_>) {
    for (finalizer, summary) in &kind.finalizers {
        samples.histogram(&[&kind.group, &kind.kind, finalizer], &summary.totals.removal);
    }
}

pub(crate) fn finalizer_outcomes(_: &Exposition, kind: &KindSummary, samples: &mut Samples<'_>) {
    for (finalizer, summary) in &kind.finalizers {
        for (outcome, count) in FinalizerOutcome::ALL.iter().zip(summary.totals.outcomes) {
            samples.put(&[&kind.group, &kind.kind, finalizer, outcome.as_str()], count);
        }
    }
}
