//! The open findings in the order of the table of findings, each root with the findings that it
//! explains.

use std::collections::BTreeMap;

use loopwatch_model::finding::{Finding, FindingCode, FindingId, Severity, Subject, Value};
use loopwatch_model::snapshot::Snapshot;
use loopwatch_model::time::{Age, Span};

/// Open findings, with their explanations.
pub(crate) struct Findings<'a> {
    /// Root findings, most severe first.
    pub roots: Vec<&'a Finding>,
    explained: BTreeMap<FindingId, Vec<&'a Finding>>,
    root_of: BTreeMap<FindingId, &'a Finding>,
}

/// The findings of one code and severity.
pub(crate) struct FindingGroup<'a> {
    pub code: FindingCode,
    pub severity: Severity,
    /// The findings, oldest first.
    pub findings: Vec<&'a Finding>,
}

/// The shortest duration to show. A shorter one says only that loopwatch has just looked, as in a
/// dump.
pub(crate) const SHORTEST_AGE: Span = Span::secs(1);

/// A step that ends a finding, in words.
pub(crate) fn step_in_words(purpose: &str, danger: &str) -> String {
    match danger {
        "" => format!("{purpose}."),
        danger => format!("{purpose}. Danger: {danger}"),
    }
}

impl<'a> Findings<'a> {
    /// Sorts the findings of `snapshot`.
    #[must_use]
    pub(crate) fn of(snapshot: &'a Snapshot) -> Self {
        let by_id: BTreeMap<_, _> =
            snapshot.findings.iter().map(|finding| (finding.id, finding)).collect();
        let mut findings =
            Self { roots: Vec::new(), explained: BTreeMap::new(), root_of: BTreeMap::new() };
        for finding in &snapshot.findings {
            match root(&by_id, finding) {
                Some(root) => {
                    findings.explained.entry(root.id).or_default().push(finding);
                    findings.root_of.insert(finding.id, root);
                }
                None => findings.roots.push(finding),
            }
        }

        findings
    }

    /// The findings that `root` explains, directly or indirectly.
    #[must_use]
    pub(crate) fn explained_by(&self, root: &Finding) -> &[&'a Finding] {
        self.explained.get(&root.id).map_or(&[], Vec::as_slice)
    }

    /// The root finding that explains `finding`; `None` if it is a root itself.
    #[must_use]
    pub(crate) fn root_of(&self, finding: &Finding) -> Option<&'a Finding> {
        self.root_of.get(&finding.id).copied()
    }

    /// Roots by code and severity, in the order of the first finding of each, so that meaning and
    /// advice appear once.
    #[must_use]
    pub(crate) fn groups(&self) -> Vec<FindingGroup<'a>> {
        grouped_findings(self.roots.iter().copied())
    }

    /// The number of roots of one severity.
    #[must_use]
    pub(crate) fn count(&self, severity: Severity) -> usize {
        self.roots.iter().filter(|finding| finding.severity == severity).count()
    }
}

/// Findings by code and severity, in the order of the first finding of each.
#[must_use]
pub(crate) fn grouped_findings<'a>(
    findings: impl IntoIterator<Item = &'a Finding>,
) -> Vec<FindingGroup<'a>> {
    let mut groups = Vec::<FindingGroup<'_>>::new();
    for finding in findings {
        match groups
            .iter_mut()
            .find(|group| (group.code, group.severity) == (finding.code, finding.severity))
        {
            Some(group) => group.findings.push(finding),
            None => groups.push(FindingGroup {
                code: finding.code,
                severity: finding.severity,
                findings: vec![finding],
            }),
        }
    }

    groups
}

/// Follows explanations to their end. A finding that is no longer open explains nothing. If
/// explanations form a cycle, each of its findings is a root, so that none is hidden.
fn root<'a>(by_id: &BTreeMap<FindingId, &'a Finding>, finding: &Finding) -> Option<&'a Finding> {
    const DEEPEST: usize = 8;

    let next = |finding: &Finding| finding.explained_by.and_then(|id| by_id.get(&id).copied());
    let mut root = next(finding)?;
    for _ in 0..DEEPEST {
        match next(root) {
            Some(deeper) => root = deeper,
            None => return Some(root),
        }
    }

    None
}

/// How long a finding has been true. `None` if its start is unknown: it was already true when
/// loopwatch first saw its subject, which is a definition without a creation time or an object in a
/// dump.
#[must_use]
pub(crate) fn finding_age(snapshot: &Snapshot, finding: &Finding) -> Option<Age> {
    let began_unseen =
        matches!(finding.subject, Subject::Definition { .. }) && finding.since == finding.found;
    (!began_unseen)
        .then(|| snapshot.at.since(finding.since))
        .filter(|age| *age >= SHORTEST_AGE)
        .map(Span::as_age)
}

/// Evidence as text, in the order of the table of findings: the most important key first. Omits
/// durations of problems that loopwatch has only just seen.
pub(crate) fn evidence(finding: &Finding) -> impl Iterator<Item = (String, String)> + '_ {
    evidence_values(finding).map(|(key, value)| (key, value.to_string()))
}

/// The same, as values.
pub(crate) fn evidence_values(finding: &Finding) -> impl Iterator<Item = (String, &Value)> + '_ {
    let listed = finding.info().evidence;
    let just_seen = |(key, value): &(&&str, &Value)| {
        key.ends_with("_for") && matches!(value, Value::Elapsed(span) if *span < SHORTEST_AGE)
    };
    let mut entries: Vec<_> = finding.evidence.0.iter().filter(|entry| !just_seen(entry)).collect();

    entries.sort_by_key(|(key, _)| {
        listed.iter().position(|other| other == *key).unwrap_or(listed.len())
    });
    entries.into_iter().map(|(key, value)| (key.replace('_', " "), value))
}

#[cfg(test)]
mod tests {
    use loopwatch_model::finding::Evidence;
    use loopwatch_model::time::Timestamp;

    use super::*;
    use crate::export::sample::sample;

    #[test]
    fn a_definition_without_creation_time_has_no_age() {
        let snapshot = sample().snapshot;
        let mut finding = snapshot.findings[0].clone();

        assert!(finding_age(&snapshot, &finding).is_some());

        finding.subject = Subject::Definition { name: "widgets.example.io".to_owned() };
        finding.found = finding.since;

        assert_eq!(finding_age(&snapshot, &finding), None);

        finding.since.0 -= 1;
        assert!(finding_age(&snapshot, &finding).is_some());
    }

    #[test]
    fn what_has_just_been_seen_has_no_age() {
        let snapshot = sample().snapshot;
        let mut finding = snapshot.findings[0].clone();
        for (ms, shown) in [(2, false), (999, false), (1000, true)] {
            finding.since = Timestamp(snapshot.at.0 - ms);
            finding.evidence = Evidence::new()
                .with("missing_for", Value::Elapsed(Span(ms)))
                .with("collected_after", Value::Elapsed(Span(ms)));

            assert_eq!(finding_age(&snapshot, &finding).is_some(), shown, "{ms}");

            let keys: Vec<_> = evidence(&finding).map(|(key, _)| key).collect();
            assert_eq!(keys.contains(&"missing for".to_owned()), shown, "{ms}");
            assert!(keys.contains(&"collected after".to_owned()), "{ms}");
        }
    }

    #[test]
    fn explanations_are_followed_to_their_end_and_cycles_hide_no_finding() {
        let mut snapshot = sample().snapshot;
        let ids: Vec<_> = snapshot.findings.iter().map(|finding| finding.id).collect();

        // The first finding already explains the fourth. Now the fourth also explains the fifth.
        snapshot.findings[4].explained_by = Some(ids[3]);
        let findings = Findings::of(&snapshot);

        assert_eq!(findings.explained_by(&snapshot.findings[0]).len(), 2);
        assert_eq!(findings.root_of(&snapshot.findings[4]).map(|root| root.id), Some(ids[0]));

        snapshot.findings[0].explained_by = Some(ids[3]);
        assert_eq!(Findings::of(&snapshot).roots.len(), snapshot.findings.len());
    }

    #[test]
    fn evidence_comes_in_the_order_of_the_table() {
        let snapshot = sample().snapshot;
        let keys: Vec<_> = evidence(&snapshot.findings[0]).map(|(key, _)| key).collect();

        assert_eq!(keys, ["failed", "objects", "reason", "examples"]);
    }
}
