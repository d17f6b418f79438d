//! Writes samples about findings.

use std::collections::BTreeMap;

use loopwatch_model::finding::{Evidence, Finding, Value};
use loopwatch_model::observation::InstanceName;

use super::Exposition;
use crate::export::metrics::encode::Samples;
use crate::export::view::{Findings, IsExplained};

pub(crate) fn findings(shown: &Exposition, samples: &mut Samples<'_>) {
    let mut counts = BTreeMap::<_, u64>::new();
    for finding in &shown.snapshot.findings {
        let subject = &finding.subject;
        let explained = IsExplained::of(finding, &shown.snapshot);
        let of_finding = (finding.code, finding.severity, finding.confidence, explained);
        let key = (of_finding, subject.group(), subject.kind(), finding.place());

        *counts.entry(key).or_default() += 1;
    }

    for (((code, severity, confidence, explained), group, kind, namespace), count) in counts {
        let (severity, confidence, explained) =
            (severity.as_str(), confidence.as_str(), explained.as_str());
        samples.put(&[group, kind, namespace, code.name(), severity, confidence, explained], count);
    }
}

pub(crate) fn finding_since(finding: &Finding, samples: &mut Samples<'_>) {
    let (subject, info) = (&finding.subject, finding.info());
    samples.put(
        &[
            subject.group(),
            subject.kind(),
            finding.place(),
            subject.name(),
            info.name,
            finding.severity.as_str(),
        ],
        finding.since,
    );
}

pub(crate) fn finding_info(shown: &Exposition, samples: &mut Samples<'_>) {
    let tree = Findings::of(&shown.snapshot);
    for finding in shown.snapshot.findings.iter().take(shown.object_series) {
        let subject = &finding.subject;
        let name = |key| first_name(&finding.evidence, key);

        // The alert of a finding that still alerts must name its objects, so the finding counts as
        // a root.
        let root = tree.root_of(finding).filter(|_| !finding.alerts_at(shown.snapshot.at));
        let (blocker_kind, blocker_name) = name("blocker").split_once(' ').unwrap_or_default();
        samples.put(
            &[
                subject.group(),
                subject.kind(),
                finding.place(),
                subject.name(),
                finding.code.name(),
                ["finalizers", "finalizer", "blocker_finalizers"]
                    .map(name)
                    .into_iter()
                    .find(|n| !n.is_empty())
                    .unwrap_or(""),
                name("actor"),
                blocker_kind,
                blocker_name,
                root.map_or("", |root| root.code.name()),
                InstanceName(name("instance")).label(),
            ],
            1_u64,
        );
    }
}

pub(crate) fn finding_detection(shown: &Exposition, samples: &mut Samples<'_>) {
    for (code, times) in &shown.snapshot.finding_times {
        samples.histogram(&[code.name()], &times.found);
    }
}

pub(crate) fn finding_duration(shown: &Exposition, samples: &mut Samples<'_>) {
    for (code, times) in &shown.snapshot.finding_times {
        samples.histogram(&[code.name()], &times.lasted);
    }
}

/// The text, or the first of the names, under `key`; empty if absent.
fn first_name<'a>(evidence: &'a Evidence, key: &str) -> &'a str {
    match evidence.0.get(key) {
        Some(Value::Text(text)) => text,
        Some(Value::Names(names)) => names.first().map_or("", String::as_str),
        _ => "",
    }
}
