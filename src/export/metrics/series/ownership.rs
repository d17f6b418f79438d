//! Writes samples about owner references and orphans.

use std::collections::BTreeMap;

use loopwatch_model::finding::{Confidence, FindingCode};
use loopwatch_model::snapshot::{KindSummary, OwnerHazard};

use super::Exposition;
use crate::export::metrics::encode::Samples;

pub(crate) fn owner_references(_: &Exposition, kind: &KindSummary, samples: &mut Samples<'_>) {
    let counts = &kind.owner_references;
    if counts.all == 0 {
        return; // objects of this kind have no owners
    }

    let bad: u64 = counts.bad.iter().sum();
    let ok = counts.all.saturating_sub(counts.unknown).saturating_sub(bad);
    samples.put(&[&kind.group, &kind.kind, "ok"], ok);
    samples.put(&[&kind.group, &kind.kind, "unknown"], counts.unknown);

    for (reason, count) in OwnerHazard::ALL.iter().zip(counts.bad) {
        samples.put(&[&kind.group, &kind.kind, reason.as_str()], count);
    }
}

pub(crate) fn owner_hazards(_: &Exposition, kind: &KindSummary, samples: &mut Samples<'_>) {
    if kind.owner_references.all == 0 && kind.totals.hazards.iter().all(|count| *count == 0) {
        return;
    }
    for (reason, count) in OwnerHazard::ALL.iter().zip(kind.totals.hazards) {
        samples.put(&[&kind.group, &kind.kind, reason.as_str()], count);
    }
}

pub(crate) fn orphans(shown: &Exposition, samples: &mut Samples<'_>) {
    let mut counts = BTreeMap::<_, u64>::new();
    let is_orphan =
        |code, confidence| code == FindingCode::Orphan && confidence == Confidence::Confirmed;
    for finding in shown.snapshot.findings.iter().filter(|f| is_orphan(f.code, f.confidence)) {
        let subject = &finding.subject;
        *counts.entry((subject.group(), subject.kind(), subject.namespace())).or_default() += 1;
    }

    for ((group, kind, namespace), count) in counts {
        samples.put(&[group, kind, namespace], count);
    }
}
