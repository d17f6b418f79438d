//! Open findings, and the events of findings that opened or closed.

use std::collections::{BTreeMap, VecDeque};

use super::tuning::Tuned;
use crate::finding::{Change, Confidence, Evidence, Finding, FindingCode, FindingEvent, FindingId, Severity, Subject};
use crate::time::Timestamp;

/// Open findings by ID.
#[derive(Debug, Default)]
pub(crate) struct OpenFindings {
    open: BTreeMap<FindingId, Finding>,
    /// Start times of findings of an earlier run. An entry is used up when its finding opens again.
    restored: BTreeMap<FindingId, Timestamp>,
    /// Events since the last call of `take_events`.
    events: VecDeque<FindingEvent>,
}

/// The maximum number of events that are kept. Beyond it, the oldest are dropped.
const MAX_EVENTS: usize = 10_000;

// === impl OpenFindings ===

impl OpenFindings {
    /// Opens a finding, or updates the evidence of an open one and keeps the earlier start time. Returns `false` if
    /// `limit` findings are open already.
    pub(crate) fn raise(
        &mut self,
        now: Timestamp,
        since: Timestamp,
        (code, severity): (FindingCode, Severity),
        subject: Subject,
        evidence: Evidence,
        limit: usize,
    ) -> bool {
        let id = FindingId::of(code, &subject);
        if let Some(finding) = self.open.get_mut(&id) {
            finding.since = finding.since.min(since);
            finding.evidence = evidence;
            finding.severity = severity;
            return true;
        }
        if self.open.len() >= limit {
            return false;
        }
        let since = self.restored.remove(&id).map_or(since, |earlier| earlier.min(since));
        let confidence = Confidence::Confirmed;
        let finding =
            Finding { id, code, severity, subject, since, found: now, confidence, evidence, explained_by: None };
        self.push_event(now, Change::Opened, finding.clone());
        self.open.insert(id, finding);
        true
    }

    /// Closes a finding, if it is open.
    pub(crate) fn clear(&mut self, now: Timestamp, code: FindingCode, subject: &Subject) {
        if let Some(finding) = self.open.remove(&FindingId::of(code, subject)) {
            self.push_event(now, Change::Closed, finding);
        }
    }

    /// Closes all findings of `code` except those about a subject for which `keep` returns true.
    pub(crate) fn retain(&mut self, now: Timestamp, code: FindingCode, mut keep: impl FnMut(&Subject) -> bool) {
        let closed = self.open.values().filter(|finding| finding.code == code && !keep(&finding.subject));
        let closed: Vec<Subject> = closed.map(|finding| finding.subject.clone()).collect();
        closed.iter().for_each(|subject| self.clear(now, code, subject));
    }

    /// Closes the findings that the settings disable, and gives the others their severity. `tuned` decides about a
    /// finding.
    pub(crate) fn retune(&mut self, now: Timestamp, tuned: impl Fn(&Finding) -> Tuned) {
        let mut closed = Vec::new();
        for finding in self.open.values_mut() {
            let Tuned { enabled, severity } = tuned(finding);
            finding.severity = severity;
            if !enabled {
                closed.push((finding.code, finding.subject.clone()));
            }
        }
        closed.iter().for_each(|(code, subject)| self.clear(now, *code, subject));
    }

    /// Removes and returns the events since the last call.
    pub(crate) fn take_events(&mut self) -> Vec<FindingEvent> {
        std::mem::take(&mut self.events).into()
    }

    fn push_event(&mut self, at: Timestamp, change: Change, mut finding: Finding) {
        if self.events.len() >= MAX_EVENTS {
            self.events.pop_front();
        }
        finding.evidence = finding.evidence.at(at);
        self.events.push_back(FindingEvent { at, change, finding });
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Finding> {
        self.open.values()
    }

    /// Returns the ID of a finding, if it is open.
    pub(crate) fn open_id(&self, code: FindingCode, subject: &Subject) -> Option<FindingId> {
        let id = FindingId::of(code, subject);
        self.open.contains_key(&id).then_some(id)
    }

    pub(crate) fn restore(&mut self, restored: BTreeMap<FindingId, Timestamp>) {
        self.restored = restored;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opening_and_closing_a_finding_makes_one_event_each() {
        let mut open_findings = OpenFindings::default();
        let subject = || Subject::Source { name: "config".to_owned() };
        let (code, evidence) = (FindingCode::ConfigInvalid, Evidence::new());
        for at in [Timestamp(1), Timestamp(2)] {
            assert!(open_findings.raise(at, at, (code, Severity::Warning), subject(), evidence.clone(), 10));
        }
        open_findings.clear(Timestamp(3), code, &subject());
        open_findings.clear(Timestamp(4), code, &subject());
        let events: Vec<_> = open_findings.take_events().into_iter().map(|event| (event.at, event.change)).collect();
        assert_eq!(events, [(Timestamp(1), Change::Opened), (Timestamp(3), Change::Closed)]);
    }
}
